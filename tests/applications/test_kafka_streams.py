"""Kafka Streams from Maven Central (`StreamsJoins.java`): a word count, a stream joined with a table, two streams that
are joined, and a count by windows; two instances of three threads, each task with a standby on the other.

Problem: Streams leans on nearly all that a broker promises at once: transactions over several topics, static members,
repartition topics whose records it deletes, changelogs that are cleaned while they are read. Mechanism: records are
sent, some twice, some late, some without a key or a value, while instances are killed and bounced, one loses its disk,
a broker dies, a thread comes and goes. After each of these all that was sent is processed, and outputs and stores are
compared with an oracle in plain Python. At last both disks are lost: the stores come back from changelogs that have
been cleaned, and what is sent then is joined and counted with what came back.

With `exactly_once_v2` all are equal: each count is the one before plus one, each pair and each joined order comes as
often as the input says. With `at_least_once` nothing is missing, and nothing is there that the oracle does not know.

The oracle says what Kafka's documentation says. A record is too late for a window by the times of records before it,
and a task that moved has forgotten those: so too late ones are sent only while nothing is killed. The table changes
only while all else is processed. The store of a join tells records of one key and one time apart by a number that
begins anew with each process: so no two of them have the same time. `MUSTER_TEST_AGAINST=kafka` asks a real Kafka, and
no broker dies there.
"""

import os
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event
from time import time
from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.applications.clusters import cluster_for
from tests.applications.reading import read_committed
from tests.applications.streams_instances import THREADS, Instance, dumped, instances, tasks
from tests.cluster import wait_until
from tests.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.applications, pytest.mark.java, pytest.mark.timeout(2_400)]

APPLICATION, PARTITIONS = "joins", 3
LINES, ORDERS, USERS, LEFT, RIGHT, EVENTS = INPUTS = ("lines", "orders", "users", "left", "right", "events")
COUNTED, JOINED, PAIRED, WINDOWED = OUTPUTS = ("counts-out", "orders-out", "pairs-out", "windows-out")
POLICIES = {
    "counts": {"compact"},
    "users": {"compact"},
    "windows": {"compact", "delete"},
    "pairs-this-join-store": {"delete"},
    "pairs-other-join-store": {"delete"},
}
"""Of changelogs. No two records of a join's store have one key, so Streams has them only deleted, by their age."""
CHANGELOGS = {store: f"{APPLICATION}-{store}-changelog" for store in POLICIES}
WITHIN_MS, WINDOW_MS, GRACE_MS = 1_000, 10_000, 30_000
LATE_MS_MAX = 20_000
"""Less than the grace: counted, whatever a task remembers of the time."""
STEP_MS, BEGINS_AGO_MS = 40, 1_800_000
"""Records are of the last half hour, so that no retention ends them, and none is of the future."""
TASKS, STANDBYS = 5 * PARTITIONS, 4 * PARTITIONS
"""Of words (one has no state), orders, pairs and windows."""
WORDS = [f"w{number}" for number in range(30)] + ["-"]
KEYS = [f"k{number}" for number in range(15)]
STEP_S, PROGRESS, NUDGE = 0.05, 300, 60
SETTLES_S_MAX = 300
Numbers = Mapping[str, int]
Counts = Counter[tuple[str, str]]


