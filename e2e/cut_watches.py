"""The operator's connections to the API server cut, and the server restarted. Runs inside the sandbox, as its root."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from e2e.cut import CALL_TIMEOUT_S, CHAINS, process_of
from e2e.fleet import until
from e2e.node import daemon
from e2e.node.errors import Broken
from e2e.node.session import Description
from tests.processes import has_ended

API_PORTS = (443, 6443)
ESTABLISHED = "01"
"""State of a line of /proc/net/tcp (linux/tcp_states.h)."""
SECURE_PORT = f"--secure-port={API_PORTS[1]}"
"""Not those that other fixtures run on loopback."""
_KEPT: list[daemon.Daemon] = []
"""It outlives the test: an object that is let go of while its process runs is a warning in somebody else's test."""
ENDED_S = 60.0
READY_S = 90.0


def connections(process: int) -> set[int]:
    """Local ports of a pod's established connections to the API server."""
    found = set()
    for line in Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *_ = line.split()
        if state == ESTABLISHED and int(remote.rpartition(":")[2], 16) in API_PORTS:
            found.add(int(local.rpartition(":")[2], 16))
    return found


def drop(process: int, verb: str, port: int) -> None:
    for chain, side in zip(CHAINS, ("--dport", "--sport"), strict=True):
        words = ["iptables", verb, chain, "--protocol", "tcp", side, str(port), "--jump", "DROP"]
        argv = ["nsenter", "--target", str(process), "--net", *words]
        subprocess.run(argv, check=True, timeout=CALL_TIMEOUT_S, capture_output=True)


def reset(pod: str) -> int:
    """Every connection of the pod to the API server is reset, as by a load balancer that is restarted; how many."""
    process = process_of(pod)
    ports = connections(process)
    to_api = " or ".join(f"dport = :{port}" for port in API_PORTS)
    argv = ["nsenter", "--target", str(process), "--net", "ss", "--kill", "state", "established", f"( {to_api} )"]
    subprocess.run(argv, check=True, timeout=CALL_TIMEOUT_S, capture_output=True)
    assert not ports & connections(process), "this kernel closes no socket of others (CONFIG_INET_DIAG_DESTROY)"
    return len(ports)


@contextlib.contextmanager
def silenced(pod: str) -> Iterator[int]:
    """Of the connections to the API server that the pod has now nothing comes through any more, in silence, until the
    end of the block. New ones work. How many there are."""
    process = process_of(pod)
    ports = connections(process)
    for port in ports:
        drop(process, "--append", port)
    try:
        yield len(ports)
    finally:
        for port in ports:
            drop(process, "--delete", port)


def restart_api_server(node: Description) -> float:
    """Killed, and started again as it was; the seconds for which it did not answer."""
    process, argv, environment = _api_server()
    began_s = time.monotonic()
    os.kill(process, signal.SIGKILL)
    until("end of the API server", lambda: has_ended(process), ENDED_S)
    if len(node.nodes) == 1:  # else the kubelet of the control plane's machine starts it
        until("a free port", _port_is_free, ENDED_S)
        logs = node.state / "logs"
        _KEPT.append(daemon.start("kube-apiserver", argv, logs, dies_with_starter=False, env=environment))
    until("ready API server", lambda: _ready(node), READY_S)
    return time.monotonic() - began_s


def _api_server() -> tuple[int, list[str], dict[str, str]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                argv = [word.decode() for word in (folder / "cmdline").read_bytes().split(b"\0")[:-1]]
                if argv and Path(argv[0]).name == "kube-apiserver" and SECURE_PORT in argv:
                    variables = (folder / "environ").read_bytes().split(b"\0")
                    pairs = (one.decode().partition("=") for one in variables if one)
                    return int(folder.name), argv, {name: value for name, _, value in pairs}
    raise AssertionError("no API server runs on this machine")


def _port_is_free() -> bool:
    """A process is a zombie, for its parent, while its last threads still hold its sockets open."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", API_PORTS[1]))
        except OSError:
            return False
        return True


def _ready(node: Description) -> bool:
    try:
        return node.client().kubectl("get", "--raw=/readyz", "--request-timeout=3s").strip() == "ok"
    except Broken:
        return False
