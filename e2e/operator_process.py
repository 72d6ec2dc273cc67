"""`muster operator` as a process against an API server on loopback: start, figures from its probe port, end."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.node.client import Client, Refused

DEFINITIONS = ("coordinatorclusters", "consumergroups", "topics", "users")
VERSION = "muster.dev/v1alpha1"
CRDS = Path(__file__).parents[1] / "crds"
STOP_TIMEOUT_S = 30.0
MEMORY_MIB_MAX = 150.0
"""Target for the operator's resident memory with a thousand ConsumerGroups, at rest and busy."""
UNREACHABLE = "127.0.0.1:1"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorProcess:
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def probe(self, path: str) -> tuple[int, str]:
        """(status, body) of /livez, /readyz or /metrics; (0, "") while nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, pattern: str) -> float:
        """Sum of the samples whose line matches `pattern` from its start."""
        lines = self.probe("/metrics")[1].splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(pattern, line))

    def writes(self) -> float:
        """Requests that may change something, apart from the Lease."""
        verbs = "create|update|patch|delete|evict"
        every = self.metric(rf'muster_operator_kube_requests_total\{{.*verb="({verbs})"')
        return every - self.metric(rf'muster_operator_kube_requests_total\{{.*kind="Lease",verb="({verbs})"')

    def resident_mib(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def cpu_s(self) -> float:
        """Processor time so far: unlike wall time it says something on a busy machine too."""
        return cpu_s(self.process.pid)

    def kill(self) -> None:
        """SIGKILL: nothing is released."""
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)


def cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def operator_process(client: Client, log: Path, *flags: str, python: str = sys.executable) -> Iterator[OperatorProcess]:
    """A running operator; ended by SIGTERM, which it must obey. `python`: the interpreter that has it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [python, "-m", "muster_operator.cli", "--image=muster:test", f"--kubeconfig={client.kubeconfig}",
            "--probe-host=127.0.0.1", f"--probe-port={port}", *flags]  # fmt: skip
    with log.open("wb") as stream:
        process = subprocess.Popen(argv, stdout=stream, stderr=subprocess.STDOUT)
        one = OperatorProcess(process=process, port=port, log=log)
        try:
            yield one
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise


def observing(name: str, bootstrap: str = UNREACHABLE) -> dict[str, Any]:
    """A ConsumerGroup without pods."""
    return {
        "apiVersion": VERSION, "kind": "ConsumerGroup", "metadata": {"name": name},
        "spec": {"bootstrapServers": bootstrap, "groupId": name, "topics": ["orders"]},
    }  # fmt: skip


def install_crds(client: Client) -> None:
    """Both, served."""
    for definition in DEFINITIONS:
        client.kubectl("apply", "--server-side", "--force-conflicts", f"--filename={CRDS / definition}.yaml")
    established(client)


def established(client: Client) -> None:
    """Wait until all are served, and found by whoever looks for them: the documents that name and explain them are up
    to two seconds behind the condition. (`kubectl wait` fails on a definition that has no conditions yet.)"""

    def holds() -> bool:
        found = client.read("crd", *(f"{definition}.muster.dev" for definition in DEFINITIONS))["items"]
        conditions = [one for live in found for one in live.get("status", {}).get("conditions") or ()]
        return sum(one["type"] == "Established" and one["status"] == "True" for one in conditions) == len(DEFINITIONS)

    def explained() -> bool:
        try:
            for definition in DEFINITIONS:
                client.kubectl("explain", definition, f"--api-version={VERSION}")
        except Refused:
            return False
        return True

    wait_for("definitions that are served", holds, 30)
    wait_for("definitions that are found", explained, 30)


def wait_for(what: str, holds: object, timeout_s: float, one: OperatorProcess | None = None) -> float:
    """Poll until `holds()`; answers the seconds that took. Fails with the end of the operator's log."""
    assert callable(holds)
    started = time.monotonic()
    while not holds():
        if time.monotonic() - started > timeout_s:
            said = one.log.read_text()[-4_000:] if one else ""
            raise AssertionError(f"{what}: not within {timeout_s:g} s\n{said}")
        time.sleep(0.2)
    return time.monotonic() - started
