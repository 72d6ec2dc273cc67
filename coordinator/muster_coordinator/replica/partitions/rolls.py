"""A leader has its log say by what segments end, before the first batch that is to follow the rule.

Problem: segment.bytes and segment.ms reach replicas at different times, after a restart even at once, while sealed
segments must be equal on all of them. Mechanism: the rule in force is part of the applied state (`SetRoll` in the log,
roll in the checkpoint); a leader compares it with the config before each batch and proposes the new one first, so an
alteration takes effect with the next batch. Time is measured between record timestamps only. It does not judge values:
the controller refused bad ones.
"""

from collections.abc import Callable

from muster_coordinator.replica.partitions.partition import PartitionState
from muster_coordinator.topics.log_commands import SetRoll, encode_log_command


class Rolls:
    """Of one partition. `wanted()`: (bytes, milliseconds) as configured now; None: say nothing."""

    def __init__(
        self,
        state: PartitionState,
        wanted: Callable[[], tuple[int, int] | None],
        propose: Callable[[bytes, Callable[[bool], None]], bool],
    ) -> None:
        self._state = state
        self._wanted = wanted
        self._propose = propose
        self._proposed: tuple[int, int] | None = None
        """The last one in this term; all that an earlier leader proposed is applied when this one serves."""

    def said(self) -> bool:
        """On the leader that serves: does the log say what is wanted, to its end? Proposes it if not; False: refused,
        nothing may be appended yet."""
        wanted = self._wanted()
        if wanted is None or wanted == (self._proposed or self._state.replicated_roll):
            return True
        if not self._propose(encode_log_command(SetRoll(*wanted)), _done):
            return False
        self._proposed = wanted
        return True

    def resign(self) -> None:
        """Leadership is gone: what was proposed may be lost."""
        self._proposed = None


def _done(applied: bool) -> None:
    """Lost only with the leadership; the next leader looks at what is applied."""
