"""Three replicas' stopped disks, kept as files, and every way to damage one byte of the first.

Problem: a table of damage must say the same of the same bytes until the product reacts differently, whatever timing
a change elsewhere moves. Mechanism: the disks of one simulated history are kept (`disks.bin`) and written anew with
`MUSTER_REWRITE=1`; a damage is (file, position, flipped or cut there).

The history: checkpoints of several groups, sealed segments and an open one, both WALs, the first without its beginning;
at its end replica 2 was cut off, so that the last commits and records were acknowledged by 0 and 1 alone.
"""

import json
import lzma
import random
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import KIB

from tests.replica.cluster import SimCluster
from tests.replica.partitions.test_replicated_rolls import Writer
from tests.replica.snapshots.test_recovery import commit_many
from tests.sim.disk import SimDisk
from tests.sim.loop import World

DISKS = Path(__file__).with_name("disks.bin")
REPLICAS = 3
DAMAGED, WHOLE, BEHIND = range(REPLICAS)
"""The replica whose byte is changed; one that has everything; one that was cut off before the last acknowledgements."""
SETTINGS: dict[str, Any] = {
    "partitions": 2,
    "wal_file_bytes": 24 * KIB,
    "wal_bytes_max": 96 * KIB,
    "checkpoint_bytes": 8_000,
    "offsets_segment_bytes": 8_000,
    "trailing_entries": 10,
    "segment_flush_ms": 1_000,
}
COMMITS = 620
"""Of group `group-<n % 50>` at offset n, in partition 0."""
OTHER_COMMITS = 30
"""The same in partition 1."""
BATCHES = 16
"""Of two records each, in topic `t`."""
PREALLOCATED = (".wal", "spare.tmp")
BYTES_MAX = 256 * KIB


class Damage(NamedTuple):
    """Of one byte."""

    path: str
    at: int
    cut: bool
    """The file ends before that byte; otherwise one of its bits is flipped."""

    @property
    def kind(self) -> str:
        """What sort of file it is: what the table has a row for."""
        return kind_of(self.path)


@cache
def kind_of(path: str) -> str:
    """The same of every byte of a file, and asked of 440,000."""
    folder, _, rest = path.partition("/")
    if rest.endswith("synced"):
        return f"{folder}/synced"
    return f"{folder}{'.sidx' if rest.endswith('.sidx') else ''}"


def made() -> list[SimDisk]:
    """The disks of the history, as the processes see them at its end."""
    cluster = SimCluster(World(51), **SETTINGS)
    cluster.start()
    writer = Writer(cluster, **{"segment.ms": "5000"})
    for first in range(0, COMMITS - 20, 100):
        commit_many(cluster, 0, first, 100)
    commit_many(cluster, 1, 0, OTHER_COMMITS)
    writer.write(BATCHES - 3)
    cluster.world.run_for(2_500)
    cluster.net.isolate(cluster.brokers[BEHIND])
    cluster.world.run_for(3_000)
    commit_many(cluster, 0, COMMITS - 20, 20)
    writer.write(3)
    cluster.world.run_for(50)
    assert cluster.nodes[DAMAGED].group_manager._offsets_writer.wal.first_index(GroupNo(1)) > 1
    return [cluster.disks[broker] for broker in cluster.brokers]


def write() -> None:
    """Make the disks anew."""
    found = [{path: disk.content(path).hex() for path in disk.files() if "incoming" not in path} for disk in made()]
    DISKS.write_bytes(lzma.compress(json.dumps(found).encode(), preset=9))


def read() -> list[SimDisk]:
    """The kept disks, with nothing left to sync."""
    return [_disk_of(files) for files in json.loads(lzma.decompress(DISKS.read_bytes()))]


def _disk_of(files: dict[str, str]) -> SimDisk:
    disk = SimDisk()
    for path, content in files.items():
        folder = path.rpartition("/")[0]
        disk.mkdir(folder)
        file = disk.open(path, create=True)
        file.pwrite(0, [bytes.fromhex(content)])
        file.sync()
        disk.sync_dir(folder)
    return disk


def written_bytes(disk: SimDisk, path: str) -> int:
    """How many bytes of a file were written: the zeros ahead of a WAL's end were not. WAL records are 8-aligned."""
    content = disk.content(path)
    if not path.endswith(PREALLOCATED):
        return len(content)
    end = len(content.rstrip(b"\0"))
    return end + -end % 8


def every_damage(disk: SimDisk) -> list[Damage]:
    return [
        Damage(path, at, cut)
        for path in disk.files()
        for at in range(written_bytes(disk, path))
        for cut in (False, True)
    ]


def kinds_of(disk: SimDisk) -> set[str]:
    """Of the files in which there is something to damage."""
    return {kind_of(path) for path in disk.files() if written_bytes(disk, path)}


def sample(everything: list[Damage], count: int) -> list[Damage]:
    """The same `count` of them each time, as many of each kind of file; what a kind lacks comes from the others."""
    kinds: dict[str, list[Damage]] = {}
    for damage in everything:
        kinds.setdefault(damage.kind, []).append(damage)
    rand = random.Random(51)
    chosen: list[Damage] = []
    left = sorted(kinds.values(), key=len)
    while left:
        some = left.pop(0)
        chosen += rand.sample(some, min(len(some), (count - len(chosen)) // (len(left) + 1)))
    return chosen


def damaged(disk: SimDisk, damage: Damage) -> SimDisk:
    """A copy with it."""
    copy = disk.durable_copy()
    if damage.cut:
        file = copy.open(damage.path)
        file.truncate(damage.at)
        file.sync()
        file.close()
    else:
        byte = copy.content(damage.path)[damage.at]
        copy.damage(damage.path, damage.at, bytes([byte ^ 1 << damage.at % 8]))
    return copy
