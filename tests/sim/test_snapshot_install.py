"""A follower that missed thousands of commits comes back by checkpoint, and differs in nothing from one that saw all.

State hash, every byte that Fetch gives and every offset are those of a full replay; also after the follower has lost
its power and started from its own disk again, and when the install is cut short by the end of either side.
"""

import random

import pytest
from muster_coordinator.groups.effects import AppliedBatch, Now
from muster_coordinator.groups.shard import GroupShard
from muster_coordinator.ids import FIRST_OFFSETS_GROUP, GroupNo
from muster_coordinator.records.batch import parse_header

from tests.made_settings import shard_config
from tests.records.made import split_batches
from tests.sim import frames, topic_frames
from tests.sim.audit import Audit
from tests.sim.check_offsets import check_offsets
from tests.sim.client import Client, Line, Steps
from tests.sim.cluster import Cluster, Replica, Setup
from tests.sim.committers import Committer
from tests.sim.logs import compare_logs, read_log
from tests.sim.members import GroupPlan, Member
from tests.sim.oracle import Oracle

GROUP = GroupNo(FIRST_OFFSETS_GROUP)
MISSED = 5_000
FETCH_BYTES = 60_000
SETUP = Setup(
    seed="transfer",
    nodes=3,
    partitions=1,
    shard=shard_config(initial_rebalance_delay_ms=0, session_timeout_min_ms=500),
    node={
        "wal_file_bytes": 256 * 1024,
        "wal_bytes_max": 2 * 1024 * 1024,
        "checkpoint_bytes": 64 * 1024,
        "trailing_entries": 20,
        "offsets_segment_bytes": 128 * 1024,
        "segment_flush_ms": 300,
    },
)
PLAN = GroupPlan(
    name="members",
    topic="t",
    partitions=6,
    session_ms=2_000,
    rebalance_ms=2_000,
    heartbeat_ms=200,
    commit_ms=100,
    restless=0.1,
)

pytestmark = [pytest.mark.sim, pytest.mark.timeout(300)]


class Fetcher(Client):
    """All of an offsets partition by Fetch, from one replica that leads it."""

    def __init__(self, cluster: Cluster, replica: Replica) -> None:
        super().__init__(cluster, f"fetcher-{replica.broker}-{cluster.world.now_us}")
        self.replica = replica
        self.found: list[bytes] = []

    def steps(self) -> Steps:
        line = Line(self, self.replica.broker)
        offset = 0
        while True:
            request = topic_frames.fetch_log("__consumer_offsets", 0, offset, FETCH_BYTES)
            part: topic_frames.LogPart = yield from self.ask(line, frames.FETCH_LOG, "", None, request)
            assert part is not None
            assert part.error == 0
            batches = split_batches(part.records, allow_partial=True)
            if not batches:
                assert offset == part.high_watermark
                return
            self.found += [batch for batch in batches if parse_header(batch).base_offset >= offset]
            offset = parse_header(batches[-1]).next_offset


def full_replay(cluster: Cluster, batches: list[bytes]) -> str:
    """State hash of a shard that applied everything from the first offset on."""
    shard = GroupShard(cluster.setup.shard, random.Random(0))
    for batch in batches:
        header = parse_header(batch)
        shard.apply(Now(0, 0), AppliedBatch(header.leader_epoch, header.base_offset, batch))
    return shard.state_hash()


def started() -> tuple[Cluster, Oracle, list[Client]]:
    cluster = Cluster(SETUP)
    oracle = Oracle(cluster)
    cluster.start()
    cluster.world.run_until("serving", cluster.serving, 10_000)
    clients: list[Client] = [
        Committer(cluster, f"c{n}", f"simple-{n % 3}", keys=[("t", p) for p in range(4)], pause_ms=4, reads=0.02)
        for n in range(6)
    ]
    clients += [Member(cluster, f"m{n}", PLAN) for n in range(3)]
    clients.append(Member(cluster, "static", PLAN, "instance"))
    for client in clients:
        client.start()
    cluster.world.run_for(500)
    return cluster, oracle, clients


