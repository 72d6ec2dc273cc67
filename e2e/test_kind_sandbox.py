"""Docker and three nodes in a sandbox leave nothing on the machine when their owner is told to stop."""

import signal
from pathlib import Path

import pytest

from e2e.node import daemon
from e2e.test_sandbox import NAME, Machine, machine, own, wait_for_sleeper
from e2e.test_sandbox import SLEEPER as BUSY
from e2e.test_sandbox import before as before
from e2e.test_sandbox import log as log

pytestmark = pytest.mark.timeout(600)

UP_S = 400.0
LEAVE_S = 120.0
"""A minute of it is the removal of what Docker wrote."""
UNIFIED = Path("/sys/fs/cgroup/unified")
OF_DOCKER = (
    "/var/lib/docker",
    "/var/run/docker.sock",
    str(Path.home() / ".docker"),
    "/etc/docker/key.json",
    "/etc/cni/net.d",
)


def traces() -> dict[str, list[str]]:
    """Where Docker and systemd write that a sandbox does not know of: files, and groups of a hybrid machine's version
    2."""
    groups = [str(path) for path in UNIFIED.rglob("*") if path.is_dir()] if UNIFIED.is_dir() else []
    return {"groups": sorted(groups), "files": [path for path in OF_DOCKER if Path(path).exists()]}


@pytest.fixture
def untouched(outside_with_docker: None) -> dict[str, list[str]]:
    return traces()


def test_three_nodes_leave_nothing(before: Machine, untouched: dict[str, list[str]], log: Path) -> None:
    """Ctrl-C in the middle of a test run, with pods on every node."""
    script = f"kubectl wait --for=condition=Ready node --all --timeout=10s && docker ps --quiet | wc -l && exec {BUSY}"
    process = own(log, "-m", "e2e.kind", f"--name={NAME}", "run", "--", "sh", "-c", script)
    wait_for_sleeper(process, log, timeout_s=UP_S)
    assert log.read_text().splitlines()[-1] == "3"
    process.send_signal(signal.SIGINT)
    assert process.wait(LEAVE_S) != 0
    daemon.until("end of what the sandbox held", lambda: machine() == before, 10)
    assert traces() == untouched
