"""Real clients on a real replica whose topics are in a real Redis: produce, groups, kills of both; and the ten steps of
document 004, each asked and answered in its own frames."""

import subprocess
import sys
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from kafka import KafkaConsumer, KafkaProducer
from muster_coordinator.records.batch import encode_batch, iter_records
from muster_coordinator.redis_streams.entry_ids import EntryId, Offsets

from tests.api.store_contract import batches_of
from tests.cluster import MusterCluster, wait_until
from tests.integration.second_client import SecondClient
from tests.redis_streams.redis_server import Connection, RedisServer
from tests.watermarks import watermarks

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
OFFSETS = Offsets.of_bits(10)
PATIENCE_S = 90.0


def make_topic(cluster: MusterCluster, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(PATIENCE_S)
    resource = ConfigResource(ResourceType.TOPIC, name)
    configs = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    assert configs["topic.store"].value == "redis"


def send(cluster: MusterCluster, topic: str, values: list[bytes], partitions: int | None = None) -> None:
    """By an idempotent producer that tries until it is told; each is told once. `partitions`: to each in turn; else
    where the producer likes, which may be one for all."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "message.timeout.ms": 1000 * PATIENCE_S}
    )
    failed: list[KafkaError] = []
    for number, value in enumerate(values):
        where = {} if partitions is None else {"partition": number % partitions}
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None, **where)
    left = producer.flush(PATIENCE_S)
    assert (left, failed) == (0, [])


class Reader:
    """A librdkafka consumer of a group; what it reads it keeps, and commits when it is told to."""

    def __init__(self, cluster: MusterCluster, topic: str, group: str, reset: str = "earliest") -> None:
        self.values: list[bytes] = []
        self.places: list[tuple[int, int, bytes]] = []
        """(partition, offset, value) of each of them."""
        self.refused = ""
        self.consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap, "group.id": group, "auto.offset.reset": reset,
                "enable.auto.commit": False, "session.timeout.ms": 45_000,
            }
        )  # fmt: skip
        self.consumer.subscribe([topic])

    def read(self, count: int, seconds: float = PATIENCE_S) -> list[bytes]:
        """So many more records; and their positions are committed."""
        before = len(self.values)

        def enough() -> bool:
            message = self.consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.values.append(message.value() or b"")
                self.places.append((message.partition() or 0, message.offset() or 0, self.values[-1]))
            return len(self.values) >= before + count

        wait_until(f"{count} records; there are {len(self.values) - before}", enough, seconds, every=0)
        try:
            wait_until("a commit", self._committed, PATIENCE_S, every=0.5)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.refused}") from None
        return self.values[before:]

    def _committed(self) -> bool:
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as error:  # of a coordinator that is not back yet
            self.refused = str(error)
            return False
        return True


def entries_of(redis: RedisServer, topic: str, partitions: int) -> list[bytes]:
    """The values in all streams of a topic, as a program that knows only Redis reads them."""
    connection = redis.connect()
    found = []
    for partition in range(partitions):
        for _, fields in connection.ask("XRANGE", f"muster:{{{topic}:{partition}}}", "-", "+"):
            found.append(fields[fields.index(b"v") + 1])
    return found


def test_groups_keep_their_positions_through_kills_of_the_replica_and_of_redis(
    cluster: MusterCluster, redis: RedisServer
) -> None:
    make_topic(cluster, "orders", 3)
    first = [b"first-%d" % n for n in range(300)]
    send(cluster, "orders", first)
    plain = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", compression_type="gzip")
    headers = [("twice", b"1"), ("twice", b"2"), ("empty", b"")]
    placed = plain.send("orders", key=b"k", value=b"plain", headers=headers, partition=1, timestamp_ms=1_234).get(60)
    plain.close()
    assert sorted(entries_of(redis, "orders", 3)) == sorted([*first, b"plain"])

    reader = Reader(cluster, "orders", "librdkafka")
    assert sorted(reader.read(301)) == sorted([*first, b"plain"])
    other = KafkaConsumer(
        "orders", bootstrap_servers=cluster.bootstrap, group_id="kafka-python", auto_offset_reset="earliest",
        enable_auto_commit=False,
    )  # fmt: skip
    seen: list[Any] = []

    def all_seen() -> bool:
        # Not less: see POLL_MS of `clients/members/kafka_python_member.py`.
        seen.extend(record for records in other.poll(2_000).values() for record in records)
        return len(seen) >= 301

    wait_until("kafka-python has read all", all_seen, PATIENCE_S)
    (found,) = [record for record in seen if record.value == b"plain"]
    assert (found.key, found.timestamp, found.offset, list(found.headers)) == (b"k", 1_234, placed.offset, headers)
    other.commit()
    other.close()

    newest = Reader(cluster, "orders", "newest", reset="latest")
    wait_until("an assignment", lambda: newest.consumer.poll(0.1) or newest.consumer.assignment(), PATIENCE_S)
    wait_until("positions at the end", lambda: newest.consumer.poll(0.5) is None, PATIENCE_S)
    send(cluster, "orders", [b"new-%d" % n for n in range(20)])
    assert sorted(reader.read(20)) == sorted(b"new-%d" % n for n in range(20))

    cluster.kill(0)
    cluster.start_replica(0)
    second = [b"second-%d" % n for n in range(100)]
    send(cluster, "orders", second)
    assert sorted(reader.read(100)) == sorted(second)

    redis.kill()
    with pytest.raises(AssertionError):
        reader.read(1, seconds=3)
    redis.start()
    third = [b"third-%d" % n for n in range(100)]
    send(cluster, "orders", third)
    assert sorted(reader.read(100)) == sorted(third)
    everything = entries_of(redis, "orders", 3)
    assert sorted(everything) == sorted([*first, b"plain", *(b"new-%d" % n for n in range(20)), *second, *third])
    assert sorted(reader.values) == sorted(everything), "each record once"

    again = Reader(cluster, "orders", "kafka-python")
    after = again.read(220)
    assert sorted(after) == sorted(set(everything) - {*first, b"plain"}), "the other group goes on from its commit"
    for one in (reader, newest, again):
        one.consumer.close()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics(["orders"])["orders"].result(PATIENCE_S)
    wait_until("the streams are gone", lambda: redis.connect().ask("KEYS", "muster:{orders:*") == [], 30)


def test_a_server_that_keeps_nothing_is_refused_until_somebody_agrees(
    cluster: MusterCluster, redis: RedisServer
) -> None:
    """`redis.durability` is aof here: without an append-only file nothing is taken, and the producer is told why."""
    make_topic(cluster, "kept", 1)
    send(cluster, "kept", [b"v"])
    redis.connect().ask("CONFIG", "SET", "appendonly", "no")
    try:
        cluster.kill(0)
        cluster.start_replica(0)
        client = SecondClient(cluster.port)
        data = [
            {
                "name": "kept",
                "partition_data": [{"index": 0, "records": bytes(encode_batch([(None, b"lost")], timestamp_ms=1))}],
            }
        ]

        def told() -> str | None:
            answer = client.ask("Produce", 9, transactional_id=None, acks=-1, timeout_ms=5_000, topic_data=data)
            (part,) = answer.responses[0].partition_responses
            assert part.error_code != 0
            return part.error_message

        wait_until("the reason", lambda: told() == "redis.durability is aof, and it has no append-only file", 30)
        client.close()
    finally:
        redis.connect().ask("CONFIG", "SET", "appendonly", "yes")
    cluster.kill(0)
    cluster.start_replica(0)
    send(cluster, "kept", [b"after"])
    assert entries_of(redis, "kept", 1) == [b"v", b"after"]


class Steps:
    """The frames of one consumer of document 004, with what was asked and answered at each step."""

    def __init__(self, port: int) -> None:
        self.client = SecondClient(port)
        self.said: list[tuple[str, dict[str, Any], Any]] = []

    def ask(self, api: str, version: int, **asked: Any) -> Any:
        answer = self.client.ask(api, version, **asked)
        self.said.append((api, asked, answer))
        return answer

    def retried(self, api: str, version: int, **asked: Any) -> Any:
        """Until the code at the top is none that a client tries again for."""
        return wait_until(
            f"{api}",
            lambda: (got := self.ask(api, version, **asked)) and (got.error_code not in (14, 15, 16)) and got,
            30,
        )


def join(steps: Steps) -> tuple[str, int]:
    """Steps 1 to 5: (member id, generation)."""
    versions = steps.ask("ApiVersions", 3, client_software_name="document", client_software_version="4")
    assert versions.error_code == 0
    topic = steps.ask("Metadata", 9, topics=[{"name": "steps"}]).topics[0]
    assert (topic.error_code, len(topic.partitions)) == (0, 1)
    steps.retried("FindCoordinator", 3, key="my-consumer-group", key_type=0)
    member = {
        "group_id": "my-consumer-group", "session_timeout_ms": 45_000, "rebalance_timeout_ms": 300_000,
        "group_instance_id": None, "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\1\0\5steps\xff\xff\xff\xff"}],
    }  # fmt: skip
    first = steps.retried("JoinGroup", 7, member_id="", **member)
    joined = first if first.error_code == 0 else steps.ask("JoinGroup", 7, member_id=first.member_id, **member)
    assert (joined.error_code, joined.leader, joined.protocol_name) == (0, joined.member_id, "range")
    mine = b"\0\0\0\0\0\1\0\5steps\0\0\0\1\0\0\0\0\xff\xff\xff\xff"
    synced = steps.ask(
        "SyncGroup", 5, group_id="my-consumer-group", generation_id=joined.generation_id, member_id=joined.member_id,
        group_instance_id=None, protocol_type="consumer", protocol_name="range",
        assignments=[{"member_id": joined.member_id, "assignment": mine}],
    )  # fmt: skip
    assert (synced.error_code, bytes(synced.assignment)) == (0, mine)
    return joined.member_id, joined.generation_id


def committed(steps: Steps) -> int:
    """Step 6."""
    groups = [{"name": "steps", "partition_indexes": [0]}]
    answer = steps.ask("OffsetFetch", 5, group_id="my-consumer-group", topics=groups)
    (part,) = answer.topics[0].partitions
    assert (answer.error_code, part.error_code) == (0, 0)
    return int(part.committed_offset)


def listed(steps: Steps, timestamp: int) -> int:
    """Step 7."""
    parts = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}]
    (part,) = (
        steps.ask("ListOffsets", 5, isolation_level=0, topics=[{"name": "steps", "partitions": parts}])
        .topics[0]
        .partitions
    )
    assert part.error_code == 0
    return int(part.offset)


def fetched(steps: Steps, offset: int, wait_ms: int = 500) -> list[tuple[int, bytes | None]]:
    """Step 8."""
    parts = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1_048_576, "current_leader_epoch": -1}]
    answer = steps.ask(
        "Fetch", 11, max_wait_ms=wait_ms, min_bytes=1, max_bytes=50 << 20, isolation_level=0, session_id=0,
        session_epoch=-1, topics=[{"topic": "steps", "partitions": parts}], rack_id="",
    )  # fmt: skip
    (part,) = answer.responses[0].partitions
    assert part.error_code == 0
    records = [record for one in batches_of(bytes(part.records or b"")) for record in iter_records(one)]
    return [(record.offset, record.value) for record in records if record.offset >= offset]


def test_the_ten_steps_of_document_004(cluster: MusterCluster, redis: RedisServer) -> None:
    make_topic(cluster, "steps", 1)
    send(cluster, "steps", [b"1", b"2", b"3"])
    stream: Connection = redis.connect()
    ids = [EntryId.parse(entry) for entry, _ in stream.ask("XRANGE", "muster:{steps:0}", "-", "+")]
    offsets = [(one.milliseconds << 10) | one.sequence for one in ids]

    steps = Steps(cluster.port)
    member, generation = join(steps)
    assert committed(steps) == -1, "a new group"
    assert (listed(steps, -2), listed(steps, -1)) == (0, offsets[-1] + 1)
    assert fetched(steps, 0) == list(zip(offsets, (b"1", b"2", b"3"), strict=True))
    assert fetched(steps, offsets[1]) == [(offsets[1], b"2"), (offsets[2], b"3")], "a rewind: fetch_offset counts"
    began = time.monotonic()
    assert fetched(steps, offsets[2] + 1) == []
    assert time.monotonic() - began >= 0.499, "max_wait_ms, of a clock that counts whole milliseconds"
    part = {
        "partition_index": 0,
        "committed_offset": offsets[1] + 1,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    done = steps.ask(
        "OffsetCommit", 7, group_id="my-consumer-group", generation_id_or_member_epoch=generation, member_id=member,
        group_instance_id=None, topics=[{"name": "steps", "partitions": [part]}],
    )  # fmt: skip
    assert done.topics[0].partitions[0].error_code == 0
    beat = {
        "group_id": "my-consumer-group",
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": None,
    }
    assert steps.ask("Heartbeat", 3, **beat).error_code == 0
    members = [{"member_id": member, "group_instance_id": None}]
    assert steps.ask("LeaveGroup", 3, group_id="my-consumer-group", members=members).members[0].error_code == 0

    names = [api for api, _, _ in steps.said]
    order = [
        "ApiVersions", "Metadata", "FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "ListOffsets", "Fetch",
        "OffsetCommit", "Heartbeat", "LeaveGroup",
    ]  # fmt: skip
    assert list(dict.fromkeys(names)) == order
    assert stream.ask("XINFO", "GROUPS", "muster:{steps:0}") == [], "positions are not in Redis"

    redis.kill()
    redis.start()
    cluster.kill(0)
    cluster.start_replica(0)
    after = Steps(cluster.port)
    join(after)
    assert committed(after) == offsets[1] + 1
    assert wait_until("the partition serves", lambda: fetched_or_none(after, offsets[1] + 1), 30) == [
        (offsets[2], b"3")
    ]
    assert listed(after, -1) == offsets[2] + 1
    for one in (steps, after):
        one.client.close()


def fetched_or_none(steps: Steps, offset: int) -> list[tuple[int, bytes | None]] | None:
    try:
        return fetched(steps, offset)
    except AssertionError:  # 6 while the new leader does not serve, 56 while Redis is loading
        return None


def test_streams_that_were_there_before_are_consumed_committed_and_continued(
    cluster: MusterCluster, redis: RedisServer
) -> None:
    """As a program has written them that knows nothing of Kafka, and goes on; the topic is made by the command."""
    program: Connection = redis.connect()

    def add(partition: int, *values: bytes) -> list[tuple[int, int, bytes]]:
        """(partition, offset, value)"""
        added = []
        for value in values:
            entry = EntryId.parse(program.ask("XADD", f"korvet:orders:{partition}", "*", "unit", "C", "data", value))
            added.append((partition, entry.milliseconds * 4_096 + entry.sequence, value))
        return added

    before = [one for partition in range(3) for one in add(partition, b"a%d" % partition, b"b%d" % partition)]
    command = [
        sys.executable, "-m", "muster_coordinator.cli.main", "topic", "create", "there", "--bootstrap-server",
        cluster.bootstrap, "--partitions", "3", "--config", "redis.stream=korvet:orders:{partition}", "--config",
        "redis.value.field=data", "--set", "redis.sequence.bits=12",
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=PATIENCE_S)

    def read_by(reader: Reader, count: int) -> list[tuple[int, int, bytes]]:
        seen = len(reader.places)
        reader.read(count)
        return sorted(reader.places[seen:])

    first = Reader(cluster, "there", "korvet")
    assert read_by(first, 6) == sorted(before)
    first.consumer.close()
    meanwhile = [*add(0, b"c0"), *add(2, b"c2")]
    send(cluster, "there", [b"ours"])
    second = Reader(cluster, "there", "korvet")
    found = read_by(second, 3)
    assert [one for one in found if one[2] != b"ours"] == meanwhile, "from what was committed on"
    ((partition, offset, _),) = [one for one in found if one[2] == b"ours"]
    ((entry, _),) = program.ask("XREVRANGE", f"korvet:orders:{partition}", "+", "-", "COUNT", 1)
    assert EntryId.parse(entry) == (offset // 4_096, offset % 4_096)

    cluster.kill(0)
    redis.kill()
    redis.start()
    cluster.start_replica(0)
    program = redis.connect()
    last = add(1, b"last")
    assert read_by(second, 1) == last, "through kills of both"
    second.consumer.close()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_topics(["there"])["there"].result(PATIENCE_S)
    beside = ("KEYS", "muster:{korvet:orders:?}:state:*")
    wait_until("what was ours is gone", lambda: program.ask(*beside) == [], PATIENCE_S)
    assert sum(program.ask("XLEN", f"korvet:orders:{partition}") for partition in range(3)) == 6 + 2 + 1 + 1


def test_seek_by_offset_and_by_time(cluster: MusterCluster) -> None:
    make_topic(cluster, "sought", 1)
    send(cluster, "sought", [b"%d" % n for n in range(50)])
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "seeker", "enable.auto.commit": False})
    consumer.assign([TopicPartition("sought", 0, 0)])
    found: list[Any] = []

    def read(count: int) -> list[Any]:
        found.clear()

        def enough() -> bool:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append(message)
            return len(found) >= count

        wait_until("records", enough, PATIENCE_S, every=0)
        return list(found)

    everything = read(50)
    assert [message.value() for message in everything] == [b"%d" % n for n in range(50)]
    middle = everything[20].offset()
    consumer.seek(TopicPartition("sought", 0, middle))
    assert read(1)[0].value() == b"20"
    first_ms = OFFSETS.id_of(everything[0].offset()).milliseconds
    (by_time,) = consumer.offsets_for_times([TopicPartition("sought", 0, first_ms)], PATIENCE_S)
    assert by_time.offset == everything[0].offset()
    low, high = watermarks(consumer, TopicPartition("sought", 0))
    assert (low, high) == (0, everything[-1].offset() + 1)
    consumer.close()
