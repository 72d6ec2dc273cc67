"""A topic partition driven as its host does: offers become log entries, entries are applied, answers are read off."""

import struct
from collections.abc import Mapping

from muster_coordinator.groups.effects import AppliedBatch, Now
from muster_coordinator.topics.machine import Accepted, Duplicate, Refused
from muster_coordinator.topics.partition import TopicPartition

from tests.topics.batch_bytes import T0, stamped

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOW = Now(monotonic_ms=1_000_000, wall_ms=T0)


def later(ms: int, now: Now = NOW) -> Now:
    return Now(now.monotonic_ms + ms, now.wall_ms + ms)


class Leader:
    """One replica that leads; `log` is what a follower would apply."""

    def __init__(self, configs: Mapping[str, str] | None = None) -> None:
        self.partition = TopicPartition()
        self.configs = configs or {}
        self.pending: list[Accepted] = []
        self.log: list[AppliedBatch | bytes] = []
        self.term = 1

    def offer(self, records: bytes, now: Now = NOW, *, behind: int | None = None) -> Refused | Duplicate | Accepted:
        result = self.partition.offer(now, records, configs=self.configs, behind=behind)
        if isinstance(result, Accepted):
            self.pending.append(result)
        return result

    def accept(self, records: bytes, now: Now = NOW) -> Accepted:
        result = self.offer(records, now)
        assert isinstance(result, Accepted), result
        return result

    def refuse(self, records: bytes, now: Now = NOW) -> Refused:
        before = self.partition.state_hash()
        result = self.offer(records, now)
        assert isinstance(result, Refused), result
        assert self.partition.state_hash() == before
        return result

    def commit_one(self) -> int:
        """Apply the oldest batch in flight; returns its base offset."""
        accepted = self.pending.pop(0)
        base = self.partition.next_offset()
        entry = AppliedBatch(self.term, base, stamped(accepted.batch, base, self.term))
        self.log.append(entry)
        self.partition.apply_batch(entry)
        self.partition.applied(accepted.token)
        return base

    def produce(self, records: bytes, now: Now = NOW) -> int:
        self.accept(records, now)
        while len(self.pending) > 1:
            self.commit_one()
        return self.commit_one()

    def command(self, data: bytes) -> None:
        self.log.append(data)
        self.partition.apply_command(data)


def replay(log: list[AppliedBatch | bytes], onto: TopicPartition | None = None) -> TopicPartition:
    """A follower: the same entries, nothing else."""
    partition = onto or TopicPartition()
    for entry in log:
        if isinstance(entry, bytes):
            partition.apply_command(entry)
        else:
            partition.apply_batch(entry)
    return partition


def count_of(batch: bytes) -> int:
    return int(struct.unpack_from(">i", batch, 57)[0])
