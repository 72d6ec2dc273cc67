"""One Raft group between two turns: what must not be applied, and what must be answered."""

import pytest
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import KIB
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.replica import limits
from muster_coordinator.replica.group_manager import TOPICS_WAL
from muster_coordinator.replica.multiraft import host as host_module
from muster_coordinator.replica.multiraft.raft_group import RaftGroup

from tests.replica.cluster import SimCluster, commit_request, fetch_request, fetched
from tests.sim.loop import Latency, World

GROUP = GroupNo(1)
SECOND_US = 1_000_000


def test_nothing_is_applied_while_a_checkpoint_is_installed_not_even_what_the_last_turn_left(monkeypatch) -> None:
    """A turn's budget ends before the queue does; then the files are closed to be swapped; then the next turn comes."""
    monkeypatch.setattr(host_module, "APPLY_BYTES_PER_TURN_MAX", 4 * KIB)
    cluster = SimCluster(World(1), partitions=1)
    cluster.start()
    leader = cluster.wait_leader(GROUP)
    behind = next(broker for broker in cluster.nodes if broker != leader)
    cluster.net.cut(leader, behind)
    answers = [cluster.ask_later(leader, 0, commit_request("g", n)) for n in range(100)]
    cluster.world.run_until("commits", lambda: all(answers), 5_000)
    cluster.net.restore(leader, behind)
    host, group = cluster.nodes[behind].host, cluster.nodes[behind].host.groups[GROUP]
    cluster.world.run_until("a turn that left something", lambda: GROUP in host._applying and group._queue)
    group.installing = True
    cluster.nodes[behind].group_manager.states[GROUP].close()
    applied = group.applied
    cluster.world.run_for(200)
    assert group.applied == applied


def test_a_turn_that_took_its_time_visits_no_further_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Applying is slow here: 5 ms an entry. The other groups wait for the next turn, where messages move in between."""
    cluster = SimCluster(World(3), replicas=1, partitions=6)
    cluster.start()
    host = cluster.nodes[0].host
    visits: list[tuple[int, GroupNo]] = []
    apply_some = RaftGroup.apply_some

    def slow(group: RaftGroup, budget: int) -> int:
        visits.append((host.turns, group.number))
        cluster.world.now_us += 1_000 * (limits.APPLY_MS_PER_TURN_MAX + 1)
        return apply_some(group, budget)

    monkeypatch.setattr(RaftGroup, "apply_some", slow)
    answers = [cluster.ask_later(0, partition, commit_request("g", 1)) for partition in range(6)]
    cluster.world.run_until("commits", lambda: all(answers), 5_000)
    assert {number for _, number in visits} >= {GroupNo(n) for n in range(1, 7)}
    turns = [turn for turn, _ in visits]
    assert len(set(turns)) == len(turns), "one visit a turn"


def test_a_single_replica_answers_every_read_while_another_wal_is_stuck() -> None:
    """Its reads need no round of heartbeats; no heartbeat leaves meanwhile, so the round that they share never
    comes."""
    cluster = SimCluster(World(2), replicas=1, partitions=1)
    cluster.start()
    assert cluster.commit(0, 0, "g", 7) == Code.NONE
    created = cluster.submit(0, CreateTopic(name="data", topic_id=bytes([1]) * 16, partitions=1, configs=()))
    assert created.error == Code.NONE
    topic = cluster.nodes[0].image().topics["data"].partitions[0].group
    cluster.wait_leader(topic)
    cluster.loops[0].latency[TOPICS_WAL] = Latency(20 * SECOND_US, 20 * SECOND_US)
    clock = cluster.loops[0]
    batch = encode_batch([(b"k", b"v")], timestamp_ms=clock.wall_ms())
    log = cluster.nodes[0].local_log(GroupNo(topic))
    log.produce(batch, configs={}, deadline_ms=clock.monotonic_ms() + 30_000, done=lambda result: None)
    cluster.world.run_for(3_000)
    answers = []
    for _ in range(5):
        answers.append(cluster.ask_later(0, 0, fetch_request("g")))
        cluster.world.run_for(50)
    assert [fetched(answer[0]) for answer in answers if answer] == [(Code.NONE, 7)] * 5
