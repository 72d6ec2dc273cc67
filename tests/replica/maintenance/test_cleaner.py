"""The log cleaner of whole replicas: each cleans for itself, and nobody can tell: no reader, no follower that falls
behind, no replica whose disk lost power, ran full, or changed a byte."""

from collections.abc import Callable

import pytest
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.events import INSTALLED, LOG_CLEANED, LOG_NOT_CLEANED
from muster_coordinator.ids import GroupNo
from muster_coordinator.records.batch import check, encode_batch, iter_records, parse_header
from muster_coordinator.replica import limits
from muster_coordinator.replica.folders import segments_folder
from muster_coordinator.replica.snapshots.install_own import NOTHING
from muster_coordinator.replica.snapshots.install_payload import FileKind, Offer, OfferedFile
from muster_coordinator.storage.contract import RecoveryPoint

from tests.records.made import split_batches
from tests.replica.cluster import SimCluster
from tests.replica.snapshots.test_damaged_segments import Told
from tests.sim.loop import World

START_MS = 1_700_000_000_000
SETTINGS = {
    "checkpoint_bytes": 4_000,
    "trailing_entries": 3,
    "segment_flush_ms": 200,
    "cleaner_backoff_ms": 500,
    "scrub_rate": 0,
}
COMPACT = {"cleanup.policy": "compact", "segment.ms": "5000", "min.cleanable.dirty.ratio": "0.1"}


