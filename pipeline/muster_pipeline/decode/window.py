"""One window of a log: its sound batches in order, its damaged regions, and where the next window begins.

Pure and total: any bytes give a result. Invariant: batches, regions and tail cover the window up to `consumed` without
overlap. A window that is not the last one keeps its last sound batches for the next window, because only the batches
after a batch prove its base offset and epoch.
"""

import struct
from dataclasses import dataclass, field
from typing import Final

import crc32c
import numpy as np

from muster_pipeline.decode import chain, headers, search
from muster_pipeline.decode.chain import Place
from muster_pipeline.decode.headers import Headers
from muster_pipeline.decode.limits import BATCH_BYTES_MAX, BATCH_BYTES_MIN, KEPT_BATCHES
from muster_pipeline.decode.view import View

_FRAME: Final = struct.Struct(">iibI")
ZEROS: Final = "zeros"
"""Reason of a region of zeros up to the window's end: preallocated space if it ends an active segment, else damage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Damaged bytes [start, end) of the window."""

    start: int
    end: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """`consumed`: the next window begins there, and must be at least `need` bytes long, if the log has so many.

    `tail`: position of an incomplete batch that ends the log, or None; only in the log's last window.
    """

    batches: Headers
    regions: tuple[Region, ...]
    consumed: int
    need: int
    tail: int | None
    place: Place


@dataclass(slots=True)
class _Progress:
    view: View
    place: Place
    whole: bool
    at: int = 0
    need: int = 0
    tail: int | None = None
    ended: bool = False
    positions: list[int] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)

    def skip(self, to: int, reason: str, detail: str) -> None:
        self.regions.append(Region(start=self.at, end=to, reason=reason, detail=detail))
        self.at = to


def scan(view: View, place: Place, *, whole: bool) -> Window:
    """Split a window that begins at `place`. `whole`: the log ends where the window ends."""
    progress = _Progress(view, place, whole)
    while not progress.ended:
        problem = _run(progress)
        if progress.at == view.size:
            break
        if problem in ("short", "beyond"):
            _at_end(progress)
        elif not whole and progress.at > view.size // 2:
            progress.ended = True  # The next window begins here and sees more bytes after the damage.
        else:
            _damage(progress, problem)
    return _judge(progress)


def _run(progress: _Progress) -> str:
    """Note sound batches until something stops it; returns what: short, beyond, framing, crc, or end."""
    view, at, size = progress.view, progress.at, progress.view.size
    data, unpack, checksum, note = memoryview(view.data), _FRAME.unpack_from, crc32c.crc32c, progress.positions.append
    problem = "end"
    while at < size:
        if size - at < BATCH_BYTES_MIN:
            problem = "short"
            break
        length, _, magic, crc = unpack(data, at + headers.LENGTH_AT)
        end = at + headers.LENGTH_END + length
        if magic != headers.MAGIC or not BATCH_BYTES_MIN <= end - at <= BATCH_BYTES_MAX:
            problem = "framing"
            break
        if end > size:
            problem = "beyond"
            progress.need = end - at
            break
        if checksum(data[at + headers.CRC_FROM : end]) != crc:
            problem = "crc"
            break
        note(at)
        at = end
    progress.at = at
    return problem


def _at_end(progress: _Progress) -> None:
    """Fewer bytes are left than the batch needs: the next window has it, or the log ends here, or its length is
    damaged."""
    progress.need = max(progress.need, BATCH_BYTES_MIN)
    if not progress.whole:
        progress.ended = True
        return
    found = search.next_batch(progress.view, progress.at + 1, progress.place, whole=True)
    if found is None:
        progress.tail = progress.at
        progress.ended = True
    else:
        progress.skip(found.at, "framing", "a length that reaches beyond the file, with a sound batch before its end")


def _damage(progress: _Progress, reason: str) -> None:
    view, at, whole = progress.view, progress.at, progress.whole
    limit = view.size if whole else view.size - BATCH_BYTES_MIN + 1
    if reason == "framing" and not view.u8[at : view.size].any():
        progress.skip(limit, ZEROS, "zeros")
        progress.ended = True
        return
    detail = "the batch's CRC-32C does not fit" if reason == "crc" else "no batch header (length or magic)"
    if reason == "crc":
        end = at + headers.LENGTH_END + int.from_bytes(view.data[at + 8 : at + 12], "big")
        if _begins(view, end, progress.place, whole=whole):
            progress.skip(end, reason, detail)
            return
    found = search.next_batch(view, at + 1, progress.place, whole=whole)
    if found is not None:
        progress.skip(found.at, reason, detail)
        progress.need = found.end - found.at
        progress.ended = not found.sound
        return
    progress.skip(max(limit, at + 1), reason, detail)
    progress.ended = True


def _begins(view: View, at: int, place: Place, *, whole: bool) -> bool:
    """Does a sound batch begin at `at`, or does the log end there?"""
    if at == view.size:
        return whole
    if view.size - at < BATCH_BYTES_MIN:
        return False
    one = headers.parse(view, np.array([at], np.int64))
    if not headers.possible(one)[0] or one.base[0] < place.next_offset or view.u8[at + headers.MAGIC_AT] != 2:
        return False
    end = int(one.end[0])
    return search.crc_fits(view, at, end) if end <= view.size else not whole


def _judge(progress: _Progress) -> Window:
    """Drop impossible and misplaced batches; leave the last ones to the next window."""
    found = headers.parse(progress.view, np.array(progress.positions, np.int64))
    regions = progress.regions
    ok = headers.possible(found)
    if not ok.all():
        regions += _regions(found.where(~ok), ["framing"] * int((~ok).sum()), "the CRC fits, the header is impossible")
        found = found.where(ok)
    kept = chain.in_order(found, progress.place)
    if kept is not None:
        why = chain.reasons(found, kept, progress.place)
        regions += _regions(found.where(~kept), why, "base offset or leader epoch contradict the batches around it")
        found = found.where(kept)
    consumed = progress.tail if progress.tail is not None else progress.at
    if not progress.whole:
        emitted = len(found) - min(KEPT_BATCHES, len(found) // 2)
        if emitted < len(found):
            consumed = int(found.at[emitted])
            found = found.where(np.arange(len(found)) < emitted)
            progress.need = 0
    regions = sorted((region for region in regions if region.start < consumed), key=lambda region: region.start)
    return Window(
        batches=found,
        regions=tuple(regions),
        consumed=consumed,
        need=progress.need,
        tail=progress.tail,
        place=progress.place.behind(found),
    )


def _regions(batches: Headers, reasons: list[str], detail: str) -> list[Region]:
    return [
        Region(start=at, end=end, reason=reason, detail=f"{detail}: base offset {base}, last {last}, epoch {epoch}")
        for at, end, reason, base, last, epoch in zip(
            batches.at.tolist(),
            batches.end.tolist(),
            reasons,
            batches.base.tolist(),
            batches.last.tolist(),
            batches.leader_epoch.tolist(),
            strict=True,
        )
    ]
