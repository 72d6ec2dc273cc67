"""Load beyond what checkpoints can free at once: a WAL that is nearly full slows writers down and never stops them.

One replica, a hundred partitions and a WAL that holds five seconds of writes, on virtual time. What counts is the
longest time without any acknowledgement.
"""

from collections.abc import Callable

import pytest
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import KIB, MIB
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.replica import limits as replica_limits
from muster_coordinator.replica.group_manager import OFFSETS_WAL, TOPICS_WAL, WAL_UNREADABLE
from muster_coordinator.storage import limits as storage_limits
from muster_coordinator.storage.wal import Wal

from tests.replica.cluster import SimCluster, produce_when_room
from tests.sim.loop import World

PARTITIONS = 100
WAL = {"wal_file_bytes": 64 * KIB, "wal_bytes_max": MIB}
SILENCE_MS_MAX = 500


class Writers:
    """An open loop over all partitions in turn; refused batches are sent again with the next ones."""

    def __init__(self, cluster: SimCluster, groups: list[GroupNo], *, batch_bytes: int, per_second: int) -> None:
        self.cluster = cluster
        self.groups = groups
        self.good_ms: list[int] = []
        self.refused = 0
        self.tick_ms = 10
        self.per_tick = max(1, per_second * self.tick_ms // 1_000)
        self.taken = 0
        self.value = bytes(batch_bytes)
        self.next = 0
        self.until_ms = 0

    def run(self, seconds: int) -> None:
        loop = self.cluster.loops[0]
        self.until_ms = loop.monotonic_ms() + 1_000 * seconds
        self.good_ms.append(loop.monotonic_ms())
        self._tick()
        self.cluster.world.run_for(1_000 * seconds)

    def _tick(self) -> None:
        loop = self.cluster.loops[0]
        now_ms = loop.monotonic_ms()
        if now_ms >= self.until_ms:
            return
        for _ in range(self.per_tick):
            group = self.groups[self.next % len(self.groups)]
            self.next += 1
            log = self.cluster.nodes[0].local_log(group)
            assert log is not None
            batch = encode_batch([(None, self.value)], timestamp_ms=loop.wall_ms())
            produce_when_room(log, batch, now_ms + 30_000, self._done)
        loop.call_at(now_ms + self.tick_ms, self._tick)

    def _done(self, code: Code) -> None:
        if code is Code.NONE:
            self.good_ms.append(self.cluster.loops[0].monotonic_ms())
            self.taken += 1
        else:
            assert code is Code.NOT_ENOUGH_REPLICAS
            self.refused += 1

    def longest_silence_ms(self) -> int:
        ends = [*self.good_ms[1:], self.until_ms]
        return max(after - before for before, after in zip(self.good_ms, ends, strict=True))


def one_replica(partitions: int = PARTITIONS, on_start: Callable[[SimCluster], None] = lambda _: None, **settings):
    cluster = SimCluster(World(3), replicas=1, partitions=1, **{**WAL, **settings})
    on_start(cluster)
    cluster.start()
    made = cluster.submit(0, CreateTopic(name="data", topic_id=bytes([1]) * 16, partitions=partitions, configs=()))
    assert made.error == Code.NONE
    groups = [partition.group for partition in cluster.nodes[0].image().topics["data"].partitions]
    for group in groups:
        cluster.wait_leader(group)
    return cluster, groups


def test_a_wal_that_fills_faster_than_checkpoints_free_it_never_stops_acknowledging() -> None:
    cluster, groups = one_replica()
    writers = Writers(cluster, groups, batch_bytes=1_000, per_second=200)
    writers.run(20)
    wal_writer = next(wal_writer for wal_writer in cluster.nodes[0].host.wal_writers if wal_writer.name == TOPICS_WAL)
    assert wal_writer.wal.deleted_files > 2 * 16, "it went round more than twice"
    assert writers.longest_silence_ms() <= SILENCE_MS_MAX, (writers.longest_silence_ms(), writers.refused)


def test_live_tails_that_fill_the_wal_are_not_carried_round_and_round() -> None:
    """More partitions than checkpoints can free in one round of the WAL: carrying gains nothing then, and is paced."""
    cluster, groups = one_replica(300)
    writers = Writers(cluster, groups, batch_bytes=1_000, per_second=200)
    writers.run(10)
    wal_writer = next(wal_writer for wal_writer in cluster.nodes[0].host.wal_writers if wal_writer.name == TOPICS_WAL)
    batches = 10_000 // replica_limits.WAL_CARRY_PACE_MS
    assert 0 < wal_writer.wal.carried_bytes <= batches * storage_limits.WAL_CARRY_BATCH_BYTES
    assert writers.longest_silence_ms() <= 2 * SILENCE_MS_MAX, (writers.longest_silence_ms(), writers.refused)


def test_who_was_slowed_by_a_nearly_full_wal_is_counted_for_the_metrics() -> None:
    cluster, groups = one_replica(200)
    assert [wal.slowed for wal in cluster.nodes[0].wals()] == [0, 0]
    writers = Writers(cluster, groups, batch_bytes=1_000, per_second=200)
    writers.run(25)
    offsets, topics = cluster.nodes[0].wals()
    assert (offsets.name, topics.name) == (OFFSETS_WAL, TOPICS_WAL)
    assert topics.slowed == writers.refused > 0
    assert topics.carried_bytes > 0
    assert topics.used_bytes + topics.room_bytes == MIB
    assert topics.used_bytes >= MIB // 2
    assert (offsets.slowed, offsets.carried_bytes) == (0, 0), "the other WAL is told apart"


def test_at_the_benchmark_row_s_own_ratio_nobody_waits_long_and_what_is_carried_stays_below_the_bound() -> None:
    """300 partitions, 64 MiB of WAL in files of 4 MiB, 5 MB/s: all sizes an eighth, the time as it is."""
    wal_bytes = 8 * MIB
    cluster, groups = one_replica(300, wal_file_bytes=512 * KIB, wal_bytes_max=wal_bytes)
    writers = Writers(cluster, groups, batch_bytes=6_250, per_second=100)
    wal_writer = next(wal_writer for wal_writer in cluster.nodes[0].host.wal_writers if wal_writer.name == TOPICS_WAL)
    loop, used = cluster.loops[0], []

    def look() -> None:
        used.append(wal_writer.wal.used_bytes())
        loop.call_at(loop.monotonic_ms() + 20, look)

    look()
    writers.run(40)
    assert wal_writer.wal.deleted_files > 2 * 16, "it went round more than twice"
    assert max(used) <= wal_bytes
    assert writers.longest_silence_ms() <= SILENCE_MS_MAX // 2, (writers.longest_silence_ms(), writers.refused)
    assert writers.taken >= 40 * 100 * 3 // 4, "slowed down no more than it must be"


@pytest.mark.parametrize("partitions", [50, 500])
def test_a_wal_of_the_least_legal_size_goes_on_acknowledging(partitions: int) -> None:
    """64 KiB files, 256 KiB in all; what a file begins with, the state of all groups, may be 65 KB. It goes beyond its
    bound then, and no further."""
    cluster, groups = one_replica(partitions, wal_file_bytes=64 * KIB, wal_bytes_max=256 * KIB)
    writers = Writers(cluster, groups, batch_bytes=1_000, per_second=100)
    writers.run(12)
    wal_writer = next(wal_writer for wal_writer in cluster.nodes[0].host.wal_writers if wal_writer.name == TOPICS_WAL)
    assert writers.longest_silence_ms() <= SILENCE_MS_MAX, (writers.longest_silence_ms(), writers.refused)
    opening_bytes = partitions * 130
    assert wal_writer.wal.used_bytes() <= max(
        256 * KIB, opening_bytes * storage_limits.WAL_OPENING_SHARE * storage_limits.WAL_FILES_MIN
    )


def test_one_group_that_writes_everything_beside_one_that_wrote_once_fills_no_wal() -> None:
    cluster, groups = one_replica(20)
    once = Writers(cluster, groups[1:2], batch_bytes=1_000, per_second=100)
    once.run(1)
    writers = Writers(cluster, groups[:1], batch_bytes=4_000, per_second=100)
    writers.run(20)
    wal_writer = next(wal_writer for wal_writer in cluster.nodes[0].host.wal_writers if wal_writer.name == TOPICS_WAL)
    assert wal_writer.wal.deleted_files > 2 * 16
    assert writers.longest_silence_ms() <= SILENCE_MS_MAX, (writers.longest_silence_ms(), writers.refused)
    assert (writers.refused, writers.taken) == (0, 20 * 100)


def test_an_entry_that_does_not_read_back_is_told_once_and_a_checkpoint_frees_its_file() -> None:
    cluster, groups = one_replica(20)
    log = cluster.nodes[0].local_log(groups[1])
    assert log is not None
    codes: list[Code] = []
    batch = encode_batch([(None, b"once")], timestamp_ms=0)
    produce_when_room(log, batch, cluster.loops[0].monotonic_ms() + 1_000, codes.append)
    cluster.world.run_until("stored", lambda: codes == [Code.NONE])
    cluster.kill(0)
    cluster.restart(0)  # nothing of it is in memory now
    cluster.wait_ready()
    cluster.wait_leader(groups[0])
    wal_writer = next(wal_writer for wal_writer in cluster.nodes[0].host.wal_writers if wal_writer.name == TOPICS_WAL)
    assert isinstance(wal_writer.wal, Wal)
    stored = wal_writer.wal._logs[groups[1]]
    place = stored.place_at(2)
    assert stored.live_from <= 2
    path = f"{TOPICS_WAL}/{place >> 32:016x}.wal"
    cluster.disks[0].damage(path, (place & 0xFFFFFFFF) + 40, b"\xee\xee")
    told = []
    cluster.notice = lambda what, details, error: told.append((what, details["group"]))
    writers = Writers(cluster, groups[:1], batch_bytes=4_000, per_second=100)
    writers.run(20)
    assert told == [(WAL_UNREADABLE, groups[1])]
    assert not cluster.disks[0].exists(path)
    assert writers.refused == 0


def test_a_batch_that_finds_no_room_is_answered_near_its_timeout_and_never_appended() -> None:
    cluster, groups = one_replica(20)
    log = cluster.nodes[0].local_log(groups[1])
    assert log is not None
    wal_writer = next(wal_writer for wal_writer in cluster.nodes[0].host.wal_writers if wal_writer.name == TOPICS_WAL)
    assert isinstance(wal_writer.wal, Wal)
    bound, wal_writer.wal._bytes_max = wal_writer.wal._bytes_max, 0  # full, as long as the test likes
    codes: list[Code] = []
    begun_ms = cluster.loops[0].monotonic_ms()
    batch = encode_batch([(None, b"late")], timestamp_ms=0)
    produce_when_room(log, batch, begun_ms + 200, codes.append)
    cluster.world.run_until("an answer", lambda: codes)
    assert codes == [Code.NOT_ENOUGH_REPLICAS]
    assert 200 <= cluster.loops[0].monotonic_ms() - begun_ms <= 250
    wal_writer.wal._bytes_max = bound
    produce_when_room(log, batch, begun_ms + 10_000, codes.append)
    cluster.world.run_until("the next one", lambda: len(codes) == 2)
    cluster.world.run_for(2_000)
    assert codes[1] is Code.NONE
    assert cluster.nodes[0].group_manager.states[groups[1]].next_offset == 1
