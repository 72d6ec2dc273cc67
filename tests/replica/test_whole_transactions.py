"""Transactions over the wire's bytes in a whole cluster, with its own coordinators: nothing is played by the test.

A producer does what a client library does: it looks for its coordinator, asks again where it is told to, and goes on.
Deaths strike in each window: before the outcome is decided, when it is decided and no marker is written, when some are,
and when all are and the transaction is not complete. In the end a reader of committed data sees what the producer was
told, no partition has an open transaction, and every replica has the same.
"""

from collections.abc import Callable
from typing import Any

import pytest
from muster_coordinator.api.dispatch import Dispatcher
from muster_coordinator.controller.commands import CreateTopic, DeleteTopic
from muster_coordinator.controller.image import TRANSACTIONS_TOPIC
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import COORDINATOR_LOOKUP_WAIT_MS
from muster_coordinator.records.batch import encode_batch, iter_records
from muster_coordinator.replica.transactions import limits
from muster_coordinator.transactions.states import State
from muster_coordinator.wire.versions import Api

from tests.api.kafka_client import KafkaClient, code
from tests.made_settings import api_settings
from tests.replica.cluster import SimCluster
from tests.sim.loop import World
from tests.storage.log_kit import START_MS
from tests.topics.read_committed import batches, delivered

TOPIC_ID = bytes([7]) * 16
PARTITIONS = 3
AGAIN = {
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.LEADER_NOT_AVAILABLE,
    Code.REQUEST_TIMED_OUT,
    Code.NETWORK_EXCEPTION,
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_COORDINATOR,
    Code.NOT_ENOUGH_REPLICAS,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Code.CONCURRENT_TRANSACTIONS,
    Code.OFFSET_NOT_AVAILABLE,
}


class Whole:
    """A cluster with a topic of three partitions, and a producer of it."""

    def __init__(self, seed: int, **settings: Any) -> None:
        self.cluster = SimCluster(World(seed), **settings)
        self.cluster.start()
        data = CreateTopic(name="data", topic_id=TOPIC_ID, partitions=PARTITIONS, configs=())
        assert self.cluster.submit(0, data).error == Code.NONE
        self.cluster.world.run_for(300)
        self.sequences: dict[tuple[int, int, int], int] = {}
        self.log_partitions = 2

    def alive(self) -> int:
        return min(self.cluster.nodes)

    def group(self, topic: str, partition: int) -> GroupNo:
        image = self.cluster.nodes[self.alive()].image()
        assert image is not None
        return GroupNo(image.topics[topic].partitions[partition].group)

    def send(self, broker: int, api: int, version: int, **request: Any) -> list[Any]:
        """The list gets the answer when it comes."""
        node = self.cluster.nodes[broker]
        settings = api_settings(transaction_partitions=self.log_partitions)
        client = KafkaClient(node, dispatcher=Dispatcher(node, settings, verifier=node))
        client.send(api, version, **request)
        answers: list[Any] = []

        def look() -> None:
            if broker in self.cluster.nodes and self.cluster.nodes[broker] is node and not answers:
                answers.extend(client.receive())
                if not answers:
                    self.cluster.loops[broker].call_at(self.cluster.loops[broker].monotonic_ms() + 5, look)

        look()
        return answers

    def ask(self, broker: int, api: int, version: int, **request: Any) -> Any:
        answers = self.send(broker, api, version, **request)
        self.cluster.world.run_until("an answer", lambda: answers, 12_000)
        return answers[0]

    def until(self, what: str, attempt: Callable[[], tuple[int, Any]]) -> Any:
        """As a client: again while the code says so."""
        for _ in range(200):
            found, answer = attempt()
            if found not in AGAIN:
                assert found == 0, (what, found)
                return answer
            self.cluster.world.run_for(100)
        raise AssertionError(f"{what} is never answered")

    def coordinator(self, name: str) -> int:
        def attempt() -> tuple[int, Any]:
            answer = self.ask(self.alive(), Api.FIND_COORDINATOR, 3, key=name, key_type=1)
            gone = answer.node_id not in self.cluster.nodes
            return (15 if code(answer.error_code) == 0 and gone else code(answer.error_code)), answer.node_id

        return int(self.until("FindCoordinator", attempt))

    def of_coordinator(self, name: str, api: int, version: int, **request: Any) -> Any:
        def attempt() -> tuple[int, Any]:
            answer = self.ask(self.coordinator(name), api, version, **request)
            if api != Api.ADD_PARTITIONS_TO_TXN:
                return code(answer.error_code), answer
            (topic,) = answer.results_by_topic_v3_and_below
            return code(topic.results_by_partition[0].partition_error_code), answer

        return self.until(Api(api).name, attempt)

    def init(self, name: str, timeout_ms: int = 60_000) -> tuple[int, int]:
        answer = self.of_coordinator(
            name, Api.INIT_PRODUCER_ID, 4, transactional_id=name, transaction_timeout_ms=timeout_ms
        )
        return answer.producer_id, answer.producer_epoch

    def add(self, name: str, producer: tuple[int, int], *partitions: int) -> None:
        self.of_coordinator(
            name,
            Api.ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[{"name": "data", "partitions": list(partitions)}],
        )

    def write(self, name: str, producer: tuple[int, int], partition: int, value: bytes, *, version: int = 9) -> None:
        key = (*producer, partition)
        sequence = self.sequences.get(key, 0)
        records = encode_batch(
            [(b"k", value)],
            timestamp_ms=START_MS,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            transactional=True,
        )
        group = self.group("data", partition)

        def attempt() -> tuple[int, Any]:
            leader = self.cluster.wait_leader(group)
            answer = self.ask(
                leader,
                Api.PRODUCE,
                version,
                transactional_id=name,
                acks=-1,
                timeout_ms=3_000,
                topic_data=[{"name": "data", "partition_data": [{"index": partition, "records": records}]}],
            )
            (part,) = answer.responses[0].partition_responses
            return code(part.error_code), None

        self.until("Produce", attempt)
        self.sequences[key] = sequence + 1

    def end(self, name: str, producer: tuple[int, int], *, commit: bool, version: int = 4) -> tuple[int, int]:
        answer = self.of_coordinator(
            name,
            Api.END_TXN,
            version,
            transactional_id=name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commit,
        )
        return (answer.producer_id, answer.producer_epoch) if version >= 5 else producer

    def state(self, name: str) -> State:
        answer = self.ask(self.coordinator(name), Api.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[name])
        (found,) = answer.transaction_states
        names = {"".join(part.capitalize() for part in state.name.split("_")): state for state in State}
        return names[found.transaction_state] if code(found.error_code) == 0 else State.DEAD

    def settled(self, name: str) -> None:
        """Wait until no transaction of the id is open or being completed."""

        def attempt() -> tuple[int, Any]:
            at_rest = self.state(name) in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
            return (0 if at_rest else 51), None

        self.until("the transaction's end", attempt)

    def seen(self, partition: int) -> list[bytes]:
        """What a reader of committed data gets of a partition, which must have no open transaction."""
        group = self.group("data", partition)
        found: list[bytes] = []
        offset = 0
        for _ in range(500):
            leader = self.cluster.wait_leader(group)
            parts = [{"partition": partition, "fetch_offset": offset, "partition_max_bytes": 100_000}]
            answer = self.ask(
                leader,
                Api.FETCH,
                11,
                replica_id=-1,
                max_wait_ms=10,
                min_bytes=1,
                max_bytes=1 << 20,
                isolation_level=1,
                topics=[{"topic": "data", "partitions": parts}],
            )
            (part,) = answer.responses[0].partitions
            if code(part.error_code) in AGAIN:
                self.cluster.world.run_for(100)
                continue
            assert code(part.error_code) == 0
            if not part.records:
                assert part.last_stable_offset == part.high_watermark, "a transaction hangs"
                return found
            aborted = [(one.producer_id, one.first_offset) for one in part.aborted_transactions or ()]
            for header in delivered(part.records, aborted):
                found += [value_of(part.records, header.base_offset)]
            offset = batches(part.records)[-1][0].next_offset
        raise AssertionError("the partition has no end")


