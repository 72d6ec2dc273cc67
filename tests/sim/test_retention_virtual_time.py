"""A topic's records go when their time is over, on all replicas alike, in hours of virtual time.

A record is written every five minutes; half-way comes a failover or a restart of everybody from checkpoints, and a step
of all wall clocks by an hour either way. Whatever comes, a record is never gone before its retention (less the step
forward), never kept much longer (plus the step back), and all replicas begin at the same offset.
"""

import pytest
from muster_coordinator.api.services import TopicsMode
from muster_coordinator.controller.commands import CommandResult, CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.topics.machine import ProduceResult

from tests.sim.cluster import Cluster, Replica, Setup
from tests.sim.logs import compare_logs
from tests.sim.oracle import Oracle
from tests.sim.rare_looks import TIMING, rare_looks

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
RETENTION_MS = 80 * MINUTE_MS
CHECK_MS = 5 * MINUTE_MS
EVERY_MS = 5 * MINUTE_MS
BATCHES_PER_SEGMENT = 4
SLACK_MS = BATCHES_PER_SEGMENT * EVERY_MS + 2 * CHECK_MS
TOPIC = CreateTopic(
    name="data",
    topic_id=bytes([7]) * 16,
    partitions=1,
    configs=(("retention.ms", str(RETENTION_MS)), ("segment.bytes", "10000")),
)
SETUP = Setup(
    seed="retention",
    nodes=3,
    partitions=1,
    topics_mode=TopicsMode.EMBEDDED,
    node={
        "wal_file_bytes": 64 * 1024,
        "wal_bytes_max": 1024 * 1024,
        "checkpoint_bytes": 8 * 1024,
        "trailing_entries": 1,
        "segment_flush_ms": 1_000,
        "retention_check_ms": CHECK_MS,
        "timing": TIMING,
    },
)

__all__ = ("rare_looks",)
pytestmark = [pytest.mark.sim, pytest.mark.timeout(300)]


class Topic:
    """One topic partition of a cluster, and when each of its records was written."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.written_ms: list[float] = []
        created: list[CommandResult] = []
        node = cluster.replicas[0].node
        node.submit(TOPIC, deadline_ms=node.loop.monotonic_ms() + MINUTE_MS, done=created.append)
        cluster.world.run_until("the topic", lambda: created and self._image(), 2 * MINUTE_MS)
        assert created[0].error == Code.NONE
        self.group = GroupNo(self._image().topics["data"].partitions[0].group)

    def _image(self):  # type: ignore[no-untyped-def]
        image = self.cluster.replicas[0].node.image()
        return image if image is not None and "data" in image.topics else None

    def leader(self) -> Replica:
        def found() -> Replica | None:
            leader = self.cluster.leader_of(self.group)
            return leader if leader is not None and leader.node.host.groups[self.group].serves else None

        leader: Replica = self.cluster.world.run_until("a leader of the topic", found, 5 * MINUTE_MS)
        return leader

    def write(self) -> None:
        leader = self.leader()
        results: list[ProduceResult] = []
        loop = leader.node.loop
        log = leader.node.local_log(self.group)
        assert log is not None
        log.produce(
            encode_batch([(b"k", bytes(2_500))], timestamp_ms=loop.wall_ms()),
            configs=dict(TOPIC.configs),
            deadline_ms=loop.monotonic_ms() + MINUTE_MS,
            done=results.append,
        )
        self.cluster.world.run_until("an answer", lambda: results, 2 * MINUTE_MS)
        assert (results[0].code, results[0].base_offset) == (Code.NONE, len(self.written_ms))
        self.written_ms.append(self.now_ms())

    def now_ms(self) -> float:
        return self.cluster.world.now_us / 1000

    def starts(self) -> set[int]:
        """Of all replicas that have the partition already: after a start it follows from the controller's log."""
        states = [replica.node.group_manager.states.get(self.group) for replica in self.cluster.up()]
        return {state.log_start for state in states if state is not None}


def nothing(topic: Topic) -> None:
    """Leaders and processes stay."""


def fail_over(topic: Topic) -> None:
    leader = topic.leader()
    leader.power_off()
    topic.cluster.world.run_for(MINUTE_MS)
    assert topic.leader() is not leader
    leader.start()


def restart_all(topic: Topic) -> None:
    for replica in topic.cluster.replicas:
        assert any(path.startswith(f"checkpoints/{topic.group}/") for path in replica.disk.files())
        replica.kill()
    for replica in topic.cluster.replicas:
        replica.start()


@pytest.mark.parametrize("step_ms", [0, HOUR_MS, -HOUR_MS])
@pytest.mark.parametrize("event", [nothing, fail_over, restart_all])
def test_records_go_in_time(event, step_ms: int) -> None:  # type: ignore[no-untyped-def]
    cluster = Cluster(SETUP)
    oracle = Oracle(cluster)
    cluster.start()
    cluster.world.run_until("serving", cluster.serving, 2 * MINUTE_MS)
    topic = Topic(cluster)
    gone = 0
    for number in range(40):
        topic.write()
        cluster.world.run_for(EVERY_MS)
        if number == 12:
            event(topic)
            for replica in cluster.replicas:
                replica.wall_us += step_ms * 1000
                assert replica.life is not None
                replica.life.loop.step_wall(step_ms)
        start = max(topic.starts(), default=gone)
        if start > gone:
            youngest_ms = topic.now_ms() - topic.written_ms[start - 1]
            assert youngest_ms > RETENTION_MS - max(0, step_ms) - MINUTE_MS, f"record {start - 1} went too early"
            gone = start
        oldest_ms = topic.now_ms() - topic.written_ms[start]
        assert oldest_ms < RETENTION_MS + max(0, -step_ms) + SLACK_MS, f"record {start} is still there"
    assert gone > 10

    cluster.world.run_until("all replicas equal", cluster.settled, 10 * MINUTE_MS)
    assert len(topic.starts()) == 1
    oracle.look()
    oracle.compare_states()
    batches, differences = compare_logs(cluster, topic.group)
    assert differences == []
    assert int.from_bytes(batches[0][:8], "big") == topic.starts().pop()
    assert not cluster.violations, cluster.violations
