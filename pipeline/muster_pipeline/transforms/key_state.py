"""The committed offset of every key: the boundary state that rate, lag, stalls and expiry share.

`steps` orders a chunk's effects by key and gives, for each, the committed offset before it: that of the previous effect
in the chunk, or of the state left by earlier chunks. `absorb` then advances the state past the chunk.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster_pipeline.transforms.arrays import NONE, Bools, Ints
from muster_pipeline.transforms.commits import Effects
from muster_pipeline.transforms.grow import Grow


class Steps(NamedTuple):
    """Effects ordered by key, then by log; parallel arrays."""

    place: npt.NDArray[np.intp]
    """Index of each in the effects as they came, in log order."""
    at: Ints
    clock_ms: Ints
    key: Ints
    offset: Ints
    before: Ints
    """Committed offset before; NONE if there was none."""
    before_ms: Ints
    """The clock at the effect before; NONE if there was none."""
    is_last: Bools
    """The key's last one in this chunk."""


class KeyState:
    """Committed offsets by key number; NONE where there is none."""

    def __init__(self) -> None:
        none = np.int64(NONE)
        self.offset = Grow(none)
        self.commit_ms = Grow(none)
        self.expire_ms = Grow(none)
        self.clock_ms = Grow(none)

    def steps(self, effects: Effects, key_count: int) -> Steps:
        """The chunk's effects against the state before it."""
        place = np.argsort(effects.key, kind="stable")
        key, offset, clock = effects.key[place], effects.offset[place], effects.clock_ms[place]
        size = len(key)
        is_first = np.ones(size, dtype=np.bool_)
        is_first[1:] = key[1:] != key[:-1]
        is_last = np.ones(size, dtype=np.bool_)
        is_last[:-1] = is_first[1:]
        before, before_ms = np.empty_like(offset), np.empty_like(clock)
        before[1:], before_ms[1:] = offset[:-1], clock[:-1]
        before[is_first] = self.offset.ensure(key_count)[key[is_first]]
        before_ms[is_first] = self.clock_ms.ensure(key_count)[key[is_first]]
        before_ms[before == NONE] = NONE
        return Steps(place, effects.at[place], clock, key, offset, before, before_ms, is_last)

    def absorb(self, effects: Effects, steps: Steps, key_count: int) -> None:
        """The state after the chunk."""
        last = steps.place[steps.is_last]
        keys = effects.key[last]
        for state, values in (
            (self.offset, effects.offset),
            (self.commit_ms, effects.commit_ms),
            (self.expire_ms, effects.expire_ms),
            (self.clock_ms, effects.clock_ms),
        ):
            state.ensure(key_count)[keys] = values[last]
