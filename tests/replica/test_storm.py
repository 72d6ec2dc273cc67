"""Topics and groups under kills, power loss, cut-offs, stalls and lost messages, with tiny logs: everything that was
acknowledged is there in the end, once, and all replicas hold the same bytes; of the offsets log, which each cleans for
itself, the same last values."""

import random
from typing import Any

import pytest
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import GroupAnswer
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import KIB
from muster_coordinator.records.batch import encode_batch, iter_records, parse_header
from muster_coordinator.topics.machine import ProduceResult

from tests.records.made import split_batches
from tests.replica.cluster import SimCluster, commit_request
from tests.sim.loop import World


class Storm:
    """One seed's cluster and what was promised to its clients."""

    def __init__(self, seed: int, **settings: Any) -> None:
        self.rand = rand = random.Random(seed)
        self.world = World(seed)
        self.cluster = SimCluster(
            self.world,
            wal_file_bytes=64 * KIB,
            wal_bytes_max=512 * KIB,
            checkpoint_bytes=rand.choice([4, 10, 40]) * KIB,
            trailing_entries=rand.choice([0, 10, 200]),
            segment_flush_ms=rand.choice([200, 1_000]),
            retention_check_ms=rand.choice([300, 10**6]),
            offsets_segment_bytes=rand.choice([10, 30]) * KIB,
            offsets_history_bytes=rand.choice([30 * KIB, 10**9]),
            cleaner_backoff_ms=300,
            takeback_ms=2_000,
            topic_configs=(
                ("segment.bytes", str(10 * KIB)),
                ("retention.bytes", str(rand.choice([40 * KIB, 10**9]))),
            ),
            **settings,
        )
        self.cluster.start()
        for n in range(2):
            topic = CreateTopic(name=f"t{n}", topic_id=bytes([n + 1]) * 16, partitions=2, configs=())
            assert self.cluster.submit(0, topic).error == Code.NONE
        topics = self.cluster.nodes[0].image().topics.values()
        self.groups = [p.group for topic in topics if not topic.internal for p in topic.partitions]
        self.produced: dict[int, dict[int, bytes]] = {group: {} for group in self.groups}
        self.committed: dict[tuple[int, str], int] = {}
        self.counter = 0

    def produce(self) -> None:
        self.counter += 1
        group = self.rand.choice(self.groups)
        body = b"%d-" % self.counter + bytes(self.rand.randrange(3_000))
        for broker, node in self.cluster.nodes.items():
            log = node.local_log(GroupNo(group))
            if log is not None and log.serving(-1) == Code.NONE:
                loop = self.cluster.loops[broker]
                log.produce(
                    encode_batch([(b"k", body)], timestamp_ms=loop.wall_ms()),
                    configs={},
                    deadline_ms=loop.monotonic_ms() + 3_000,
                    done=lambda result: self.was_produced(group, body, result),
                )
                return

    def was_produced(self, group: int, body: bytes, result: ProduceResult) -> None:
        if result.code == Code.NONE:
            assert result.base_offset not in self.produced[group], "an offset is given once"
            self.produced[group][result.base_offset] = body

    def commit(self) -> None:
        self.counter += 1
        partition, value = self.rand.randrange(3), self.counter
        name = f"g{value % 7}"

        def done(answer: GroupAnswer) -> None:
            if answer.topics[0][1][0][1] == Code.NONE:
                known = self.committed.get((partition, name), -1)
                self.committed[partition, name] = max(known, value)

        for broker, node in self.cluster.nodes.items():
            shard = node.group_manager.shards.get(partition) if node.group_manager is not None else None
            if shard is not None and shard.group.serves:
                node.group_request(partition, commit_request(name, value), self.cluster.context(broker), done)
                return

    def disturb(self) -> None:
        cluster, rand = self.cluster, self.rand
        alive = list(cluster.nodes)
        event = rand.random()
        if event < 0.12 and len(alive) == 3:
            cluster.kill(rand.choice(alive))
        elif event < 0.14:
            for broker in alive:
                cluster.kill(broker)
        elif event < 0.3:
            for broker in [b for b in cluster.brokers if b not in alive and rand.random() < 0.7]:
                cluster.restart(broker)
        elif event < 0.35:
            cluster.net.isolate(rand.choice(cluster.brokers))
            self.world.run_for(rand.choice([100, 800, 3_000]))
            cluster.net.heal()
        elif event < 0.4:
            cluster.net.reset(*rand.sample(cluster.brokers, 2))
        elif event < 0.45:
            cluster.net.loss = rand.choice([0, 0, 0.05])
        elif event < 0.5 and alive:
            loop = cluster.loops[rand.choice(alive)]
            loop.pause()
            self.world.run_for(rand.choice([50, 1_500]))
            loop.resume()

    def heal(self) -> None:
        cluster = self.cluster
        cluster.net.loss = 0
        cluster.net.heal()
        for broker in [b for b in cluster.brokers if b not in cluster.nodes]:
            cluster.restart(broker)
        cluster.wait_ready(ms=60_000)
        self.world.run_for(3_000)
        cluster.converge(ms=30_000)

    def batches(self, broker: int, group: int) -> dict[int, bytes]:
        """Everything a replica's log holds, read as a consumer does."""
        node = self.cluster.nodes[broker]
        state, log = node.group_manager.states[GroupNo(group)], node.local_log(GroupNo(group))
        found: dict[int, bytes] = {}
        offset = state.log_start
        while offset < state.next_offset:
            read = log.read(offset, 64 * KIB, whole_first_batch=True)
            assert read.code == Code.NONE
            for batch in split_batches(read.records):
                header = parse_header(batch)
                found[header.base_offset] = batch
                offset = header.next_offset
        return found

    def judge(self) -> None:
        for group in [1, 2, 3, *self.groups]:
            logs = [self.batches(broker, group) for broker in self.cluster.nodes]
            if group in self.groups:
                assert logs[0] == logs[1] == logs[2]
            else:
                tables = [last_values(log) for log in logs]
                assert tables[0] == tables[1] == tables[2]
            states = [node.group_manager.states[GroupNo(group)] for node in self.cluster.nodes.values()]
            assert len({(s.log_start, s.next_offset, s.log.epochs()) for s in states}) == 1
            for offset, body in self.produced.get(group, {}).items():
                assert offset < states[0].log_start or body in logs[0][offset]
        for (partition, name), value in self.committed.items():
            assert self.fetch(partition, name) >= value

    def fetch(self, partition: int, name: str) -> int:
        """As a client does: asks the next leader when one has just handed over (preferred leaders take back)."""
        for _ in range(5):
            error, offset = self.cluster.fetch(self.cluster.wait_leader(1 + partition), partition, name)
            if error == Code.NONE:
                return offset
            assert error in (Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE)
            self.world.run_for(100)
        raise AssertionError(f"nobody answers for {name}")


