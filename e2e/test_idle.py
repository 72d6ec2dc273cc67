"""What a converged fleet without traffic costs: reads, and no write for five real minutes.

Started before all other tests and judged after them, so that the minutes cost none. With traffic: `test_operator_life`.
"""

import time

import pytest

from e2e.fleet import until
from e2e.idle_fleet import COMMITTED, GROUPS, IdleFleet, moment

pytestmark = pytest.mark.timeout(600)
IDLE_S = 300.0
CONVERGED_S = 120.0
LOOKED_AT_EVERY_S = 20.0
"""At least, each group; the operator means to look every 10 s."""


@pytest.mark.first
def test_every_group_gets_its_status(idle_fleet: IdleFleet) -> None:
    until("200 groups with a status", idle_fleet.converged_s, CONVERGED_S, every=1)


@pytest.mark.last
def test_200_converged_groups_cost_no_write_in_five_minutes(idle_fleet: IdleFleet) -> None:
    fleet = idle_fleet
    converged_s = until("200 groups with a status", fleet.converged_s, CONVERGED_S, every=1)
    assert converged_s is not None
    # The five minutes are the measure itself: nothing can be waited for, since nothing may happen.
    time.sleep(max(0.0, converged_s + IDLE_S - time.time()))
    idle_s = time.time() - converged_s
    late = [one for one in fleet.audit.writes() if one.at_s > converged_s]
    assert [(moment(one.at_s), one.verb, one.resource, one.name) for one in late] == [], f"since {moment(converged_s)}"

    assert fleet.operator.process.poll() is None
    passes = fleet.operator.metric("muster_operator_reconcile_total")
    assert passes > GROUPS * idle_s / LOOKED_AT_EVERY_S, "nobody looked"
    renewals = [one for one in fleet.audit.asked() if one.resource == "leases" and one.at_s > converged_s]
    assert len(renewals) > idle_s / 5, "it led all the while"
    statuses = fleet.statuses()
    assert [one["state"] for one in statuses] == ["Empty"] * GROUPS, "real answers of a real cluster"
    assert sum(one["partitions"]["committed"] == 3 for one in statuses) == COMMITTED
    print(f"{GROUPS} groups, {idle_s:.0f} s: {passes:.0f} passes, {len(renewals)} renewals of the Lease, no write")
