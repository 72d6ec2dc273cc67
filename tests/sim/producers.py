"""Clients of embedded topics: one that makes them, idempotent producers, readers; and what they may rely on.

A producer sends its batches one at a time, each again with the same sequence until its fate is known. So at the end
every acknowledged batch stands at the offset it was acknowledged with, none stands twice, all in the order they were
sent; and whatever a reader saw at an offset is what stands there.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from muster_coordinator.ids import GroupNo
from muster_coordinator.records.batch import encode_batch, iter_records, parse_header

from tests.records.made import split_batches
from tests.sim import frames, topic_frames
from tests.sim.client import Client, Line, Steps
from tests.sim.cluster import Cluster
from tests.sim.history import Violation
from tests.sim.logs import compare_logs

DATA = "data"
RETRIABLE = frozenset({5, 6, 7, 9, 14, 15, 19, 20, 41, 56})
"""Ask again, maybe elsewhere. Not 3: who was told that the topic is there is never told that it is not."""
UNKNOWN = 3
EXISTS = 36
READ_BYTES = 4_000


class Sent(NamedTuple):
    """One batch of a producer."""

    values: tuple[bytes, ...]
    base_offset: int | None
    """None while nobody knows."""


class TopicMaker(Client):
    """Creates the topics that the others use."""

    def __init__(
        self, cluster: Cluster, topics: dict[str, int], configs: dict[str, tuple[tuple[str, str], ...]] | None = None
    ) -> None:
        super().__init__(cluster, "topic-maker")
        self.topics = topics
        self.configs = configs or {}

    def steps(self) -> Steps:
        left = dict(self.topics)
        while left:
            line = Line(self, self.rand.randrange(len(self.cluster.everyone)))
            request = topic_frames.create_topics(list(left.items()), len(self.cluster.replicas), self.configs)
            errors = yield from self.ask(line, topic_frames.CREATE_TOPICS, "", None, request, timeout_ms=6_000)
            line.close()
            for name, error in (errors or {}).items():
                assert error in RETRIABLE or error in (0, EXISTS, 38), f"CreateTopics answered {error}"
                if error in (0, EXISTS):
                    left.pop(name)
            yield from self.sleep(100)


class TopicClient(Client):
    """Knows how to find a partition's leader."""

    topic = DATA
    comes_and_goes = False
    """The topic is deleted now and then."""

    def __init__(self, cluster: Cluster, name: str, partition: int) -> None:
        super().__init__(cluster, name)
        self.partition = partition
        self.last_success_us = 0
        self.knows = False
        """It was told by some replica that the topic is there."""

    def leader(self) -> Steps:
        """A connection to whoever is said to lead the partition."""
        while True:
            if self.line is not None and self.line.open:
                return self.line
            line = Line(self, self.rand.randrange(len(self.cluster.everyone)))
            found = yield from self.ask(line, topic_frames.METADATA, "", None, topic_frames.metadata(self.topic), 700)
            line.close()
            assert found is None or found[0] != UNKNOWN or not self.knows or self.comes_and_goes, (
                "a topic that is there was called unknown"
            )
            self.knows = self.knows or (found is not None and found[0] == 0)
            if found is not None and found[0] == 0 and found[1].get(self.partition, -1) >= 0:
                self.line = self.connect(found[1][self.partition])
                return self.line
            yield from self.sleep(self.rand.uniform(20, 200))

    def connect(self, broker: int) -> Line:
        return Line(self, broker)

    def producer_id(self) -> Steps:
        while True:
            line = Line(self, self.rand.randrange(len(self.cluster.everyone)))
            request = topic_frames.init_producer_id()
            found = yield from self.ask(line, topic_frames.INIT_PRODUCER_ID, "", None, request)
            line.close()
            if found is not None and found[0] == 0:
                return found[1], found[2]
            assert found is None or found[0] in RETRIABLE, f"InitProducerId answered {found[0]}"
            yield from self.sleep(self.rand.uniform(20, 200))


