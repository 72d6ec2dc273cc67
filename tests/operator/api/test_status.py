"""Every status that planning makes fits the definition: the API server refuses an apply with a field it does not know.

The statuses come from the model clusters and groups of the planning tests, through start, faults, restarts and scaling.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from muster_operator.api.conditions import ClusterCondition, GroupCondition, Reason
from muster_operator.api.crd import root_schema
from muster_operator.api.kinds import CONSUMER_GROUP, COORDINATOR_CLUSTER, Kind
from muster_operator.plan.cluster import plan_cluster
from muster_operator.runtime.report import dated
from muster_operator.world.certificates import Damaged

from tests.operator.api.cel_examples import GOOD
from tests.operator.api.openapi import problems
from tests.operator.fakes.bench import SETTINGS
from tests.operator.plan.model_cluster import ModelCluster
from tests.operator.plan.model_group import ModelGroup
from tests.operator.plan.test_certificates import Authority
from tests.operator.resources.owners import INTERNAL

Status = Mapping[str, Any]


def of_cluster() -> Iterator[Status]:
    """Made, formed, rolled to another image, a crash, a network cut, five instead of three, and back."""
    model = ModelCluster()

    def go(ticks: int) -> Iterator[Status]:
        for _ in range(ticks):
            plan = model.plan()
            yield plan.status
            model.carry_out(plan)
            model.tick()

    yield from go(60)
    model.set_image("muster:2")
    yield from go(120)
    model.crash(1)
    yield from go(20)
    model.cut_off(2)
    yield from go(30)
    model.heal()
    model.set_replicas(5)
    model.restarted_at = "2026-01-01T00:00:00.000+00:00"
    yield from go(120)
    model.set_replicas(3)
    yield from go(20)


def of_secured() -> Iterator[Status]:
    """With certificates of the operator's: nothing yet, made, about to expire by somebody else's, damaged."""
    one = Authority(listeners=[{**INTERNAL, "tls": {}, "authentication": {"type": "tls"}}])
    for _ in range(6):
        yield plan_cluster(one.world(), SETTINGS).status
        one.step()
    one.view = dataclasses.replace(one.view, leaf=Damaged(name="main-server-cert", problem="`tls.key` is missing"))
    yield plan_cluster(one.world(), SETTINGS).status


def of_one_that_gets_more_replicas() -> Iterator[Status]:
    """From one coordinator to three, until every group has three replicas."""
    model = ModelCluster(replicas=1, factor_now=1, image="good:0.2.0")
    for tick in range(80):
        if tick == 30:
            model.factor = 3
            model.set_replicas(3)
        plan = model.plan()
        yield plan.status
        model.carry_out(plan)
        model.tick()


def of_group() -> Iterator[Status]:
    """Made, joined, scaled up and down, a silent cluster, paused; also dynamic members, and observing only."""
    for model in (ModelGroup(), ModelGroup(static=False), ModelGroup(template=False), ModelGroup(committed=None)):

        def go(ticks: int, model: ModelGroup = model) -> Iterator[Status]:
            for _ in range(ticks):
                plan = model.plan()
                yield plan.status
                model.carry_out(plan)
                model.tick()

        yield from go(30)
        model.scale(5)
        yield from go(20)
        model.scale(2)
        yield from go(20)
        model.reachable = False
        yield from go(5)
        model.reachable = True
        model.restarted_at = "2026-01-01T00:00:00.000+00:00"
        yield from go(5)
        model.paused = True
        yield from go(5)


MADE = {
    COORDINATOR_CLUSTER.kind: [*of_cluster(), *of_secured(), *of_one_that_gets_more_replicas()],
    CONSUMER_GROUP.kind: [dated(one, 0) for one in of_group()],
}
kinds = pytest.mark.parametrize("kind", [COORDINATOR_CLUSTER, CONSUMER_GROUP], ids=lambda kind: kind.short)


def distinct(statuses: list[Status]) -> list[Status]:
    found: list[Status] = []
    for status in statuses:
        if not found or found[-1] != status:
            found.append(status)
    return found


@kinds
def test_the_definition_knows_every_field_of_a_status(kind: Kind) -> None:
    statuses = distinct(MADE[kind.kind])
    assert len(statuses) > 10, "the models went through nothing"
    for status in statuses:
        manifest = {"apiVersion": "muster.dev/v1alpha1", "kind": kind.kind, "metadata": {"name": "x"}}
        assert problems({**manifest, "spec": dict(GOOD[kind.kind]), "status": dict(status)}) == []


@kinds
def test_the_columns_of_kubectl_get_are_filled(kind: Kind) -> None:
    """A column whose field nobody ever writes would stay empty for ever."""
    written = {name for status in MADE[kind.kind] for name in status}
    shown = {column.path.split(".")[2].split("[")[0] for column in kind.columns if column.path.startswith(".status")}
    assert shown <= written


@kinds
def test_every_field_of_the_definition_is_written_by_somebody(kind: Kind) -> None:
    known = set(root_schema(kind)["properties"]["status"]["properties"])
    assert known - {name for status in MADE[kind.kind] for name in status} == set()


@pytest.mark.parametrize(
    ("kind", "types"), [(COORDINATOR_CLUSTER, ClusterCondition), (CONSUMER_GROUP, GroupCondition)], ids=["cc", "cg"]
)
def test_every_condition_is_set_from_the_first_pass_with_a_documented_reason(kind: Kind, types: Any) -> None:
    for status in MADE[kind.kind]:
        without_tls = set() if "certificates" in status else {ClusterCondition.CERTIFICATES_READY.value}
        assert {item["type"] for item in status["conditions"]} == {word.value for word in types} - without_tls
        assert {item["reason"] for item in status["conditions"]} <= {word.value for word in Reason}
