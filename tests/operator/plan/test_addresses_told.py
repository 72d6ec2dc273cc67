"""Where a CoordinatorCluster's status says that clients of each listener begin."""

from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from muster_operator.api.cluster import LISTENERS_MAX, NODE_PORT_STRIDE, parse_cluster
from muster_operator.api.crd import root_schema
from muster_operator.api.kind import CLUSTER_NAME_LENGTH_MAX
from muster_operator.api.kinds import COORDINATOR_CLUSTER
from muster_operator.plan.cluster import plan_cluster
from muster_operator.world.views import Unknown

from tests.operator.plan.model_cluster import SETTINGS, ModelCluster
from tests.operator.plan.test_rollout_properties import fresh

INSIDE = {"name": "internal", "port": 9092}
SECOND = {"name": "second", "port": 9094}
OUTSIDE = {"name": "outside", "type": "nodePort", "port": 9095, "nodePortBase": 31_090}
NAMED = {
    "name": "named", "type": "nodePort", "port": 9096, "nodePortBase": 31_080, "advertisedHost": "$(POD_NAME).example",
}  # fmt: skip
NAME = "c-bootstrap.ns.svc"
HOST_LENGTH_MAX = 253


def told(model: ModelCluster, listeners: list[dict[str, Any]], nodes: Any, **owner: Any) -> dict[str, Any]:
    world = model.world()
    spec = parse_cluster({"metadata": {"name": "c"}, "spec": {"replicas": model.replicas, "listeners": listeners}})
    world = replace(world, spec=spec, node_addresses=nodes, owner=replace(world.owner, **owner))
    return plan_cluster(world, SETTINGS).status


def nodes_of(model: ModelCluster) -> list[str]:
    statefulset = model.world().statefulset
    assert statefulset is not None
    return [pod.node for pod in statefulset.pods if pod.node is not None]


def test_each_listener_tells_where_its_clients_begin() -> None:
    model = fresh()
    first, _, third = nodes_of(model)
    status = told(model, [INSIDE, NAMED, SECOND, OUTSIDE], {first: "10.0.0.1", third: "10.0.0.3"})
    named = "c-0.example:31080,c-1.example:31081,c-2.example:31082"
    assert status["listeners"] == [
        {"name": "internal", "type": "internal", "bootstrapServers": f"{NAME}:9092"},
        {"name": "named", "type": "nodePort", "bootstrapServers": named},
        {"name": "second", "type": "internal", "bootstrapServers": f"{NAME}:9094"},
        {"name": "outside", "type": "nodePort", "bootstrapServers": "10.0.0.1:31090,10.0.0.3:31092"},
    ]
    assert status["bootstrapServers"] == {"internal": f"{NAME}:9092", "external": named}


@pytest.mark.parametrize("nodes", [{}, {"elsewhere": "10.0.0.9"}, Unknown(reason="Unreachable", message="")])
def test_an_address_that_no_node_is_known_for_is_absent(nodes: Any) -> None:
    status = told(fresh(), [INSIDE, OUTSIDE], nodes)
    assert status["listeners"][1] == {"name": "outside", "type": "nodePort"}
    assert status["bootstrapServers"]["external"] == "Unknown"


@pytest.mark.parametrize("placeholder", ["$(POD_NAME)", "$(NODE_IP)", "a"])
def test_the_longest_addresses_fit_into_the_status(placeholder: str) -> None:
    """Else the API server refuses the status as a whole."""
    model = fresh(NODE_PORT_STRIDE)
    host = placeholder * (HOST_LENGTH_MAX // len(placeholder))
    outside = [
        {"name": f"l{n}-of-15-chars"[:15], "type": "nodePort", "port": 9100 + n, "nodePortBase": 65_000 + 10 * n,
         "advertisedHost": host}
        for n in range(LISTENERS_MAX - 1)
    ]  # fmt: skip
    address = ":".join(["ffff"] * 8)
    status = told(
        model, [INSIDE, *outside], dict.fromkeys(nodes_of(model), address), name="c" * CLUSTER_NAME_LENGTH_MAX
    )
    assert status["bootstrapServers"]["external"].count(",") == NODE_PORT_STRIDE - 1
    assert len(status["listeners"]) == LISTENERS_MAX
    schema = root_schema(COORDINATOR_CLUSTER)["properties"]["status"]["properties"]
    for key in ("bootstrapServers", "listeners"):
        jsonschema.validate(status[key], schema[key])
