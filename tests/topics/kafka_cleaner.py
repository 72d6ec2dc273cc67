"""What Kafka's cleaner leaves of a log with transactions: an oracle over plain values.

Written after Kafka's source (`Cleaner.doClean`, `buildOffsetMap`, `cleanInto`; `CleanedTransactionMetadata`;
`MemoryRecords.filterTo`; `UnifiedLog.collectAbortedTransactions`). Left out: the empty batch that Kafka keeps at the
end of a round, where ours keeps one for whatever was removed (ADR 66).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Kept(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


class Batch(NamedTuple):
    base: int
    last: int
    producer: int
    epoch: int
    transactional: bool
    marker: str
    """COMMIT or ABORT; "" for a data batch."""
    records: tuple[Kept, ...]
    """Of a control batch: one, or none where only its header is left."""
    horizon_ms: int | None = None


class Ended(NamedTuple):
    """An entry of Kafka's transaction index."""

    producer: int
    first: int
    last: int


class _Metadata:
    """`CleanedTransactionMetadata`."""

    def __init__(self, aborted: Iterable[Ended]) -> None:
        self.to_come = sorted(aborted, key=lambda one: one.first)
        self.aborted: dict[int, list] = {}
        self.committed: set[int] = set()
        self.index: list[Ended] = []

    def _consume(self, offset: int) -> None:
        while self.to_come and self.to_come[0].first <= offset:
            one = self.to_come.pop(0)
            self.aborted.setdefault(one.producer, [one, False])

    def control(self, batch: Batch) -> bool:
        self._consume(batch.last)
        if not batch.records:
            return True
        if batch.marker == "COMMIT":
            seen = batch.producer in self.committed
            self.committed.discard(batch.producer)
            return not seen
        found = self.aborted.pop(batch.producer, None)
        if found is None or not found[1]:
            return True
        self.index.append(found[0])
        return False

    def data(self, batch: Batch) -> bool:
        self._consume(batch.last)
        if not batch.transactional:
            return False
        if batch.producer in self.aborted:
            self.aborted[batch.producer][1] = True
            return True
        self.committed.add(batch.producer)
        return False


class KafkaLog:
    """Batches in offset order, and the transaction index."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.index: list[Ended] = []

    def _aborted(self, first: int, end: int) -> list[Ended]:
        return [one for one in self.index if one.last >= first and one.first < end]

    def clean(
        self, *, now_ms: int, retention_ms: int, first_dirty: int, end: int, producers: Mapping[int, tuple[int, int]]
    ) -> None:
        """`producers`: live ones, (epoch, last data offset or -1)."""
        newest: dict[bytes, int] = {}
        walk = _Metadata(self._aborted(first_dirty, end))
        for batch in self.batches:
            if first_dirty <= batch.last < end:
                if batch.marker:
                    walk.control(batch)
                elif not walk.data(batch):
                    newest |= {r.key: r.offset for r in batch.records if r.key is not None}
        walk = _Metadata(self._aborted(0, end))
        kept = []
        for batch in self.batches:
            if batch.base >= end:
                kept.append(batch)
                continue
            goes = walk.control(batch) if batch.marker else walk.data(batch)
            left = self._left(batch, goes, newest, now_ms)
            if left:
                emptied = goes and bool(batch.marker)
                sets = batch.horizon_ms is None and (emptied or any(record.value is None for record in left))
                kept.append(
                    batch._replace(records=left, horizon_ms=now_ms + retention_ms if sets else batch.horizon_ms)
                )
            elif self._is_last(batch, producers):
                kept.append(batch._replace(records=(), horizon_ms=None))
        self.batches = kept
        self.index = walk.index + [one for one in self.index if one.last >= end]

    @staticmethod
    def _left(batch: Batch, goes: bool, newest: Mapping[bytes, int], now_ms: int) -> tuple[Kept, ...]:
        passed = batch.horizon_ms is not None and batch.horizon_ms <= now_ms
        if goes and (passed or not batch.marker):
            return ()
        if batch.marker:
            return batch.records
        return tuple(
            record
            for record in batch.records
            if record.key is not None
            and record.offset >= newest.get(record.key, -1)
            and (record.value is not None or not passed)
        )

    @staticmethod
    def _is_last(batch: Batch, producers: Mapping[int, tuple[int, int]]) -> bool:
        last = producers.get(batch.producer) if batch.producer >= 0 else None
        if last is None:
            return False
        epoch, offset = last
        return batch.last == offset if offset >= 0 else bool(batch.marker) and batch.epoch == epoch