@dataclass
class Oracle:
    """What Streams has to make of records, in their order in each partition."""

    counts: Counter[str] = field(default_factory=Counter)
    users: dict[str, str] = field(default_factory=dict)
    joined: Counter[tuple[str, str]] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    windows: Counter[str] = field(default_factory=Counter)
    too_late: int = 0
    _sides: dict[str, dict[str, list[tuple[int, str]]]] = field(
        default_factory=lambda: {LEFT: defaultdict(list), RIGHT: defaultdict(list)}
    )
    _stream_time: Counter[int] = field(default_factory=Counter)

    def take(self, topic: str, key: str | None, value: str | None, at_ms: int, partition: int) -> None:
        if topic == LINES:
            self._line(value)
        elif key is None:
            pass  # Joins and aggregations drop it.
        elif topic == EVENTS:
            self._event(key, at_ms, partition)
        elif topic == USERS:
            self._user(key, value)
        elif value is not None:
            if topic == ORDERS:
                self._order(key, value)
            else:
                self._side(topic, key, value, at_ms)

    def _line(self, value: str | None) -> None:
        """The key of a line means nothing; a null value becomes a null word, which is not counted, nor is "-": that
        word becomes a null key."""
        self.counts.update(word for word in (value or "").split() if word != "-")

    def _user(self, key: str, value: str | None) -> None:
        if value is None:
            self.users.pop(key, None)
        else:
            self.users[key] = value

    def _order(self, key: str, value: str) -> None:
        """An inner join with the table as it is when the order is processed."""
        if key in self.users:
            self.joined[key, f"{value}|{self.users[key]}"] += 1

    def _side(self, topic: str, key: str, value: str, at_ms: int) -> None:
        """An inner join by key, of all that is not further apart than WITHIN_MS, to both sides."""
        self._sides[topic][key].append((at_ms, value))
        for other_ms, other in self._sides[RIGHT if topic == LEFT else LEFT][key]:
            if abs(at_ms - other_ms) <= WITHIN_MS:
                one, two = (value, other) if topic == LEFT else (other, value)
                self.pairs[key, f"{one}|{two}"] += 1

    def _event(self, key: str, at_ms: int, partition: int) -> None:
        """A null value counts here: only a null key is dropped. A window is closed from its end plus the grace on."""
        self._stream_time[partition] = max(self._stream_time[partition], at_ms)
        begins = at_ms - at_ms % WINDOW_MS
        if begins + WINDOW_MS > self._stream_time[partition] - GRACE_MS:
            self.windows[f"{key}@{begins}"] += 1
        else:
            self.too_late += 1


