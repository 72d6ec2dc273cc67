"""Two objects, one Kafka group: who is the elder, whatever names the cluster has, and what the younger says."""

import dataclasses
from typing import Any

import pytest
from muster_operator.api.conditions import Reason
from muster_operator.plan.group import plan_group
from muster_operator.plan.rivals import elder_of, workload_elder_of
from muster_operator.plan.scaling import departure

from tests.operator.fakes.bench import SETTINGS
from tests.operator.plan.making import group_view, group_world, member, pod, recorded


def made(at: str, *, namespace: str = "ns", name: str = "g", template: bool = True, **spec: Any) -> dict[str, Any]:
    """A ConsumerGroup that was made in the minute `at`."""
    metadata = {"namespace": namespace, "name": name, "uid": f"{namespace}/{name}"}
    metadata["creationTimestamp"] = f"2026-01-01T00:{at}:00Z"
    body: dict[str, Any] = {"groupId": "billing", **(spec or {"bootstrapServers": "k:9092"})}
    if template:
        body["template"] = {"image": "i"}
    return {"kind": "ConsumerGroup", "metadata": metadata, "spec": body}


OURS = {"clusterRef": {"name": "main"}}


@pytest.mark.parametrize(
    "address",
    [
        "main-bootstrap.shop.svc:9092",
        "main-bootstrap.shop.svc.cluster.local:9092",
        "main-bootstrap.shop:9092",
        "Main-Bootstrap.shop.svc:9092",
        "main-0.main-peers.shop.svc:9092,main-1.main-peers.shop.svc:9092",
        "elsewhere:1, main-2.main-peers.shop.svc.example.org.:9094",
    ],
)
def test_a_cluster_of_ours_is_known_by_any_of_its_names(address: str) -> None:
    old = made("01", namespace="shop", name="old", **OURS)
    new = made("02", namespace="other", name="new", bootstrapServers=address)
    assert elder_of(new, [new, old]) == "shop/old"
    assert elder_of(old, [new, old]) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a:9092,b:9092", "b:9092 , c:9092", True),
        ("a:9092", "A:9092", True),
        ("a:9092", "a:9093", False),
        ("a:9092", "b:9092", False),
        ("main-bootstrap.shop.svc:9092", "main-bootstrap.other.svc:9092", False),
    ],
)
def test_other_clusters_are_compared_by_address(one: str, other: str, same: bool) -> None:
    old, new = made("01", name="old", bootstrapServers=one), made("02", name="new", bootstrapServers=other)
    assert elder_of(new, [old, new]) == ("ns/old" if same else None)


def test_the_oldest_of_several_is_named_and_one_second_is_decided_by_uid() -> None:
    three = [made(at, name=name) for at, name in (("02", "b"), ("01", "a"), ("02", "c"))]
    assert [elder_of(one, three) for one in three] == ["ns/a", None, "ns/a"]
    twins = [made("01", name="a"), made("01", name="b")]
    assert [elder_of(one, twins) for one in twins] == [None, "ns/a"]


def test_who_only_observes_is_nobodys_rival() -> None:
    old, new = made("01", name="old", template=False), made("02", name="new")
    assert elder_of(new, [old, new]) is None
    old, new = made("01", name="old"), made("02", name="new", template=False)
    assert elder_of(new, [old, new]) is None


def test_the_younger_promises_nothing_and_removes_nobody() -> None:
    """g-1 has no pod and is not wanted: the elder's own, for all that can be known."""
    view = group_view([member("g-0", "10.0.0.0"), member("g-1", "10.0.0.9")])
    alone = group_world(pods=[pod(0)], group=view, replicas=1, status=recorded(view.members[1]))
    assert departure(alone).instance_ids == ("g-1",)
    younger = dataclasses.replace(alone, elder="shop/old")
    assert departure(younger).instance_ids == ()
    plan = plan_group(younger, SETTINGS)
    said = {one["type"]: one for one in plan.status["conditions"]}
    for type_, status in (("StaticMembership", "False"), ("Degraded", "True")):
        assert (said[type_]["status"], said[type_]["reason"]) == (status, Reason.GROUP_ID_SHARED)
        assert "shop/old" in said[type_]["message"]
    assert [(one.reason, one.warning) for one in plan.events] == [(Reason.GROUP_ID_SHARED, True)]


def referring(name: str, *, born: str = "2026-01-01T00:00:00Z", uid: str = "u") -> dict[str, Any]:
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "orders"}
    return {
        "metadata": {"name": name, "namespace": "ns", "creationTimestamp": born, "uid": uid},
        "spec": {"groupId": name, "bootstrapServers": "kafka:9092", "workloadRef": ref},
    }


def test_of_those_that_refer_to_one_workload_the_oldest_has_it_whatever_their_groups() -> None:
    first, second = referring("first", uid="a"), referring("second", born="2026-01-02T00:00:00Z", uid="b")
    twin = referring("twin", uid="z")
    assert workload_elder_of(first, [first, second, twin]) is None
    assert workload_elder_of(second, [first, second]) == "ns/first"
    assert workload_elder_of(twin, [first, twin]) == "ns/first", "of one second: by uid"
    assert workload_elder_of(first, []) is None


def test_pods_of_a_workload_run_consumers_as_those_of_a_template_do() -> None:
    first, second = referring("first", uid="a"), referring("second", born="2026-01-02T00:00:00Z", uid="b")
    second["spec"] |= {"groupId": "first", "workloadRef": None, "template": {"image": "x"}}
    assert elder_of(second, [first, second]) == "ns/first"
