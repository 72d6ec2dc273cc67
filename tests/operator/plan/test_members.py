"""Coordinators that join and leave: what happens by itself, and what must not.

The oracle is the model: a StatefulSet that loses a pod takes what was on it, a folder that left never comes back, and
the coordinators move one replica after the other.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from muster_operator.api.conditions import Reason
from muster_operator.plan.actions import Apply, Decommission, DeleteClaim
from muster_operator.plan.members import Members, plan_members
from muster_operator.world.cluster import ClusterWorld, MovesView, ReplicaView, Seat
from muster_operator.world.views import Unknown

from tests.operator.plan.model_cluster import ModelCluster
from tests.operator.plan.test_rollout_properties import converge, fresh, one_pass


def scaled(replicas: int, **model: Any) -> ModelCluster:
    """Formed by three, and grown or shrunk to so many."""
    found = ModelCluster(replicas=3, **model)
    converge(found)
    found.set_replicas(replicas)
    converge(found)
    return found


def said(model: ModelCluster) -> tuple[str, str]:
    found = next(one for one in model.status["conditions"] if one["type"] == "ScalingRefused")
    return found["status"], found["reason"]


def did(model: ModelCluster, *words: str) -> list[str]:
    return [what for _, what in model.log if what.split()[0] in words]


def told(world: ClusterWorld, **changes: Any) -> ClusterWorld:
    """The world in which every replica says something else."""
    views = {
        name: replace(view, **changes) if isinstance(view, ReplicaView) else view
        for name, view in world.replicas.items()
    }
    return replace(world, replicas=views)


def planned(model: ModelCluster, **changes: Any) -> Members:
    return plan_members(told(model.world(), **changes))


@pytest.mark.parametrize("replicas", [4, 5, 50])
def test_new_ones_join_and_the_founders_stay_as_they_are(replicas: int) -> None:
    model = ModelCluster(replicas=3)
    converge(model)
    model.set_replicas(replicas)
    one_pass(model)
    assert model.made == replicas, "pods first, all at once"
    for _ in range(6):
        model.tick()
        one_pass(model)
    assert set(model.volumes.seats) == set(range(replicas))
    assert (model.status["founders"], model.status["replicas"], model.status["brokers"]) == (3, replicas, replicas)
    voters = "controller.quorum.voters=" + ",".join(f"{one}@c-{one}.c-peers.ns.svc:9093" for one in range(3)) + "\n"
    texts = [one["data"]["server.properties"] for key, one in model.live.items() if key[1].startswith("c-config-")]
    assert all(voters in text for text in texts)


def test_a_cluster_of_a_release_that_joins_restarts_nobody_to_grow_or_to_shrink() -> None:
    """The id of the cluster is in no template: with it each pod would have to be made anew."""
    model = ModelCluster(replicas=3, image="muster:0.2.0")
    converge(model)
    before = {ordinal: pod.uid for ordinal, pod in model.pods.items()}
    assert model.live["ConfigMap", "c-identity"]["data"] == {"cluster-id": "cluster-1", "formed": "false"}
    for replicas in (5, 4, 3):
        model.set_replicas(replicas)
        converge(model)
        assert len(model.pods) == len(model.volumes.seats) == replicas
        assert {ordinal: pod.uid for ordinal, pod in model.pods.items() if ordinal < 3} == before
        assert said(model) == ("False", Reason.SCALE_AS_WANTED)
    assert did(model, "drain", "EvictPod", "DeletePod") == []


def test_more_pods_than_founders_are_made_when_these_have_formed_the_cluster() -> None:
    model = ModelCluster(replicas=7, factor=3, image="muster:0.2.0")
    one_pass(model)
    assert model.made == 3
    converge(model)
    assert len(model.volumes.seats) == 7
    assert did(model, "drain", "EvictPod") == []


@pytest.mark.parametrize(("replicas", "founders"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (6, 5), (50, 5)])
def test_without_a_replication_factor_as_many_form_it_as_can_vote(replicas: int, founders: int) -> None:
    assert planned(ModelCluster(replicas=replicas)).pods == founders


def test_a_pod_goes_when_its_coordinator_has_left_and_then_its_claim() -> None:
    model = scaled(5)
    claims = {one: model.volumes.claims[one].uid for one in (3, 4)}
    model.log.clear()
    model.set_replicas(3)
    converge(model)
    order = [word for word in did(model, "leave", "left", "removed", "DeleteClaim") if word.endswith("-4")]
    assert order == ["leave c-4", "left c-4", "removed c-4", "DeleteClaim data-c-4"]
    assert set(model.volumes.seats) == set(model.volumes.claims) == {0, 1, 2}
    assert [one["name"] for one in model.status["volumes"]] == ["c-0", "c-1", "c-2"], "their records go last"
    model.set_replicas(4)
    converge(model)
    assert model.volumes.claims[3].uid not in claims.values()
    assert 3 in model.volumes.seats, "an empty folder joins under the same number"


def test_a_claim_may_stay_by_wish_and_is_then_forgotten() -> None:
    model = scaled(4, retain=True)
    model.set_replicas(3)
    converge(model)
    assert 3 in model.volumes.claims
    assert did(model, "DeleteClaim") == []
    assert [one["name"] for one in model.status["volumes"]] == ["c-0", "c-1", "c-2"]


def test_a_claim_that_is_not_the_recorded_one_is_nobodys_to_delete() -> None:
    model = scaled(4)
    model.set_replicas(3)
    while 3 in model.pods or model.made == 4:
        one_pass(model)
        model.tick()
    world = model.world()
    assert [type(one) for one in plan_members(world).claims] == [DeleteClaim]
    storage = world.storage["c-3"]
    for changes in ({"uid": "another"}, {"ours": False}, {"terminating": True}):
        other = replace(storage, claim=replace(storage.claim, **changes))  # type: ignore[type-var]
        assert plan_members(replace(world, storage={"c-3": other})).claims == ()
    assert plan_members(replace(world, storage={})).claims == ()


def test_a_new_pod_waits_until_the_claim_of_the_one_that_left_is_gone() -> None:
    """On it is a folder that takes part no more: the pod would stay out for ever."""
    model = scaled(4)
    model.set_replicas(3)
    while 3 in model.pods or model.made == 4:
        one_pass(model)
        model.tick()
    model.set_replicas(4)
    found = plan_members(model.world())
    assert (found.pods, found.finding.reason) == (3, Reason.SCALING_UP)
    assert "the volume claim of c-3 from before has to be gone first" in found.finding.message
    converge(model)
    assert set(model.volumes.seats) == {0, 1, 2, 3}


def test_nothing_is_lowered_while_it_is_not_known_who_has_left() -> None:
    model = scaled(4)
    model.set_replicas(3)
    silent = replace(model.world(), replicas={name: Unknown(reason="Silent", message="") for name in ("c-0", "c-1")})
    lacks_itself = {broker: seat for broker, seat in model.volumes.seats.items() if broker in (5, 6)}
    for found in (plan_members(silent), planned(model, seats={}), planned(model, seats=lacks_itself)):
        assert (found.pods, found.marks, found.claims) == (4, (), ())
        assert "not known" in found.finding.message


@pytest.mark.parametrize("level", [1, 2, None])
def test_below_the_level_of_members_nobody_joins_and_nobody_leaves(level: int | None) -> None:
    model = fresh()
    model.set_replicas(5)
    status = {key: value for key, value in model.status.items() if key != "featureLevel"}
    model.status = status
    found = planned(model, feature_level=level)
    assert found.pods == 3
    assert found.finding.status == ("False" if level is None else "True")
    low = planned(scaled(4), feature_level=level)
    assert (low.marks, low.claims) == ((), ())


def test_a_status_without_the_field_for_founders_says_what_is_to_be_done() -> None:
    """A definition of an earlier release drops it; the number of pods would be taken for that of the founders."""
    model = fresh()
    model.set_replicas(5)
    for reason in (Reason.SCALING_UP, Reason.SCALING_UNSUPPORTED):
        model.status = {key: value for key, value in model.status.items() if key != "founders"}
        model.status = {**model.status, "replicas": 3}
        plan = one_pass(model)
        model.status = plan.status
        assert said(model)[1] == reason
    assert model.made == 3


def test_what_an_earlier_operator_made_was_formed_by_all_its_pods() -> None:
    model = ModelCluster(replicas=5)
    converge(model)
    model.status = {"replicas": 5}
    assert (planned(model).pods, planned(model).founders) == (5, 5)


@pytest.mark.parametrize(("replicas", "factor"), [(1, 0), (1, 1), (3, 1), (5, 5)])
def test_the_replication_factor_stays_and_a_condition_says_so(replicas: int, factor: int) -> None:
    model = fresh()
    model.factor = factor
    model.set_replicas(replicas)
    converge(model)
    assert model.made >= 3
    if model.made == 3:
        assert said(model) == ("True", Reason.REPLICATION_FACTOR_FIXED)


def test_only_a_pod_that_is_there_counts_as_one_that_joined() -> None:
    """A broker outside of Kubernetes may have any id; it asks for no pod."""
    model = fresh()
    seats = {**model.volumes.seats, 40: Seat(folder="ab" * 16, binding=0), 41: Seat(folder=None, binding=3)}
    found = planned(model, seats=seats)
    assert (found.pods, found.marks) == (3, ())
    departing = {**seats, 40: replace(seats[40], departing=True)}
    assert planned(model, seats=departing).marks == ()


def test_who_joined_by_a_hand_on_the_statefulset_leaves_in_order() -> None:
    model = scaled(4)
    model.live["StatefulSet", "c"]["spec"]["replicas"] = 5
    for _ in range(4):
        model.tick()
    assert 4 in model.volumes.seats
    converge(model)
    assert set(model.volumes.seats) == {0, 1, 2, 3}
    assert did(model, "leave", "left") == ["leave c-4", "left c-4"]


def test_all_that_are_to_leave_are_told_at_once_the_highest_first() -> None:
    """Else the first would hand over to the next one that leaves."""
    model = scaled(6)
    model.set_replicas(3)
    assert plan_members(model.world()).marks == tuple(
        Decommission(pod=f"c-{one}", broker=one, departing=True) for one in (5, 4, 3)
    )


def test_paused_nobody_is_told_and_the_number_stays() -> None:
    model = scaled(4)
    model.set_replicas(3)
    model.paused = True
    plan = model.plan()
    assert (plan.actions, plan.status["replicas"]) == ((), 4)
    model.set_replicas(9)
    assert model.plan().status["replicas"] == 4


@pytest.mark.parametrize(
    ("moves", "status", "words"),
    [
        (MovesView(moving=2, paused=False, stuck=()), "False", "leaving: c-3"),
        (MovesView(moving=0, paused=True, stuck=()), "True", "paused"),
        (MovesView(moving=0, paused=False, stuck=("a-0 stays on broker 3: no majority",)), "True", "no majority"),
        (
            MovesView(moving=0, paused=False, stuck=(), reason="a voter of the controller's group is to leave, and …"),
            "True",
            "a voter of the controller's group",
        ),
        (Unknown(reason="ReplicaNotReady", message=""), "False", "leaving: c-3"),
    ],
)
def test_what_does_not_get_on_is_told_in_the_coordinators_words(
    moves: MovesView | Unknown, status: str, words: str
) -> None:
    model = scaled(4)
    model.set_replicas(3)
    one_pass(model)
    found = plan_members(replace(model.world(), moves=moves))
    assert found.finding.status == status
    assert words in found.finding.message


def scaling(model: ModelCluster) -> Mapping[str, Any]:
    found: Mapping[str, Any] = model.status.get("scaling", {})
    return found


def test_the_status_tells_how_far_it_is() -> None:
    model = scaled(4, groups=9, log_bytes=1_000)
    held = sum(3 in raft.match for raft in model.rafts)
    model.set_replicas(3)
    one_pass(model)
    assert held > 2
    first = scaling(model)
    assert (first["leaving"], first["groupsToMove"], first["groupsAtFirst"]) == ("c-3", held, held)
    assert first["bytesToMove"] == 1_000 * held
    assert "secondsLeft" not in first
    model.tick()
    one_pass(model)
    assert (scaling(model)["groupsToMove"], scaling(model)["groupsAtFirst"]) == (held - 1, held)
    assert scaling(model)["secondsLeft"] == 2 * (held - 1), "one replica each 2 s"
    assert scaling(model)["since"] == first["since"]
    converge(model)
    assert scaling(model) == {}
    assert (model.status["brokers"], model.status["voters"], model.status["underReplicated"]) == (3, 3, 0)
    model.silent.add(1)
    one_pass(model)
    assert model.status.get("underReplicated", 0) in (0, len(model.rafts))


def test_the_budget_is_that_of_the_replication_factor() -> None:
    """Of seven, two may be the majority of a group."""
    model = scaled(7)
    assert model.live["PodDisruptionBudget", "c"]["spec"]["maxUnavailable"] == 1


def formed(model: ModelCluster) -> str:
    return str(model.live["ConfigMap", "c-identity"]["data"]["formed"])


def test_founders_are_told_that_others_have_joined_as_long_as_it_is_so() -> None:
    """ADR 103. An empty one would form another cluster beside them; when nobody answers, what was known holds."""
    model = ModelCluster(replicas=3, image="muster:0.3.0")
    converge(model)
    assert formed(model) == "false"
    model.set_replicas(4)
    converge(model)
    assert formed(model) == "true"
    model.silent = set(range(4))
    for _ in range(3):
        model.tick()
        one_pass(model)
    assert formed(model) == "true", "no answer is no proof that they have left"
    del model.live["ConfigMap", "c-identity"]
    one_pass(model)
    assert formed(model) == "false", "a person gives the cluster up: its founder may form another one"
    model.silent = set()
    model.set_replicas(3)
    converge(model)
    assert formed(model) == "false"
    model.silent = set(range(3))
    one_pass(model)
    assert formed(model) == "false"


def test_the_id_is_there_before_the_pods_that_need_it() -> None:
    model = fresh()
    model.set_replicas(4)
    kinds = [one.manifest["metadata"]["name"] for one in model.plan().actions if isinstance(one, Apply)]
    assert kinds.index("c-identity") < kinds.index("c")


@pytest.mark.parametrize("dies_after", [0, 1, 2, 3])
def test_an_operator_that_dies_again_and_again_ends_the_same(dies_after: int) -> None:
    """After so many actions of every second pass, also before it has written its status. The model itself fails when a
    coordinator loses its pod before it has left."""
    model = ModelCluster(replicas=3, image="muster:0.2.0")
    converge(model)
    for replicas in (6, 4, 5, 3):
        model.set_replicas(replicas)
        for number in range(60):
            model.carry_out(model.plan(), crash_after=dies_after if number % 2 else None)
            model.tick()
        converge(model)
        assert set(model.pods) == set(model.volumes.seats) == set(model.volumes.claims) == set(range(replicas))
    assert did(model, "drain", "EvictPod") == []


def test_a_change_of_mind_between_an_action_and_its_status_costs_nobody_a_pod() -> None:
    """The operator made two pods and died before it said so; `replicas` is three again when the next one looks."""
    model = ModelCluster(replicas=3, image="muster:0.2.0")
    converge(model)
    model.set_replicas(5)
    plan = model.plan()
    model.carry_out(plan, crash_after=len(plan.actions))
    for _ in range(4):
        model.tick()
    assert set(model.volumes.seats) == set(range(5))
    model.set_replicas(3)
    one_pass(model)
    assert model.made == 5
    converge(model)
    assert set(model.volumes.seats) == set(model.pods) == {0, 1, 2}
    assert did(model, "leave") == ["leave c-4", "leave c-3"]