class Feed:
    """Sends to all inputs, and tells the oracle what was sent."""

    def __init__(self, bootstrap: str) -> None:
        self.oracle = Oracle()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._refused: list[KafkaError] = []
        self._rand = Random(20_260)
        self._number = 0
        self._begin = int(time() * 1_000) - BEGINS_AGO_MS
        self._clock = self._begin
        self._times: set[tuple[str, str | None, int]] = set()

    def users(self) -> None:
        """Some are new, some change, some go, some are told twice."""
        for key in self._rand.sample(KEYS, 10):
            self._number += 1
            value = None if self._rand.random() < 0.3 else f"u{self._number}"
            for _ in range(self._rand.randint(1, 2)):
                self._send(USERS, key, value, self._clock)
        self.flush()

    def step(self) -> None:
        """A record of each input, with what goes wrong on its way."""
        self._number += 1
        self._clock += STEP_MS
        rand = self._rand
        words = " ".join(rand.choices(WORDS, k=4))
        for topic, key, value in (
            (LINES, f"{self._number}", words),
            (ORDERS, rand.choice(KEYS), f"o{self._number}"),
            (LEFT, rand.choice(KEYS), f"l{self._number}"),
            (RIGHT, rand.choice(KEYS), f"r{self._number}"),
            (EVENTS, rand.choice(KEYS), f"e{self._number}"),
        ):
            at_ms = self._clock - (rand.randrange(LATE_MS_MAX) if rand.random() < 0.2 else 0)
            chance = rand.random()
            if chance < 0.05:
                self._send(topic, None, value, at_ms)
            elif chance < 0.1:
                self._send(topic, key, None, at_ms)
            else:
                for _ in range(2 if chance < 0.25 else 1):
                    self._send(topic, key, value, at_ms)
        if self._number % 20 == 0:
            self._apart()

    def _apart(self) -> None:
        """As far apart as joins, and by a millisecond further."""
        key = self._rand.choice(KEYS)
        for further in (0, 1):
            at_ms = self._send(LEFT, key, f"l{self._number}+{further}", self._clock)
            self._send(RIGHT, key, f"r{self._number}+{further}", at_ms - WITHIN_MS - further)

    def too_late(self) -> None:
        """In each partition the last moment of a window's grace, and the first after it."""
        edge = (self._clock // WINDOW_MS + 2) * WINDOW_MS
        keys = {self._partition(key): key for key in KEYS}
        for key in keys.values():
            for at_ms in (edge + GRACE_MS - 1, edge - 1, edge + GRACE_MS, edge - 1, edge, self._begin):
                self._send(EVENTS, key, "late", at_ms)
        self._clock = edge + GRACE_MS
        self.flush()

    def flush(self) -> None:
        assert self._producer.flush(120) == 0
        assert self._refused == []

    @contextmanager
    def flowing(self) -> Iterator[None]:
        ended = Event()

        def flow() -> None:
            while not ended.wait(STEP_S):
                self.step()
                self._producer.poll(0)

        with ThreadPoolExecutor(1) as pool:
            flowing = pool.submit(flow)
            try:
                yield
            finally:
                ended.set()
            flowing.result()
        self.flush()

    def _partition(self, key: str | None) -> int:
        return (self._number if key is None else zlib.crc32(key.encode())) % PARTITIONS

    def _send(self, topic: str, key: str | None, value: str | None, at_ms: int) -> int:
        """The time that it really has."""
        while topic in (LEFT, RIGHT) and (topic, key, at_ms) in self._times:
            at_ms += 1
        self._times.add((topic, key, at_ms))
        partition = self._partition(key)
        self.oracle.take(topic, key, value, at_ms, partition)
        self._producer.produce(topic, value, key, partition, on_delivery=self._acknowledged, timestamp=at_ms)
        return at_ms

    def _acknowledged(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._refused.append(error)


@dataclass
class Served:
    """A cluster, and how one of its brokers dies and comes back."""

    bootstrap: str
    replication: int
    kill: Callable[[], None] | None
    start: Callable[[], None] | None

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        wanted = [NewTopic(topic, PARTITIONS, self.replication) for topic in (*INPUTS, *OUTPUTS) if topic != USERS]
        wanted.append(NewTopic(USERS, PARTITIONS, self.replication, config={"cleanup.policy": "compact"}))
        for future in self.admin.create_topics(wanted, operation_timeout=30).values():
            future.result(40)

    def processed(self) -> dict[tuple[str, int], int]:
        """What the application committed of the inputs."""
        try:
            asked = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(APPLICATION)])
            offsets = asked[APPLICATION].result(20).topic_partitions
        except KafkaException:
            return {}
        return {(one.topic, one.partition): one.offset for one in offsets if one.topic in INPUTS and one.offset > 0}

    def ends(self) -> dict[tuple[str, int], int]:
        """Of the inputs' partitions that have records. For minutes librdkafka asks with the leader epochs of its last
        metadata, and does not learn from FENCED_LEADER_EPOCH: so it gets new ones first."""
        self.admin.list_topics(timeout=20)
        asked = {TopicPartition(topic, p): OffsetSpec.latest() for topic in INPUTS for p in range(PARTITIONS)}
        told = self.admin.list_offsets(asked, request_timeout=20)
        try:
            found = {(one.topic, one.partition): future.result(30).offset for one, future in told.items()}
        except KafkaException:
            return {}
        return {place: offset for place, offset in found.items() if offset > 0}

    def members(self) -> list[str]:
        """Ids of the group's static members; a member without an id is an empty text."""
        described = self.admin.describe_consumer_groups([APPLICATION])[APPLICATION].result(20)
        return sorted(one.group_instance_id or "" for one in described.members)

    def last_and_wrong(self, topic: str) -> tuple[dict[str, int], list[str]]:
        """(the last number of each key, every step that is not the one before plus one)."""
        last: dict[str, int] = {}
        wrong = []
        for _, _, key, value in read_committed(self.bootstrap, topic):
            name, count = key.decode(), struct.unpack(">q", value)[0]
            if count != last.get(name, 0) + 1:
                wrong.append(f"{topic} {name}: {count} after {last.get(name, 0)}")
            last[name] = count
        return last, wrong

    def told(self, topic: str) -> Counts:
        return Counter((key.decode(), value.decode()) for _, _, key, value in read_committed(self.bootstrap, topic))


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("streams")
    if os.environ.get("MUSTER_TEST_AGAINST") == "kafka":
        with KafkaBroker(folder / "kafka", {"log.cleaner.backoff.ms": "1000"}) as broker:
            yield Served(broker.bootstrap, 1, None, None)
        return
    with cluster_for(folder / "data", log_cleaner_backoff_ms="1000") as cluster:
        yield Served(cluster.bootstrap, 3, lambda: cluster.kill(1), lambda: cluster.start_replica(1))


