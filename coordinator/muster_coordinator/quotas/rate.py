"""A rate over windows of samples, as Kafka's SampledStat and Rate measure it.

A value is added to the sample of its time; a sample is complete when its window has passed. The rate is the sum of all
samples that have an event within the last `number` windows, over the time since the oldest of them began, but over no
less than `number - 1` windows and the part of the current one: a client that has been silent may use at once what it
could have used in that time. What it does not do: read a clock.
"""

from typing import NamedTuple

from muster_coordinator.quotas.limits import THROTTLE_MS_MAX


class Windows(NamedTuple):
    """`quota.window.num` and `quota.window.size.seconds`."""

    number: int
    ms: int


class Measured(NamedTuple):
    """A rate and the time that it was measured over."""

    per_second: float
    window_ms: int


class _Sample:
    __slots__ = ("began_ms", "last_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.began_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """The samples of one user of a quota."""

    __slots__ = ("_current", "_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add a value; a negative one takes back what was added."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.began_ms >= self._windows.ms:
            sample = self._next(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def _next(self, now_ms: int) -> _Sample:
        # One more than there are windows: the oldest may still reach into the time that is measured.
        self._current = (self._current + 1) % (self._windows.number + 1)
        if self._current < len(self._samples):
            sample = self._samples[self._current]
            sample.reset(now_ms)
        else:
            sample = _Sample(now_ms)
            self._samples.append(sample)
        return sample

    def measure(self, now_ms: int) -> Measured:
        """The rate now. What has no event within the windows is forgotten."""
        number, window_ms = self._windows
        total, oldest_ms = 0.0, now_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= number * window_ms:
                sample.reset(now_ms)
            total += sample.value
            oldest_ms = min(oldest_ms, sample.began_ms)
        elapsed_ms = now_ms - oldest_ms
        missing = number - 1 - elapsed_ms // window_ms
        if missing > 0:
            elapsed_ms += missing * window_ms
        elapsed_ms = max(elapsed_ms, 1)
        return Measured(total * 1_000 / elapsed_ms, elapsed_ms)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """For how long nothing may be added until the rate is within its bound; 0: it is."""
        measured = self.measure(now_ms)
        if measured.per_second <= bound:
            return 0
        # X = (O - T) / T * W: after X the observed rate O over the window W has become T. A bound may be next to zero.
        return int(min((measured.per_second - bound) / bound * measured.window_ms, THROTTLE_MS_MAX) + 0.5)
