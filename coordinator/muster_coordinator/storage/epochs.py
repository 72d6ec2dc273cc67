"""Which leader epoch (Raft term) wrote which offsets of a partition: the answer to OffsetForLeaderEpoch (KIP-320).

Only applied batches come here, so the table never has to be cut at its end. Epochs and offsets both ascend.
"""

from bisect import bisect_right
from collections.abc import Iterable


class EpochTable:
    """(epoch, first offset) pairs, ascending."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in pairs:
            self.note(epoch, start)

    def note(self, epoch: int, offset: int) -> None:
        """A batch of `epoch` begins at `offset`."""
        if self._epochs:
            if epoch == self._epochs[-1]:
                return
            # Invariant: epochs ascend strictly, their first offsets never fall.
            assert epoch > self._epochs[-1], f"epoch {epoch} after {self._epochs[-1]}"
            assert offset >= self._starts[-1]
        self._epochs.append(epoch)
        self._starts.append(offset)

    def latest(self) -> int:
        """-1 for none."""
        return self._epochs[-1] if self._epochs else -1

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """(largest epoch <= `epoch`, where it ends); (-1, -1) for an epoch above the latest (protocol notes 14).

        An epoch below all known ones ends where the first known one begins, under its own number, as Kafka answers.
        """
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return -1, -1
        at = bisect_right(self._epochs, epoch)
        if at == 0:
            return epoch, self._starts[0]
        return self._epochs[at - 1], self._starts[at] if at < len(self._starts) else log_end

    def advance_start(self, offset: int) -> None:
        """Forget epochs that end at or below the new log start; the epoch that holds `offset` now begins there."""
        at = bisect_right(self._starts, offset)
        if at > 0:
            del self._epochs[: at - 1], self._starts[: at - 1]
            self._starts[0] = max(self._starts[0], offset)

    def pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple(zip(self._epochs, self._starts, strict=True))

    def of(self, offset: int) -> int:
        """The epoch that wrote `offset`; -1 when it is below the table."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else -1
