"""Expiry of transactional ids that nobody has used for `transactional.id.expiration.ms`.

The log has no end otherwise: applications make up ids. Mechanism: from time to time the leader looks at all ids, some
in each turn, and proposes tombstones for those at rest whose last change is that old by the wall clock, which is what
the log has. If the wall clock jumped since the last sweep, the sweep is left out (invariant O11 of offsets).
"""

from collections.abc import Iterator
from itertools import islice

from muster_coordinator.groups.effects import Now
from muster_coordinator.transactions import limits
from muster_coordinator.transactions.config import TransactionConfig
from muster_coordinator.transactions.log_state import LogState
from muster_coordinator.transactions.states import AT_REST


class Expiry:
    """The sweeps of one leadership."""

    __slots__ = ("_clock_base_ms", "_config", "_left", "_next_ms", "_now_ms")

    def __init__(self, config: TransactionConfig, now: Now) -> None:
        self._config = config
        self._clock_base_ms = now.wall_ms - now.monotonic_ms
        self._next_ms = now.monotonic_ms + config.expiry_check_ms
        self._now_ms = now.monotonic_ms
        self._left: Iterator[str] | None = None
        """Ids that the sweep under way has not looked at."""

    def next_ms(self) -> int:
        """When to call `step`; a time that is past means as soon as there is time."""
        return self._next_ms if self._left is None else self._now_ms

    def step(self, now: Now, state: LogState) -> list[str]:
        """Ids that are to get a tombstone now, at most `limits.EXPIRY_TOMBSTONES_PER_BATCH`."""
        self._now_ms = now.monotonic_ms
        if self._left is None:
            if now.monotonic_ms < self._next_ms:
                return []
            self._next_ms = now.monotonic_ms + self._config.expiry_check_ms
            base_ms = now.wall_ms - now.monotonic_ms
            jumped = abs(base_ms - self._clock_base_ms) > limits.EXPIRY_CLOCK_JUMP_MS
            self._clock_base_ms = base_ms
            if jumped:
                return []
            self._left = iter(list(state.transactions))
        old_ms = now.wall_ms - self._config.id_expiration_ms
        found: list[str] = []
        looked_at = 0
        for transactional_id in islice(self._left, limits.EXPIRY_LOOKED_AT_PER_TURN):
            looked_at += 1
            known = state.transactions.get(transactional_id)
            if known is not None and known.state in AT_REST and known.last_update_ms <= old_ms:
                found.append(transactional_id)
                if len(found) == limits.EXPIRY_TOMBSTONES_PER_BATCH:
                    return found
        if looked_at < limits.EXPIRY_LOOKED_AT_PER_TURN:
            self._left = None
        return found