class Table:
    """A compacted topic of one partition: keys are written again and again, and deleted."""

    def __init__(self, seed: int, *, replicas: int = 3, configs: dict[str, str] = COMPACT, **settings: object) -> None:
        self.cluster = SimCluster(World(seed), replicas=replicas, **{**SETTINGS, **settings})
        self.told = Told(self.cluster)
        self.cluster.start()
        made = self.cluster.submit(
            0, CreateTopic(name="t", topic_id=bytes([7]) * 16, partitions=1, configs=tuple(configs.items()))
        )
        assert made.error == Code.NONE, made
        self.group = GroupNo(self.cluster.nodes[0].image().topics["t"].partitions[0].group)
        self.folder = f"{segments_folder(self.group)}/t-0"
        self.written = 0
        self.expected: dict[bytes, bytes] = {}
        self.rand = self.cluster.world.rand

    def write(self, count: int) -> None:
        """Batches, each a second of record time after the one before."""
        done = 0
        while done < count:
            leader = self.cluster.wait_leader(self.group, 20_000)
            loop, results = self.cluster.loops[leader], []
            records = {
                b"k%d" % self.rand.randrange(9): None if self.rand.random() < 0.2 else self.rand.randbytes(40)
                for _ in range(3)
            }
            raw = encode_batch(records.items(), timestamp_ms=START_MS + 1_000 * self.written)
            self.cluster.nodes[leader].local_log(self.group).produce(
                raw, configs={}, deadline_ms=loop.monotonic_ms() + 5_000, done=results.append
            )
            self.cluster.world.run_until("an answer", lambda results=results: results, 10_000)
            if results[0].code == Code.NONE:
                done += 1
                self.written += 1
                for key, value in records.items():
                    if value is None:
                        self.expected.pop(key, None)
                    else:
                        self.expected[key] = value
            else:
                assert results[0].code not in (Code.REQUEST_TIMED_OUT, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
                self.cluster.world.run_for(20)

    def state(self, broker: int):
        return self.cluster.nodes[broker].group_manager.states[self.group]

    def batches(self, broker: int) -> list[bytes]:
        """As a reader gets them who goes on behind each batch."""
        log, offset, found = self.state(broker).log, 0, []
        while offset < log.next_offset:
            some = split_batches(log.read(offset, 1_000, True))
            assert parse_header(some[0]).base_offset <= offset
            found += some
            offset = check(some[-1]).next_offset
        return found

    def table(self, broker: int) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for batch in self.batches(broker):
            for record in iter_records(batch):
                if record.value is None:
                    found.pop(record.key, None)
                else:
                    found[record.key] = record.value
        return found

    def clean_to(self, broker: int) -> int:
        return self.state(broker).log.cleaned.cleaned_to

    def wait_cleaned(self, brokers: list[int] | None = None, *, more_than: int = 0, ms: float = 20_000) -> None:
        brokers = [int(b) for b in self.cluster.nodes] if brokers is None else brokers
        self.run_until("cleaned", lambda: all(self.clean_to(broker) > more_than for broker in brokers), ms)

    def run_until(self, what: str, check: Callable[[], object], ms: float = 20_000) -> None:
        self.cluster.world.run_until(what, check, ms)

    def assert_same(self) -> None:
        self.cluster.converge([self.group], 30_000)
        for broker in self.cluster.nodes:
            assert self.table(broker) == self.expected, broker


def test_every_replica_cleans_for_itself_and_readers_find_the_same_table() -> None:
    table = Table(1)
    table.write(40)
    table.cluster.world.run_for(1_500)
    table.wait_cleaned()
    table.assert_same()
    cleaned = table.cluster.told(LOG_CLEANED)
    assert {one["partition"] for one in cleaned} == {"t-0"}
    assert all(one["after_bytes"] < one["before_bytes"] for one in cleaned if one["after_segments"] == 1)
    status = table.cluster.nodes[0].cleaner_status()
    assert status.rounds >= 1
    assert status.failures == 0
    assert status.freed_bytes > 0
    for broker in table.cluster.nodes:
        offsets = {record.offset for batch in table.batches(broker) for record in iter_records(batch)}
        assert len(offsets) < table.state(broker).next_offset, "records are gone"
    clean = table.clean_to(0)
    table.write(30)
    table.wait_cleaned(more_than=clean)
    for broker in list(table.cluster.nodes):
        table.cluster.kill(broker)
    for broker in table.cluster.brokers:
        table.cluster.restart(broker)
    table.cluster.wait_ready()
    table.write(3)
    table.assert_same()
    assert all(table.clean_to(broker) > clean for broker in table.cluster.nodes), "a start knows what was cleaned"


def test_a_topic_that_deletes_is_left_alone_and_one_that_is_altered_is_cleaned() -> None:
    table = Table(2, configs={"segment.ms": "5000", "min.cleanable.dirty.ratio": "0.1"})
    table.write(30)
    table.cluster.world.run_for(5_000)
    assert not table.cluster.told(LOG_CLEANED)
    assert len(table.batches(0)) == 30


def test_who_looks_up_by_time_or_offset_cannot_tell_a_cleaned_replica() -> None:
    table = Table(3)
    table.write(40)
    table.wait_cleaned()
    log = table.state(0).log
    kept = {r.timestamp_ms for batch in table.batches(0) for r in iter_records(batch)}
    for n in range(40):
        at_ms = START_MS + 1_000 * n
        found = log.offset_by_time(at_ms)()
        assert (found.timestamp_ms if found else None) == min((ms for ms in kept if ms >= at_ms), default=None)
    assert [log.epoch_of(offset) for offset in range(log.next_offset)] == [log.latest_epoch()] * log.next_offset


def test_a_follower_that_lost_its_disk_takes_the_cleaned_range_as_it_is() -> None:
    table = Table(4)
    table.write(40)
    table.wait_cleaned()
    leader = table.cluster.wait_leader(table.group)
    lost = next(int(broker) for broker in table.cluster.brokers if broker != leader)
    table.cluster.kill(lost)
    table.write(10)
    table.cluster.restart(lost)
    table.cluster.wait_ready()
    table.cluster.world.run_for(3_000)
    table.assert_same()
    far = table.clean_to(leader)
    table.cluster.kill(lost)
    table.write(60)
    table.wait_cleaned([leader], more_than=far)
    table.cluster.restart(lost)
    table.run_until("installed", lambda: table.cluster.told(INSTALLED, lost), 30_000)
    table.cluster.wait_ready()
    assert table.state(lost).log.touched(0), "it knows that these are not everybody's segments"
    table.write(3)
    table.assert_same()


@pytest.mark.parametrize("seed", range(5, 8))
def test_damage_inside_a_cleaned_range_is_healed_by_all_of_the_leaders_files(seed: int, monkeypatch) -> None:
    monkeypatch.setattr(limits, "REPAIR_RETRY_MS", 2_000)
    table = Table(seed)
    table.write(40)
    table.wait_cleaned()
    leader = table.cluster.wait_leader(table.group)
    broker = leader if seed == 5 else next(int(b) for b in table.cluster.brokers if b != leader)
    table.cluster.kill(broker)
    table.cluster.restart(broker)
    table.cluster.wait_ready()
    name = f"{table.folder}/{0:020d}.log"
    sound = table.cluster.disks[broker].content(name)
    at = 30 + seed
    table.cluster.disks[broker].damage(name, at, bytes([sound[at] ^ 0x10]))
    result = table.cluster.nodes[broker].local_log(table.group).read(0, 1 << 20, whole_first_batch=True)
    assert result.code == Code.KAFKA_STORAGE_ERROR
    table.run_until("installed anew", lambda: table.cluster.told(INSTALLED, broker), 60_000)
    table.cluster.wait_ready()
    table.write(3)
    table.assert_same()
    assert not table.cluster.nodes[broker].group_status(table.group).damaged


def test_a_disk_without_room_leaves_the_log_as_it_was_and_is_told() -> None:
    table = Table(8, replicas=1, disk_low_bytes=1_000_000, disk_good_bytes=1_000_001)
    disk = table.cluster.disks[0]
    free = disk.free_bytes
    table.write(5)
    disk.free_bytes = lambda: 1_000_100
    table.write(35)
    table.run_until("given up", lambda: table.cluster.told(LOG_NOT_CLEANED), 10_000)
    assert "are free" in table.cluster.told(LOG_NOT_CLEANED)[0]["reason"]
    assert len(table.batches(0)) == 40
    assert not [name for name in disk.listdir(table.folder) if name.endswith(".cleaned")]
    status = table.cluster.nodes[0].cleaner_status()
    assert (status.rounds, status.uncleanable) == (0, 1)
    disk.free_bytes = free
    table.run_until("cleaned", lambda: table.cluster.told(LOG_CLEANED), limits.CLEAN_RETRY_MS + 10_000)
    assert table.table(0) == table.expected
    assert table.cluster.nodes[0].cleaner_status().uncleanable == 0


@pytest.mark.parametrize("seed", range(20, 24))
def test_replicas_that_lose_power_while_they_clean_come_back_with_the_same_table(seed: int) -> None:
    """At a rate at which a round takes seconds, so that most deaths hit one."""
    table = Table(seed, cleaner_rate=4_000)
    table.write(30)
    for _ in range(6):
        table.cluster.world.run_for(table.rand.randrange(100, 3_000))
        victim = table.rand.choice([int(broker) for broker in table.cluster.brokers])
        table.cluster.kill(victim)
        table.write(table.rand.randrange(1, 8))
        table.cluster.restart(victim)
        table.cluster.wait_ready()
    table.assert_same()
    table.wait_cleaned(ms=60_000)
    table.assert_same()


def test_the_rate_is_kept() -> None:
    table = Table(30, replicas=1, cleaner_rate=2_000)
    table.write(40)
    began_ms = table.cluster.loops[0].monotonic_ms()
    before = table.cluster.nodes[0].cleaner_status().done_bytes
    table.wait_cleaned(ms=60_000)
    took_ms = table.cluster.loops[0].monotonic_ms() - began_ms
    done = table.cluster.nodes[0].cleaner_status().done_bytes - before
    # A slice ends with whole batches, and the last of each step is not waited for twice.
    assert done <= 2_000 * (took_ms + 1_000) / 1_000 + 2 * 4_000
    assert took_ms > 2_000


def test_no_own_segment_is_mixed_with_cleaned_ones_unseen() -> None:
    """Not although name and size are the same: a tombstone that is gone there may delete what is still here."""
    table = Table(31, configs={"segment.ms": "5000"})
    table.write(30)
    table.cluster.world.run_for(1_000)
    follower = next(int(b) for b in table.cluster.brokers if b != table.cluster.wait_leader(table.group))
    node, log = table.cluster.nodes[follower], table.state(follower).log
    sealed = log.sealed()
    names = [f"{base:020d}.log" for base in (*(one.base for one in sealed), log.views()[-1].next_offset)]
    sizes = [one.size for one in sealed] + [1]
    offer = Offer(
        1,
        table.group,
        10,
        1,
        RecoveryPoint(10, log.next_offset, sealed[-1].next_offset, 1),
        tuple(OfferedFile(FileKind.SEGMENT, name, size) for name, size in zip(names, sizes, strict=True)),
        checks=True,
    )
    own = node.formed.installs._own
    group = node.host.groups[table.group]
    assert [at for at, _ in own.plan(group, offer).sealed] == list(range(len(sealed)))
    assert own.plan(group, offer._replace(cleaned=True)) == NOTHING
    log.cleaned = log.cleaned._replace(touched_to=sealed[1].base)
    assert [at for at, _ in own.plan(group, offer).sealed] == list(range(1, len(sealed))), (
        "the own first one is cleaned"
    )


def test_a_small_topic_is_cleaned_although_its_checkpoint_is_not_due_for_long() -> None:
    table = Table(32, checkpoint_bytes=1 << 26)
    table.write(20)
    table.wait_cleaned()
    clean = table.clean_to(0)
    table.write(30)
    table.wait_cleaned(more_than=clean)
    table.cluster.kill(0)
    table.cluster.restart(0)
    table.cluster.wait_ready()
    table.write(3)
    table.assert_same()
    wanted = table.cluster.nodes[1].formed.cleaner._wanting
    assert not wanted, "each checkpoint that was asked for was made"
