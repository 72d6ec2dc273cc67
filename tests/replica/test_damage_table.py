"""Any written byte flipped, or any file cut at it, one at a time: what a start then does, and nothing else.

The table is in docs/format.md. A start may be refused only for the files that hold promises (the WALs) or say who this
folder is; every other file costs its group at most, and the others are as they were. A fixed sample; all of them with
`MUSTER_DAMAGES=all`.
"""

import os
import random
from collections import Counter

from muster_coordinator.errors import Corruption, UnsupportedFormat
from muster_coordinator.ids import GroupNo
from muster_coordinator.replica.identity import StartRefused
from muster_coordinator.replica.node import Node

from tests.replica.cluster import SimCluster
from tests.replica.test_recovery import TINY_WAL, commit_many
from tests.sim.disk import SimDisk
from tests.sim.loop import World

SAMPLE = os.environ.get("MUSTER_DAMAGES", "600")
SETTINGS = {
    **TINY_WAL,
    "partitions": 2,
    "wal_file_bytes": 65_536,
    "checkpoint_bytes": 20_000,
    "offsets_segment_bytes": 20_000,
}
MAY_REFUSE = ("identity", "cluster", "wal-offsets/", "wal-topics/")


def replica_disk() -> SimDisk:
    """Of one replica of three, stopped: checkpoints, segments, and a WAL without its beginning."""
    cluster = SimCluster(World(51), **SETTINGS)
    cluster.start()
    for first in range(0, 1_800, 300):
        commit_many(cluster, 0, first, 300)
    commit_many(cluster, 1, 0, 30)
    cluster.world.run_for(2_500)
    commit_many(cluster, 0, 1_800, 20)
    cluster.world.run_for(50)
    assert cluster.nodes[0].hosting._offsets_lane.wal.first_index(GroupNo(1)) > 1
    return copied(cluster.disks[0])


def copied(disk: SimDisk) -> SimDisk:
    """All of it, as processes see it, with nothing left to sync."""
    copy = SimDisk()
    for path in disk.files():
        copy.mkdir(path.rpartition("/")[0])
        file = copy.open(path, create=True)
        file.pwrite(0, [disk.content(path)])
        file.sync()
        copy.sync_dir(path.rpartition("/")[0])
    return copy


def alone(disk: SimDisk) -> tuple[Node, list[str]]:
    """A life on this disk, after it has applied what it knows to be committed."""
    cluster = SimCluster(World(0), **SETTINGS)
    told: list[str] = []
    cluster.notice = lambda what, details, error: told.append(what)
    cluster.disks[0] = disk
    node = cluster.start_one(0)
    cluster.world.run_for(20)
    return node, told


def states(node: Node) -> dict[GroupNo, tuple[int, str | None]]:
    """(applied, hash) of every group that has a state."""
    return {
        number: (group.applied, node.state_hash(number))
        for number, group in node.host.groups.items()
        if not group.trouble
    }


def damages(disk: SimDisk) -> list[tuple[str, int, bool]]:
    """(file, position, cut there) for every byte that was written: the zeros ahead of a WAL's end are not."""
    found = []
    for path in disk.files():
        size = len(disk.content(path).rstrip(b"\0")) if path.endswith(".wal") else len(disk.content(path))
        found += [(path, at, cut) for at in range(size) for cut in (False, True)]
    return found


def with_damage(disk: SimDisk, path: str, at: int, cut: bool) -> SimDisk:
    copy = copied(disk)
    if cut:
        file = copy.open(path)
        file.truncate(at)
        file.sync()
        file.close()
    else:
        copy.damage(path, at, bytes([copy.content(path)[at] ^ 1 << at % 8]))
    return copy


def kind_of(path: str) -> str:
    return path.split("/")[0] + (".sidx" if path.endswith(".sidx") else "")


def test_a_damaged_byte_costs_one_group_at_most_but_for_promises_and_identity() -> None:
    disk = replica_disk()
    whole = states(alone(copied(disk))[0])
    assert len(whole) == 3
    everything = damages(disk)
    by_kind: dict[str, list[tuple[str, int, bool]]] = {}
    for damage in everything:
        by_kind.setdefault(kind_of(damage[0]), []).append(damage)
    rand = random.Random(51)
    chosen = everything
    if SAMPLE != "all":
        each = int(SAMPLE) // len(by_kind)
        chosen = [damage for some in by_kind.values() for damage in rand.sample(some, min(each, len(some)))]
    outcomes: Counter[tuple[str, str]] = Counter()
    for path, at, cut in chosen:
        try:
            node, told = alone(with_damage(disk, path, at, cut))
        except (Corruption, UnsupportedFormat, StartRefused):
            assert path.startswith(MAY_REFUSE), (path, at, cut)
            outcomes[kind_of(path), "refused"] += 1
            continue
        troubled = set(node.hosting.troubled)
        if not path.startswith("wal-"):  # what looks like the torn tail of a WAL takes every group back a little
            assert not troubled or path.split("/")[1] == str(*troubled), (path, at, cut)
            assert states(node) == {n: state for n, state in whole.items() if n not in troubled}, (path, at, cut)
        outcomes[kind_of(path), "without state" if troubled else "stood in for" if told else "as before"] += 1
    print(dict(sorted(outcomes.items())))  # noqa: T201
    assert outcomes["checkpoints", "without state"] + outcomes["checkpoints", "stood in for"] > 0
    assert not outcomes["checkpoints", "refused"] + outcomes["segments", "refused"] + outcomes["born", "refused"]
    assert outcomes["segments.sidx", "as before"] > 0
    assert outcomes["segments.sidx", "without state"] == 0
