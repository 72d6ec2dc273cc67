"""A compacted topic that every replica cleans for itself, its writers, and what must be left of it.

Whatever was written is known from the entries that were applied, before any cleaning. Of that a cleaned log lacks only
what a newer committed record of its key hides, what was aborted, and tombstones whose time is over (C1, C3); what
stands is as it was written, where it was written (C2); and nobody cleans above his last stable offset (C4).
"""

from collections.abc import Iterable, Sequence

from muster_coordinator.events import LOG_CLEANED, Event
from muster_coordinator.ids import GroupNo
from muster_coordinator.records.batch import Record, encode_batch, iter_records, parse_header
from muster_coordinator.replica.partitions.topic_logs import LogView, TopicLog

from tests.sim import topic_frames
from tests.sim.check_transactions import ended
from tests.sim.client import Steps
from tests.sim.cluster import Cluster, Life, Replica
from tests.sim.history import Violation
from tests.sim.logs import read_log
from tests.sim.oracle import Oracle
from tests.sim.plan import CompactionPlan
from tests.sim.producers import TopicClient
from tests.sim.transactors import COMPACTED, PADDING, RECORD_MS, RETRIABLE
from tests.sim.written import Written

TOMBSTONES = 0.2
ONCE = 0.2
"""Of the records: their keys come once, so nothing ever hides what was taken too early."""


class KeyedWriter(TopicClient):
    """An idempotent producer of keyed records; one without a value now and then."""

    topic = COMPACTED

    def __init__(self, cluster: Cluster, name: str, keys: int) -> None:
        super().__init__(cluster, name, 0)
        self.keys = keys

    def steps(self) -> Steps:
        producer_id, epoch = yield from self.producer_id()
        sequence = 0
        while True:
            yield from self.sleep(self.rand.uniform(1, 150))
            records: list[tuple[bytes | None, bytes | None]] = []
            for number in range(self.rand.randint(1, 4)):
                value = b"%b/%d%b" % (self.name.encode(), sequence + number, PADDING)
                once = self.rand.random() < ONCE
                key = b"once-%d" % (sequence + number) if once else b"k%d" % self.rand.randrange(self.keys)
                records.append((key, None if self.rand.random() < TOMBSTONES else value))
            batch = encode_batch(
                records,
                timestamp_ms=RECORD_MS + self.world.now_us // 1000,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
            while True:
                line = yield from self.leader()
                request = topic_frames.produce(self.topic, self.partition, batch)
                found = yield from self.ask(line, topic_frames.PRODUCE, "", None, request)
                if found is not None and found[0] == 0:
                    break
                assert found is None or found[0] in RETRIABLE, f"Produce answered {found[0]}"
                self.hang_up()
                yield from self.sleep(self.rand.uniform(5, 100))
            self.last_success_us = self.world.now_us
            sequence += len(records)


class Compaction:
    """The topic's writers, and all that was written."""

    def __init__(self, cluster: Cluster, oracle: Oracle, plan: CompactionPlan) -> None:
        self.cluster = cluster
        self.plan = plan
        self.clients: list[TopicClient] = [KeyedWriter(cluster, "keyed", plan.keys)]
        self.written = Written(oracle, lambda replica, group, batch: group == self._group(replica))
        cluster.on_event.append(self._event)

    def configs(self) -> tuple[tuple[str, str], ...]:
        return (
            ("cleanup.policy", "compact"),
            ("min.cleanable.dirty.ratio", "0.01"),
            ("delete.retention.ms", str(self.plan.delete_retention_ms)),
        )

    def _group(self, replica: Replica) -> GroupNo | None:
        image = replica.node.image()
        return None if image is None or COMPACTED not in image.topics else image.topics[COMPACTED].partitions[0].group

    def _event(self, life: Life, event: Event) -> None:
        if event.kind is LOG_CLEANED and event.fields["raft_group"] == self._group(life.replica):
            log = log_of(life, event)
            assert isinstance(log, TopicLog)
            self.cluster.marks.add("a compacted log was cleaned")
            if log.topic.machine.first_open_offset() >= 0:
                self.cluster.marks.add("a log was cleaned below an open transaction")

    def truth(self) -> list[bytes]:
        """The log as it was written."""
        image = self.cluster.image()
        assert image is not None
        return self.written.log(image.topics[COMPACTED].partitions[0].group)

    def judge(self) -> list[Violation]:
        image = self.cluster.image()
        assert image is not None
        group = GroupNo(image.topics[COMPACTED].partitions[0].group)
        found = []
        truth = self.truth()
        for replica in self.cluster.holders(group):
            standing = read_log(replica, group)
            stay = self.plan.delete_retention_ms > 0
            found += check_cleaned(f"replica {replica.broker}", truth, standing, tombstones_stay=stay)
            missing = len(_records(truth)) - len(_records(standing))
            if missing:
                self.cluster.marks.add("cleaning took records")
        return found


def log_of(life: Life, event: Event) -> LogView:
    manager, number = life.node.group_manager, event.fields["raft_group"]
    assert manager is not None
    assert isinstance(number, int)
    return manager.logs[GroupNo(number)]


def check_stable(life: Life, event: Event) -> None:
    """To be told of all events: whatever is cleaned, topics and internal logs, is below the last stable offset (C4)."""
    if event.kind is LOG_CLEANED:
        cleaned_to, stable = event.fields["cleaned_to"], log_of(life, event).last_stable_offset()
        assert isinstance(cleaned_to, int)
        if cleaned_to > stable:
            who = f"{life.replica.broker} cleaned group {event.fields['raft_group']}"
            life.cluster.violations.append(Violation("C4", f"{who} to {cleaned_to}, and is stable to {stable}"))


def _records(batches: Iterable[bytes]) -> dict[int, Record]:
    return {r.offset: r for batch in batches if not parse_header(batch).is_control for r in iter_records(batch)}


def check_cleaned(
    who: str, truth: Sequence[bytes], standing: Sequence[bytes], *, tombstones_stay: bool
) -> list[Violation]:
    """One replica's log against the log as it was written."""
    found = []
    written, left = _records(truth), _records(standing)
    fates = {one.record.offset: one.committed for one in ended(truth)}
    newest: dict[bytes | None, int] = {}
    """Key -> offset of its last committed record."""
    for offset, record in sorted(written.items()):
        if fates.get(offset, True):
            newest[record.key] = offset
    for offset, record in left.items():
        known = written.get(offset)
        if known is None or (known.key, known.value) != (record.key, record.value):
            found.append(Violation("C2", f"{who}: {record} stands where {known} was written"))
    for offset, record in written.items():
        if offset in left or fates.get(offset) is False or newest.get(record.key, -1) > offset:
            continue
        if record.value is not None:
            found.append(Violation("C1", f"{who}: {record.key!r} has lost its last value, of offset {offset}"))
        elif tombstones_stay:
            found.append(Violation("C3", f"{who}: the tombstone of {record.key!r} at {offset} went before its time"))
    ends = [parse_header(log[-1]).next_offset if log else 0 for log in (truth, standing)]
    if ends[0] != ends[1]:
        found.append(Violation("C2", f"{who}: the log ends at {ends[1]}, {ends[0]} was written"))
    return found
