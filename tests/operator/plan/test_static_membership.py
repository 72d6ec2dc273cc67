"""Condition StaticMembership: True only when it can be promised, names when not, Unknown when it cannot be known."""

from ipaddress import ip_address
from typing import Any

import pytest
from muster_operator.api.conditions import Reason
from muster_operator.plan import addresses
from muster_operator.plan.conditions import condition, merged
from muster_operator.plan.group import plan_group
from muster_operator.plan.static_membership import judge
from muster_operator.world.views import Unknown

from tests.operator.plan.making import NOW_MS, group_view, group_world, member, pod, referring_world
from tests.operator.plan.model_cluster import SETTINGS

PODS = [pod(0), pod(1), pod(2)]
STATIC = [member(f"g-{number}", f"10.0.0.{number}") for number in range(3)]


def test_every_member_with_its_pods_name_is_static() -> None:
    found = judge(group_world(pods=PODS, group=group_view(STATIC)))
    assert (found.status, found.reason) == ("True", Reason.MEMBERS_STATIC)


def test_members_without_ids_are_named_by_pod_and_by_client() -> None:
    members = [STATIC[0], member(None, "10.0.0.1"), member(None, "192.168.7.7")]
    found = judge(group_world(pods=PODS, group=group_view(members)))
    assert (found.status, found.reason) == ("False", Reason.MEMBERS_DYNAMIC)
    assert "pod g-1" in found.message
    assert "client app at 192.168.7.7" in found.message


def test_ids_of_somebody_else_are_not_ours() -> None:
    found = judge(group_world(pods=PODS, group=group_view([*STATIC, member("legacy-a", "10.9.9.9")])))
    assert found.reason == Reason.MEMBERS_DYNAMIC
    assert "instance legacy-a" in found.message


def test_a_leaving_instance_is_expected() -> None:
    found = judge(group_world(pods=PODS, group=group_view([*STATIC, member("g-4", "10.0.0.4")])))
    assert found.status == "True"


def test_what_cannot_be_known_is_unknown() -> None:
    silent = judge(group_world(pods=PODS, group=Unknown(reason="Unreachable", message="no answer")))
    nobody = judge(group_world(pods=PODS, group=group_view([])))
    assert (silent.status, nobody.status) == ("Unknown", "Unknown")
    assert nobody.reason == Reason.NO_MEMBERS


def test_an_id_held_from_another_address_is_a_duplicate_and_both_are_named() -> None:
    members = [STATIC[0], member("g-1", "10.7.7.7"), STATIC[2]]
    found = judge(group_world(pods=PODS, group=group_view(members)))
    assert (found.status, found.reason) == ("False", Reason.DUPLICATE_INSTANCE_ID)
    assert "g-1" in found.message
    assert "10.7.7.7" in found.message
    assert "10.0.0.1" in found.message


def test_a_young_pod_may_not_have_joined_yet_so_its_old_address_proves_nothing() -> None:
    pods = [PODS[0], pod(1, ip="10.0.0.99", created_ms=NOW_MS - 90_000), PODS[2]]
    assert judge(group_world(pods=pods, group=group_view(STATIC))).status == "True"
    pods[1] = pod(1, ip="10.0.0.99", created_ms=NOW_MS - 90_001)
    assert judge(group_world(pods=pods, group=group_view(STATIC))).reason == Reason.DUPLICATE_INSTANCE_ID


def test_addresses_prove_nothing_when_nobody_is_seen_at_its_pods() -> None:
    members = [member(f"g-{number}", "172.16.0.1") for number in range(3)]
    assert judge(group_world(pods=PODS, group=group_view(members))).status == "True"


def test_a_duplicate_stays_named_while_its_pod_restarts_and_wins_in_turns() -> None:
    duplicate = judge(group_world(pods=PODS, group=group_view([STATIC[0], member("g-1", "10.7.7.7"), STATIC[2]])))
    status = {"conditions": merged({}, [duplicate], generation=1, now_ms=NOW_MS)}
    restarting = [PODS[0], pod(1, restarts=3, ready_since_ms=NOW_MS - 5_000), PODS[2]]
    assert judge(group_world(pods=restarting, group=group_view(STATIC), status=status)) == duplicate
    calm = [PODS[0], pod(1, restarts=3, ready_since_ms=NOW_MS - 90_001), PODS[2]]
    assert judge(group_world(pods=calm, group=group_view(STATIC), status=status)).status == "True"


def test_not_asked_for_is_said_so() -> None:
    found = judge(group_world(pods=PODS, group=group_view(STATIC), static=False))
    assert (found.status, found.reason) == ("False", Reason.NOT_REQUESTED)


def test_a_group_that_is_only_observed_is_judged_by_having_ids_at_all() -> None:
    anybody = [member("a", "10.1.1.1"), member("b", "10.1.1.2")]
    assert judge(group_world(group=group_view(anybody), template=False)).status == "True"
    mixed = [*anybody, member(None, "10.1.1.3")]
    assert judge(group_world(group=group_view(mixed), template=False)).reason == Reason.MEMBERS_DYNAMIC


@pytest.mark.parametrize("world", ["made", "referred"])
def test_a_thousand_dynamic_members_cost_each_address_once(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One pass had compared every member with every pod: 50 s of the event loop."""
    count = 0

    def counted(text: str) -> Any:
        nonlocal count
        count += 1
        return ip_address(text)

    monkeypatch.setattr(addresses, "ip_address", counted)
    pods = [pod(n, ip=f"10.1.{n // 250}.{n % 250}") for n in range(1_000)]
    members = [member(None, one.pod_ip or "", member_id=f"m-{one.name}") for one in pods[:999]]
    view = group_view(members)
    seen = (
        group_world(pods=pods, group=view, replicas=1_000)
        if world == "made"
        else referring_world(pods=pods, group=view, now=1_000)
    )
    status = plan_group(seen, SETTINGS).status
    assert condition(status, "Ready")["reason"] == Reason.MEMBERS_MISSING
    assert "g-999" in condition(status, "Ready")["message"]
    assert count <= 20 * len(pods)
