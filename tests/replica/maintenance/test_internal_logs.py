"""The offsets log and the transaction log of whole replicas (ADR 76): each cleans for itself what is older than its
history, the last value of each key stays, and the state of a replica never notices."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from muster_coordinator.controller.commands import FinalizeFeatures
from muster_coordinator.controller.image import MEMBERS_LEVEL
from muster_coordinator.errors import Code
from muster_coordinator.events import INSTALLED, LOG_CLEANED
from muster_coordinator.groups.effects import AppliedBatch, Now
from muster_coordinator.groups.requests import DeleteGroup, PartitionCommit, TopicCommit, TxnOffsetCommit
from muster_coordinator.groups.shard import GroupShard
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import KIB
from muster_coordinator.records.batch import check, iter_records, parse_header
from muster_coordinator.records.control import EndMarker, TransactionMarker
from muster_coordinator.replica import limits
from muster_coordinator.replica.folders import segments_folder
from muster_coordinator.replica.maintenance import cleaner
from muster_coordinator.replica.maintenance.internal_logs import History, behind_history
from muster_coordinator.topics.cleaning.plan import CleaningSettings, cleanable, due
from muster_coordinator.topics.machine import RetentionView
from muster_coordinator.transactions.requests import DescribeTransaction, InitProducer

from tests import kafka_tools
from tests.groups.folding import folded, meaning
from tests.made_settings import shard_config
from tests.records.made import split_batches
from tests.replica.cluster import SimCluster
from tests.replica.snapshots.test_damaged_segments import Told
from tests.replica.snapshots.test_recovery import commit_many
from tests.replica.test_transaction_log import with_log
from tests.sim.loop import World

GROUP = GroupNo(1)
SEGMENT_BYTES = 10 * KIB
HISTORY_BYTES = 30 * KIB
DAY_MS = 24 * 3_600_000
SETTINGS = {
    "checkpoint_bytes": 8 * KIB,
    "trailing_entries": 3,
    "segment_flush_ms": 200,
    "retention_check_ms": 500,
    "cleaner_backoff_ms": 500,
    "scrub_rate": 0,
    "offsets_segment_bytes": SEGMENT_BYTES,
    "transactions_segment_bytes": SEGMENT_BYTES,
    "offsets_history_bytes": HISTORY_BYTES,
}
BOUND_BYTES = HISTORY_BYTES + 2 * SEGMENT_BYTES
"""One segment is written to, and one more may be full before the next look."""


def started(seed: int, **settings: object) -> SimCluster:
    cluster = SimCluster(World(seed), **{**SETTINGS, **settings})
    cluster.start()
    leader = cluster.wait_leader(GROUP)
    for group in ("early", "deleted"):
        assert cluster.commit(leader, 0, group, 7) == Code.NONE
    return cluster


def log_of(cluster: SimCluster, broker: int, group: GroupNo = GROUP):
    return cluster.nodes[broker].group_manager.states[group].log


def batches(cluster: SimCluster, broker: int, group: GroupNo = GROUP) -> list[bytes]:
    """As Fetch gives them."""
    log = cluster.nodes[broker].local_log(group)
    offset, end, found = 0, log.state.next_offset, []
    while offset < end:
        read = log.read(offset, 1_000, whole_first_batch=True)
        assert read.code == Code.NONE, (broker, offset, read)
        some = split_batches(read.records)
        assert parse_header(some[0]).base_offset <= offset
        found += some
        offset = check(some[-1]).next_offset
    return found


def replayed(cluster: SimCluster, broker: int) -> str:
    """The state hash of who knows nothing but the log, as a Kafka broker would load it."""
    shard = GroupShard(shard_config(), Random(0))
    for batch in batches(cluster, broker):
        header = parse_header(batch)
        shard.apply(Now(0, 0), AppliedBatch(header.leader_epoch, header.base_offset, batch))
    return shard.state_hash()


def wait_cleaned(cluster: SimCluster, *, group: GroupNo = GROUP, more_than: int = 0, brokers: list[int] | None = None):
    wanted = [int(broker) for broker in cluster.nodes] if brokers is None else brokers

    def done() -> bool:
        return all(log_of(cluster, broker, group).cleaned.cleaned_to > more_than for broker in wanted)

    cluster.world.run_until("cleaned", done, 30_000)


def assert_whole_state(cluster: SimCluster) -> None:
    """Nothing was dropped, every replica has the same state, and its log alone says the same."""
    cluster.converge([GROUP], 30_000)
    hashes = {state for _, state in cluster.hashes(GROUP)}
    for broker in cluster.nodes:
        assert cluster.nodes[broker].group_manager.states[GROUP].log_start == 0
        assert {replayed(cluster, broker)} == hashes, broker


def test_the_last_commit_of_each_group_stays_and_the_size_is_bounded() -> None:
    cluster = started(1)
    deleted = cluster.ask(cluster.wait_leader(GROUP), 0, DeleteGroup("deleted"))
    assert deleted.error == Code.NONE
    for first in range(0, 1_500, 300):
        commit_many(cluster, 0, first, 300)
        cluster.world.run_for(2_000)
        for broker in cluster.nodes:
            assert log_of(cluster, broker).size_bytes() <= BOUND_BYTES, broker
    wait_cleaned(cluster)
    assert_whole_state(cluster)
    records = [record for batch in batches(cluster, 0) for record in iter_records(batch)]
    assert len(records) < 1_000
    assert any(b"early" in record.key for record in records)
    newest = [record.offset for record in records[-100:]]
    assert newest == list(range(newest[0], newest[0] + 100)), "what is younger is there as it was written"
    for broker in list(cluster.nodes):
        cluster.kill(broker)
    for broker in cluster.brokers:
        cluster.restart(broker)
    cluster.wait_ready()
    assert_whole_state(cluster)
    leader = cluster.wait_leader(GROUP)
    assert cluster.fetch(leader, 0, "early") == (Code.NONE, 7)
    assert cluster.fetch(leader, 0, "group-49", "topic" * 20) == (Code.NONE, 1_499)
    assert {one["partition"] for one in cluster.told(LOG_CLEANED)} == {"__consumer_offsets-0"}


def test_tombstones_go_after_their_time_and_bring_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    made = cleaner.cleaning_settings(SEGMENT_BYTES)
    assert made.cleaning.delete_retention_ms == DAY_MS
    short = made._replace(cleaning=made.cleaning._replace(delete_retention_ms=60_000))
    monkeypatch.setattr(cleaner, "cleaning_settings", lambda _: short)
    cluster = started(2, replicas=1)
    assert cluster.ask(cluster.wait_leader(GROUP), 0, DeleteGroup("deleted")).error == Code.NONE

    def tombstones() -> int:
        found = [record for batch in batches(cluster, 0) for record in iter_records(batch)]
        return sum(record.value is None for record in found)

    commit_many(cluster, 0, 0, 400)
    wait_cleaned(cluster)
    assert tombstones() > 0
    cluster.world.run_for(61_000)
    clean = log_of(cluster, 0).cleaned.cleaned_to
    commit_many(cluster, 0, 400, 600)
    wait_cleaned(cluster, more_than=clean)
    assert tombstones() == 0
    assert_whole_state(cluster)


def test_who_lost_its_disk_takes_the_cleaned_log_and_has_the_same_state() -> None:
    cluster = started(3)
    commit_many(cluster, 0, 0, 500)
    wait_cleaned(cluster)
    leader = cluster.wait_leader(GROUP)
    late = next(int(broker) for broker in cluster.brokers if broker != leader)
    clean = log_of(cluster, leader).cleaned.cleaned_to
    cluster.kill(late)
    commit_many(cluster, 0, 500, 1_000)
    wait_cleaned(cluster, more_than=clean)
    cluster.restart(late)
    cluster.world.run_until("installed", lambda: cluster.told(INSTALLED, late), 30_000)
    cluster.wait_ready()
    assert log_of(cluster, late).touched(0), "it knows that these are not everybody's segments"
    assert_whole_state(cluster)


@pytest.mark.parametrize("leads", [True, False])
def test_damage_in_what_is_cleaned_is_healed_from_the_leader(leads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPAIR_RETRY_MS", 2_000)
    cluster = started(4 + leads)
    Told(cluster)
    commit_many(cluster, 0, 0, 500)
    wait_cleaned(cluster)
    leader = cluster.wait_leader(GROUP)
    broker = leader if leads else next(int(one) for one in cluster.brokers if one != leader)
    cluster.kill(broker)
    cluster.restart(broker)
    cluster.wait_ready()
    name = f"{segments_folder(GROUP)}/__consumer_offsets-0/{0:020d}.log"
    sound = cluster.disks[broker].content(name)
    cluster.disks[broker].damage(name, 40, bytes([sound[40] ^ 0x10]))
    result = cluster.nodes[broker].local_log(GROUP).read(0, 1 << 20, whole_first_batch=True)
    assert result.code == Code.KAFKA_STORAGE_ERROR
    cluster.world.run_until("installed anew", lambda: cluster.told(INSTALLED, broker), 60_000)
    cluster.wait_ready()
    commit_many(cluster, 0, 500, 20)
    assert_whole_state(cluster)


@pytest.mark.parametrize("seed", range(10, 14))
def test_replicas_that_lose_power_while_they_clean_come_back_with_the_same_state(seed: int) -> None:
    """At a rate at which a round takes seconds, so that most deaths hit one."""
    cluster = started(seed, cleaner_rate=16_000)
    commit_many(cluster, 0, 0, 450)
    rand, written = cluster.world.rand, 450
    for _ in range(6):
        cluster.world.run_for(rand.randrange(100, 4_000))
        victim = rand.choice([int(broker) for broker in cluster.brokers])
        cluster.kill(victim)
        commit_many(cluster, 0, written, 40)
        written += 40
        cluster.restart(victim)
        cluster.wait_ready()
    assert_whole_state(cluster)
    wait_cleaned(cluster)
    assert_whole_state(cluster)


def test_only_what_a_checkpoint_of_this_life_covers_is_cleaned_and_one_is_asked_for() -> None:
    cluster = started(20, replicas=1, checkpoint_bytes=1 << 26)
    told: list[tuple[int, int]] = []
    commit_many(cluster, 0, 0, 500)
    manager = cluster.nodes[0].group_manager
    assert manager.checkpoints.newest(GROUP) is None, "none is due for long"
    assert log_of(cluster, 0).cleaned.touched_to == 0

    def look() -> bool:
        newest = manager.checkpoints.newest(GROUP)
        told.append((log_of(cluster, 0).cleaned.touched_to, -1 if newest is None else newest[1].segment))
        return log_of(cluster, 0).cleaned.cleaned_to > 0

    cluster.world.run_until("cleaned", look, 30_000)
    assert all(touched <= covered for touched, covered in told if touched), told
    assert_whole_state(cluster)


def test_a_cluster_of_a_release_before_cuts_as_before_and_cleans_nothing() -> None:
    assert cut().hashes(GROUP)


def cut() -> SimCluster:
    cluster = started(21, feature_max=MEMBERS_LEVEL - 1)
    commit_many(cluster, 0, 0, 700)
    cluster.world.run_for(5_000)
    assert not cluster.told(LOG_CLEANED)
    for broker in cluster.nodes:
        assert cluster.nodes[broker].group_manager.states[GROUP].log_start > 0
        assert "cleaned" not in cluster.disks[broker].listdir(f"{segments_folder(GROUP)}/__consumer_offsets-0")
    cluster.converge([GROUP])
    return cluster


def test_once_the_level_is_there_what_was_cut_is_cleaned_from_then_on() -> None:
    cluster = cut()
    cluster.base = replace(cluster.base, feature_max=MEMBERS_LEVEL)
    for broker in (0, 1, 2):
        cluster.kill(broker)
        cluster.restart(broker)
        cluster.wait_ready()
    commit_many(cluster, 0, 700, 200)
    assert not cluster.told(LOG_CLEANED), "all replicas could, and the level is not there"
    raised = cluster.submit(cluster.wait_leader(0), FinalizeFeatures(feature_level=MEMBERS_LEVEL))
    assert raised.error == Code.NONE, raised
    start = cluster.nodes[0].group_manager.states[GROUP].log_start
    commit_many(cluster, 0, 900, 500)
    wait_cleaned(cluster)
    cluster.world.run_for(3_000)
    cluster.converge([GROUP])
    for broker in cluster.nodes:
        state = cluster.nodes[broker].group_manager.states[GROUP]
        assert state.log_start == start, broker
        assert state.log.size_bytes() <= BOUND_BYTES
        read = cluster.nodes[broker].local_log(GROUP).read(start, 1_000, whole_first_batch=True)
        assert read.code == Code.NONE
    leader = cluster.wait_leader(GROUP)
    assert cluster.fetch(leader, 0, "early") == (Code.NONE, 7), "the state has it, though the log was cut"


def test_commits_in_transactions_are_cleaned_too_up_to_the_one_that_is_open() -> None:
    """Of an aborted one nothing is left, and it hides nothing; the open one is whatever it will be."""
    cluster = started(23)

    def commit(producer: int, offset: int) -> None:
        leader = cluster.wait_leader(GROUP)
        answers: list[Any] = []
        topics = (TopicCommit("t", bytes(16), (PartitionCommit(0, offset, -1, ""),)),)
        request = TxnOffsetCommit("tx", -1, "", None, topics, producer, 0)
        cluster.nodes[leader].transactional_commit(
            0, request, cluster.context(leader), lambda done: done(Code.NONE), answers.append
        )
        cluster.world.run_until("a pending commit", lambda: answers)
        assert answers[0].topics[0][1][0][1] == Code.NONE

    def end(producer: int, *, committed: bool) -> None:
        leader = cluster.wait_leader(GROUP)
        codes: list[Code] = []
        marker = TransactionMarker(producer, 0, EndMarker(committed, 1), 0)
        deadline_ms = cluster.loops[leader].monotonic_ms() + 5_000
        cluster.nodes[leader].local_log(GROUP).write_marker(marker, deadline_ms=deadline_ms, done=codes.append)
        cluster.world.run_until("a marker", lambda: codes)
        assert codes == [Code.NONE]

    for n in range(12):
        commit(n % 3, n)
        commit_many(cluster, 0, 40 * n, 40)
        end(n % 3, committed=n < 10)
    first_open = log_of(cluster, 0).next_offset
    commit(9, 99)
    commit_many(cluster, 0, 500, 500)
    wait_cleaned(cluster, more_than=first_open - 100)
    cluster.world.run_for(5_000)
    cluster.converge([GROUP])
    whole = meaning(cluster.nodes[0].group_manager.shards[0].shard._core.state)
    for broker in cluster.nodes:
        assert log_of(cluster, broker).cleaned.cleaned_to <= first_open
        assert meaning(folded(batches(cluster, broker))) == whole, broker
    assert cluster.fetch(cluster.wait_leader(GROUP), 0, "tx") == (Code.NONE, 9)
    clean = log_of(cluster, 0).cleaned.cleaned_to
    end(9, committed=True)
    commit_many(cluster, 0, 1_000, 300)
    wait_cleaned(cluster, more_than=max(clean, first_open))
    cluster.converge([GROUP])
    whole = meaning(cluster.nodes[0].group_manager.shards[0].shard._core.state)
    for broker in cluster.nodes:
        assert meaning(folded(batches(cluster, broker))) == whole, broker
    assert cluster.fetch(cluster.wait_leader(GROUP), 0, "tx") == (Code.NONE, 99)


def test_young_history_stays_whatever_its_age_until_it_is_large_and_old_history_goes() -> None:
    cluster = started(22, replicas=1, offsets_history_bytes=10**9, offsets_history_ms=120_000)
    commit_many(cluster, 0, 0, 400)
    cluster.world.run_for(110_000)
    assert not cluster.told(LOG_CLEANED)
    cluster.world.run_for(15_000)
    assert cluster.told(LOG_CLEANED)
    assert_whole_state(cluster)


def test_the_transaction_log_keeps_the_last_of_each_id() -> None:
    log = with_log(**SETTINGS)
    cluster, group = log.cluster, GroupNo(log.groups[0])
    first = log.ask(InitProducer("kept", 60_000))
    assert first.code is Code.NONE
    for n in range(350):
        assert log.ask(InitProducer(f"id{n % 5}" + "x" * 100, 60_000)).code is Code.NONE
    wait_cleaned(cluster, group=group)
    cluster.world.run_for(3_000)
    cluster.converge([group], 30_000)
    for broker in cluster.nodes:
        assert log_of(cluster, broker, group).size_bytes() <= BOUND_BYTES
        assert cluster.nodes[broker].group_manager.states[group].log_start == 0
        assert any(b"kept" in record.key for one in batches(cluster, broker, group) for record in iter_records(one))
        last = {record.key: record.offset for one in batches(cluster, broker, group) for record in iter_records(one)}
        assert len(last) == 6
    for broker in list(cluster.nodes):
        cluster.kill(broker)
    for broker in cluster.brokers:
        cluster.restart(broker)
    cluster.wait_ready()
    cluster.converge([group], 30_000)
    known = log.ask(DescribeTransaction("kept")).transaction
    assert known is not None
    assert known.producer_id == first.producer_id


@pytest.mark.java
@pytest.mark.timeout(180)
def test_kafkas_dump_tool_reads_both_logs_once_they_are_cleaned(tmp_path: Path) -> None:
    log = with_log(**SETTINGS)
    cluster, group = log.cluster, GroupNo(log.groups[0])
    commit_many(cluster, 0, 0, 400)
    for n in range(350):
        assert log.ask(InitProducer(f"id{n % 5}" + "x" * 100, 60_000)).code is Code.NONE
    for number, decoder, told in ((GROUP, "offsets", '"group":"group-49"'), (group, "transaction-log", "id4xxx")):
        wait_cleaned(cluster, group=number)
        state = cluster.nodes[0].group_manager.states[number]
        state.write_out()
        names = [f"{state.folder}/{view.base_offset:020d}.log" for view in state.log.views()]
        for name in names:
            (tmp_path / name.rpartition("/")[2]).write_bytes(cluster.disks[0].content(name))
        files = ",".join(str(tmp_path / name.rpartition("/")[2]) for name in names)
        dumped = kafka_tools.run(kafka_tools.DUMP_LOG, f"--{decoder}-decoder", "--print-data-log", "--files", files)
        assert told in dumped, dumped[-2_000:]
        batches_told = [line for line in dumped.splitlines() if line.startswith("baseOffset:")]
        assert all("isvalid: true" in line for line in batches_told)
        assert sum("count: 0 " in line for line in batches_told) > 0, "there are batches for what was removed"
        assert "Found" not in dumped, "bytes after the last batch"


# -- what may be taken ------------------------------------------------------------------------------------------------


def view(number: int, *, age_ms: int = 0, size_bytes: int = 100) -> RetentionView:
    return RetentionView(number * 10, number * 10 + 10, size_bytes, DAY_MS * 30 - age_ms if age_ms >= 0 else -1)


def taken(sealed: list[RetentionView], history: History, *, size_bytes: int, cleaned_to: int = 0) -> int:
    return len(behind_history(DAY_MS * 30, sealed, history, size_bytes=size_bytes, cleaned_to=cleaned_to))


def test_a_segment_is_taken_when_all_its_records_are_older_than_the_history() -> None:
    history = History(1_000, 10**9)
    assert taken([view(0, age_ms=1_001), view(1, age_ms=1_000), view(2, age_ms=5_000)], history, size_bytes=300) == 1
    assert taken([view(0, age_ms=-1)], history, size_bytes=100) == 0, "who has no timestamp is not old"


def test_as_much_is_taken_as_the_partition_is_too_large() -> None:
    sealed = [view(n) for n in range(8)]
    for size_bytes, wanted in ((500, 0), (501, 1), (600, 1), (601, 2), (10_000, 8)):
        assert taken(sealed, History(DAY_MS, 500), size_bytes=size_bytes) == wanted, size_bytes


def test_a_round_takes_in_more_than_it_has_to_write_again() -> None:
    """Else a partition of many live records would be written again and again for one segment each."""
    sealed = [view(0, size_bytes=350), *(view(n) for n in range(1, 8))]
    assert taken(sealed, History(DAY_MS, 1_000), size_bytes=1_050, cleaned_to=10) == 5, "the clean one, and 400 bytes"
    plan = cleanable(DAY_MS * 30, sealed[:5], CleaningSettings(), cleaned_to=10, stable_offset=10**9)
    assert plan is not None
    assert due(DAY_MS * 30, plan, CleaningSettings(), -1)


@pytest.mark.parametrize("live_bytes", [0, 50, 400, 700, 2_000])
def test_the_size_is_bounded_by_the_history_or_twice_what_is_live(live_bytes: int) -> None:
    """Segment by segment, with a cleaner that leaves exactly what is live."""
    history, segment_bytes, clean_bytes = History(DAY_MS, 1_000), 100, 0
    dirty: list[RetentionView] = []
    read_bytes = written = 0
    for number in range(1, 400):
        dirty.append(view(number))
        written += segment_bytes
        while True:
            first = [view(0, size_bytes=clean_bytes)] if clean_bytes else []
            size_bytes = clean_bytes + segment_bytes * len(dirty)
            assert size_bytes <= max(1_000, 2 * live_bytes) + segment_bytes
            some = behind_history(DAY_MS * 30, [*first, *dirty], history, size_bytes=size_bytes, cleaned_to=10)
            plan = cleanable(DAY_MS * 30, some, CleaningSettings(), cleaned_to=10, stable_offset=10**9)
            if plan is None or not due(DAY_MS * 30, plan, CleaningSettings(), -1):
                break
            read_bytes += plan.clean_bytes + plan.dirty_bytes
            dirty = dirty[plan.dirty_bytes // segment_bytes :]
            clean_bytes = min(live_bytes, clean_bytes + plan.dirty_bytes)
    assert read_bytes <= 2 * written, "a round takes in more than half of what it reads"
