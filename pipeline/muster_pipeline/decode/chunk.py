"""Batches of one window as rows of `records`: inflated if needed, walked in lock step, decoded in columns.

`decode` is the only way from sound batches to rows. It yields one or several chunks, so that inflated bytes stay
bounded. It detects what a CRC cannot: blocks that do not inflate and records that do not fill their batch (the batch
goes to quarantine), keys and values that break their schema (the record does).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muster_pipeline.decode import codecs
from muster_pipeline.decode.headers import CODEC_MASK, Headers
from muster_pipeline.decode.limits import BATCH_BYTES_MIN, CHUNK_BYTES_MAX, RECORD_BYTES_MIN
from muster_pipeline.decode.origin import Damage, Origin, of_bytes
from muster_pipeline.decode.rows import Batches, rows
from muster_pipeline.decode.view import I64, Bools, View
from muster_pipeline.decode.walk import Walk, walk


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Rows in log order. `batches`, `decoded_bytes`, `missing` count the batches that were decoded, empty ones too."""

    records: pa.RecordBatch
    damages: tuple[Damage, ...]
    batches: int
    decoded_bytes: int
    missing: int


def decode(view: View, batches: Headers, origin: Origin, at: int, columns: frozenset[str] | None) -> Iterator[Chunk]:
    """Rows of these batches; the view begins at file position `at`. `columns`: the columns to make, None for all."""
    if not (batches.attributes & CODEC_MASK).any():
        if len(batches):
            yield _chunk(
                _Blocks(view, batches, batches.at + BATCH_BYTES_MIN, batches.end, []), view, origin, at, columns
            )
        return
    for blocks in _inflated(view, batches):
        yield _chunk(blocks, view, origin, at, columns)


@dataclass(slots=True)
class _Blocks:
    """Record areas [start, end) in `view`, and which batches could not be inflated: (number, why)."""

    view: View
    batches: Headers
    start: I64
    end: I64
    failed: list[tuple[int, str]]


def _inflated(view: View, batches: Headers) -> Iterator[_Blocks]:
    """Groups of batches whose records, inflated, take at most CHUNK_BYTES_MAX together (or one batch)."""
    data = memoryview(view.data)
    pieces: list[bytes | memoryview] = []
    failed: list[tuple[int, str]] = []
    total = first = 0
    for number, (at, end, attributes) in enumerate(
        zip(batches.at.tolist(), batches.end.tolist(), batches.attributes.tolist(), strict=True)
    ):
        piece: bytes | memoryview = data[at + BATCH_BYTES_MIN : end]
        codec = attributes & CODEC_MASK
        if codec:
            try:
                piece = codecs.inflate(codec, bytes(piece))
            except codecs.InflateError as error:
                piece = b""
                failed.append((number - first, str(error)))
        if pieces and total + len(piece) > CHUNK_BYTES_MAX:
            late = [failed.pop()] if failed and failed[-1][0] == number - first else []
            yield _joined(pieces, batches, first, failed)
            pieces, failed, total, first = [], [(0, why) for _, why in late], 0, number
        pieces.append(piece)
        total += len(piece)
    yield _joined(pieces, batches, first, failed)


def _joined(pieces: list[bytes | memoryview], batches: Headers, first: int, failed: list[tuple[int, str]]) -> _Blocks:
    sizes = np.array([len(piece) for piece in pieces], np.int64)
    end = np.cumsum(sizes)
    number = np.arange(len(batches))
    chosen = batches.where((number >= first) & (number < first + len(pieces)))
    return _Blocks(View(b"".join(pieces)), chosen, end - sizes, end, list(failed))


def _chunk(blocks: _Blocks, window: View, origin: Origin, at: int, columns: frozenset[str] | None) -> Chunk:
    batches = blocks.batches
    why = dict(blocks.failed)
    bad = np.zeros(len(batches), np.bool_)
    bad[list(why)] = True
    bad |= batches.count * RECORD_BYTES_MIN > blocks.end - blocks.start
    count = np.where(bad, 0, batches.count)
    walked = walk(blocks.view, blocks.start, blocks.end, count)
    batch_of = np.repeat(np.arange(len(batches)), count)
    bad |= walked.bad | _misplaced(walked, batches, batch_of)
    if bad.any():
        keep = ~bad[batch_of]
        walked, batch_of = _where(walked, keep), batch_of[keep]
    made = rows(blocks.view, walked, Batches(batches, batch_of, at), origin, columns)
    good = batches.where(~bad)
    return Chunk(
        records=made.records,
        damages=(*_lost(window, batches, bad, why, at), *made.damages),
        batches=len(good),
        decoded_bytes=int((good.end - good.at).sum()),
        missing=int((good.last_delta + 1 - good.count).sum()),
    )


def _misplaced(walked: Walk, batches: Headers, batch_of: I64) -> Bools:
    """Batches with an offset delta outside the header's range, or not above the one before it."""
    delta = walked.offset_delta
    wrong = (delta < 0) | (delta > batches.last_delta[batch_of])
    wrong[1:] |= (batch_of[1:] == batch_of[:-1]) & (delta[1:] <= delta[:-1])
    found = np.zeros(len(batches), np.bool_)
    found[batch_of[wrong]] = True
    return found


def _where(walked: Walk, keep: Bools) -> Walk:
    return Walk(bad=walked.bad, **{name: getattr(walked, name)[keep] for name in Walk.__slots__ if name != "bad"})


def _lost(window: View, batches: Headers, bad: Bools, why: dict[int, str], at: int) -> Iterator[Damage]:
    for number in np.flatnonzero(bad).tolist():
        start, end = int(batches.at[number]), int(batches.end[number])
        reason = "codec" if number in why else "records"
        detail = why.get(number, "the records do not fill the batch as its header says")
        damage = of_bytes(reason, detail, at + start, bytes(memoryview(window.data)[start:end]))
        yield Damage(
            **{
                **{name: getattr(damage, name) for name in Damage.__slots__},
                "first_offset": int(batches.base[number]),
                "last_offset": int(batches.last[number]),
            }
        )
