"""A whole segment, window by window: rows, damage, and the account that proves that no byte was lost.

`decode_segment` takes a read function, not a file, so the same code serves folders, object stores and tests. It holds
one window at a time. Invariant I1 (bytes in = decoded + quarantined + pending) is asserted at the end of every segment.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise

import pyarrow as pa

from muster_pipeline.decode import window
from muster_pipeline.decode.chain import SEGMENT_SPAN, Place
from muster_pipeline.decode.chunk import Chunk, decode
from muster_pipeline.decode.limits import BATCH_BYTES_MAX, WINDOW_BYTES
from muster_pipeline.decode.origin import Damage, Origin, of_bytes
from muster_pipeline.decode.view import View
from muster_pipeline.schemas.quarantine import FILES

Read = Callable[[int, int], bytes]
"""(position, size) -> exactly so many bytes."""


@dataclass(slots=True, kw_only=True)
class Account:
    """Row of table `files` without its origin; grows while the segment is read."""

    is_active: bool
    bytes_in: int
    bytes_decoded: int = 0
    bytes_quarantined: int = 0
    bytes_pending: int = 0
    batches: int = 0
    records: int = 0
    records_quarantined: int = 0
    first_offset: int | None = None
    next_offset: int | None = None
    offsets_missing: int = 0

    def add(self, chunk: Chunk) -> None:
        """Count a chunk."""
        self.bytes_decoded += chunk.decoded_bytes
        self.batches += chunk.batches
        self.records += chunk.records.num_rows
        self.offsets_missing += chunk.missing
        self.add_damages(chunk.damages)

    def add_damages(self, damages: tuple[Damage, ...]) -> None:
        """Count damage."""
        self.bytes_quarantined += sum(damage.byte_count for damage in damages)
        self.records_quarantined += sum(damage.scope == "record" for damage in damages)

    def balanced(self) -> bool:
        """Invariant I1."""
        return self.bytes_in == self.bytes_decoded + self.bytes_quarantined + self.bytes_pending


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The result of one step. All pieces share one `account`, which is final after the last piece."""

    records: pa.RecordBatch | None
    damages: tuple[Damage, ...]
    account: Account


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One segment to read. `next_base`: base offset of the next segment; None for the newest, which may still grow."""

    origin: Origin
    size: int
    next_base: int | None

    @property
    def is_active(self) -> bool:
        """Active: an incomplete batch at its end is pending, not damage."""
        return self.next_base is None

    def place(self) -> Place:
        """The place at which its first batch must begin."""
        base = self.origin.segment_base
        limit = base + SEGMENT_SPAN + 1 if self.next_base is None else self.next_base
        return Place(next_offset=base, offset_limit=limit)


def decode_segment(read: Read, segment: Segment, columns: frozenset[str] | None = None) -> Iterator[Piece]:
    """Rows and damage of a segment, in file order; the last piece has no records. Asserts I1 when exhausted."""
    account = Account(is_active=segment.is_active, bytes_in=segment.size)
    at, need, place, zeros_from = 0, WINDOW_BYTES, segment.place(), -1
    while at < segment.size:
        size = min(max(WINDOW_BYTES, need), segment.size - at)
        view = View(read(at, size))
        assert view.size == size, f"asked for {size} bytes at {at}, got {view.size}"
        found = window.scan(view, place, whole=at + size == segment.size)
        assert found.consumed > 0 or size < found.need <= BATCH_BYTES_MAX, "no progress"
        damages, zeros = _damages(view, at, found, zeros_from)
        account.add_damages(damages)
        if damages:
            yield Piece(records=None, damages=damages, account=account)
        for chunk in decode(view, found.batches, segment.origin, at, columns):
            account.add(chunk)
            yield Piece(records=chunk.records, damages=chunk.damages, account=account)
        if len(found.batches):
            first = int(found.batches.base[0])
            account.first_offset = first if account.first_offset is None else account.first_offset
            account.next_offset = found.place.next_offset
        at, need, place, zeros_from = at + found.consumed, found.need, found.place, zeros
        if found.tail is not None:
            break
    yield _end(read, segment, account, zeros_from if zeros_from >= 0 else at)


def _damages(view: View, at: int, found: window.Window, zeros_from: int) -> tuple[tuple[Damage, ...], int]:
    """(damage of a window, start of a run of zeros that reaches its end, or -1). Zeros become damage only when other
    bytes follow: at the end of an active segment they are preallocated space."""
    damages: list[Damage] = []
    if zeros_from >= 0 and view.u8[: max(1, found.consumed)].any():
        damages += _zeros(zeros_from, at)
        zeros_from = -1
    for region in found.regions:
        if region.reason == window.ZEROS:
            zeros_from = at + region.start if zeros_from < 0 else zeros_from
        else:
            data = bytes(memoryview(view.data)[region.start : region.end])
            damages.append(of_bytes(region.reason, region.detail, at + region.start, data))
    return tuple(damages), zeros_from


def _zeros(start: int, end: int) -> list[Damage]:
    detail = f"{end - start} zero bytes where a batch should be"
    edges = [*range(start, end, WINDOW_BYTES), end]
    return [of_bytes("framing", detail, low, bytes(high - low)) for low, high in pairwise(edges)]


def _end(read: Read, segment: Segment, account: Account, tail: int) -> Piece:
    """Account for the bytes after the last batch: pending (incomplete or preallocated) in an active segment, truncated
    in a sealed one."""
    left = segment.size - tail
    damages: tuple[Damage, ...] = ()
    if left and segment.is_active:
        account.bytes_pending = left
    elif left:
        detail = f"the sealed segment ends {left} bytes behind its last whole batch"
        edges = [*range(tail, segment.size, WINDOW_BYTES), segment.size]
        damages = tuple(of_bytes("truncated", detail, low, read(low, high - low)) for low, high in pairwise(edges))
        account.add_damages(damages)
    assert account.balanced(), f"I1 broken for {segment.origin}: {account}"
    return Piece(records=None, damages=damages, account=account)


def files(origin: Origin, account: Account) -> pa.RecordBatch:
    """One row of table `files`."""
    return pa.RecordBatch.from_pylist([{**asdict(origin), **asdict(account)}], schema=FILES)


def reader(data: bytes | memoryview) -> Read:
    """A read function over bytes in memory."""
    return lambda at, size: bytes(data[at : at + size])