def value_of(records: bytes, base_offset: int) -> bytes:
    for header, batch in batches(records):
        if header.base_offset == base_offset:
            (record,) = iter_records(batch)
            assert record.value is not None
            return bytes(record.value)
    raise AssertionError(base_offset)


@pytest.mark.parametrize(("produce", "end"), [(9, 4), (12, 5)])
def test_what_is_committed_is_read_and_what_is_aborted_is_not(produce: int, end: int) -> None:
    """By both transaction versions: in the second one partitions are not added, and each end bumps the epoch."""
    it = Whole(1)
    me = it.init("app")
    expected: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for number in range(6):
        commit = number % 3 != 1
        if produce < 12:
            it.add("app", me, *range(PARTITIONS))
        for partition in range(PARTITIONS):
            value = f"{number}-{partition}".encode()
            it.write("app", me, partition, value, version=produce)
            if commit:
                expected[partition].append(value)
        me = it.end("app", me, commit=commit, version=end)
    it.settled("app")
    assert [it.seen(partition) for partition in range(PARTITIONS)] == expected
    assert me[1] == (6 if end >= 5 else 0)
    it.cluster.converge()


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("pause_ms", [0, 2, 4, 6, 8, 12, 20, 40, 80])
def test_the_coordinator_dies_after_a_pause_from_the_question_for_the_end(commit: bool, pause_ms: int) -> None:
    it = Whole(pause_ms + 100)
    me = it.init("app")
    it.add("app", me, *range(PARTITIONS))
    for partition in range(PARTITIONS):
        it.write("app", me, partition, b"%d" % partition)
    dead = it.coordinator("app")
    it.send(
        dead,
        Api.END_TXN,
        4,
        transactional_id="app",
        producer_id=me[0],
        producer_epoch=me[1],
        committed=commit,
    )
    it.cluster.world.run_for(pause_ms)
    it.cluster.kill(dead)
    it.end("app", me, commit=commit)
    it.settled("app")
    expected = [[b"%d" % partition] if commit else [] for partition in range(PARTITIONS)]
    assert [it.seen(partition) for partition in range(PARTITIONS)] == expected
    it.cluster.restart(dead)
    it.cluster.wait_ready()
    it.cluster.converge()
    assert [it.seen(partition) for partition in range(PARTITIONS)] == expected


