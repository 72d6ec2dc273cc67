"""Transactions in a topic of a whole cluster, over the wire's bytes: markers, readers, dead leaders, lost answers.

The transactions' coordinator is played by the test: it says yes to what it is asked, and has markers written through
the same call as the product's. What a reader makes of an answer is Java's way (`tests.topics.read_committed`).
"""

from typing import Any

import pytest
from muster_coordinator.api.dispatch import Dispatcher
from muster_coordinator.controller.commands import CreateTopic
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.limits import KIB, MIB
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.records.control import EndMarker, TransactionMarker
from muster_coordinator.wire.versions import Api

from tests.api.kafka_client import KafkaClient, code
from tests.api.test_transactional_produce import FakeVerifier
from tests.made_settings import api_settings
from tests.replica.cluster import SimCluster
from tests.sim.loop import World
from tests.storage.log_kit import START_MS
from tests.topics.read_committed import batches, delivered

TOPIC_ID = bytes([7]) * 16


class Transactions:
    """A cluster with one partition, and its clients."""

    def __init__(self, seed: int, *, segment_bytes: int = 2_000, **settings: Any) -> None:
        self.cluster = SimCluster(World(seed), **settings)
        self.cluster.start()
        configs = (("retention.ms", "-1"), ("segment.bytes", str(segment_bytes)))
        data = CreateTopic(name="data", topic_id=TOPIC_ID, partitions=1, configs=configs)
        assert self.cluster.submit(0, data).error == Code.NONE
        self.cluster.world.run_for(200)
        image = self.cluster.nodes[0].image()
        assert image is not None
        self.group = GroupNo(image.topics["data"].partitions[0].group)
        self.verifier = FakeVerifier()
        self.sequences: dict[tuple[int, int], int] = {}

    @property
    def leader(self) -> int:
        return self.cluster.wait_leader(self.group)

    def client(self, broker: int) -> KafkaClient:
        node = self.cluster.nodes[broker]
        return KafkaClient(node, dispatcher=Dispatcher(node, api_settings(), verifier=self.verifier))

    def ask(self, broker: int, api: int, version: int, **request: Any) -> Any:
        client = self.client(broker)
        client.send(api, version, **request)
        answers: list[Any] = []

        def there() -> list[Any]:
            answers.extend(client.receive())
            return answers

        self.cluster.world.run_until("an answer", there, 8_000)
        return answers[0]

    def produce(
        self, producer: int, epoch: int = 0, *, broker: int | None = None, version: int = 9, size: int = 100
    ) -> int:
        sequence = self.sequences.get((producer, epoch), 0)
        records = encode_batch(
            [(b"k", b"v" * size)], timestamp_ms=START_MS, producer_id=producer, producer_epoch=epoch,
            base_sequence=sequence, transactional=True,
        )  # fmt: skip
        data = [{"name": "data", "topic_id": TOPIC_ID, "partition_data": [{"index": 0, "records": records}]}]
        answer = self.ask(
            self.leader if broker is None else broker, Api.PRODUCE, version,
            transactional_id="app", acks=-1, timeout_ms=3_000, topic_data=data,
        )  # fmt: skip
        (part,) = answer.responses[0].partition_responses
        if code(part.error_code) == 0:
            self.sequences[producer, epoch] = sequence + 1
        return code(part.error_code)

    def mark(
        self, producer: int, epoch: int = 0, *, commit: bool, coordinator: int = 1, version: int = 1,
        broker: int | None = None, wait_ms: int = 3_000,
    ) -> Code:  # fmt: skip
        broker = self.leader if broker is None else broker
        log = self.cluster.nodes[broker].local_log(self.group)
        assert log is not None
        codes: list[Code] = []
        marker = TransactionMarker(producer, epoch, EndMarker(commit, coordinator), version)
        log.write_marker(marker, deadline_ms=self.cluster.loops[broker].monotonic_ms() + wait_ms, done=codes.append)
        self.cluster.world.run_until("the marker is answered", lambda: codes, wait_ms + 5_000)
        assert len(codes) == 1
        return codes[0]

    def fetch(self, offset: int, *, isolation: int = 1, wait_ms: int = 50) -> Any:
        parts = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 700}]
        answer = self.ask(
            self.leader, Api.FETCH, 11, replica_id=-1, max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20,
            isolation_level=isolation, topics=[{"topic": "data", "partitions": parts}],
        )  # fmt: skip
        (part,) = answer.responses[0].partitions
        assert code(part.error_code) == 0
        return part

    def latest(self, isolation: int, timestamp: int = -1) -> int:
        topics = [{"name": "data", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]
        answer = self.ask(self.leader, Api.LIST_OFFSETS, 7, replica_id=-1, isolation_level=isolation, topics=topics)
        (part,) = answer.topics[0].partitions
        assert code(part.error_code) == 0
        return int(part.offset)

    def seen(self) -> tuple[list[tuple[int, int]], int]:
        """(producer, offset) of all batches that a reader of committed data gets, and where it stands then."""
        found, offset = [], 0
        while True:
            part = self.fetch(offset)
            if not part.records:
                return found, offset
            aborted = [(one.producer_id, one.first_offset) for one in part.aborted_transactions]
            found += [(one.producer_id, one.base_offset) for one in delivered(part.records, aborted)]
            offset = batches(part.records)[-1][0].next_offset


@pytest.mark.parametrize("version", [9, 12])
def test_a_reader_sees_what_was_committed_and_nothing_of_what_was_aborted_also_from_the_next_leaders(version):
    it = Transactions(3)
    first = it.leader
    for number in range(24):
        assert it.produce(1 + number % 3, version=version) == 0
    assert it.latest(0) == 24
    assert it.latest(1) == 0
    assert it.seen() == ([], 0)
    assert it.mark(1, commit=True) is Code.NONE
    assert it.latest(1) == 1
    assert it.mark(2, commit=False) is Code.NONE
    assert it.latest(1) == 2
    wanted = [(1, offset) for offset in range(0, 24, 3)]
    assert it.seen() == ([(1, 0)], 2)
    it.cluster.kill(first)
    assert it.leader != first
    assert it.seen() == ([(1, 0)], 2)
    assert it.mark(3, commit=True, coordinator=2) is Code.NONE
    wanted = sorted([*wanted, *((3, offset) for offset in range(2, 24, 3))], key=lambda one: one[1])
    assert it.latest(0) == it.latest(1) == 27
    assert it.seen() == (wanted, 27)
    it.cluster.restart(first)
    it.cluster.wait_ready()
    it.cluster.converge([it.group])
    second = it.leader
    it.cluster.kill(second)
    assert it.seen() == (wanted, 27)
    assert it.mark(3, commit=False, coordinator=1) is Code.TRANSACTION_COORDINATOR_FENCED
    assert it.produce(3, version=version) == 0
    assert it.seen() == (wanted, 27)


def test_a_marker_whose_answer_was_lost_is_written_once_and_a_late_one_ends_nothing():
    it = Transactions(5)
    assert it.produce(1) == 0
    old = it.leader
    it.cluster.net.isolate(old)
    assert it.mark(1, 1, commit=True, version=2, broker=old, wait_ms=300) is not Code.NONE
    others = [broker for broker in it.cluster.nodes if broker != old]
    new = it.cluster.wait_leader(it.group, among=others)
    log = it.cluster.nodes[new].local_log(it.group)
    assert log is not None
    assert log.open_transaction(1, 0)
    assert it.mark(1, 1, commit=True, version=2, broker=new) is Code.NONE
    assert it.mark(1, 1, commit=True, version=2, broker=new) is Code.NONE
    assert not log.open_transaction(1, 0)
    follower = next(broker for broker in others if broker != new)
    assert it.mark(1, 1, commit=True, version=2, broker=follower) is Code.NOT_LEADER_OR_FOLLOWER
    it.cluster.net.heal()
    it.cluster.converge([it.group])
    assert it.latest(0) == it.latest(1) == 2, "the batch, and one marker"
    assert it.produce(1, 0) == 47
    assert it.produce(1, 1) == 0
    assert it.mark(1, 1, commit=False, version=2) is Code.INVALID_PRODUCER_EPOCH
    assert it.mark(1, 2, commit=True, version=2) is Code.NONE
    assert it.seen() == ([(1, 0), (1, 2)], 4)


SMALL = {
    "wal_file_bytes": 512 * KIB,
    "wal_bytes_max": 4 * MIB,
    "checkpoint_bytes": 20 * KIB,
    "trailing_entries": 10,
    "segment_flush_ms": 1_000,
}


def test_a_replica_that_gets_a_snapshot_knows_what_was_aborted_and_what_is_open():
    it = Transactions(8, partitions=1, segment_bytes=100_000, **SMALL)
    leader = it.leader
    late = next(broker for broker in it.cluster.nodes if broker != leader)
    assert it.produce(1) == 0
    it.cluster.kill(late)
    for number in range(60):
        assert it.produce(1, size=20_000) == 0
        assert it.produce(2) == 0
        if number % 10 == 9:
            assert it.mark(2, commit=False) is Code.NONE
            it.cluster.world.run_for(1_500)
    assert it.seen() == ([], 0)
    it.cluster.restart(late)
    it.cluster.wait_ready()
    installed = it.cluster.nodes[late].install_status
    it.cluster.world.run_until("a snapshot is installed", lambda: installed().installed, 60_000)
    it.cluster.converge([it.group])
    other = next(broker for broker in it.cluster.nodes if broker not in (leader, late))
    it.cluster.kill(leader)
    new = it.leader
    assert it.cluster.nodes[new].transfer(it.group, BrokerId(late)) or new == late
    it.cluster.world.run_until("the late one leads", lambda: it.cluster.leader_of(it.group, [late, other]) == late)
    assert it.seen() == ([], 0)
    assert it.mark(1, commit=True) is Code.NONE
    seen, end = it.seen()
    assert [producer for producer, _ in seen] == [1] * 61
    assert end == 61 + 60 + 7


def test_what_an_open_transaction_holds_back_is_told_and_not_found_by_time():
    it = Transactions(11)
    node = it.cluster.nodes[it.leader]
    assert list(node.open_transactions()) == []
    assert [it.produce(1), it.produce(2)] == [0, 0]
    it.cluster.world.run_for(5_000)
    (held,) = node.open_transactions()
    assert (held.group, held.lag, held.open_ms // 1_000) == (it.group, 2, 5)
    for timestamp in (START_MS, -3):
        assert (it.latest(0, timestamp), it.latest(1, timestamp)) == (0, -1)
    assert it.latest(1, -2) == 0
    assert it.mark(1, commit=True) is Code.NONE
    assert it.latest(1, START_MS) == 0
    (held,) = node.open_transactions()
    assert (held.lag, held.open_ms) == (2, pytest.approx(0, abs=200)), "another one is the oldest now"
    assert all(not list(other.open_transactions()) for other in it.cluster.nodes.values() if other is not node)
    assert it.mark(2, commit=True) is Code.NONE
    assert list(node.open_transactions()) == []