def last_values(log: dict[int, bytes]) -> dict[bytes | None, tuple[int, bytes | None]]:
    """Of each key of the offsets log: the offset and value of its last record, without those of tombstones."""
    found = {record.key: (record.offset, record.value) for batch in log.values() for record in iter_records(batch)}
    return {key: last for key, last in found.items() if last[1] is not None}


def weather(seed: int, **settings: Any) -> None:
    """The whole of a seed's storm."""
    storm = Storm(seed, **settings)
    for _ in range(storm.rand.randrange(40, 80)):
        for _ in range(storm.rand.randrange(1, 30)):
            storm.produce()
            storm.commit()
        storm.world.run_for(storm.rand.choice([1, 5, 20, 100, 400]))
        storm.disturb()
    storm.heal()
    storm.judge()
    assert sum(map(len, storm.produced.values())) > 20


@pytest.mark.parametrize("seed", [110, 114, 117, 144, 158, 170, 220, 240])
def test_a_storm_takes_nothing_that_was_acknowledged(seed: int) -> None:
    weather(seed)


@pytest.mark.parametrize("seed", [114, 158, 240])
def test_nor_where_a_segment_is_being_synced_at_each_look(seed: int) -> None:
    """Kills, stalls, retention and cleaning come while such a sync is under way, too."""
    weather(seed, segment_sync_bytes=1)
