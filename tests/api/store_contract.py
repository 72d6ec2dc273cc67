"""What every topic store owes to clients, asked through Kafka's requests; a store's tests are a subclass.

`StoreContract` holds for each store: what it lacks by its capabilities is told in Kafka's codes. `TopicsContract` adds
what a store with topics does. The expectations are those of Kafka's protocol and of protocol notes 12 to 15, not of one
store: offsets ascend, but may have gaps, and a test takes them from answers.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, ClassVar
from uuid import UUID

import pytest
from muster_coordinator.api.dispatch import Dispatcher
from muster_coordinator.api.services import TopicsMode
from muster_coordinator.errors import Code
from muster_coordinator.records.batch import Record, iter_records, parse_header
from muster_coordinator.redis_streams.server import StreamServer
from muster_coordinator.replica.partitions.surface import Surface
from muster_coordinator.topics.stores import Capability, TopicStore
from muster_coordinator.wire.versions import Api

from tests.api.kafka_client import KafkaClient, code
from tests.made_settings import api_settings
from tests.replica.cluster import SimCluster
from tests.sim.loop import World
from tests.topics.batch_bytes import T0, Rec, batch

TRANSACTIONAL = 0x10
_NOT_YET = (Code.NOT_LEADER_OR_FOLLOWER, Code.NOT_ENOUGH_REPLICAS, Code.OFFSET_NOT_AVAILABLE)
"""Codes of a partition whose leader does not serve yet: clients ask again."""
_NAMES = count()


class Agreeing:
    """A coordinator of transactions that knows every partition to be in one."""

    def verify(self, *_: object, done: Callable[[Code], None], **__: object) -> None:
        done(Code.NONE)


class Served:
    """One replica on virtual time, asked by a client; `surface` may put another store in the place of its own."""

    def __init__(
        self,
        mode: TopicsMode,
        surface: Callable[[Any, World], Surface] = lambda node, _: node,
        streams: Callable[[World], StreamServer] | None = None,
        **settings: Any,
    ) -> None:
        self.world = World("stores")
        cluster = SimCluster(self.world, replicas=1, partitions=1, **settings)
        self.cluster = cluster
        cluster.streams = None if streams is None else streams(self.world)
        cluster.start()
        replica = surface(cluster.nodes[0], self.world)
        dispatcher = Dispatcher(replica, api_settings(topics_mode=mode, replication_factor=1), verifier=Agreeing())
        self.client = KafkaClient(replica, dispatcher=dispatcher)

    def ask(self, api: int, version: int, **values: Any) -> Any:
        self.client.send(api, version, **values)
        return self.answer()

    def answer(self) -> Any:
        (answer,) = self.world.run_until("an answer", self.client.receive, 30_000)
        return answer

    # -- topics

    def create(self, name: str, partitions: int = 1, **configs: str) -> int:
        entries = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": entries}
        answer = self.ask(Api.CREATE_TOPICS, 7, topics=[topic], timeout_ms=5_000)
        return code(answer.topics[0].error_code)

    def topic(self, partitions: int = 1, **configs: str) -> str:
        name = f"topic-{next(_NAMES)}"
        assert self.create(name, partitions, **configs) == 0
        self.when_led(name, partitions)
        return name

    def when_led(self, name: str, partitions: int) -> None:
        """Clients ask again while a new partition's leader has not served yet."""
        for partition in range(partitions):
            while self.list_offset(name, -1, partition)[0] in _NOT_YET:
                self.world.run_for(20)

    def metadata(self, name: str) -> tuple[int, UUID | None, int]:
        """(error, id, number of partitions)."""
        (topic,) = self.ask(
            Api.METADATA, 12, topics=[{"topic_id": None, "name": name}], allow_auto_topic_creation=True
        ).topics
        return code(topic.error_code), topic.topic_id, len(topic.partitions)

    def grow(self, name: str, total: int) -> int:
        topic = {"name": name, "count": total, "assignments": None}
        answer = self.ask(Api.CREATE_PARTITIONS, 3, topics=[topic], timeout_ms=5_000, validate_only=False)
        return code(answer.results[0].error_code)

    def delete(self, name: str) -> int:
        answer = self.ask(Api.DELETE_TOPICS, 6, topics=[{"name": name, "topic_id": None}], timeout_ms=5_000)
        return code(answer.responses[0].error_code)

    # -- records

    def produce(self, name: str, records: bytes, partition: int = 0, transactional_id: str | None = None) -> Any:
        data = [{"name": name, "partition_data": [{"index": partition, "records": records}]}]
        values = {"transactional_id": transactional_id, "acks": -1, "timeout_ms": 5_000, "topic_data": data}
        while True:
            part = self.ask(Api.PRODUCE, 9, **values).responses[0].partition_responses[0]
            if code(part.error_code) not in _NOT_YET:
                return part
            self.world.run_for(20)

    def stored(self, name: str, records: bytes, partition: int = 0) -> int:
        """The offset of the first record."""
        answer = self.produce(name, records, partition)
        assert code(answer.error_code) == 0, answer
        return int(answer.base_offset)

    def send_fetch(self, name: str, offsets: Sequence[int], *, wait_ms: int, max_bytes: int, isolation: int) -> None:
        parts = [
            {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
            for index, offset in enumerate(offsets)
        ]
        self.client.send(
            Api.FETCH, 11, replica_id=-1, max_wait_ms=wait_ms, min_bytes=1, max_bytes=max_bytes,
            isolation_level=isolation, session_id=0, session_epoch=-1, topics=[{"topic": name, "partitions": parts}],
        )  # fmt: skip

    def fetch_all(
        self, name: str, *offsets: int, wait_ms: int = 0, max_bytes: int = 50 << 20, isolation: int = 0
    ) -> list[Any]:
        """The parts of the answer, by partition; these offsets of the partitions from 0 on."""
        self.send_fetch(name, offsets, wait_ms=wait_ms, max_bytes=max_bytes, isolation=isolation)
        parts = [part for topic in self.answer().responses for part in topic.partitions]
        return sorted(parts, key=lambda part: part.partition_index)

    def fetch(self, name: str, offset: int, *, wait_ms: int = 0, isolation: int = 0) -> Any:
        return self.fetch_all(name, offset, wait_ms=wait_ms, isolation=isolation)[0]

    def read(self, name: str, offset: int) -> list[Record]:
        """All records from this offset on, by as many fetches as it takes."""
        found: list[Record] = []
        while True:
            got = self.fetch(name, offset)
            assert code(got.error_code) == 0
            if not got.records:
                return found
            for one in batches_of(got.records):
                found += [record for record in iter_records(one) if record.offset >= offset]
            offset = parse_header(batches_of(got.records)[-1]).next_offset

    def list_offset(self, name: str, timestamp: int, partition: int = 0) -> tuple[int, int, int]:
        """(error, offset, timestamp)."""
        parts = [{"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}]
        answer = self.ask(
            Api.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=[{"name": name, "partitions": parts}]
        )
        (part,) = answer.topics[0].partitions
        return code(part.error_code), part.offset, part.timestamp

    def delete_records(self, name: str, offset: int) -> tuple[int, int]:
        """(error, log start)."""
        parts = [{"partition_index": 0, "offset": offset}]
        answer = self.ask(Api.DELETE_RECORDS, 2, topics=[{"name": name, "partitions": parts}], timeout_ms=5_000)
        (part,) = answer.topics[0].partitions
        return code(part.error_code), part.low_watermark

    def commit(self, name: str, offset: int) -> int:
        part = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1}
        part["committed_metadata"] = ""
        answer = self.ask(
            Api.OFFSET_COMMIT, 8, group_id="g", generation_id_or_member_epoch=-1, member_id="",
            group_instance_id=None, topics=[{"name": name, "partitions": [part]}],
        )  # fmt: skip
        return code(answer.topics[0].partitions[0].error_code)


def batches_of(records: bytes) -> list[bytes]:
    found = []
    while records:
        size = parse_header(records).size_bytes
        found.append(records[:size])
        records = records[size:]
    return found


def one(value: bytes, **more: Any) -> bytes:
    return batch([Rec(key=None, value=value)], **more)


class StoreContract:
    """What holds for every store. One replica serves all tests of a class: topics are each test's own."""

    store: ClassVar[TopicStore]

    @classmethod
    def made(cls) -> Served:
        """A replica with this store."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def served(cls) -> Served:
        return cls.made()

    def test_topics_can_be_made_or_the_client_is_told_that_there_are_none(self, served: Served) -> None:
        can = self.store.can(Capability.TOPICS)
        assert served.create("made") == (Code.NONE if can else Code.POLICY_VIOLATION)
        assert served.metadata("made")[0] == (Code.NONE if can else Code.UNKNOWN_TOPIC_OR_PARTITION)

    def test_a_commit_names_a_topic_that_exists_if_the_store_knows_topics(self, served: Served) -> None:
        expected = Code.UNKNOWN_TOPIC_OR_PARTITION if self.store.can(Capability.TOPICS) else Code.NONE
        assert served.commit("never-made", 5) == expected

    def test_what_asks_for_a_topic_that_does_not_exist_is_told_so(self, served: Served) -> None:
        absent = Code.UNKNOWN_TOPIC_OR_PARTITION
        assert code(served.produce("never-made", one(b"v")).error_code) == absent
        assert code(served.fetch("never-made", 0).error_code) == absent
        assert served.list_offset("never-made", -1) == (absent, -1, -1)
        assert served.delete_records("never-made", 0) == (absent, -1)
        assert (served.grow("never-made", 3), served.delete("never-made")) == (absent, absent)


class TopicsContract(StoreContract):
    """What a store with topics does."""

    def test_compaction_is_offered_or_refused_when_a_topic_is_made_and_when_it_is_changed(self, served: Served) -> None:
        expected = Code.NONE if self.store.can(Capability.COMPACTION) else Code.INVALID_CONFIG
        name = f"compacted-{next(_NAMES)}"
        assert served.create(name, cleanup_policy="compact") == expected
        name = served.topic()
        change = {"name": "cleanup.policy", "config_operation": 0, "value": "compact,delete"}
        resource = {"resource_type": 2, "resource_name": name, "configs": [change]}
        answer = served.ask(Api.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
        assert code(answer.responses[0].error_code) == expected

    def test_transactions_are_offered_or_refused(self, served: Served) -> None:
        name = served.topic()
        first = one(b"open", attributes=TRANSACTIONAL, producer_id=77, producer_epoch=0, sequence=0)
        answer = served.produce(name, first, transactional_id="tx")
        if not self.store.can(Capability.TRANSACTIONS):
            assert code(answer.error_code) == Code.UNSUPPORTED_FOR_MESSAGE_FORMAT
            added = served.ask(
                Api.ADD_PARTITIONS_TO_TXN, 3, v3_and_below_transactional_id="tx", v3_and_below_producer_id=77,
                v3_and_below_producer_epoch=0, v3_and_below_topics=[{"name": name, "partitions": [0]}],
            )  # fmt: skip
            (part,) = added.results_by_topic_v3_and_below[0].results_by_partition
            assert code(part.partition_error_code) == Code.UNSUPPORTED_FOR_MESSAGE_FORMAT
            assert served.read(name, 0) == []
            return
        assert code(answer.error_code) == 0
        assert served.fetch(name, answer.base_offset).records, "isolation 0 sees it"
        stable = served.fetch(name, answer.base_offset, isolation=1)
        assert (stable.records, stable.last_stable_offset) == (b"", answer.base_offset)

    def test_a_topic_is_made_grown_and_deleted_and_another_of_its_name_is_empty(self, served: Served) -> None:
        name = served.topic(partitions=2)
        error, first_id, partitions = served.metadata(name)
        assert (error, partitions) == (0, 2)
        first = served.stored(name, one(b"old"), partition=1)
        assert (served.grow(name, 2), served.grow(name, 3)) == (Code.INVALID_PARTITIONS, 0)
        assert served.metadata(name) == (0, first_id, 3)
        served.when_led(name, 3)
        assert served.stored(name, one(b"new"), partition=2) >= 0
        assert [record.value for record in iter_records(served.fetch_all(name, 0, first)[1].records)] == [b"old"]

        assert served.delete(name) == 0
        assert code(served.produce(name, one(b"late")).error_code) == Code.UNKNOWN_TOPIC_OR_PARTITION
        assert served.create(name) == 0
        served.when_led(name, 1)
        _, second_id, partitions = served.metadata(name)
        assert (second_id != first_id, partitions) == (True, 1)
        assert served.read(name, served.list_offset(name, -2)[1]) == []

    def test_records_come_back_as_they_were_produced_and_in_order(self, served: Served) -> None:
        name = served.topic()
        headers = ((b"twice", b"1"), (b"twice", None), (b"empty", b""))
        sent = [
            Rec(key=None, value=None, delta_ms=5),
            Rec(key=b"", value=b"", delta_ms=0),
            Rec(key=b"k", value=bytes(range(256)), delta_ms=9, headers=headers),
        ]
        first = served.stored(name, batch(sent))
        second = served.stored(name, batch([Rec(key=b"last", value=b"v")]))
        got = served.read(name, first)
        assert [(r.key, r.value, r.timestamp_ms) for r in got] == [
            (None, None, T0 + 5), (b"", b"", T0), (b"k", bytes(range(256)), T0 + 9), (b"last", b"v", T0)
        ]  # fmt: skip
        assert got[2].headers == (("twice", b"1"), ("twice", None), ("empty", b""))
        offsets = [record.offset for record in got]
        assert (offsets[0], offsets[3], sorted(set(offsets))) == (first, second, offsets)

    def test_every_offset_may_be_asked_for_and_what_lies_outside_is_out_of_range(self, served: Served) -> None:
        name = served.topic()
        assert served.fetch(name, 0).records == b"", "an empty log begins at 0"
        served.stored(name, batch([Rec(value=bytes([n])) for n in range(4)]))
        served.stored(name, batch([Rec(value=bytes([n])) for n in range(4, 7)]))
        everything = served.read(name, 0)
        assert [record.value for record in everything] == [bytes([n]) for n in range(7)]
        for index, record in enumerate(everything):
            assert served.read(name, record.offset) == everything[index:]
        end = served.list_offset(name, -1)[1]
        at_end = served.fetch(name, end)
        assert (code(at_end.error_code), at_end.records, at_end.high_watermark) == (0, b"", end)
        assert code(served.fetch(name, end + 1).error_code) == Code.OFFSET_OUT_OF_RANGE
        assert code(served.fetch(name, -5).error_code) == Code.OFFSET_OUT_OF_RANGE

    def test_offsets_are_found_by_time(self, served: Served) -> None:
        name = served.topic()
        assert (served.list_offset(name, -2)[:2], served.list_offset(name, -1)[:2]) == ((0, 0), (0, 0))
        assert served.list_offset(name, T0) == (0, -1, -1), "an empty log has none"
        first = served.stored(name, batch([Rec(delta_ms=0), Rec(delta_ms=20)]))
        third = served.stored(name, batch([Rec(delta_ms=30)]))
        offsets = [record.offset for record in served.read(name, 0)]
        assert served.list_offset(name, T0 - 1) == (0, first, T0)
        assert served.list_offset(name, T0 + 1) == (0, offsets[1], T0 + 20)
        assert served.list_offset(name, T0 + 20) == (0, offsets[1], T0 + 20)
        assert served.list_offset(name, T0 + 30) == (0, third, T0 + 30)
        assert served.list_offset(name, T0 + 31) == (0, -1, -1)
        assert served.list_offset(name, -1)[1] > third

    def test_deleted_records_are_gone_and_the_log_begins_after_them(self, served: Served) -> None:
        name = served.topic()
        served.stored(name, batch(3))
        second = served.stored(name, batch(2))
        end = served.list_offset(name, -1)[1]
        assert served.delete_records(name, end + 1) == (Code.OFFSET_OUT_OF_RANGE, -1)
        assert served.delete_records(name, second) == (0, second)
        assert served.list_offset(name, -2)[:2] == (0, second)
        assert code(served.fetch(name, 0).error_code) == Code.OFFSET_OUT_OF_RANGE
        assert served.read(name, second)[0].offset == second
        assert served.delete_records(name, 0) == (0, second), "the start never moves back"
        assert served.delete_records(name, -1) == (0, end), "all of it"
        assert served.read(name, end) == []
        assert served.stored(name, one(b"next")) >= end, "no offset is given twice"

    def test_a_fetch_waits_for_records_and_is_answered_when_they_come(self, served: Served) -> None:
        name = served.topic()
        client, loop = served.client, served.client.surface.loop
        served.send_fetch(name, [0], wait_ms=400, max_bytes=1 << 20, isolation=0)
        began_ms = loop.monotonic_ms()
        got = served.answer().responses[0].partitions[0]
        assert (code(got.error_code), got.records) == (0, b"")
        assert loop.monotonic_ms() - began_ms >= 400, "max_wait_ms"

        writer = KafkaClient(client.surface, dispatcher=client.dispatcher)
        served.send_fetch(name, [0], wait_ms=60_000, max_bytes=1 << 20, isolation=0)
        served.world.run_for(500)
        assert client.receive() == []
        data = [{"name": name, "partition_data": [{"index": 0, "records": one(b"news")}]}]
        writer.send(Api.PRODUCE, 9, transactional_id=None, acks=-1, timeout_ms=5_000, topic_data=data)
        got = served.answer().responses[0].partitions[0]
        assert [record.value for record in iter_records(got.records)] == [b"news"]
        assert len(served.world.run_until("the producer's answer", writer.receive, 5_000)) == 1

    def test_the_limit_of_bytes_holds_over_all_partitions_but_one_batch_always_comes(self, served: Served) -> None:
        name = served.topic(partitions=3)
        for partition in range(3):
            for _ in range(2):
                served.stored(name, one(b"x" * 1_000), partition)
        whole = [len(part.records) for part in served.fetch_all(name, 0, 0, 0)]
        each = whole[0] // 2
        assert whole == [2 * each] * 3
        assert [len(p.records) for p in served.fetch_all(name, 0, 0, 0, max_bytes=1)] == [each, 0, 0]
        assert [len(p.records) for p in served.fetch_all(name, 0, 0, 0, max_bytes=3 * each)] == [2 * each, each, 0]
        end = served.list_offset(name, -1)[1]
        assert [len(p.records) for p in served.fetch_all(name, end, 0, 0, max_bytes=1)] == [0, each, 0]

    def test_an_idempotent_producers_batch_is_stored_once(self, served: Served) -> None:
        name = served.topic()

        def send(sequence: int, epoch: int = 0, records: int = 2) -> Any:
            return served.produce(name, batch(records, producer_id=900, producer_epoch=epoch, sequence=sequence))

        first, second = send(0), send(2)
        again = send(0)
        assert [code(answer.error_code) for answer in (first, second, again)] == [0, 0, 0]
        assert again.base_offset == first.base_offset < second.base_offset
        assert code(send(9).error_code) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert code(send(0, epoch=1).error_code) == 0
        assert code(send(4, epoch=0).error_code) == Code.INVALID_PRODUCER_EPOCH
        assert len(served.read(name, 0)) == 6

    def test_a_batch_that_is_too_large_or_damaged_is_refused_whole(self, served: Served) -> None:
        name = served.topic(max_message_bytes="500")
        assert code(served.produce(name, one(b"x" * 500)).error_code) == Code.MESSAGE_TOO_LARGE
        damaged = bytearray(one(b"value"))
        damaged[-1] ^= 1
        assert code(served.produce(name, bytes(damaged)).error_code) == Code.CORRUPT_MESSAGE
        assert (served.read(name, 0), served.list_offset(name, -1)[1]) == ([], 0)
