"""A sandbox leaves nothing behind, however it ends: `down`, Ctrl-C, TERM, KILL of its owner, or a start that fails.

"Nothing" is compared before and after: processes, mounts, network interfaces and namespaces, control groups, kernel
settings, and the folders Kubernetes' parts would write to. These tests run on the machine itself, not in a sandbox.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.node import cgroups, daemon, inside, kubelet
from e2e.node.errors import Broken
from e2e.node.sandbox import Sandbox

pytestmark = pytest.mark.timeout(180)

Machine = dict[str, object]
NAME = "leaves-nothing"
LEAVE_S = 30.0
NODE_S = 150.0
SLEEPER = "sleep 86399.25"  # nobody else's command line
FOLDERS = (*inside.BOUND, "/etc/cni/net.d", "/run/netns", "/opt/cni", "/etc/kubernetes", "/var/run/kubernetes")
SETTINGS = (*inside.KERNEL_SETTINGS, *inside.NETWORK_SETTINGS)


def machine() -> Machine:
    """What a sandbox could leave behind on this machine."""
    groups = {str(each.parent): sorted(_groups(Path(each.parent))) for each in cgroups.hierarchies()}
    settings = {name: Path("/proc/sys", name).read_text() for name in SETTINGS if Path("/proc/sys", name).exists()}
    return {
        "processes": _processes(),
        "mounts": Path("/proc/self/mountinfo").read_text(),
        "interfaces": sorted(os.listdir("/sys/class/net")),
        "groups": groups,
        "settings": settings,
        "folders": [folder for folder in FOLDERS if Path(folder).exists()],
        "state": sorted(path.name for path in Sandbox(NAME).state.glob("*") if path.name != "logs"),
    }


def _groups(parent: Path) -> list[str]:
    return [path.name for path in parent.iterdir() if path.is_dir() and NAME in path.name]


def _processes() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if NAME in line or SLEEPER in line:
            found.append(line)
    return sorted(found)


@pytest.fixture
def before(outside_a_sandbox: None) -> Iterator[Machine]:
    """The machine without the sandbox."""
    Sandbox(NAME).down()
    found = machine()
    assert found["state"] == []
    assert found["processes"] == []
    yield found
    Sandbox(NAME).down()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "owner.log"


def own(log: Path, *words: str) -> "subprocess.Popen[bytes]":
    """An owner of a sandbox, in a process group of its own as a terminal gives it."""
    with log.open("wb") as out:
        return subprocess.Popen([sys.executable, *words], stdout=out, stderr=subprocess.STDOUT, start_new_session=True)


def hold(log: Path) -> "subprocess.Popen[bytes]":
    """An owner of a bare sandbox (no Kubernetes) with a busy process in it, like a test run's."""
    script = f"""
from e2e.node.__main__ import interruptible
from e2e.node.sandbox import Sandbox
interruptible()
sandbox = Sandbox({NAME!r})
try:
    sandbox.up(tied=True)
    sandbox.run({SLEEPER.split()!r}, timeout_s=100)
finally:
    sandbox.down()
"""
    return own(log, "-c", script)


def wait_for_sleeper(process: "subprocess.Popen[bytes]", log: Path, timeout_s: float = LEAVE_S) -> None:
    def there() -> bool:
        assert process.poll() is None, log.read_text()
        return any(line.startswith(SLEEPER) for line in _processes())

    daemon.until("process in the box", there, timeout_s)