class Run:
    """The application at work: what is sent, who runs, and what has to come of it."""

    def __init__(self, served: Served, folder: Path, guarantee: str) -> None:
        self.served = served
        self.exact = guarantee == "exactly_once_v2"
        self.feed = Feed(served.bootstrap)
        properties = {
            "bootstrap.servers": served.bootstrap,
            "application.id": APPLICATION,
            "processing.guarantee": guarantee,
            "replication.factor": str(served.replication),
        }
        shape = (WITHIN_MS, WINDOW_MS, GRACE_MS, PARTITIONS)
        self.one, self.two = (Instance(folder, name, shape, properties) for name in ("one", "two"))
        self.both = (self.one, self.two)

    def wait(self, what: str, check: Callable[[], Any]) -> None:
        try:
            wait_until(what, check, SETTLES_S_MAX, 0.5)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error)[:8_000], *(one.told() for one in self.both)])) from None

    def progress(self) -> None:
        """It has processed more than was under way."""
        before = sum(self.served.processed().values())
        self.wait("records are processed", lambda: sum(self.served.processed().values()) >= before + PROGRESS)

    def running(self) -> None:
        self.wait("both run", lambda: all(one.runs() for one in self.both))

    def settle(self) -> None:
        """All that was sent is processed, and the outputs and the stores are what they have to be."""
        self.running()
        ends: dict[tuple[str, int], int] = wait_until("ends are told", self.served.ends, SETTLES_S_MAX, 0.5)
        self.wait("all inputs are committed", lambda: self.served.processed() == ends)
        missing: list[str] = []

        def told() -> bool:
            missing[:] = self._outputs()
            return not missing

        try:
            self.wait("all is told", told)
        except AssertionError as error:
            raise AssertionError(f"{missing[:20]}\n{error}") from None
        self.stores()
        assert [one.failures() for one in self.both] == [[], []], "\n".join(one.told() for one in self.both)

    def stores(self) -> None:
        oracle = self.feed.oracle
        for store, wanted in (("counts", oracle.counts), ("windows", oracle.windows)):
            self._wait_store(store, lambda found, w=wanted: self._numbers({k: int(v) for k, v in found.items()}, w))
        self._wait_store("users", lambda found: differ(found, oracle.users))

    def _wait_store(self, store: str, wrong: Callable[[dict[str, str]], list[str]]) -> None:
        last: list[str] = []

        def equal() -> bool:
            found = dumped(self.both, store, PARTITIONS)
            last[:] = ["a partition is active nowhere, or twice"] if found is None else wrong(found)
            return not last

        try:
            self.wait(f"the store {store} is as it has to be", equal)
        except AssertionError as error:
            raise AssertionError(f"{last[:20]}\n{error}") from None

    def _outputs(self) -> list[str]:
        """Where an output is not what the guarantee promises."""
        oracle, found = self.feed.oracle, []
        for topic, numbers in ((COUNTED, oracle.counts), (WINDOWED, oracle.windows)):
            last, wrong = self.served.last_and_wrong(topic)
            found += self._numbers(last, numbers) + (wrong if self.exact else [])
        for topic, lines in ((JOINED, oracle.joined), (PAIRED, oracle.pairs)):
            told = self.served.told(topic)
            found += differ(told, lines) if self.exact else differ(dict.fromkeys(told), dict.fromkeys(lines))
        return found

    def _numbers(self, found: Numbers, wanted: Numbers) -> list[str]:
        if self.exact:
            return differ(found, wanted)
        least = {key: min(number, wanted.get(key, 0)) for key, number in found.items()}
        return differ(least, wanted)


def differ(found: Mapping[Any, Any], wanted: Mapping[Any, Any]) -> list[str]:
    return [
        f"{key}: {found.get(key, 'nothing')}, not {wanted.get(key, 'nothing')}"
        for key in sorted(found.keys() | wanted.keys())
        if key not in found or key not in wanted or found[key] != wanted[key]
    ]


