"""A snapshot install converges whenever the link carries one and a half times the write rate.

A follower is so far behind that it needs a checkpoint, writers go on, and every link carries 1.5 times what they write,
install and log together. Checkpoints are replaced and the log is compacted all the while. The follower is level again
within what the spare half needs for what it lacked, twice over, and it has fetched little more than that.
"""

from random import Random
from typing import NamedTuple

import pytest
from muster_coordinator.ids import FIRST_OFFSETS_GROUP, GroupNo
from muster_coordinator.raft.limits import APPEND_BYTES_MAX
from muster_coordinator.raft.progress import ProgressState

from tests.made_settings import shard_config
from tests.sim import frames, link_faults
from tests.sim.client import Steps
from tests.sim.cluster import Cluster, Replica, Setup
from tests.sim.committers import Committer, row
from tests.sim.history import CommitAsk
from tests.sim.logs import compare_logs
from tests.sim.oracle import Oracle

GROUP = GroupNo(FIRST_OFFSETS_GROUP)
KIB = 1024
WAL_BYTES = 16 * 1024 * KIB
"""What is written while a follower fetches a checkpoint fits in: that it needs next, and it stays for so long."""
LINK_SHARE = 1.5
FETCHED_MOST = 1.2
BEHIND_MOST = 1_000
"""Entries: who is so close counts as caught up (replica.maintenance.preferred)."""
MEASURED_MS = 1_000
SLACK_MS = 3_000
"""Until the follower is linked and is offered a checkpoint, and for its restarts."""

pytestmark = [pytest.mark.sim, pytest.mark.timeout(300)]


class Load(NamedTuple):
    """Of the writers, and what the follower misses of it."""

    writers: int
    row_bytes: int
    missed_bytes: int
    checkpoint_bytes: int
    segment_bytes: int


def drawn(seed: int) -> Load:
    rand = Random(f"converges/{seed}")
    return Load(
        writers=rand.randint(2, 5),
        row_bytes=rand.choice((300, 1_500, 3_500)),
        missed_bytes=rand.choice((400, 800, 1_600)) * KIB,
        checkpoint_bytes=rand.choice((64, 128)) * KIB,
        segment_bytes=rand.choice((64, 256)) * KIB,
    )


class Writer(Committer):
    """Commits of a size, as fast as they are answered."""

    def __init__(self, cluster: Cluster, number: int, row_bytes: int) -> None:
        super().__init__(cluster, f"w{number}", f"g{number}", keys=[("t", 0)], pause_ms=4, reads=0.0)
        self.row_bytes = row_bytes

    def _commit(self, line) -> Steps:  # type: ignore[no-untyped-def]
        one = row(self.cluster, "t", 0, "x" * self.row_bytes)
        ask = CommitAsk(-1, "", None, (one,))
        request = self.dialect.commit(self.group, -1, "", None, (one,))
        codes = yield from self.ask(line, frames.COMMIT, self.group, ask, request)
        self._after(set((codes or {}).values()))


def made(load: Load, seed: int) -> tuple[Cluster, Oracle, list[Writer]]:
    cluster = Cluster(
        Setup(
            seed=f"converges/{seed}",
            partitions=1,
            shard=shard_config(initial_rebalance_delay_ms=0),
            node={
                "wal_file_bytes": 256 * KIB,
                "wal_bytes_max": WAL_BYTES,
                "checkpoint_bytes": load.checkpoint_bytes,
                "trailing_entries": 20,
                "offsets_segment_bytes": load.segment_bytes,
                "segment_flush_ms": 300,
            },
        )
    )
    oracle = Oracle(cluster)
    cluster.start()
    cluster.world.run_until("serving", cluster.serving, 10_000)
    writers = [Writer(cluster, number, load.row_bytes) for number in range(load.writers)]
    for writer in writers:
        writer.start()
    cluster.world.run_for(500)
    return cluster, oracle, writers


class Meter:
    """Bytes on the link from the leader to one follower."""

    def __init__(self, cluster: Cluster, sender: int, receiver: int) -> None:
        self.bytes = 0
        inner = cluster.net.watch

        def watch(source: int, target: int, wal_writer: int, payload: bytes) -> None:
            if (source, target) == (sender, receiver):
                self.bytes += len(payload)
            if inner is not None:
                inner(source, target, wal_writer, payload)

        cluster.net.watch = watch


def stored_bytes(replica: Replica) -> int:
    """Of the partition's segments."""
    disk = replica.disk
    return sum(
        len(disk.content(path))
        for path in disk.files()
        if path.startswith(f"segments/{GROUP}/") and path.endswith("log")
    )


def newest_checkpoint(replica: Replica) -> int:
    group_manager = replica.node.group_manager
    assert group_manager is not None
    found = group_manager.checkpoints.newest(GROUP)
    assert found is not None
    return found[0].next_offset


def is_level(leader: Replica, follower: Replica, behind_most: float = BEHIND_MOST) -> bool:
    """The leader counts it as a voter that is close to its end; it has made what it fetched its own."""
    core = leader.node.host.groups[GROUP].core
    progress = core.progresses[follower.broker]
    held = follower.node.host.groups.get(GROUP)
    return (
        progress.state is ProgressState.REPLICATE
        and core.last_index - progress.match <= behind_most
        and held is not None
        and not held.installing
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_follower_far_behind_is_level_again_on_a_link_of_one_and_a_half_times_the_write_rate(seed: int) -> None:
    load = drawn(seed)
    cluster, oracle, writers = made(load, seed)
    leader = cluster.leader_of(GROUP)
    assert leader is not None
    follower, healthy = (replica for replica in cluster.replicas if replica is not leader)
    meter = Meter(cluster, leader.broker, healthy.broker)
    follower.kill()
    had = stored_bytes(follower)
    core = leader.node.host.groups[GROUP].core
    began_at = core.last_index
    cluster.world.run_for(MEASURED_MS)
    rate = meter.bytes / MEASURED_MS
    of_an_append = APPEND_BYTES_MAX * (core.last_index - began_at) / meter.bytes
    goal = stored_bytes(leader) + load.missed_bytes
    cluster.world.run_until("enough is missed", lambda: stored_bytes(leader) >= goal, 120_000)

    first_index, newest, behind = core.log.first_index, newest_checkpoint(leader), stored_bytes(leader) - had
    link_faults.limit_rate(cluster.net, round(LINK_SHARE * rate))
    follower.start()
    bound_ms = SLACK_MS + 2 * behind / ((LINK_SHARE - 1) * rate)
    cluster.world.run_until("the follower is level", lambda: is_level(leader, follower), bound_ms)
    assert cluster.leader_of(GROUP) is leader
    assert core.log.first_index > first_index, "the log was compacted meanwhile"
    assert newest_checkpoint(leader) > newest, "and newer checkpoints took the place of the one that was offered"
    fetched = follower.node.install_status()
    assert fetched.installed >= 1, "it was so far behind that it needed a checkpoint"
    assert fetched.received_bytes <= FETCHED_MOST * (stored_bytes(leader) - had)
    for _ in range(20):
        cluster.world.run_for(100)
        # It is acknowledged append by append, and what is written until the next one counts as behind.
        assert is_level(leader, follower, BEHIND_MOST + of_an_append), "and it stays level, on the same link"
    assert is_level(leader, follower)
    link_faults.calm(cluster.net)
    for writer in writers:
        writer.stop()
    cluster.world.run_until("all replicas equal", cluster.settled, 20_000)
    assert compare_logs(cluster, GROUP)[1] == []
    oracle.look()
    oracle.compare_states()
    assert not cluster.violations, cluster.violations
