"""A failing seed with fewer faults, fewer groups and less time: delta debugging over the drawn plan.

The same invariant must fail. Faults keep their numbers, and every group's clients draw from streams of their own, so
that leaving one out disturbs the others as little as it can.
"""

from collections.abc import Callable
from dataclasses import replace

from tests.sim.plan import Plan
from tests.sim.run import Result, run

RUNS_MAX = 120


def shrink(plan: Plan, tell: Callable[[str], None] = lambda line: None) -> tuple[Plan, Result]:
    """The smallest plan found, and its result."""
    budget = [RUNS_MAX]
    result = run(plan)
    assert result.failed, "nothing to shrink"
    invariant = result.violations[0].invariant

    def fails(candidate: Plan) -> Result | None:
        if budget[0] <= 0:
            return None
        budget[0] -= 1
        found = run(candidate)
        return found if found.failed and found.violations[0].invariant == invariant else None

    plan, result = _fewer_faults(plan, result, fails, tell)
    for crew in plan.crews:
        if len(plan.crews) > 1:
            candidate = replace(plan, crews=tuple(c for c in plan.crews if c.name != crew.name))
            found = fails(candidate)
            if found is not None:
                plan, result = candidate, found
                tell(f"without {crew.name}: still fails")
    last_ms = max((fault.at_ms for fault in plan.faults), default=0)
    for storm_ms in (last_ms + 500, last_ms + 3_000):
        if storm_ms < plan.storm_ms:
            candidate = replace(plan, storm_ms=storm_ms)
            found = fails(candidate)
            if found is not None:
                return candidate, found
    return plan, result


def _fewer_faults(
    plan: Plan, result: Result, fails: Callable[[Plan], Result | None], tell: Callable[[str], None]
) -> tuple[Plan, Result]:
    """ddmin: leave out halves, quarters, single faults."""
    size = max(1, len(plan.faults) // 2)
    while plan.faults:
        at = 0
        smaller = False
        while at < len(plan.faults):
            candidate = replace(plan, faults=plan.faults[:at] + plan.faults[at + size :])
            found = fails(candidate)
            if found is not None:
                plan, result, smaller = candidate, found, True
                tell(f"{len(plan.faults)} faults: still fails")
            else:
                at += size
        if size == 1 and not smaller:
            break
        size = max(1, size // 2)
    return plan, result
