"""The nodes as machines: Docker containers of a daemon that runs inside the sandbox, called through its command line.

The daemon keeps everything in the sandbox: its folder is the sandbox's state, its socket and network the sandbox's own.
It writes no packet rules; nothing in the sandbox needs a way out.
"""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from e2e.kind import node_root
from e2e.kind.node_image import NodeImage
from e2e.node import daemon
from e2e.node.daemon import Daemon
from e2e.node.errors import Broken, Unavailable

NETWORK = "kind"  # kind's fixed name; it takes a network that is there
SUBNET = "10.79.0.0/24"
BRIDGE = "kind0"
READY_TIMEOUT_S = 30.0
CALL_TIMEOUT_S = 60.0
IMPORT_TIMEOUT_S = 180.0
RUNTIME = "muster"
# dockerd writes a key to /etc/docker, wherever it is told to keep its files. $0 is the folder for such changes.
OWN_ETC = 'mount -t overlay -o "lowerdir=/etc,upperdir=$0/upper,workdir=$0/work" overlay /etc && exec "$@"'
# systemd in a container takes its kernel options from its command line. Without them it makes groups in the version 2
# hierarchy of a hybrid machine, which outlive the sandbox.
INIT = (
    "/usr/local/bin/entrypoint",
    "/sbin/init",
    "systemd.unified_cgroup_hierarchy=0",
    "systemd.legacy_systemd_cgroup_controller=1",
)
INIT_V2 = INIT[:2]


def start_daemon(state: Path, logs: Path) -> Daemon:
    """dockerd, started and answering, with its files in `state`."""
    settings = state / "dockerd.json"  # and not the machine's
    settings.write_text("{}")
    program = shutil.which("dockerd")
    if program is None:
        raise Unavailable("dockerd is gone")
    wrapper = node_root.FILES / "usr" / "local" / "sbin" / "runc"
    changes = state / "dockerd-etc"
    (changes / "upper").mkdir(parents=True)
    (changes / "work").mkdir()
    # the sandbox's, which is bound over the machine's
    shutil.copy("/etc/resolv.conf", changes / "upper" / "resolv.conf")
    argv = [
        "unshare", "--mount", "--propagation=slave", "sh", "-c", OWN_ETC, str(changes),
        program, f"--config-file={settings}", f"--data-root={state / 'docker'}",
        "--bridge=none", "--iptables=false", "--ip-masq=false",
        f"--add-runtime={RUNTIME}={wrapper}", f"--default-runtime={RUNTIME}",
    ]  # fmt: skip
    started = daemon.start("dockerd", argv, logs, dies_with_starter=False)
    daemon.until("Docker", _answers, READY_TIMEOUT_S, [started])
    return started


def _answers() -> bool:
    return subprocess.run(["docker", "info"], capture_output=True, timeout=CALL_TIMEOUT_S, check=False).returncode == 0


def prepare(image: NodeImage, *, cgroup_version: int) -> None:
    """The nodes' image and network."""
    call("network", "create", "--driver=bridge", f"--subnet={SUBNET}",
         f"--opt=com.docker.network.bridge.name={BRIDGE}", NETWORK)  # fmt: skip
    if image.published:
        call("load", f"--input={image.archive}", timeout_s=IMPORT_TIMEOUT_S)
        return
    init = INIT if cgroup_version == 1 else INIT_V2
    changes = (f"ENTRYPOINT {json.dumps(init)}", "ENV container=docker")
    words = [word for change in changes for word in ("--change", change)]
    call("import", *words, str(image.archive), image.name, timeout_s=IMPORT_TIMEOUT_S)


def inside(node: str, *argv: str, given: str | None = None, timeout_s: float = CALL_TIMEOUT_S) -> str:
    """Run `argv` on a node; its standard output. `given` is its standard input."""
    return call("exec", "--interactive", node, *argv, given=given, timeout_s=timeout_s)


def import_images(node: str, archives: Sequence[Path]) -> None:
    """OCI archives into a node's containerd."""
    for archive in archives:
        argv = ["docker", "exec", "--interactive", node, "ctr", "--namespace=k8s.io", "images", "import", "-"]
        with archive.open("rb") as source:
            done = subprocess.run(argv, stdin=source, capture_output=True, timeout=IMPORT_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise Broken(f"{node} refuses {archive.name}: {done.stderr.decode(errors='replace').strip()[-500:]}")


def pause(node: str) -> None:
    """Freeze every process of the node; its connections stay open and silent."""
    call("pause", node)


def unpause(node: str) -> None:
    call("unpause", node)


def kill(node: str) -> None:
    """As a power cut: all processes end, nobody says goodbye, the node's address answers no more."""
    call("kill", node)


def start(node: str) -> None:
    """Power again; its disk is as it was."""
    call("start", node)


def status(node: str) -> str:
    """running, paused, exited."""
    return call("inspect", "--format={{.State.Status}}", node).strip()


def address(node: str) -> str:
    """On the nodes' network."""
    (found,) = json.loads(call("inspect", node))
    return str(found["NetworkSettings"]["Networks"][NETWORK]["IPAddress"])


def call(*words: str, given: str | None = None, timeout_s: float = CALL_TIMEOUT_S) -> str:
    """`docker …`; its standard output. `Broken` when it fails or is slow."""
    command = f"docker {' '.join(words[:4])}"
    try:
        done = subprocess.run(
            ["docker", *words], input=given, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as slow:
        raise Broken(f"`{command}` took more than {timeout_s:.0f} s") from slow
    if done.returncode != 0:
        raise Broken(f"`{command}` ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout
