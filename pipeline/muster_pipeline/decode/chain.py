"""Which batches with a sound CRC have a believable base offset and leader epoch: offsets must grow, epochs never fall.

Problem: base offset and leader epoch lie outside the CRC, so a flipped bit there shows only against the neighbours.
Mechanism: when all batches are in order, which two comparisons decide, all are kept. Otherwise the best chain is kept:
the one with most batches; among equals with most exact joints (the offsets between two kept batches are as many as the
batches skipped between them hold); among equals with fewest changes of epoch. The look-back is bounded.

What it cannot detect: a base offset that was raised within a gap of a compacted log, and a changed one in the very last
batch of an active segment.
"""

from dataclasses import dataclass, replace

import numpy as np

from muster_pipeline.decode.headers import Headers
from muster_pipeline.decode.limits import CHAIN_LOOK_BACK
from muster_pipeline.decode.view import I64, Bools

_BATCH, _JOINT = 4, 2
SEGMENT_SPAN = (1 << 31) - 1
"""Offsets of a segment beyond its base: Kafka and Muster roll before that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The position up to which a log was read. `offset_limit`: upper bound of its offsets, exclusive (the base of the
    next segment, if known)."""

    next_offset: int
    """Smallest base offset that the next batch may have."""
    epoch: int = -1
    offset_limit: int = (1 << 63) - 1

    def behind(self, headers: Headers) -> "Place":
        """The place after these batches, which are in order."""
        if not len(headers):
            return self
        return replace(self, next_offset=int(headers.last[-1]) + 1, epoch=int(headers.leader_epoch[-1]))


def in_order(headers: Headers, place: Place) -> Bools | None:
    """None if all batches follow `place` and each other; else a mask of those that do."""
    if not len(headers):
        return None
    inside = (headers.base >= place.next_offset) & (headers.last < place.offset_limit)
    grow = bool((headers.base[1:] > headers.last[:-1]).all())
    epochs = headers.leader_epoch
    rise = bool((epochs[1:] >= epochs[:-1]).all()) and int(epochs[0]) >= place.epoch
    if grow and rise and bool(inside.all()):
        return None
    return _best_chain(headers, place, inside)


def _best_chain(headers: Headers, place: Place, inside: Bools) -> Bools:
    """Longest chain by dynamic programming: a batch may follow any of the CHAIN_LOOK_BACK before it, or `place`."""
    base, last, epoch = headers.base.tolist(), headers.last.tolist(), headers.leader_epoch.tolist()
    sizes = headers.last_delta + 1
    level = (headers.base - (np.cumsum(sizes) - sizes)).tolist()  # equal for two batches whose joint is exact
    score = [0] * len(base)
    before = [-1] * len(base)
    for i in range(len(base)):
        if not inside[i]:
            score[i] = -1
            continue
        if epoch[i] >= place.epoch:
            score[i] = _BATCH + _JOINT * (level[i] == place.next_offset) + (epoch[i] == place.epoch)
        for j in range(max(0, i - CHAIN_LOOK_BACK), i):
            if score[j] > 0 and last[j] < base[i] and epoch[j] <= epoch[i]:
                value = score[j] + _BATCH + _JOINT * (level[i] == level[j]) + (epoch[i] == epoch[j])
                if value > score[i]:
                    score[i], before[i] = value, j
    mask = np.zeros(len(base), np.bool_)
    at = max(range(len(base)), key=score.__getitem__)
    while at >= 0 and score[at] > 0:
        mask[at] = True
        at = before[at]
    return mask


def reasons(headers: Headers, kept: Bools, place: Place) -> list[str]:
    """Per batch that is not kept: `epoch` if its offsets fit between its kept neighbours, else `continuity`."""
    bases, lasts = headers.base[kept], headers.last[kept]
    behind: I64 = np.searchsorted(np.flatnonzero(kept), np.flatnonzero(~kept))
    found = []
    for number, k in zip(np.flatnonzero(~kept).tolist(), behind.tolist(), strict=True):
        low = place.next_offset if k == 0 else int(lasts[k - 1]) + 1
        high = place.offset_limit if k == len(bases) else int(bases[k])
        fits = low <= int(headers.base[number]) and int(headers.last[number]) < high
        found.append("epoch" if fits else "continuity")
    return found