@pytest.mark.parametrize("whom", ["group", "owner"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_owner_leaves_nothing(before: Machine, how: signal.Signals, whom: str, log: Path) -> None:
    process = hold(log)
    wait_for_sleeper(process, log)
    assert machine() != before, "the comparison sees a running box"
    if whom == "group":
        os.killpg(process.pid, how)
    else:
        os.kill(process.pid, how)
    assert process.wait(LEAVE_S) != 0
    assert machine() == before


def test_a_killed_owner_leaves_no_process_and_the_next_start_removes_the_rest(before: Machine, log: Path) -> None:
    process = hold(log)
    wait_for_sleeper(process, log)
    process.kill()
    process.wait(LEAVE_S)
    daemon.until("end of all processes", lambda: _processes() == [], LEAVE_S)
    now = machine()
    assert {name for name, value in now.items() if value != before[name]} == {"groups", "state"}
    sandbox = Sandbox(NAME)
    sandbox.up(tied=False)
    assert sandbox.running()
    sandbox.down()
    assert machine() == before


def test_a_stale_sandbox_is_replaced(before: Machine) -> None:
    sandbox = Sandbox(NAME)
    sandbox.up(tied=False)
    assert Sandbox(NAME).running()
    other = Sandbox(NAME)
    other.up(tied=False)
    other.down()
    sandbox.down()
    assert machine() == before


def test_a_start_that_fails_leaves_nothing(before: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    bin_folder = Sandbox(NAME).state.parent / "broken-tools"
    bin_folder.mkdir(parents=True, exist_ok=True)
    broken = bin_folder / "ip"  # the sandbox's PID 1 gets through its mounts and fails at its network
    broken.write_text("#!/bin/sh\nexit 9\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")
    with pytest.raises(Broken, match="exit status 9"):
        Sandbox(NAME).up(tied=True)
    broken.unlink()
    bin_folder.rmdir()
    assert machine() == before


def freeze(folder: str, state: str) -> str:
    """Shell that freezes a sleeper in a cgroup of its own; `state` is the command that writes the state."""
    return f"""
mkdir {folder}
{SLEEPER} &
until grep -q sleep /proc/$!/comm; do :; done
echo $! > {folder}/cgroup.procs
{state}
"""


FREEZE = {
    1: freeze("/sys/fs/cgroup/freezer/ice", "echo FROZEN > /sys/fs/cgroup/freezer/ice/freezer.state"),
    2: freeze("/sys/fs/cgroup/ice", "echo 1 > /sys/fs/cgroup/ice/cgroup.freeze"),
}
"""By the host's version of cgroups."""


def test_a_frozen_process_ends_with_the_sandbox(before: Machine) -> None:
    """Docker pauses a container so. On version 1 a frozen process does not even die by KILL."""
    script = FREEZE[cgroups.hierarchies()[0].version]
    sandbox = Sandbox(NAME)
    sandbox.up(tied=False)
    assert sandbox.run(["sh", "-c", script], timeout_s=10) == 0
    assert any(line.startswith(SLEEPER) for line in _processes())
    sandbox.down()
    assert machine() == before


def test_two_sandboxes_do_not_meet(before: Machine) -> None:
    first, second = Sandbox(NAME), Sandbox(f"{NAME}-too")
    first.up(tied=True)
    second.up(tied=True)
    touch = ["sh", "-c", "touch /var/lib/kubelet/mine /run/mine && mkdir /sys/fs/cgroup/*/mine 2>/dev/null; true"]
    assert first.run(touch, timeout_s=10) == 0
    seen = ["sh", "-c", "ls /var/lib/kubelet/mine /run/mine /sys/fs/cgroup/*/mine 2>/dev/null | grep -q mine"]
    assert first.run(seen, timeout_s=10) == 0, "the search finds them where they are"
    assert second.run(seen, timeout_s=10) == 1
    first.down()
    assert second.run(["ip", "link", "show", "node0"], timeout_s=10) == 0, "the other goes on"
    second.down()
    assert machine() == before


def test_a_real_node_leaves_nothing(before: Machine, log: Path) -> None:
    """The whole of it: kubelet, containerd, pods, iptables rules; then TERM in the middle of a test run."""
    script = (
        f"kubectl create deployment web --image={kubelet.PAUSE_IMAGE} --replicas=3 && "
        "kubectl rollout status deployment/web --timeout=60s && "
        f"iptables-save | grep -q KUBE && exec {SLEEPER}"
    )
    process = own(log, "-m", "e2e.node", f"--name={NAME}", "run", "--", "sh", "-c", script)
    wait_for_sleeper(process, log, timeout_s=NODE_S)
    process.terminate()
    assert process.wait(LEAVE_S) != 0
    assert machine() == before


def test_a_command_that_is_slow_is_ended_inside_the_sandbox(before: Machine) -> None:
    sandbox = Sandbox(NAME)
    sandbox.up(tied=True)
    assert sandbox.run(SLEEPER.split(), timeout_s=1) == 124  # timeout(1)'s status
    assert not any(line.startswith(SLEEPER) for line in _processes())
    sandbox.down()
    assert machine() == before