def commits(cluster: Cluster) -> int:
    leader = cluster.leader_of(GROUP)
    return 0 if leader is None else leader.node.host.groups[GROUP].core.commit


def follower_of(cluster: Cluster) -> Replica:
    leader = cluster.leader_of(GROUP)
    return next(replica for replica in cluster.replicas if replica is not leader)


def miss(cluster: Cluster, missed: int) -> None:
    until = commits(cluster) + missed
    cluster.world.run_until("commits without the follower", lambda: commits(cluster) >= until, 120_000)


def stop(cluster: Cluster, clients: list[Client]) -> None:
    for client in clients:
        client.stop()
    cluster.world.run_until("the clients' end", lambda: all(client.done for client in clients), 20_000)
    cluster.world.run_until("all replicas equal", cluster.settled, 20_000)


def judge(cluster: Cluster, oracle: Oracle) -> None:
    """State, bytes and offsets of all replicas are those of a full replay."""
    first, differences = compare_logs(cluster, GROUP)
    assert differences == []
    assert {replica.node.state_hash(GROUP) for replica in cluster.replicas} == {full_replay(cluster, first)}
    audit = Audit(cluster.history)
    audit.partition(first)
    assert audit.finish() == []
    assert check_offsets(cluster.history) == []
    oracle.look()
    oracle.compare_states()
    assert not cluster.violations, cluster.violations


def installed(replica: Replica) -> int:
    installs = replica.node.formed.installs
    assert installs is not None
    return installs.installed[GROUP]  # the controller group may have fallen behind as well


def test_a_follower_that_missed_5000_commits_is_as_if_it_had_seen_them() -> None:
    cluster, oracle, clients = started()
    follower = follower_of(cluster)
    follower.kill()
    miss(cluster, MISSED)
    follower.start()
    cluster.world.run_for(3_000)
    stop(cluster, clients)
    assert installed(follower) == 1
    judge(cluster, oracle)

    leader = cluster.leader_of(GROUP)
    assert leader is not None
    wanted = fetched(cluster, leader)
    assert wanted == read_log(leader, GROUP)
    assert leader.node.transfer(GROUP, follower.broker)
    cluster.world.run_until("the follower leads", lambda: cluster.leader_of(GROUP) is follower, 5_000)
    cluster.world.run_until("and serves", cluster.serving, 5_000)
    assert fetched(cluster, follower)[: len(wanted)] == wanted

    follower.power_off()
    cluster.world.run_for(1_000)
    follower.start()
    cluster.world.run_until("all replicas equal", cluster.settled, 20_000)
    assert installed(follower) == 0, "from its own disk"
    judge(cluster, oracle)


def fetched(cluster: Cluster, replica: Replica) -> list[bytes]:
    fetcher = Fetcher(cluster, replica)
    fetcher.start()
    cluster.world.run_until("the whole log", lambda: fetcher.done, 20_000)
    return fetcher.found


@pytest.mark.parametrize("seed", range(12))
def test_an_install_that_is_cut_short_is_begun_again(seed: int) -> None:
    """The leader or the follower ends at some boundary of the install."""
    rand = random.Random(seed)
    cluster, oracle, clients = started()
    cluster.on_ended.append(
        lambda replica, power: (
            cluster.world.at(cluster.world.now_us + 400_000, replica.start)
            if replica is not follower or replica.lives > 1
            else None
        )
    )
    follower = follower_of(cluster)
    follower.kill()
    miss(cluster, 700)
    follower.start()
    victim = follower if rand.random() < 0.7 else cluster.leader_of(GROUP)
    assert victim is not None
    victim.end_at_boundary(rand.randint(20, 300), power=rand.random() < 0.5)
    cluster.world.run_for(2_500)
    victim.forgive()
    cluster.world.run_for(1_500)
    stop(cluster, clients)
    judge(cluster, oracle)
