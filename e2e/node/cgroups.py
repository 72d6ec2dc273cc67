"""Control groups of a sandbox: one group of its own in every hierarchy, seen from inside as the root.

A kubelet owns the folder `kubepods` below its root. Two kubelets that share a root clear each other's pods, and groups
outlive the processes in them, so a sandbox gets the group `muster-<name>` first and its cgroup namespace second:
whatever the kubelet and runc make lies below that group, and `remove` finds all of it.

Version 1 (also hybrid) hosts: every mounted v1 hierarchy, below the group the caller is in, so that limits set on the
caller hold. Version 2: below the root of the mount, because a v2 group that holds processes cannot hand controllers
down; where the mount's root is a container's own group with processes in it, those move to a leaf beside the sandbox.
Delegation without root is not attempted.
"""

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from e2e.node.errors import Broken, Unavailable

LEAF = "muster-machine"
FREEZER = "freezer.state"  # the root of the hierarchy has none
REMOVE_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """One mounted cgroup hierarchy. `controllers` is v1's mount option ("cpu,cpuacct", "name=systemd"), "" for v2."""

    version: int
    controllers: str
    mounted: PurePosixPath
    parent: PurePosixPath


def parse(mountinfo: str, own_cgroups: str) -> tuple[Hierarchy, ...]:
    """The hierarchies of a machine from the texts of /proc/self/mountinfo and /proc/self/cgroup.

    A v2 mount counts only when there is no v1 mount beside it: on hybrid machines it has no controllers.
    """
    own: dict[str, str] = {}
    for line in own_cgroups.splitlines():
        _, controllers, path = line.split(":", 2)
        own[controllers] = path
    first: dict[str, Hierarchy] = {}
    unified: Hierarchy | None = None
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        _, _, _, root, mounted, *_ = left.split()
        kind, _, options = right.split(" ", 2)
        if kind == "cgroup2" and unified is None:
            mount = PurePosixPath(mounted)
            unified = Hierarchy(version=2, controllers="", mounted=mount, parent=mount)
        if kind != "cgroup":
            continue
        shown = set(options.split(","))
        for controllers, path in own.items():
            if controllers and set(controllers.split(",")) <= shown and controllers not in first:
                mount = PurePosixPath(mounted)
                first[controllers] = Hierarchy(
                    version=1, controllers=controllers, mounted=mount, parent=_below(mount, path, root)
                )
    if first:
        return tuple(first.values())
    return (unified,) if unified else ()


def _below(mounted: PurePosixPath, path: str, root: str) -> PurePosixPath:
    """Where group `path` of a hierarchy appears when its group `root` is mounted at `mounted`."""
    try:
        return mounted / PurePosixPath(path).relative_to(root)
    except ValueError:  # a mount from another cgroup namespace: its root is all we can see
        return mounted


def hierarchies() -> tuple[Hierarchy, ...]:
    """Those of this machine. `Unavailable` without any."""
    found = parse(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    if not found:
        raise Unavailable("no cgroup filesystem is mounted at /sys/fs/cgroup; a container needs --privileged for this")
    return found


def create(name: str, found: Sequence[Hierarchy]) -> tuple[Path, ...]:
    """Make group `name` in each hierarchy, ready to hold processes and children. Returns the folders."""
    made = []
    for hierarchy in found:
        group = Path(hierarchy.parent) / name
        try:
            group.mkdir(exist_ok=True)
        except OSError as error:
            raise Unavailable(
                f"cannot make {group} ({error.strerror}); a container needs --privileged for this"
            ) from error
        if hierarchy.version == 2:
            _hand_down(Path(hierarchy.parent))
        elif "cpuset" in hierarchy.controllers.split(","):
            for file in ("cpuset.cpus", "cpuset.mems"):  # v1 starts them empty, and an empty set admits no process
                (group / file).write_text((group.parent / file).read_text())
        made.append(group)
    return tuple(made)


def _hand_down(group: Path) -> None:
    """Version 2: let the children of `group` use all its controllers."""
    wanted = " ".join(f"+{name}" for name in (group / "cgroup.controllers").read_text().split())
    try:
        (group / "cgroup.subtree_control").write_text(wanted)
    except OSError:  # EBUSY: processes and controlled children exclude each other, except in the machine's root
        leaf = group / LEAF
        leaf.mkdir(exist_ok=True)
        for pid in (group / "cgroup.procs").read_text().split():
            try:
                (leaf / "cgroup.procs").write_text(pid)
            except ProcessLookupError:
                continue
        (group / "cgroup.subtree_control").write_text(wanted)


def join(groups: Sequence[Path]) -> None:
    """Move the calling process into `groups`."""
    for group in groups:
        inner = group / "init"  # version 2, once the sandbox runs: the group itself must stay free of processes
        target = inner if inner.is_dir() else group
        (target / "cgroup.procs").write_text("0")  # the writer, whatever its PID namespace


def thaw(groups: Sequence[Path]) -> None:
    """Thaw all in and below `groups`: on version 1 a frozen process does not die, not even by KILL."""
    for group in groups:
        for folder, _, files in os.walk(group):
            if FREEZER in files:
                with contextlib.suppress(FileNotFoundError):  # it ended and was removed meanwhile
                    (Path(folder) / FREEZER).write_text("THAWED")


def remove(groups: Sequence[Path]) -> None:
    """Remove `groups` with all below them; their processes must be gone or going. `Broken` when one stays."""
    deadline = time.monotonic() + REMOVE_TIMEOUT_S
    left = [group for group in groups if group.is_dir()]
    while left:
        for group in left:
            for folder, _, _ in os.walk(group, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    continue  # still busy: the next round tries again
        left = [group for group in left if group.is_dir()]
        if left and time.monotonic() > deadline:
            raise Broken(f"control groups stay busy: {', '.join(map(str, left))}")
        if left:
            time.sleep(0.05)
