"""Offsets expire when their time is over, in hours of virtual time: not before, not never, whoever leads by then.

A failover, or a restart of everybody from checkpoints, comes half-way; so does a step of all wall clocks by an hour
either way. A step may shift expiry by as much as it moved the clock, and by nothing more: a sweep that meets the jump
does nothing, and the timestamps in the log are what they are. Offsets of topics that a stable group subscribes to, and
of a group that has members, stay for ever.
"""

import pytest
from muster_coordinator.ids import FIRST_OFFSETS_GROUP, GroupNo

from tests.made_settings import shard_config
from tests.sim import frames
from tests.sim.client import Client, Steps
from tests.sim.cluster import Cluster, Setup
from tests.sim.committers import Row, read_all, row
from tests.sim.history import CommitAsk
from tests.sim.logs import compare_logs
from tests.sim.members import GroupPlan, Member
from tests.sim.oracle import Oracle
from tests.sim.rare_looks import TIMING, rare_looks

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
RETENTION_MS = 120 * MINUTE_MS
CHECK_MS = 5 * MINUTE_MS
SLACK_MS = 2 * CHECK_MS + MINUTE_MS
"""A sweep that met the jump leaves its work to the next one."""
SETUP = Setup(
    seed="expiry",
    nodes=3,
    partitions=1,
    shard=shard_config(
        initial_rebalance_delay_ms=0, offsets_retention_ms=RETENTION_MS, offsets_retention_check_ms=CHECK_MS
    ),
    node={
        "wal_file_bytes": 64 * 1024,
        "wal_bytes_max": 1024 * 1024,
        "checkpoint_bytes": 1024,
        "trailing_entries": 1,
        "segment_flush_ms": 1_000,
        "timing": TIMING,
    },
)
PLAN = GroupPlan(
    name="stable",
    topic="subscribed",
    partitions=1,
    session_ms=30 * MINUTE_MS,
    rebalance_ms=MINUTE_MS,
    heartbeat_ms=MINUTE_MS,
    commit_ms=1_000 * HOUR_MS,
    restless=0.0,
    zombies=0.0,
)

__all__ = ("rare_looks",)
pytestmark = [pytest.mark.sim, pytest.mark.timeout(300)]


class Probe(Client):
    """Commits and reads as the test says."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, "probe")
        self.answers: list[object] = []

    def commit(self, group: str, topic: str, generation: int = -1, member: str = "") -> None:
        self.spawn(self._commit(group, row(self.cluster, topic, 0), generation, member))
        self._one()

    def _commit(self, group: str, one: Row, generation: int, member: str) -> Steps:
        while True:
            line = yield from self.coordinator(group)
            ask = CommitAsk(generation, member, None, (one,))
            request = self.dialect.commit(group, generation, member, None, (one,))
            codes = yield from self.ask(line, frames.COMMIT, group, ask, request)
            if codes is not None and set(codes.values()) == {0}:
                self.answers.append(codes)
                return
            self.hang_up()
            yield from self.sleep(200)

    def present(self, group: str, topic: str) -> bool:
        """Is there an offset for (topic, 0)?"""
        self.spawn(self._read(group, topic))
        answer = self._one()
        assert isinstance(answer, frames.Fetched)
        return answer.offsets[topic, 0].offset >= 0

    def _read(self, group: str, topic: str) -> Steps:
        self.answers.append((yield from read_all(self, group, ((topic, 0),), self.cluster.up()[0].broker)))

    def _one(self) -> object:
        self.world.run_until("an answer", lambda: self.answers, 5 * MINUTE_MS)
        return self.answers.pop()


def nothing(cluster: Cluster) -> None:
    """Leaders and processes stay."""


def fail_over(cluster: Cluster) -> None:
    leader = cluster.leader_of(GroupNo(FIRST_OFFSETS_GROUP))
    assert leader is not None
    leader.power_off()
    cluster.world.run_until("another leader", cluster.serving, 10 * MINUTE_MS)
    assert cluster.leader_of(GroupNo(FIRST_OFFSETS_GROUP)) is not leader
    leader.start()


def restart_all(cluster: Cluster) -> None:
    """Everybody comes back from its checkpoint."""
    for replica in cluster.replicas:
        assert any(path.startswith(f"checkpoints/{FIRST_OFFSETS_GROUP}/") for path in replica.disk.files())
        replica.kill()
    for replica in cluster.replicas:
        replica.start()
    cluster.world.run_until("serving again", cluster.serving, 10 * MINUTE_MS)


def minutes(cluster: Cluster, wanted_ms: int, since_us: int) -> None:
    """Let time pass until `wanted_ms` after `since_us`."""
    left_ms = wanted_ms - (cluster.world.now_us - since_us) / 1000
    if left_ms > 0:
        cluster.world.run_for(left_ms)


@pytest.mark.parametrize("step_ms", [0, HOUR_MS, -HOUR_MS])
@pytest.mark.parametrize("event", [nothing, fail_over, restart_all])
def test_offsets_expire_in_time(event, step_ms: int) -> None:  # type: ignore[no-untyped-def]
    cluster = Cluster(SETUP)
    oracle = Oracle(cluster)
    cluster.start()
    cluster.world.run_until("serving", cluster.serving, 2 * MINUTE_MS)
    probe = Probe(cluster)
    member = Member(cluster, "member", PLAN)
    member.start()
    cluster.world.run_until("a stable group", lambda: member.stable, 5 * MINUTE_MS)
    for number in range(30):
        probe.commit("simple", f"filler-{number}")
    committed_us = cluster.world.now_us
    probe.commit("simple", "old")
    probe.commit("stable", "subscribed", member.generation, member.member)
    probe.commit("stable", "dropped", member.generation, member.member)

    minutes(cluster, RETENTION_MS // 4, committed_us)
    event(cluster)
    for replica in cluster.replicas:
        replica.wall_us += step_ms * 1000
        assert replica.life is not None
        replica.life.loop.step_wall(step_ms)
    minutes(cluster, RETENTION_MS // 3, committed_us)
    renewed_us = cluster.world.now_us
    probe.commit("simple", "renewed")

    early_ms = RETENTION_MS - max(0, step_ms) - MINUTE_MS
    minutes(cluster, early_ms, committed_us)
    assert probe.present("simple", "old"), "expired before its time"
    assert probe.present("stable", "dropped")
    minutes(cluster, RETENTION_MS + max(0, -step_ms) + SLACK_MS, committed_us)
    assert not probe.present("simple", "old"), "never expired"
    assert not probe.present("stable", "dropped"), "nobody subscribes to it any more"
    assert probe.present("stable", "subscribed")
    if (cluster.world.now_us - renewed_us) // 1000 < RETENTION_MS - MINUTE_MS:
        assert probe.present("simple", "renewed"), "a commit counts from itself"
    minutes(cluster, RETENTION_MS + SLACK_MS, renewed_us)
    assert not probe.present("simple", "renewed")
    assert member.stable

    cluster.world.run_until("all replicas equal", cluster.settled, 10 * MINUTE_MS)
    oracle.look()
    oracle.compare_states()
    assert compare_logs(cluster, GroupNo(FIRST_OFFSETS_GROUP))[1] == []
    assert not cluster.violations, cluster.violations
