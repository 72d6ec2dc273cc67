"""Idempotent producers of one partition: their last batches, by which a new batch is judged (protocol notes 12.4).

Problem: a producer retries a batch whose answer it lost; the retry must be recognised, not stored again. Mechanism: an
immutable `ProducerState` per producer; `judge` compares a batch with it, `advance` returns the next state. Both are
pure, so a leader can judge against the states of in-flight batches and drop these when it loses leadership.
`ProducerTable` holds only applied batches, so it is equal on all replicas. It has no clock: the leader proposes which
producers expire, and every replica applies that.
"""

import struct
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from muster_coordinator.limits import PRODUCER_BATCHES_KEPT
from muster_coordinator.records.batch import BatchHeader
from muster_coordinator.records.errors import MalformedError, UnsupportedError

_SEQUENCES = 2**31
NO_OFFSET = -1
IN_FLIGHT = -2
"""First offset of a transaction whose first batch is not applied yet; never in a table."""
NO_COORDINATOR_EPOCH = -1
_VERSION = 0
_WITH_COORDINATORS = 1
"""Version of a table with a producer that has ended a transaction."""
_TABLE_HEAD = struct.Struct(">hI")
_STATE = struct.Struct(">qhqqB")
_BATCH = struct.Struct(">iiqiq")
_COUNT = struct.Struct(">I")
_COORDINATOR = struct.Struct(">qi")


class StoredBatch(NamedTuple):
    """One of a producer's last batches."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    """NO_OFFSET while the batch is in flight."""
    last_offset_delta: int
    timestamp_ms: int
    """maxTimestamp of the batch: a duplicate is answered with it (protocol notes 12.3)."""


class ProducerState(NamedTuple):
    """One producer's state; immutable."""

    epoch: int
    batches: tuple[StoredBatch, ...]
    """Oldest first, at most PRODUCER_BATCHES_KEPT, all of this epoch."""
    last_timestamp_ms: int
    """Timestamp of the last batch or marker; expiry counts from it."""
    transaction_first_offset: int = NO_OFFSET
    """First offset of the open transaction, NO_OFFSET for none."""
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    """Of the coordinator that wrote the producer's last marker."""

    @property
    def in_transaction(self) -> bool:
        return self.transaction_first_offset != NO_OFFSET


class Standing(IntEnum):
    """How a batch relates to its producer's state."""

    NEXT = 0
    DUPLICATE = 1
    FENCED = 2
    """Answer 47."""
    OUT_OF_ORDER = 3
    """Answer 45."""


class Judgement(NamedTuple):
    standing: Standing
    batch: StoredBatch | None = None
    """The original of a DUPLICATE."""


_NEXT = Judgement(Standing.NEXT)
_FENCED = Judgement(Standing.FENCED)
_OUT_OF_ORDER = Judgement(Standing.OUT_OF_ORDER)


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """Sequence of a batch's last record; after 2147483647 comes 0."""
    return (base_sequence + last_offset_delta) % _SEQUENCES


def judge(state: ProducerState | None, epoch: int, base_sequence: int, last_offset_delta: int) -> Judgement:
    """Check in Kafka's order: duplicate, epoch, sequence. An unknown producer may begin at any sequence (KIP-360)."""
    if state is None:
        return _NEXT
    if epoch == state.epoch:
        last = last_sequence(base_sequence, last_offset_delta)
        for batch in state.batches:
            if batch.first_sequence == base_sequence and batch.last_sequence == last:
                return Judgement(Standing.DUPLICATE, batch)
        # An epoch without batches came from an end-transaction marker; its first sequence is 0, as in any new epoch.
        wanted = (state.batches[-1].last_sequence + 1) % _SEQUENCES if state.batches else 0
        return _NEXT if base_sequence == wanted else _OUT_OF_ORDER
    if epoch < state.epoch:
        return _FENCED
    return _NEXT if base_sequence == 0 else _OUT_OF_ORDER


def advance(state: ProducerState | None, header: BatchHeader, base_offset: int) -> ProducerState:
    """The state after a data batch that was judged NEXT. `base_offset` is NO_OFFSET while it is in flight."""
    batch = StoredBatch(
        header.base_sequence,
        last_sequence(header.base_sequence, header.last_offset_delta),
        base_offset,
        header.last_offset_delta,
        header.max_timestamp_ms,
    )
    opened = NO_OFFSET if state is None else state.transaction_first_offset
    if header.is_transactional and opened == NO_OFFSET:
        opened = IN_FLIGHT if base_offset == NO_OFFSET else base_offset
    coordinator = NO_COORDINATOR_EPOCH if state is None else state.coordinator_epoch
    if state is None or state.epoch != header.producer_epoch:
        return ProducerState(header.producer_epoch, (batch,), header.max_timestamp_ms, opened, coordinator)
    kept = (*state.batches[1 - PRODUCER_BATCHES_KEPT :], batch)
    return ProducerState(state.epoch, kept, header.max_timestamp_ms, opened, coordinator)


def end_transaction(
    state: ProducerState | None,
    producer_epoch: int,
    timestamp_ms: int,
    coordinator_epoch: int = NO_COORDINATOR_EPOCH,
) -> ProducerState:
    """The state after an end-transaction marker: no open transaction; a marker of a newer epoch drops the batches."""
    batches = () if state is None or state.epoch != producer_epoch else state.batches
    return ProducerState(producer_epoch, batches, timestamp_ms, NO_OFFSET, coordinator_epoch)


