"""Groups of every kind live on a cluster, leave their traces in its offsets log, and are described by Kafka's own tool.

`live_on` needs only a bootstrap address, so the same life runs against Apache Kafka and against Muster (`modern=False`:
without what Muster does not have yet: KIP-848 groups and transactions).
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.heartbeat.v3.request import HeartbeatRequest
from kio.schema.offset_commit.v2.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64, i64Timedelta

from tests import kafka_tools
from tests.cluster import wait_until
from tests.pipeline.golden import kafka_view
from tests.raw_client import RawClient

TOPICS = {"flights": 3, "weather": 2}
ODD_NAMES = ("gr üp:код", "a b", ".", "-", "x" * 200, "emoji-🛫")
JOIN_SECONDS_MAX = 120


@dataclass(frozen=True, kw_only=True)
class Described:
    """What the tool said while everybody was still there."""

    bootstrap: str
    offsets: dict[tuple[str, str, int], int]
    members: dict[tuple[str, str], kafka_view.Member]
    states: dict[str, tuple[str, str | None, int | None, int | None, int]]


class Life:
    """Consumers that stay until the end, and what they did."""

    def __init__(self, bootstrap: str, *, modern: bool) -> None:
        self.bootstrap = bootstrap
        self.modern = modern
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.stay: list[tuple[Consumer, str, int]] = []
        """With its group, and the number of partitions that the whole group owns."""

    def consumer(self, group: str, **more: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
                **more,
            }
        )

    def begin(self) -> None:
        wanted = [NewTopic(name, count, replication_factor=-1) for name, count in TOPICS.items()]
        for future in self.admin.create_topics(wanted).values():
            future.result(JOIN_SECONDS_MAX)
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for n in range(100):
            producer.produce("flights" if n % 3 else "weather", str(n), partition=n % 2)
        assert producer.flush(30) == 0

    def join(self, stack: ExitStack) -> None:
        """Two classic members one after the other, a static one that restarts, one that leaves; KIP-848 ones."""
        names = list(TOPICS)
        first = self.stays(stack, "classic", names)
        self.settle()
        static = self.consumer("static", **{"group.instance.id": "pod-0"})
        static.subscribe(names)
        leaver = self.consumer("left")
        leaver.subscribe(names)
        self.settle(static, leaver)
        self.commit(leaver, 5)
        leaver.close()
        static.close()
        self.stays(stack, "classic", names, **{"client.id": "the second"})
        self.stays(stack, "static", names, **{"group.instance.id": "pod-0"})
        if self.modern:
            for instance in ({}, {"group.instance.id": "i:1"}):
                self.stays(stack, "next-gen", names, **{"group.protocol": "consumer", **instance})
            self.stays(stack, "by-pattern", ["^fli.*"], **{"group.protocol": "consumer"})
        self.settle()
        for n, (consumer, _, _) in enumerate(self.stay):
            self.commit(consumer, 10 * n + 7)
        self.commit(first, 8)

    def stays(self, stack: ExitStack, group: str, topics: list[str], **more: str) -> Consumer:
        made = self.consumer(group, **more)
        stack.callback(made.close)
        made.subscribe(topics)
        self.stay.append((made, group, TOPICS["flights"] if topics[0].startswith("^") else sum(TOPICS.values())))
        return made

    def settle(self, *others: Consumer) -> None:
        """Until every group owns all its partitions, each once, and it stays so for a while."""
        groups = {group: count for _, group, count in self.stay}
        until = time.monotonic() + JOIN_SECONDS_MAX
        quiet = 0
        while quiet < 10:
            assert time.monotonic() < until, "the groups do not settle"
            for one in [*(one for one, _, _ in self.stay), *others]:
                one.poll(0.02)
            done = all(len(one.assignment()) == sum(TOPICS.values()) for one in others)
            for group, count in groups.items():
                shares = [len(one.assignment()) for one, of, _ in self.stay if of == group]
                done = done and sum(shares) == count and all(shares)
            quiet = quiet + 1 if done else 0

    def commit(self, consumer: Consumer, offset: int) -> None:
        consumer.commit(
            offsets=[
                TopicPartition(one.topic, one.partition, offset + one.partition, f"näh {one.partition}")
                for one in consumer.assignment()
            ],
            asynchronous=False,
        )

    def transactions(self, stack: ExitStack) -> None:
        """One commits, one aborts, one stays open: only the first may show."""
        consumer, place = self.stay[0][0], self.stay[0][0].assignment()[0]
        for n, end in enumerate(("commit", "abort", "open")):
            settings = {"transactional.id": f"tx-{n}", "transaction.timeout.ms": 600_000, "log_level": 0}
            producer = Producer({"bootstrap.servers": self.bootstrap, **settings})
            producer.init_transactions(JOIN_SECONDS_MAX)
            producer.begin_transaction()
            offsets = [TopicPartition(place.topic, place.partition, 1000 + n)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), JOIN_SECONDS_MAX)
            if end == "commit":
                producer.commit_transaction(JOIN_SECONDS_MAX)
            elif end == "abort":
                producer.abort_transaction(JOIN_SECONDS_MAX)
            else:
                stack.callback(producer.abort_transaction, JOIN_SECONDS_MAX)

    def alter(self, group: str, offset: int) -> None:
        wanted = [TopicPartition("flights", n, offset + n) for n in range(2)]
        asked = ConsumerGroupTopicPartitions(group, wanted)
        self.admin.alter_consumer_group_offsets([asked])[group].result(JOIN_SECONDS_MAX)

    def simple_groups(self) -> None:
        """Odd names, a deleted group, a deleted offset, and one whose offsets expire at once."""
        for n, name in enumerate(ODD_NAMES):
            self.alter(name, n)
        self.alter("doomed", 1)
        self.admin.delete_consumer_groups(["doomed"])["doomed"].result(JOIN_SECONDS_MAX)
        self.alter("trimmed", 1)
        with self.coordinator("trimmed") as raw:
            partitions = (OffsetDeleteRequestPartition(partition_index=i32(1)),)
            topic = OffsetDeleteRequestTopic(name=TopicName("flights"), partitions=partitions)
            raw.receive(raw.send(OffsetDeleteRequest(group_id=GroupId("trimmed"), topics=(topic,))))
        with self.coordinator("expired") as raw:
            place = OffsetCommitRequestPartition(
                partition_index=i32(0), committed_offset=i64(3), committed_metadata="soon gone"
            )
            request = OffsetCommitRequest(
                group_id=GroupId("expired"),
                generation_id_or_member_epoch=i32(-1),
                member_id="",
                retention_time=i64Timedelta.parse(timedelta(milliseconds=1)),
                topics=(OffsetCommitRequestTopic(name=TopicName("flights"), partitions=(place,)),),
            )
            answer = raw.receive(raw.send(request))
            assert answer.topics[0].partitions[0].error_code == 0
        wait_until("the expired group is gone", lambda: "expired" not in self.listed(), JOIN_SECONDS_MAX, 0.3)

    def listed(self) -> set[str]:
        return {one.group_id for one in self.admin.list_consumer_groups().result(JOIN_SECONDS_MAX).valid}

    @contextmanager
    def coordinator(self, group: str) -> Iterator[RawClient]:
        """A raw connection to the group's coordinator."""
        found = self.admin.describe_consumer_groups([group])[group].result(JOIN_SECONDS_MAX).coordinator
        with RawClient(found.host, found.port) as raw:
            yield raw

    def heartbeat(self, group: str, generation: int, member_id: str, instance_id: str | None) -> int:
        """The error code of a heartbeat with these values: 0 only if they are the coordinator's own."""
        with self.coordinator(group) as raw:
            request = HeartbeatRequest(
                group_id=GroupId(group),
                generation_id=i32(generation),
                member_id=member_id,
                group_instance_id=instance_id,
            )
            return int(raw.receive(raw.send(request)).error_code)

    def described(self) -> Described:
        def tool(*arguments: str) -> str:
            head = ["--bootstrap-server", self.bootstrap, "--describe", "--all-groups"]
            return kafka_tools.run(kafka_tools.GROUPS, *head, *arguments)

        return Described(
            bootstrap=self.bootstrap,
            offsets=kafka_view.offsets(tool("--offsets")),
            members=kafka_view.members(tool("--members", "--verbose")),
            states=dict(kafka_view.states(tool("--state", "--verbose"))),
        )


@contextmanager
def live_on(bootstrap: str, *, modern: bool) -> Iterator[tuple[Life, Described]]:
    """Everything happens before this yields; the members stay until the block ends."""
    life = Life(bootstrap, modern=modern)
    with ExitStack() as stack:
        life.begin()
        life.join(stack)
        if modern:
            life.transactions(stack)
        life.simple_groups()
        yield life, life.described()
