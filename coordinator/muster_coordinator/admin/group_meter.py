"""Samples of the groups coordinated here for `/metrics`, gathered in slices so that no turn walks all groups.

Problem: members, state and lag of thousands of groups, without O(groups) in one turn (decision 21) and without a
series per group (decision 39). Mechanism: a sweep walks the led offsets partitions, in slices of at most `SLICE_STEPS`
steps and `limits.SLICE_MS_MAX`, one every `limits.SLICE_WAIT_MS_MAX`. At its end it publishes all samples at once: the
`limits.METRIC_GROUPS_MAX` groups with the largest lag one by one, the rest summed. The pause between two sweeps is
`SWEEP_MS`, or `PAUSE_RATIO` times the last sweep if that is longer. A scrape between sweeps shows the last one. So a
sweep takes a twentieth of the loop at most, however many groups there are; the samples become older instead.

What it does not do: confirm leadership. A replica that has just lost a leadership shows its groups until the next
sweep.
"""

import heapq
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from muster_coordinator.admin import limits
from muster_coordinator.ports import Loop, Timer
from muster_coordinator.redis_streams.lag import Quality

SWEEP_MS = 5_000
PAUSE_RATIO = 3
"""100,000 groups take many seconds of slices; without this pause they would be swept all the time."""
SLICE_STEPS = 100
OTHER_GROUPS = "(other)"


class GroupSample(NamedTuple):
    """One group, or the sum of many."""

    group: str
    state: str
    members: int
    generation: int
    """-1: no member has ever joined. 0 in a sum: a sum of generations has no meaning."""
    lag: int | None
    """None: not known here (topics.mode none, no commit of a partition that has its log here, or a partition in Redis
    of which nothing is known now)."""
    quality: Quality = Quality.EXACT
    """Of the lag, if there is one."""

    @property
    def word(self) -> Quality:
        """What there is to say of the lag."""
        return Quality.UNKNOWN if self.lag is None else self.quality


class GroupSource(Protocol):
    """The led shards of a replica."""

    def led_partitions(self) -> tuple[int, ...]: ...
    def samples_of(self, partition: int) -> Iterator[GroupSample | None]:
        """Yields one sample per group, and None between the steps of a large group. Ends early when this replica no
        longer leads the partition."""
        ...


class GroupMeter:
    """`start` begins sweeping; `samples`, `rest` and `states` return the last complete sweep."""

    def __init__(self, loop: Loop, source: GroupSource) -> None:
        self._loop = loop
        self._source = source
        self._samples: tuple[GroupSample, ...] = ()
        self._rest: GroupSample | None = None
        self._states: Counter[str] = Counter()
        self._timer: Timer | None = None

    def start(self) -> None:
        self._again()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def samples(self) -> tuple[GroupSample, ...]:
        """The groups with a series, largest lag first."""
        return self._samples

    def rest(self) -> GroupSample | None:
        """The sum of the groups without a series; None when every group has one."""
        return self._rest

    def states(self) -> Counter[str]:
        """Number of groups by state."""
        return self._states

    def _again(self, took_ms: int = 0) -> None:
        when_ms = self._loop.monotonic_ms() + max(SWEEP_MS, PAUSE_RATIO * took_ms)
        self._timer = self._loop.call_at(when_ms, self._sweep)

    def _sweep(self) -> None:
        found = _Found()
        walk = self._walk()
        started_ms = self._loop.monotonic_ms()

        def slice_() -> None:
            began_ms = self._loop.monotonic_ms()
            for _ in range(SLICE_STEPS):
                try:
                    sample = next(walk)
                except StopIteration:
                    self._publish(found)
                    self._again(self._loop.monotonic_ms() - started_ms)
                    return
                if sample is not None:
                    found.add(sample)
                if self._loop.monotonic_ms() - began_ms >= limits.SLICE_MS_MAX:
                    break
            self._timer = self._loop.call_at(began_ms + limits.SLICE_WAIT_MS_MAX, slice_)

        slice_()

    def _walk(self) -> Iterator[GroupSample | None]:
        for partition in self._source.led_partitions():
            yield from self._source.samples_of(partition)

    def _publish(self, found: "_Found") -> None:
        self._states = found.states
        self._samples = found.largest()
        self._rest = found.rest()


class _Found:
    """What a sweep has found so far: the groups with the largest lag, the others summed. Adding a group costs the same
    however many there are; a list of all would be walked in the turn that publishes it."""

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self._largest: list[_Ranked] = []
        """A heap whose first item is the least urgent."""
        self._others = 0
        self._members = 0
        self._lag: int | None = None
        self._quality = Quality.EXACT

    def add(self, sample: GroupSample) -> None:
        self.states[sample.state] += 1
        if sample.group == OTHER_GROUPS:  # A client chose this name. Two series of one name would spoil the page.
            self._sum(sample)
            return
        ranked = _Ranked(_urgency(sample), sample)
        if len(self._largest) < limits.METRIC_GROUPS_MAX:
            heapq.heappush(self._largest, ranked)
        else:
            self._sum(heapq.heappushpop(self._largest, ranked).sample)

    def _sum(self, sample: GroupSample) -> None:
        self._others += 1
        self._members += sample.members
        if sample.lag is not None:
            self._lag = (self._lag or 0) + sample.lag
            if sample.quality is not Quality.EXACT:
                self._quality = sample.quality

    def largest(self) -> tuple[GroupSample, ...]:
        """Largest lag first."""
        return tuple(ranked.sample for ranked in sorted(self._largest, reverse=True))

    def rest(self) -> GroupSample | None:
        """The sum of all other groups; None when there are none."""
        if not self._others:
            return None
        return GroupSample(OTHER_GROUPS, "", self._members, 0, self._lag, self._quality)


class _Ranked:
    """A sample ordered by urgency: the least urgent is the smallest."""

    __slots__ = ("sample", "urgency")

    def __init__(self, urgency: tuple[int, str], sample: GroupSample) -> None:
        self.urgency = urgency
        self.sample = sample

    def __lt__(self, other: "_Ranked") -> bool:
        return self.urgency > other.urgency


def _urgency(sample: GroupSample) -> tuple[int, str]:
    return 1 if sample.lag is None else -sample.lag, sample.group
