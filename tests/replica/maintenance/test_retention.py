"""What is forgotten is forgotten by the log: the same on every replica, and never more than the rule says."""

import pytest
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import KIB
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.replica.maintenance import retention
from muster_coordinator.replica.maintenance.retention import Retention

from tests.replica.cluster import SimCluster
from tests.replica.snapshots.test_recovery import commit_many
from tests.sim.loop import World

CONFIGS = (("retention.bytes", "20000"), ("segment.bytes", "10000"))
TOPIC = CreateTopic(name="data", topic_id=bytes([7]) * 16, partitions=1, configs=CONFIGS)


def produce(cluster: SimCluster, group: int, count: int) -> list:
    leader = cluster.wait_leader(group)
    results: list = []
    log = cluster.nodes[leader].local_log(GroupNo(group))
    now = cluster.loops[leader]
    for n in range(count):
        batch = encode_batch([(b"key%d" % n, bytes(500))], timestamp_ms=now.wall_ms())
        log.produce(batch, configs={}, deadline_ms=now.monotonic_ms() + 5_000, done=results.append)
        cluster.world.run_for(2)
    cluster.world.run_until("answers", lambda: len(results) == count)
    return results


def topic_group(cluster: SimCluster) -> int:
    created = cluster.submit(0, TOPIC)
    assert created.error == Code.NONE, created
    return cluster.nodes[0].image().topics["data"].partitions[0].group


def test_produced_batches_get_their_offsets_and_are_read_back() -> None:
    cluster = SimCluster(World(1))
    cluster.start()
    group = topic_group(cluster)
    results = produce(cluster, group, 10)
    assert [result.code for result in results] == [Code.NONE] * 10
    assert [result.base_offset for result in results] == list(range(10))
    cluster.converge()
    for node in cluster.nodes.values():
        read = node.local_log(GroupNo(group)).read(3, 1 << 20, whole_first_batch=True)
        assert (read.code, read.high_watermark) == (Code.NONE, 10)


def test_produce_at_a_follower_and_past_the_deadline() -> None:
    cluster = SimCluster(World(2))
    cluster.start()
    group = topic_group(cluster)
    leader = cluster.wait_leader(group)
    batch = encode_batch([(b"k", b"v")], timestamp_ms=cluster.loops[leader].wall_ms())
    results: list = []
    other = next(b for b in cluster.nodes if b != leader)
    log = cluster.nodes[other].local_log(GroupNo(group))
    log.produce(batch, configs={}, deadline_ms=10**12, done=results.append)
    assert results.pop().code == Code.NOT_LEADER_OR_FOLLOWER
    cluster.net.isolate(leader)
    deadline_ms = cluster.loops[leader].monotonic_ms() + 300
    cluster.nodes[leader].local_log(GroupNo(group)).produce(
        batch, configs={}, deadline_ms=deadline_ms, done=results.append
    )
    cluster.world.run_for(290)
    assert not results
    cluster.world.run_for(50)
    assert results.pop().code == Code.REQUEST_TIMED_OUT


def test_a_topics_old_segments_go_on_every_replica_alike() -> None:
    cluster = SimCluster(World(3), retention_check_ms=1_000, segment_flush_ms=500)
    cluster.start()
    group = topic_group(cluster)
    produce(cluster, group, 100)
    cluster.world.run_for(5_000)
    starts = {node.group_manager.states[GroupNo(group)].log_start for node in cluster.nodes.values()}
    assert len(starts) == 1
    start = starts.pop()
    assert 0 < start < 100
    for node in cluster.nodes.values():
        log = node.local_log(GroupNo(group))
        assert log.read(start - 1, 1_000, whole_first_batch=True).code == Code.OFFSET_OUT_OF_RANGE
        size = node.group_manager.states[GroupNo(group)].log.size_bytes()
        assert 20_000 <= size <= 30_000 + 10_000
    before = cluster.hashes(group)
    for broker in list(cluster.nodes):
        cluster.kill(broker)
        cluster.restart(broker)
        cluster.wait_ready()
    cluster.converge()
    assert {node.group_manager.states[GroupNo(group)].log_start for node in cluster.nodes.values()} == {start}
    assert {h for _, h in cluster.hashes(group)} == {h for _, h in before}


def test_delete_records_moves_the_start_and_refuses_what_is_not_there() -> None:
    cluster = SimCluster(World(4))
    cluster.start()
    group = topic_group(cluster)
    produce(cluster, group, 10)
    leader = cluster.wait_leader(group)
    log = cluster.nodes[leader].local_log(GroupNo(group))
    results: list = []
    for offset, code, start in ((4, Code.NONE, 4), (11, Code.OFFSET_OUT_OF_RANGE, -1), (-1, Code.NONE, 10)):
        log.delete_records(offset, deadline_ms=cluster.loops[leader].monotonic_ms() + 5_000, done=results.append)
        cluster.world.run_until("an answer", lambda: results)
        result = results.pop()
        assert (result.code, result.offset) == (code, start)
    cluster.converge()


def test_offsets_history_below_the_checkpoint_goes_when_it_is_too_large() -> None:
    cluster = SimCluster(
        World(5),
        retention_check_ms=500,
        segment_flush_ms=500,
        checkpoint_bytes=30 * KIB,
        offsets_segment_bytes=20 * KIB,
        offsets_history_bytes=50 * KIB,
        internal_compacts=False,
    )
    cluster.start()
    commit_many(cluster, 0, 0, 600)
    cluster.world.run_for(3_000)
    starts = {node.group_manager.states[GroupNo(1)].log_start for node in cluster.nodes.values()}
    assert len(starts) == 1
    assert starts.pop() > 0
    state = cluster.nodes[0].group_manager.states[GroupNo(1)]
    assert 50 * KIB <= state.log.size_bytes() <= 90 * KIB
    for broker in list(cluster.nodes):
        cluster.kill(broker)
    for broker in cluster.brokers:
        cluster.restart(broker)
    cluster.wait_ready()
    cluster.converge()
    assert cluster.fetch(cluster.wait_leader(1), 0, "group-49", "topic" * 20) == (Code.NONE, 599)


def test_offsets_history_without_a_checkpoint_stays() -> None:
    cluster = SimCluster(
        World(6), retention_check_ms=500, offsets_segment_bytes=20 * KIB, offsets_history_bytes=30 * KIB
    )
    cluster.start()
    commit_many(cluster, 0, 0, 400)
    cluster.world.run_for(3_000)
    assert {node.group_manager.states[GroupNo(1)].log_start for node in cluster.nodes.values()} == {0}


def test_a_check_interval_shorter_than_a_walk_starts_no_second_walk_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """`log.retention.check.interval.ms` may be 1."""
    slices: dict[int, list[int]] = {}
    original = Retention._slice

    def counted(self: Retention) -> None:
        slices.setdefault(id(self), []).append(self._loop.monotonic_ms())
        original(self)

    monkeypatch.setattr(Retention, "_slice", counted)
    monkeypatch.setattr(retention, "SLICE_GROUPS", 1)
    cluster = SimCluster(World(7), replicas=1, partitions=40, retention_check_ms=1)
    cluster.start()
    cluster.wait_leader(1)
    cluster.world.run_for(1_000)
    slices.clear()
    cluster.world.run_for(2_000)
    (times,) = slices.values()
    assert 0 < len(times) <= 2_000 // retention.SLICE_MS + 10, "one walk at a time"
    assert len(times) > 1_900 // (retention.SLICE_MS + 2), "and the next one after it"