class Producer(TopicClient):
    """`sent` holds every batch, in order."""

    def __init__(self, cluster: Cluster, name: str, partition: int, pause_ms: int) -> None:
        super().__init__(cluster, name, partition)
        self.pause_ms = pause_ms
        self.sent: list[Sent] = []

    def steps(self) -> Steps:
        producer_id, epoch = yield from self.producer_id()
        sequence = 0
        while True:
            yield from self.sleep(self.rand.uniform(1, self.pause_ms))
            count = self.rand.randint(1, 3)
            values = tuple(b"%b/%d" % (self.name.encode(), sequence + n) for n in range(count))
            batch = encode_batch(
                [(None, value) for value in values],
                timestamp_ms=1_699_990_000_000,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
            self.sent.append(Sent(values, None))
            base_offset = yield from self._until_known(batch)
            self.sent[-1] = Sent(values, base_offset)
            self.last_success_us = self.world.now_us
            sequence += count

    def _until_known(self, batch: bytes) -> Steps:
        while True:
            line = yield from self.leader()
            request = topic_frames.produce(DATA, self.partition, batch)
            found = yield from self.ask(line, topic_frames.PRODUCE, "", None, request)
            if found is not None and found[0] == 0:
                return found[1]
            if found is None:
                self.cluster.marks.add("produce with unknown outcome")
            else:
                assert found[0] in RETRIABLE, f"Produce answered {found[0]}"
            self.hang_up()
            yield from self.sleep(self.rand.uniform(5, 100))


class TopicReader(TopicClient):
    """Reads on and on; from the start again now and then. `seen`: offset -> value."""

    def __init__(self, cluster: Cluster, name: str, partition: int) -> None:
        super().__init__(cluster, name, partition)
        self.seen: dict[int, bytes | None] = {}

    def steps(self) -> Steps:
        offset = 0
        while True:
            yield from self.sleep(self.rand.uniform(5, 150))
            line = yield from self.leader()
            request = topic_frames.fetch_log(DATA, self.partition, offset, READ_BYTES, wait_ms=100)
            part = yield from self.ask(line, frames.FETCH_LOG, "", None, request)
            if part is None:
                continue
            if part.error:
                assert part.error in RETRIABLE or part.error == 78, f"Fetch at {offset} answered {part.error}"
                self.hang_up()
                continue
            self.last_success_us = self.world.now_us
            for batch in split_batches(part.records, allow_partial=True):
                for record in iter_records(batch):
                    known = self.seen.setdefault(record.offset, record.value)
                    assert known == record.value, f"{record.offset} held {known!r} and then {record.value!r} (R4)"
                offset = parse_header(batch).next_offset
            if self.rand.random() < 0.02:
                offset = 0


class Producing(Protocol):
    """Whose batches are looked for."""

    name: str
    partition: int
    sent: list[Sent]


def check_topics(cluster: Cluster, producers: Sequence[Producing], readers: list[TopicReader]) -> list[Violation]:
    """Against the logs of all replicas, which must be equal."""
    found: list[Violation] = []
    image = cluster.voters()[0].node.image()
    assert image is not None
    for partition, place in enumerate(image.topics[DATA].partitions):
        batches, differences = compare_logs(cluster, GroupNo(place.group))
        found += differences
        values = [record.value for batch in batches for record in iter_records(batch)]
        for producer in producers:
            if producer.partition == partition:
                found += _check_producer(producer, values)
        for reader in readers:
            if reader.partition == partition:
                for offset, value in reader.seen.items():
                    if offset >= len(values) or values[offset] != value:
                        found.append(Violation("R4", f"{reader.name} saw {value!r} at {offset}, which is not there"))
    return found


def _check_producer(producer: Producing, values: list[bytes | None]) -> list[Violation]:
    found = []
    own = [value for value in values if value is not None and value.startswith(producer.name.encode() + b"/")]
    if len(set(own)) < len(own):
        found.append(Violation("D1", f"{producer.name}: a record stands twice"))
    expected = [value for sent in producer.sent for value in sent.values]
    if own != expected[: len(own)]:
        found.append(Violation("D2", f"{producer.name}: records are not in the order they were sent"))
    for sent in producer.sent:
        base = sent.base_offset
        if base is not None and tuple(values[base : base + len(sent.values)]) != sent.values:
            found.append(Violation("D3", f"{producer.name}: {sent} is not where it was acknowledged"))
    return found