def test_a_leader_of_the_output_that_is_away_gets_its_marker_when_it_is_back() -> None:
    it = Whole(5, replicas=3)
    me = it.init("app")
    it.add("app", me, 0)
    it.write("app", me, 0, b"v")
    leader = it.cluster.wait_leader(it.group("data", 0))
    it.cluster.kill(leader)
    it.end("app", me, commit=True)
    it.settled("app")
    assert it.seen(0) == [b"v"]
    it.cluster.restart(leader)
    it.cluster.wait_ready()
    it.cluster.converge()


def test_the_next_incarnation_fences_and_aborts_the_one_before() -> None:
    it = Whole(7)
    old = it.init("app")
    it.add("app", old, 0, 1)
    it.write("app", old, 0, b"lost")
    new = it.init("app")
    assert new == (old[0], old[1] + 2)
    answer = it.ask(
        it.coordinator("app"), Api.END_TXN, 4, transactional_id="app", producer_id=old[0], producer_epoch=old[1],
        committed=True,
    )  # fmt: skip
    assert code(answer.error_code) == Code.PRODUCER_FENCED
    it.add("app", new, 0)
    it.write("app", new, 0, b"kept")
    it.end("app", new, commit=True)
    it.settled("app")
    assert it.seen(0) == [b"kept"]


def test_a_producer_that_is_gone_holds_readers_back_for_its_timeout_only() -> None:
    it = Whole(9)
    me = it.init("app", timeout_ms=5_000)
    it.add("app", me, 0)
    it.write("app", me, 0, b"lost")
    it.cluster.world.run_for(7_000)
    it.settled("app")
    assert it.seen(0) == []


def test_a_topic_that_is_deleted_holds_no_transaction_back() -> None:
    it = Whole(11)
    me = it.init("app")
    it.add("app", me, 0, 1)
    it.write("app", me, 0, b"v")
    assert it.cluster.submit(it.alive(), DeleteTopic(topic_id=TOPIC_ID)).error == Code.NONE
    it.end("app", me, commit=True)
    it.settled("app")
    assert it.state("app") is State.COMPLETE_COMMIT


def test_the_log_is_made_once_by_whoever_is_asked_first() -> None:
    it = Whole(13)
    for broker in range(3):
        it.ask(broker, Api.FIND_COORDINATOR, 3, key="app", key_type=1)
    it.init("app")
    image = it.cluster.nodes[0].image()
    assert image is not None
    assert len(image.topics[TRANSACTIONS_TOPIC].partitions) == 2


def test_the_first_question_is_answered_with_its_coordinator_though_fifty_groups_are_made_for_it() -> None:
    it = Whole(14)
    it.log_partitions = 50
    began_us = it.cluster.world.now_us
    answer = it.ask(0, Api.FIND_COORDINATOR, 3, key="app", key_type=1)
    assert (code(answer.error_code), answer.node_id in it.cluster.nodes) == (0, True)
    assert it.cluster.world.now_us - began_us < 2_000 * COORDINATOR_LOOKUP_WAIT_MS
    assert it.init("app")[1] == 0


def test_a_marker_that_no_partition_takes_is_told_until_it_is_not_owed_any_more() -> None:
    """Somebody with the right to it has written markers as a later coordinator; this one's are refused (52)."""
    it = Whole(15)
    me = it.init("app")
    it.add("app", me, 0, 1)
    it.write("app", me, 0, b"v")
    leader = it.cluster.wait_leader(it.group("data", 0))
    marker = {
        "producer_id": me[0],
        "producer_epoch": me[1],
        "transaction_result": False,
        "coordinator_epoch": 2**31 - 1,
        "topics": [{"name": "data", "partition_indexes": [0]}],
    }
    answer = it.ask(leader, Api.WRITE_TXN_MARKERS, 1, markers=[marker])
    assert code(answer.markers[0].topics[0].partitions[0].error_code) == 0
    it.end("app", me, commit=True)
    it.cluster.world.run_for(limits.MARKER_LATE_MS - 1_000)
    nodes = it.cluster.nodes
    assert not any(list(node.late_markers()) for node in nodes.values()), "it may be an election"
    it.cluster.world.run_for(3_000)
    coordinator = nodes[it.coordinator("app")]
    (late,) = coordinator.late_markers()
    assert (late.topic, late.partition, late.late_ms >= limits.MARKER_LATE_MS) == ("data", 0, True)
    assert coordinator.transaction_status()[:3] == (1, 0, 1)
    assert [sum(node.transaction_status().prepared for node in nodes.values())] == [1], "only who leads has it"
    assert it.cluster.submit(it.alive(), DeleteTopic(topic_id=TOPIC_ID)).error == Code.NONE
    it.settled("app")
    assert list(coordinator.late_markers()) == []
    assert coordinator.transaction_status()[:5] == (1, 0, 0, 1, 0)
