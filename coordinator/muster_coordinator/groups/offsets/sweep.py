"""Framework of background jobs that write tombstones: a slice of groups at a time, few batches in flight.

A group's tombstones are decided while no record of the group is in flight, and its later requests wait behind them
(`when_quiet`). So a tombstone never removes a commit that came after its decision (KAFKA-4399).
"""

from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Protocol as Interface

from muster_coordinator.errors import Code
from muster_coordinator.groups import limits
from muster_coordinator.groups.core import Core, Record, Step
from muster_coordinator.groups.effects import Now
from muster_coordinator.groups.live.inflights import InFlightAppend


class Rule(Interface):
    """Which groups to inspect, and which tombstones to write for one."""

    def begins(self, core: Core, now: Now) -> bool:
        """Called once, first; False ends the sweep."""
        ...

    def inspect(self, core: Core, now: Now, group: str) -> tuple[int, bool]:
        """(work done, whether there may be tombstones to write). Cheap; may return True too often, never too rarely."""
        ...

    def tombstones(self, core: Core, now: Now, group: str) -> tuple[list[Record], bool]:
        """(records for at most one batch, whether the group must be visited again)."""
        ...

    def written(self, core: Core, records: int) -> None:
        """A batch was applied."""
        ...


class Sweep:
    """One pass of a rule over some groups."""

    def __init__(self, rule: Rule, groups: Iterable[str]) -> None:
        self._rule = rule
        self._groups = deque(groups)
        self._begun = False
        self._in_flight = 0
        self._waits = False
        self._not_before_ms = 0
        """Earliest time for the next batch, after one was refused."""

    def step(self, core: Core, now: Now) -> Step:
        """Process one slice of groups."""
        if not self._begun:
            self._begun = True
            if not self._rule.begins(core, now):
                return Step.DONE
        if now.monotonic_ms < self._not_before_ms:
            core.rest(self, self._not_before_ms)
            return Step.WAITS
        budget = limits.GROUP_SLICE_WORK
        while self._groups and budget > 0 and self._in_flight < limits.GROUP_SWEEP_IN_FLIGHT_MAX:
            group = self._groups.popleft()
            work, found = self._rule.inspect(core, now, group)
            budget -= work
            if found:
                self._in_flight += 1
                core.when_quiet(now, group, partial(self._act, core, group))
        if self._groups and self._in_flight < limits.GROUP_SWEEP_IN_FLIGHT_MAX:
            return Step.MORE
        self._waits = self._in_flight > 0
        return Step.WAITS if self._waits else Step.DONE

    def _act(self, core: Core, group: str, now: Now) -> None:
        records, again = self._rule.tombstones(core, now, group)
        if not records:
            return self._landed(core)
        written, dropped = partial(self._written, core, group, len(records), again), partial(self._dropped, core, group)
        return core.append(now, InFlightAppend(group, True, (), written, dropped), tuple(records))

    def _written(self, core: Core, group: str, count: int, again: bool, _: Now) -> None:
        self._rule.written(core, count)
        if again:
            self._groups.append(group)
        self._landed(core)

    def _dropped(self, core: Core, group: str, then: Now, _: Code) -> None:
        """Too many entries were in flight. (After a lost leadership the whole sweep is dropped, and the next leader
        starts its own.)"""
        self._groups.append(group)
        self._not_before_ms = then.monotonic_ms + limits.APPEND_RETRY_MS
        self._landed(core)

    def _landed(self, core: Core) -> None:
        self._in_flight -= 1
        if self._waits:
            self._waits = False
            core.jobs.append(self)
