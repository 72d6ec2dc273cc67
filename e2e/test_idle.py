"""What a converged fleet without traffic costs: reads, and no write for five real minutes.

Started before all other tests, measured beside them and judged after them, so that the minutes cost none. With
traffic: `test_operator_life`.
"""

import pytest

from e2e.idle_fleet import COMMITTED, GROUPS, moment
from e2e.idle_measure import IDLE_S, IdleMeasure

pytestmark = pytest.mark.timeout(600)
LOOKED_AT_EVERY_S = 20.0
"""At least, each group; the operator means to look every 10 s."""


@pytest.mark.first
def test_every_group_gets_its_status(idle_measure: IdleMeasure) -> None:
    assert idle_measure.converged_s() > 0


@pytest.mark.last
def test_200_converged_groups_cost_no_write_in_five_minutes(idle_measure: IdleMeasure) -> None:
    seen = idle_measure.seen()
    idle_s = seen.until_s - seen.since_s
    assert idle_s >= IDLE_S
    assert [(moment(one.at_s), one.verb, one.resource, one.name) for one in seen.writes] == [], moment(seen.since_s)

    assert seen.exit_code is None
    assert seen.passes > GROUPS * idle_s / LOOKED_AT_EVERY_S, "nobody looked"
    assert seen.renewals > idle_s / 5, "it led all the while"
    assert [one["state"] for one in seen.statuses] == ["Empty"] * GROUPS, "real answers of a real cluster"
    assert sum(one["partitions"]["committed"] == 3 for one in seen.statuses) == COMMITTED
    print(f"{GROUPS} groups, {idle_s:.0f} s: {seen.passes:.0f} passes, {seen.renewals} renewals of the Lease, no write")
