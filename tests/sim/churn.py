"""A topic that is deleted, created again and altered while clients use it by its name, and those who do that to it.

Every value that is produced and every commit is unique, and nothing is sent twice, so that whatever turns up later
tells where it came from (`check_churn`). The clients know nothing of incarnations and ask on; what they ask and hear is
in the history. The admin goes on making the topic after the storm, since a late deletion may still take it away.
"""

from typing import NamedTuple

from muster_coordinator.records.batch import encode_batch, parse_header

from tests.records.made import split_batches
from tests.sim import admin_frames, frames, topic_frames
from tests.sim.client import Line, Steps
from tests.sim.cluster import Cluster
from tests.sim.history import Op
from tests.sim.incarnations import Incarnations
from tests.sim.producers import DATA, EXISTS, READ_BYTES, RETRIABLE, UNKNOWN, TopicClient

CHURN = "churn"
CHURN_GROUP = "churn-group"
PARTITIONS_MAX = 3
VALUE_BYTES = 300
RECORD_MS = 1_699_990_000_000
"""Time of the first record: hours behind the clocks, which steps move by one hour at most."""
OLD_MS = 3_600_000
"""As retention.ms: all sealed segments go."""
UNKNOWN_ID, INVALID_PARTITIONS, POLICY, OUT_OF_RANGE = 100, 37, 44, 1
ALTERATIONS = (
    ("segment.ms", "100"),
    ("segment.ms", "3000"),
    ("segment.bytes", "1048576"),
    ("segment.bytes", "4194304"),
    ("retention.bytes", "2000"),
    ("retention.bytes", "-1"),
    ("retention.ms", str(OLD_MS)),
    ("retention.ms", "604800000"),
)
TAKES_MOST = [("segment.ms", "100"), ("retention.bytes", "2000")]
HARMLESS = ALTERATIONS[:4]
"""What takes no record away."""


class Put(NamedTuple):
    """One record is produced."""

    partition: int
    value: bytes


class Get(NamedTuple):
    """Records are read."""

    partition: int
    offset: int


class Altered(NamedTuple):
    """Configs are set."""

    topic: str
    key: str


class ChurnClient(TopicClient):
    topic = CHURN
    comes_and_goes = True

    def somewhere(self) -> Steps:
        """(partition, connection to its leader) of any partition that there is now; None: not now."""
        line = Line(self, self.rand.randrange(len(self.cluster.everyone)))
        request = topic_frames.metadata(self.topic)
        found = yield from self.ask(line, topic_frames.METADATA, "", self.topic, request, 700)
        line.close()
        if found is None:
            return None
        assert found[0] in RETRIABLE or found[0] in (0, UNKNOWN), f"Metadata answered {found[0]}"
        led = [(partition, leader) for partition, leader in sorted(found[1].items()) if leader >= 0]
        if not led:
            return None
        partition, leader = self.rand.choice(led)
        return partition, Line(self, leader)


class ChurnProducer(ChurnClient):
    """One record a request, each once."""

    def steps(self) -> Steps:
        number = 0
        while True:
            yield from self.sleep(self.rand.uniform(5, 250))
            place = yield from self.somewhere()
            if place is None:
                continue
            partition, line = place
            for _ in range(self.rand.randint(1, 12)):
                value = b"%b/%d/" % (self.name.encode(), number)
                value += b"." * self.rand.randint(0, VALUE_BYTES)
                number += 1
                time_ms = RECORD_MS + self.world.now_us // 1000
                request = topic_frames.produce(CHURN, partition, encode_batch([(None, value)], timestamp_ms=time_ms))
                found = yield from self.ask(line, topic_frames.PRODUCE, "", Put(partition, value), request)
                if found is None or found[0] != 0:
                    assert found is None or found[0] in RETRIABLE or found[0] == UNKNOWN, f"Produce answered {found[0]}"
                    break
                self.last_success_us = self.world.now_us
                yield from self.sleep(self.rand.uniform(1, 60))
            line.close()


class ChurnReader(ChurnClient):
    """Reads from its own place in each partition on; from where the log begins when told that it is out of range."""

    def steps(self) -> Steps:
        at: dict[int, int] = {}
        while True:
            yield from self.sleep(self.rand.uniform(5, 300))
            place = yield from self.somewhere()
            if place is None:
                continue
            partition, line = place
            for _ in range(self.rand.randint(1, 6)):
                offset = at.get(partition, 0)
                request = topic_frames.fetch_log(CHURN, partition, offset, READ_BYTES, wait_ms=50)
                part = yield from self.ask(line, frames.FETCH_LOG, "", Get(partition, offset), request)
                if part is None:
                    break
                if part.error:
                    expected = part.error in RETRIABLE or part.error in (UNKNOWN, OUT_OF_RANGE, 78)
                    assert expected, f"Fetch at {offset} answered {part.error}"
                    if part.error != OUT_OF_RANGE:
                        break
                    request = topic_frames.earliest(CHURN, partition)
                    found = yield from self.ask(line, topic_frames.LIST_OFFSETS, "", None, request)
                    if found is None or found[0] != 0:
                        break
                    at[partition] = found[1]
                    continue
                self.last_success_us = self.world.now_us
                batches = split_batches(part.records, allow_partial=True)
                if batches:
                    at[partition] = parse_header(batches[-1]).next_offset
                if self.rand.random() < 0.05:
                    at[partition] = 0
            line.close()


