"""A range of offsets of one live log partition, fetched and decoded like a file.

`pieces` yields rows of exactly [start, end), whatever the batch borders. A Fetch answer may end within a batch, which
is no damage; the last sound batches of an answer are fetched again with the next one, because only later batches prove
a base offset (`decode.chain`). Offsets that the cluster deleted before they were read give a quarantine row of scope
`gap`, or raise OffsetGone in a strict run; they are never skipped silently. Byte positions are within the answer.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.decode import headers, window
from muster_pipeline.decode.chain import Place
from muster_pipeline.decode.chunk import decode
from muster_pipeline.decode.limits import BATCH_BYTES_MIN, KEPT_BATCHES
from muster_pipeline.decode.origin import Damage, Origin, of_bytes
from muster_pipeline.decode.segment import Account, Piece
from muster_pipeline.decode.view import View
from muster_pipeline.sources.cluster import Fetched
from muster_pipeline.sources.errors import ClusterUnreachable, OffsetGone

EMPTY_FETCHES_MAX: Final = 20
"""Answers without data below the high watermark; each waits up to half a second at the broker."""
UNREADABLE_FETCHES_MAX: Final = 1_000
"""Answers without one sound batch; after each, reading continues at least one offset later."""
FILE: Final = "fetch"


class Fetcher(Protocol):
    """The part of `sources.cluster.Cluster` that `pieces` uses."""

    def fetch(self, topic: str, partition: int, offset: int) -> Fetched:
        """See `sources.cluster.Cluster`."""


def origin(cluster: str, log_partition: int) -> Origin:
    """Origin of rows that were fetched."""
    return Origin(cluster=cluster, log_partition=log_partition, file=FILE, segment_base=-1)


class _Range:
    """The state of one range while it is read."""

    def __init__(self, start: int, end: int, columns: frozenset[str] | None) -> None:
        self.start = self.next = start
        self.end = end
        self.epoch = -1
        self.columns = None if columns is None else columns | {"log_offset"}
        self.account = Account(is_active=True, bytes_in=0)
        self.empty = self.unreadable = 0

    def piece(self, damages: tuple[Damage, ...], records: pa.RecordBatch | None = None) -> Piece:
        return Piece(records=records, damages=damages, account=self.account)


def pieces(
    fetcher: Fetcher,
    topic: str,
    where: Origin,
    start: int,
    end: int,
    *,
    strict: bool,
    columns: frozenset[str] | None = None,
) -> Iterator[Piece]:
    """Rows and damage of [start, end), in order. Raises OffsetGone, ClusterUnreachable. Asserts I1 at the end."""
    state = _Range(start, end, columns)
    while state.next < state.end:
        got = fetcher.fetch(topic, where.log_partition, state.next)
        if got.out_of_range:
            yield state.piece((_gap(state, got, where, strict=strict),))
        elif len(got.data) < BATCH_BYTES_MIN:
            state.empty += 1
            if state.empty > EMPTY_FETCHES_MAX:
                what = f"{topic}-{where.log_partition} gives no data at {state.next}, below its end {state.end}"
                raise ClusterUnreachable(what)
        else:
            state.empty = 0
            yield from _answer(state, got, where)
    assert state.account.balanced(), f"I1 broken for {where}: {state.account}"
    yield state.piece(())


def _answer(state: _Range, got: Fetched, where: Origin) -> Iterator[Piece]:
    data = got.data
    view = View(data)
    first = headers.parse(view, np.zeros(1, np.int64))
    begin = int(first.base[0])
    holds_next = begin <= state.next <= int(first.last[0])
    place = Place(next_offset=begin if holds_next else state.next, epoch=state.epoch, offset_limit=got.high_watermark)
    found = window.scan(view, place, whole=True)
    batches, consumed = found.batches, found.consumed
    if len(batches) and int(batches.last[-1]) + 1 < state.end:
        emitted = len(batches) - min(KEPT_BATCHES, len(batches) // 2)
        if emitted < len(batches):
            consumed = int(batches.at[emitted])
            batches = batches.where(np.arange(len(batches)) < emitted)
    elif len(batches) and int(batches.base[-1]) >= state.end:
        wanted = batches.base < state.end
        consumed = int(batches.at[int(wanted.sum())])
        batches = batches.where(wanted)
    regions = [region for region in found.regions if region.start < consumed]
    state.account.bytes_in += sum(region.end - region.start for region in regions)
    state.account.bytes_in += int((batches.end - batches.at).sum())
    damages = tuple(
        of_bytes(
            "framing" if one.reason == window.ZEROS else one.reason, one.detail, one.start, data[one.start : one.end]
        )
        for one in regions
    )
    state.account.add_damages(damages)
    if damages:
        yield state.piece(damages)
    for chunk in decode(view, batches, where, 0, state.columns):
        offset = chunk.records["log_offset"]
        inside = pc.and_(pc.greater_equal(offset, state.start), pc.less(offset, state.end))
        rows = replace(chunk, records=chunk.records.filter(inside))
        state.account.add(rows)
        yield state.piece(rows.damages, rows.records)
    _advance(state, batches, begin if holds_next else None, int(first.last[0]), consumed == 0 or bool(regions))


def _advance(state: _Range, batches: headers.Headers, begin: int | None, last: int, damaged: bool) -> None:
    """Continue after the decoded batches; without a sound one, after the offsets that the damaged batch claims."""
    if len(batches):
        if state.account.first_offset is None:
            state.account.first_offset = int(batches.base[0])
        state.account.next_offset = state.next = int(batches.last[-1]) + 1
        state.epoch = int(batches.leader_epoch[-1])
        return
    if not damaged:
        state.next = state.end
        return
    state.unreadable += 1
    if state.unreadable > UNREADABLE_FETCHES_MAX:
        raise ClusterUnreachable(f"{UNREADABLE_FETCHES_MAX} answers without one sound batch, the last at {state.next}")
    state.next = max(state.next + 1, min(last + 1, state.end) if begin is not None else 0)


def _gap(state: _Range, got: Fetched, where: Origin, *, strict: bool) -> Damage:
    """The damage of an out-of-range Fetch: the log begins after the offset. Raises OffsetGone if the log ends before
    it, or if the run is strict."""
    if got.log_start <= state.next:
        raise OffsetGone(
            f"log partition {where.log_partition} ends before offset {state.next}, which it had: the log was cut or "
            "created again; start with a new checkpoint folder"
        )
    first, last = state.next, min(got.log_start, state.end) - 1
    text = f"offsets {first} to {last} of log partition {where.log_partition} were deleted before they were read"
    if strict:
        raise OffsetGone(text + "; raise the retention of the offsets log, or run with gaps=row")
    state.next = last + 1
    return Damage(scope="gap", reason="retention_gap", detail=text, first_offset=first, last_offset=last)
