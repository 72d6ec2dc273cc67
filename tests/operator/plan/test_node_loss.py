"""A status says whether one node has the majority of some Raft group."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from muster_operator.plan.cluster import plan_cluster
from muster_operator.plan.conditions import condition
from muster_operator.world.cluster import ClusterWorld, ReplicaView
from muster_operator.world.views import StatefulSetView

from tests.operator.plan.model_cluster import SETTINGS, ModelCluster
from tests.operator.plan.test_rollout_properties import fresh


def on_nodes(world: ClusterWorld, *nodes: str | None) -> ClusterWorld:
    assert isinstance(world.statefulset, StatefulSetView)
    pods = tuple(replace(pod, node=node) for pod, node in zip(world.statefulset.pods, nodes, strict=True))
    return replace(world, statefulset=replace(world.statefulset, pods=pods))


def with_voters(world: ClusterWorld, voters: Mapping[int, tuple[int, ...]], topic: str | None = None) -> ClusterWorld:
    """Raft group -> the brokers that vote. `topic`: of these groups, another than they have."""
    replicas = {
        name: replace(
            view,
            groups=tuple(
                replace(group, voters=voters[group.group], bindings={}, topic=topic or group.topic)
                if group.group in voters
                else group
                for group in view.groups
            ),
        )
        for name, view in world.replicas.items()
        if isinstance(view, ReplicaView)
    }
    return replace(world, replicas=replicas)


def told(world: ClusterWorld) -> tuple[Any, Any, Any]:
    found = condition(plan_cluster(world, SETTINGS).status, "SurvivesNodeLoss")
    return found.get("status"), found.get("reason"), found.get("message")


@pytest.mark.parametrize(
    ("nodes", "status"),
    [
        (("a", "b", "c"), "True"),
        (("a", "b", "a"), "False"),
        (("a", "a", "a"), "False"),
        (("a", "b", None), "True"),
        (("a", "a", None), "False"),
    ],
)
def test_a_node_with_two_of_three_voters_is_told(nodes: tuple[str | None, ...], status: str) -> None:
    found = told(on_nodes(fresh().world(), *nodes))
    assert found[:2] == (status, "VotersSpread" if status == "True" else "VotersOnOneNode")


def test_the_message_names_the_node_and_the_coordinators_and_no_number_that_changes() -> None:
    _, _, message = told(on_nodes(fresh().world(), "worker-1", "worker-2", "worker-1"))
    assert message == (
        "c-0 and c-2 are on node worker-1: while it is away, Raft groups that have their majority there stop;"
        " a pod that is deleted goes to another node if one can take it and its volume"
    )


def test_it_is_judged_by_the_voters_of_each_group_and_not_by_the_number_of_coordinators() -> None:
    """Two of five coordinators on a node are a minority of all and the majority of a partition that is on both."""
    world = on_nodes(fresh(replicas=5).world(), "a", "a", "b", "c", "d")
    assert told(with_voters(world, dict.fromkeys(range(10), (0, 2, 3))))[0] == "True"
    assert told(with_voters(world, dict.fromkeys(range(10), (0, 1, 2, 3, 4))))[0] == "True"
    status, _, message = told(with_voters(world, dict.fromkeys(range(10), (0, 2, 3)) | {1: (0, 1, 3)}))
    assert (status, message.split(":")[0]) == ("False", "c-0 and c-1 are on node a")


def test_a_users_partition_with_one_replica_survives_nowhere_and_the_clusters_own_must() -> None:
    """As after a growth from one coordinator to three, until the replication factor is raised."""
    world = on_nodes(fresh().world(), "a", "b", "c")
    assert told(with_voters(world, {1: (0,)}))[:2] == ("False", "TooFewCoordinators")
    assert told(with_voters(world, {0: (0,)}))[:2] == ("False", "TooFewCoordinators")
    assert told(with_voters(world, {1: (0,)}, topic="orders"))[0] == "True"


def test_a_coordinator_that_does_not_answer_is_on_its_node_all_the_same() -> None:
    model = fresh()
    for raft in model.rafts:
        model.elect(raft.number, 1)
    model.silent = {0}
    assert told(on_nodes(model.world(), "a", "a", "b"))[:2] == ("False", "VotersOnOneNode")
    assert told(on_nodes(model.world(), "a", "b", "c"))[0] == "True"


def test_a_pod_that_is_being_stopped_is_on_no_node() -> None:
    world = on_nodes(fresh().world(), "a", "b", "a")
    assert isinstance(world.statefulset, StatefulSetView)
    first, *others = world.statefulset.pods
    pods = (replace(first, terminating=True), *others)
    assert told(replace(world, statefulset=replace(world.statefulset, pods=pods)))[0] == "True"


def test_what_is_not_known_is_unknown() -> None:
    model = fresh()
    model.silent = {0, 1, 2}
    assert told(model.world())[:2] == ("Unknown", "QuorumUnknown")


def test_one_coordinator_survives_nothing() -> None:
    assert told(fresh(replicas=1).world())[:2] == ("False", "TooFewCoordinators")


def test_a_cluster_that_has_not_formed_does_not_claim_to_survive() -> None:
    assert told(ModelCluster().world())[0] == "Unknown"
