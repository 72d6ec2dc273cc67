"""Rules for the end of segments, replicated in the partition's log before the first batch to which they apply.

Problem: changes of segment.bytes and segment.ms reach the replicas at different times, and after a restart before the
log is replayed; but sealed segments must be equal on all replicas. Mechanism: the rule in force is part of the applied
state (`SetRoll` in the log, `roll` in the checkpoint). A leader compares it with the config before each batch and
proposes a changed rule first, so a change takes effect with the next batch. Time is measured between record timestamps
only. What it does not do: check values; the controller has refused invalid ones.
"""

from collections.abc import Callable

from muster_coordinator.replica.partitions.partition import PartitionState
from muster_coordinator.topics.log_commands import SetRoll, encode_log_command


class Rolls:
    """The rule of one partition. `wanted()`: the configured (bytes, milliseconds); None: propose no rule."""

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
        """The last rule proposed in this term. Rules of earlier leaders are applied before this one serves."""

    def said(self) -> bool:
        """On a leader that serves: make sure that the last rule in the log is the wanted one, proposing it if not.
        False: the proposal was refused, and no batch may be appended yet."""
        wanted = self._wanted()
        if wanted is None or wanted == (self._proposed or self._state.replicated_roll):
            return True
        if not self._propose(encode_log_command(SetRoll(*wanted)), _done):
            return False
        self._proposed = wanted
        return True

    def resign(self) -> None:
        """Leadership is lost: the proposed rule may be lost."""
        self._proposed = None


def _done(applied: bool) -> None:
    """Nothing to do: a rule is lost only with the leadership, and the next leader compares the applied one."""
