"""PID 1 of a sandbox: arranges mounts and network for a Kubernetes node, then adopts and reaps every process in it.

The kernel ends all processes of a PID namespace with its PID 1, and mounts and network with the last process. So the
sandbox is cleaned up by ending this process, whoever does it: `Sandbox.down`, or the sandbox's owner dying, which this
process notices when the pipe on its standard input closes.

The machine must stay as it was. The kubelet insists on three machine-wide kernel settings; it finds small files with
the wanted values bound over them. Below /var/lib and /var/log the sandbox sees an overlay whose changes are its own,
and the folders that Kubernetes parts have compiled in lead to the sandbox's state.
"""

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

from e2e.node import cgroups, network, paths

CLONE_NEWCGROUP = 0x02000000  # linux/sched.h
NODE_NAME = "muster-node"
KERNEL_SETTINGS = {"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"}
# Compiled into kubelet, containerd or CNI; the rest is configured to lie in the state folder.
OVERLAID = ("/var/lib", "/var/log")
BOUND = ("/var/lib/kubelet", "/var/lib/containerd", "/var/lib/cni", "/var/log/pods", "/var/log/containers")
NETWORK_SETTINGS = {
    "net/ipv4/ip_forward": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    "net/bridge/bridge-nf-call-iptables": "1",  # else answers between pods of one bridge skip the Service's address
}

_libc = ctypes.CDLL(None, use_errno=True)


def run(*words: str) -> None:
    """A command of the machine that must succeed."""
    subprocess.run(words, check=True, timeout=30)


def mount(kind: str, target: str, *options: str) -> None:
    run("mount", "-t", kind, *options, kind, target)


def bind(source: Path, target: str) -> None:
    run("mount", "--bind", str(source), target)


def arrange_mounts(state: Path, hierarchies: tuple[cgroups.Hierarchy, ...]) -> None:
    """Own /proc, /sys, /run and the folders that parts write to."""
    mount("proc", "/proc")
    (state / "sys").mkdir(exist_ok=True)
    for name, value in KERNEL_SETTINGS.items():
        file = state / "sys" / name.replace("/", "-")
        file.write_text(f"{value}\n")
        bind(file, f"/proc/sys/{name}")
    mount("sysfs", "/sys")
    arrange_cgroups(hierarchies)
    resolver = Path("/etc/resolv.conf").resolve()
    mount("tmpfs", "/run", "-o", "mode=755")
    for folder in ("/run/lock", "/run/netns"):
        Path(folder).mkdir()
    for shared in OVERLAID:
        changes = Path("/run/changes") / shared.strip("/").replace("/", "-")
        (changes / "upper").mkdir(parents=True)
        (changes / "work").mkdir()
        mount("overlay", shared, "-o", f"lowerdir={shared},upperdir={changes}/upper,workdir={changes}/work")
    for folder in BOUND:
        source = state / folder.strip("/").replace("/", "-")
        source.mkdir()
        Path(folder).mkdir(parents=True, exist_ok=True)
        bind(source, folder)
    # Advertised names end in `.svc`, as for pods; ndots as in pods, so that they are looked up with the domain first.
    lines = (f"nameserver {network.NODE_ADDRESS}", "search svc.cluster.local cluster.local", "options ndots:5")
    (state / "resolv.conf").write_text("\n".join(lines) + "\n")
    if not resolver.exists():
        resolver.parent.mkdir(parents=True, exist_ok=True)
        resolver.touch()
    bind(state / "resolv.conf", str(resolver))
    run("mount", "--make-rshared", "/")


def arrange_cgroups(hierarchies: tuple[cgroups.Hierarchy, ...]) -> None:
    """Mount what the machine has, at the usual places; this sandbox's group shows as the root of each."""
    if hierarchies[0].version == 2:
        mount("cgroup2", "/sys/fs/cgroup")
        inner = Path("/sys/fs/cgroup/init")
        inner.mkdir()
        (inner / "cgroup.procs").write_text("0")
        wanted = " ".join(f"+{name}" for name in Path("/sys/fs/cgroup/cgroup.controllers").read_text().split())
        Path("/sys/fs/cgroup/cgroup.subtree_control").write_text(wanted)
        return
    mount("tmpfs", "/sys/fs/cgroup", "-o", "mode=755")
    for hierarchy in hierarchies:
        folder = Path("/sys/fs/cgroup") / hierarchy.controllers.removeprefix("name=")
        folder.mkdir()
        named = f"none,{hierarchy.controllers}" if "=" in hierarchy.controllers else hierarchy.controllers
        mount("cgroup", str(folder), "-o", named)
        for controller in hierarchy.controllers.split(","):
            link = Path("/sys/fs/cgroup") / controller.removeprefix("name=")
            if not link.exists():  # co-mounted controllers have a name each
                link.symlink_to(folder.name)


def reap_until_orphaned(tied: bool) -> None:
    """Wait for children for ever, or until the owner's end of the pipe on standard input closes."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    if tied:
        poll.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
    while True:
        ready = {file for file, _ in poll.poll()}
        if tied and sys.stdin.fileno() in ready:
            return
        os.read(reader, 4096)
        while _reap_one():
            pass


def _reap_one() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def main() -> None:
    state, tied, groups = Path(sys.argv[1]), sys.argv[2] == "tied", [Path(group) for group in sys.argv[3:]]
    found = cgroups.hierarchies()
    cgroups.join(groups)
    if _libc.unshare(CLONE_NEWCGROUP) != 0:  # only now: the group joined becomes the root
        raise OSError(ctypes.get_errno(), "no cgroup namespace")
    socket.sethostname(NODE_NAME)
    arrange_mounts(state, found)
    network.arrange()
    for name, value in NETWORK_SETTINGS.items():
        setting = Path("/proc/sys") / name
        if setting.exists():
            setting.write_text(value)
    os.chdir(paths.ROOT)
    (state / "ready").touch()
    reap_until_orphaned(tied)


if __name__ == "__main__":
    main()