def make_cleaned(served: Served) -> None:
    """From now on segments end each second, and the cleaner finds the least of them worth its while."""
    resources = []
    for store, topic in CHANGELOGS.items():
        if "compact" in POLICIES[store]:
            resource = ConfigResource(ResourceType.TOPIC, topic)
            for name, value in {"segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}.items():
                resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
            resources.append(resource)
    for future in served.admin.incremental_alter_configs(resources).values():
        future.result(30)


def assert_changelogs(served: Served) -> None:
    topics = served.admin.list_topics(timeout=20).topics
    assert sorted(topic for topic in topics if topic.endswith("-changelog")) == sorted(CHANGELOGS.values())
    asked = {store: ConfigResource(ResourceType.TOPIC, topic) for store, topic in CHANGELOGS.items()}
    configs = served.admin.describe_configs(list(asked.values()))
    policies = {store: str(configs[one].result(20)["cleanup.policy"].value) for store, one in asked.items()}
    assert {store: set(policy.split(",")) for store, policy in policies.items()} == POLICIES
    for topic in CHANGELOGS.values():
        assert {len(one.replicas) for one in topics[topic].partitions.values()} == {served.replication}, topic


def wait_cleaned(run: Run) -> None:
    """Less than half of what was counted is left in the changelogs; more records end the segments."""
    oracle = run.feed.oracle
    left: dict[str, tuple[int, int]] = {}

    def cleaned() -> bool:
        for _ in range(NUDGE):
            run.feed.step()
        run.feed.flush()
        for store, numbers in (("counts", oracle.counts), ("windows", oracle.windows)):
            changes = len(read_committed(run.served.bootstrap, CHANGELOGS[store]))
            left[store] = (changes, numbers.total())
        return all(changes * 2 < total for changes, total in left.values())

    run.wait("the changelogs are cleaned", cleaned)


def static_ids(threads: Mapping[str, range]) -> list[str]:
    return sorted(f"{name}-{thread}" for name, numbers in threads.items() for thread in numbers)


def threads_come_and_go(run: Run) -> None:
    """A fourth thread is a static member with the next number; one that is removed leaves the group."""
    usual = range(1, THREADS + 1)
    assert run.served.members() == static_ids({"one": usual, "two": usual})
    with run.feed.flowing():
        assert run.two.ask("add", "added ")[-1] != "added none"
        more = static_ids({"one": usual, "two": range(1, THREADS + 2)})
        run.wait("a thread more is a member", lambda: run.served.members() == more)
        run.progress()
        assert run.two.ask("remove", "removed ")[-1] != "removed none"
        run.wait("a thread less is one", lambda: len(run.served.members()) == 2 * THREADS)
        run.progress()


def bounced(run: Run) -> None:
    """Each instance in its turn, closed and started, while the other works."""
    with run.feed.flowing():
        for one in run.both:
            one.close()
            one.start()
            run.running()
            run.progress()


def killed(run: Run, one: Instance, loses_its_disk: bool = False) -> None:
    with run.feed.flowing():
        run.progress()
        one.kill()
        if loses_its_disk:
            one.forget()
        one.start()
        run.running()
        run.progress()


def assert_not_in_vain(run: Run) -> None:
    """There were duplicates to be multiplied, and kills did abort what was under way."""
    assert max(run.feed.oracle.joined.values()) > 1
    assert max(run.feed.oracle.pairs.values()) > 1
    bootstrap = run.served.bootstrap
    written = sum(len(read_committed(bootstrap, topic, "read_uncommitted")) for topic in OUTPUTS)
    assert written > sum(len(read_committed(bootstrap, topic)) for topic in OUTPUTS)


def test_exactly_once_through_kills_bounces_and_lost_disks(served: Served, tmp_path: Path) -> None:
    run = Run(served, tmp_path, "exactly_once_v2")
    run.feed.users()
    with instances(*run.both):
        run.running()
        run.settle()
        run.wait("each task has its standby", lambda: tasks(run.both) == (TASKS, STANDBYS))
        assert_changelogs(served)
        make_cleaned(served)
        for one in run.both:
            killed(run, one)
            run.settle()
            run.feed.users()
            run.settle()
        if served.kill is not None and served.start is not None:
            with run.feed.flowing():
                run.progress()
                served.kill()
                run.progress()
                served.start()
                run.progress()
            run.settle()
            run.feed.users()
        bounced(run)
        run.settle()
        threads_come_and_go(run)
        run.settle()
        wait_cleaned(run)
        killed(run, run.two, loses_its_disk=True)
        run.settle()
        assert run.feed.oracle.too_late == 0
        run.feed.too_late()
        run.settle()
        assert run.feed.oracle.too_late == 2 * PARTITIONS
        wait_cleaned(run)
        run.settle()
        for one in run.both:
            one.close()
            one.forget()
        for one in run.both:
            one.start()
        run.running()
        run.stores()
        with run.feed.flowing():
            run.progress()
        run.settle()
        assert_not_in_vain(run)


def test_at_least_once_loses_nothing(served: Served, tmp_path: Path) -> None:
    run = Run(served, tmp_path, "at_least_once")
    run.feed.users()
    with instances(*run.both):
        run.settle()
        for lost in (False, True):
            killed(run, run.one, loses_its_disk=lost)
            run.settle()
            run.feed.users()
            run.settle()
        bounced(run)
        run.settle()