class TopicAdmin(ChurnClient):
    """Creates, alters and deletes the topic in turn; alters `DATA` as well, harmlessly. `quiet`: creates it only. From
    `stays_from_ms` of the run on it is not deleted, and retention is to take nearly all of it."""

    def __init__(self, cluster: Cluster, incarnations: Incarnations, stays_from_ms: int | None) -> None:
        super().__init__(cluster, "topic-admin", 0)
        self.incarnations = incarnations
        self._stays_from_us = None if stays_from_ms is None else self.world.now_us + stays_from_ms * 1_000
        self.quiet = False

    def steps(self) -> Steps:
        while True:
            yield from self._create()
            if self.quiet:
                yield from self.sleep(500)
                continue
            for _ in range(self.rand.randint(0, 3)):
                yield from self.sleep(self.rand.uniform(50, 900))
                yield from self._alter()
            yield from self.sleep(self.rand.uniform(300, 2_500))
            if not self.quiet and not self._stays():
                yield from self._delete()
                yield from self.sleep(self.rand.choice((1, 1, 50, 600)))

    def _stays(self) -> bool:
        return self._stays_from_us is not None and self.world.now_us >= self._stays_from_us

    def _one(self, api: int, ask: object, request: frames.Request) -> Steps:
        line = Line(self, self.rand.randrange(len(self.cluster.everyone)))
        found = yield from self.ask(line, api, "", ask, request, timeout_ms=2_000)
        line.close()
        return found

    def _create(self) -> Steps:
        while True:
            request = topic_frames.create_topics([(CHURN, self.rand.randint(1, 2))], len(self.cluster.replicas))
            found = yield from self._one(topic_frames.CREATE_TOPICS, CHURN, request)
            error = None if found is None else found[CHURN]
            assert error is None or error in RETRIABLE or error in (0, EXISTS, 38), f"CreateTopics answered {error}"
            if error in (0, EXISTS):
                self.last_success_us = self.world.now_us
                return
            yield from self.sleep(self.rand.uniform(20, 200))

    def _delete(self) -> Steps:
        """By name, or by the id that it has had last: a deletion by id that comes late hits nothing else."""
        topic_id = max(self.incarnations.born_us.items(), key=lambda born: (born[1], born[0]))[0]
        by_id = self.rand.random() < 0.5
        while not self.quiet:
            request = admin_frames.delete_topic_id(topic_id) if by_id else admin_frames.delete_topic(CHURN)
            error = yield from self._one(admin_frames.DELETE_TOPICS, CHURN, request)
            known = error is None or error in RETRIABLE or error in (0, UNKNOWN, UNKNOWN_ID)
            assert known, f"DeleteTopics answered {error}"
            if error in (0, UNKNOWN, UNKNOWN_ID):
                return
            yield from self.sleep(self.rand.uniform(20, 200))

    def _alter(self) -> Steps:
        """Once; what came of it may stay unknown."""
        topic = self.rand.choice((CHURN, CHURN, DATA))
        if self.rand.random() < 0.35 and not self._stays():
            total = self.rand.randint(2, PARTITIONS_MAX)
            request = admin_frames.create_partitions(topic, total)
            error = yield from self._one(admin_frames.CREATE_PARTITIONS, topic, request)
            expected = error is None or error in RETRIABLE or error in (0, UNKNOWN, INVALID_PARTITIONS)
            assert expected, f"CreatePartitions answered {error}"
            return
        configs = [self.rand.choice(HARMLESS if topic == DATA else ALTERATIONS)]
        if self._stays():
            topic, configs = CHURN, TAKES_MOST
        key = configs[-1][0]
        request = admin_frames.alter_topic(topic, configs)
        error = yield from self._one(admin_frames.ALTER_CONFIGS, Altered(topic, key), request)
        assert error is None or error in RETRIABLE or error in (0, UNKNOWN), f"IncrementalAlterConfigs answered {error}"


def takes_away(op: Op) -> bool:
    """Whether this request may make retention take records of the topic."""
    return op.api == admin_frames.ALTER_CONFIGS and op.ask.topic == CHURN and op.ask.key.startswith("retention.")