class ProducerTable:
    """All producers of one partition, as applied."""

    __slots__ = ("_open", "_states")

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self._open: OrderedDict[int, int] = OrderedDict()
        """producer -> first offset of its open transaction. Invariant: oldest first, since offsets only grow. Not a
        plain dict: there, finding the first key walks over all keys deleted before it."""

    def __len__(self) -> int:
        return len(self._states)

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def items(self) -> Iterator[tuple[int, ProducerState]]:
        return iter(self._states.items())

    def apply(self, header: BatchHeader, base_offset: int, coordinator_epoch: int = NO_COORDINATOR_EPOCH) -> None:
        """Apply a batch of the log; batches come in order. One without a producer changes nothing.
        `coordinator_epoch`: of a marker."""
        if header.producer_id < 0:
            return
        state = self._states.get(header.producer_id)
        if header.is_control:
            after = end_transaction(state, header.producer_epoch, header.max_timestamp_ms, coordinator_epoch)
        else:
            after = advance(state, header, base_offset)
        self._states[header.producer_id] = after
        if after.transaction_first_offset == NO_OFFSET:
            self._open.pop(header.producer_id, None)
        elif header.producer_id not in self._open:
            self._open[header.producer_id] = after.transaction_first_offset

    def expired(self, now_ms: int, expiration_ms: int) -> list[tuple[int, ProducerState]]:
        """Producers whose last batch is older than `expiration_ms` and that have no open transaction, by ascending id;
        the leader proposes their expiry."""
        oldest = now_ms - expiration_ms
        silent = [
            (producer_id, state)
            for producer_id, state in self._states.items()
            if state.last_timestamp_ms < oldest and state.transaction_first_offset == NO_OFFSET
        ]
        return sorted(silent, key=lambda one: one[0])

    def expire(self, producer_ids: Iterable[int]) -> None:
        """Apply a replicated expiry; unknown ids are harmless."""
        for producer_id in producer_ids:
            self._states.pop(producer_id, None)
            self._open.pop(producer_id, None)

    def first_open_offset(self) -> int:
        """First offset of the oldest open transaction (the last stable offset), or NO_OFFSET. Called at every read of
        a log, so it takes constant time."""
        return next(iter(self._open.values()), NO_OFFSET)

    def open_count(self) -> int:
        """Number of producers with an open transaction."""
        return len(self._open)

    def copy(self) -> "ProducerTable":
        """A snapshot for a checkpoint: the states are immutable, so one dict copy is enough."""
        other = ProducerTable()
        other._states = self._states.copy()
        other._open = self._open.copy()
        return other

    def encode(self) -> bytes:
        """The table in bytes, by ascending producer id: equal tables give equal bytes."""
        pieces = [b""]
        ended: list[bytes] = []
        for producer_id in sorted(self._states):
            epoch, batches, last_ms, opened, coordinator_epoch = self._states[producer_id]
            pieces.append(_STATE.pack(producer_id, epoch, last_ms, opened, len(batches)))
            pieces += [_BATCH.pack(*batch) for batch in batches]
            if coordinator_epoch != NO_COORDINATOR_EPOCH:
                ended.append(_COORDINATOR.pack(producer_id, coordinator_epoch))
        # Without markers the bytes are those of releases that know none.
        pieces[0] = _TABLE_HEAD.pack(_WITH_COORDINATORS if ended else _VERSION, len(self._states))
        if ended:
            pieces += (_COUNT.pack(len(ended)), *ended)
        return b"".join(pieces)

    @classmethod
    def decode(cls, data: bytes) -> "ProducerTable":
        """Inverse of `encode`; MalformedError when `data` is not exactly one table."""
        table = cls()
        try:
            version, count = _TABLE_HEAD.unpack_from(data)
            if version not in (_VERSION, _WITH_COORDINATORS):
                raise UnsupportedError(f"producer table version {version}")
            position = _TABLE_HEAD.size
            for _ in range(count):
                producer_id, epoch, last_ms, opened, kept = _STATE.unpack_from(data, position)
                position += _STATE.size
                batches = []
                for _ in range(kept):
                    batches.append(StoredBatch._make(_BATCH.unpack_from(data, position)))
                    position += _BATCH.size
                table._states[producer_id] = ProducerState(epoch, tuple(batches), last_ms, opened)
            if version == _WITH_COORDINATORS:
                position = table._decode_coordinators(data, position)
        except struct.error:
            raise MalformedError("a producer table is cut short") from None
        if position != len(data):
            raise MalformedError("bytes after a producer table")
        opened = ((state.transaction_first_offset, producer_id) for producer_id, state in table._states.items())
        table._open.update((producer_id, first) for first, producer_id in sorted(opened) if first != NO_OFFSET)
        return table

    def _decode_coordinators(self, data: bytes, position: int) -> int:
        """Read the epochs of coordinators at `position`; returns where they end."""
        (count,) = _COUNT.unpack_from(data, position)
        position += _COUNT.size
        for _ in range(count):
            producer_id, coordinator_epoch = _COORDINATOR.unpack_from(data, position)
            position += _COORDINATOR.size
            state = self._states.get(producer_id)
            if state is None:
                raise MalformedError(f"a coordinator of producer {producer_id}, which the table lacks")
            self._states[producer_id] = state._replace(coordinator_epoch=coordinator_epoch)
        return position
