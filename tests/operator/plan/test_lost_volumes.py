"""Whose volume is lost, and what is done: one judgement after the other, on a model cluster whose truth is known.

Lost is what the requirement says: a claim that is new or gone, or one whose PersistentVolume or whose node's object is
gone. Nothing else is, unless a person says so; what was not read or not recorded is not lost either.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from muster_operator.api.conditions import Reason
from muster_operator.plan.actions import Action, DeleteClaim, DeletePod, Drain, EvictPod, ReplaceReplica
from muster_operator.plan.cluster import plan_cluster
from muster_operator.plan.conditions import condition
from muster_operator.plan.lost_volumes import judge
from muster_operator.plan.pacing import Need, need
from muster_operator.plan.rollout import next_step
from muster_operator.plan.volume_records import looks, records, stored_records
from muster_operator.world.cluster import ReplicaView
from muster_operator.world.views import StatefulSetView, Unknown
from muster_operator.world.volumes import ClaimView, StorageView, VolumeView

from tests.operator.plan.model_cluster import SETTINGS, ModelCluster
from tests.operator.plan.test_rollout_properties import converge, fresh
from tests.operator.plan.test_rollout_properties import judge as judge_plan

Condition = Mapping[str, Any]
ACTS = (ReplaceReplica, DeleteClaim, DeletePod)


def told(model: ModelCluster) -> Condition:
    return condition(plan_cluster(model.world(), SETTINGS).status, "VolumeLost")


def acts(model: ModelCluster) -> list[Action]:
    return [one for one in plan_cluster(model.world(), SETTINGS).actions if isinstance(one, ACTS)]


def passes(model: ModelCluster, count: int) -> list[Action]:
    """What is done about volumes meanwhile."""
    found: list[Action] = []
    for _ in range(count):
        plan = model.plan()
        judge_plan(model, plan)
        found += [one for one in plan.actions if isinstance(one, ACTS)]
        model.carry_out(plan)
        model.tick()
    return found


def names(actions: list[Action]) -> list[str]:
    return list(
        dict.fromkeys(f"{type(one).__name__} {getattr(one, 'pod', '') or getattr(one, 'name', '')}" for one in actions)
    )


# What is recorded.


def test_each_folder_is_recorded_with_its_claim_before_anything_is_lost_and_then_nothing_is_read() -> None:
    model = fresh()
    found = stored_records(model.status)
    assert {(one.claim_uid, one.folder, one.binding) for one in found.values()} == {
        (claim.uid, claim.folder, 0) for claim in model.volumes.claims.values()
    }
    world = model.world()
    assert looks(world.statefulset, world.replicas, model.status, world.now_ms) == {}


@pytest.mark.parametrize("pod_uid", [None, "another"])
def test_nothing_is_recorded_of_a_pod_that_was_another_one_when_its_claim_was_read(pod_uid: str | None) -> None:
    """Claim and folder belong together only if one pod was there from the answer to the reading of the claim."""
    model = ModelCluster()
    while not model.formed:
        model.carry_out(model.plan())
        model.tick()
    world = replace(model.world(), owner=replace(model.world().owner, status={}))
    storage = {f"c-{n}": model.volumes.view(n, volume_read=False, pod_uid=model.pods[n].uid) for n in range(3)}
    assert set(records(replace(world, storage=storage))) == {"c-0", "c-1", "c-2"}
    storage["c-1"] = replace(storage["c-1"], pod_uid=pod_uid)
    assert set(records(replace(world, storage=storage))) == {"c-0", "c-2"}


def test_an_emptied_replica_does_not_take_the_record_of_the_one_before() -> None:
    model = fresh()
    before = stored_records(model.status)["c-2"]
    model.refusal = "not now"
    model.lose_claim(2)
    passes(model, 20)
    assert model.volumes.claims[2].folder != before.folder
    assert stored_records(model.status)["c-2"] == before


def test_a_record_that_is_not_whole_is_none() -> None:
    status = {"volumes": [{"name": "c-0", "folder": "f"}, {"name": "c-1", "uid": 1}, {}]}
    assert stored_records(status) == {}


# What is lost.


@pytest.mark.parametrize("how", ["volume", "node"])
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_claim_in_the_way_goes_after_the_coordinators_have_agreed(how: str, victim: int) -> None:
    model = fresh()
    model.lose_volume(victim, how)
    done = names(passes(model, 300))
    pod = f"c-{victim}"
    assert done == [f"ReplaceReplica {pod}", f"DeleteClaim data-{pod}", f"DeletePod {pod}"]
    converge(model)
    assert model.volumes.lost() == set()
    assert told(model)["reason"] == Reason.VOLUMES_PRESENT


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_new_claim_is_replaced_when_its_replica_runs_and_not_before(victim: int) -> None:
    model = fresh()
    model.volumes.provides = False
    model.lose_claim(victim)
    assert passes(model, 30) == []
    assert (told(model)["status"], told(model)["reason"]) == ("True", Reason.VOLUME_LOST)
    model.volumes.provides = True
    assert names(passes(model, 30)) == [f"ReplaceReplica c-{victim}"]
    converge(model)


def test_a_node_that_is_missing_is_waited_for_a_while() -> None:
    model = fresh()
    model.lose_volume(1, "node")
    assert passes(model, 100) == [], "200 s: less than the patience"
    assert "unless the node is back" in told(model)["message"]
    model.volumes.claims[1].node = "ready"
    converge(model)
    assert model.volumes.gone == set(), "it came back with its volume"


@pytest.mark.parametrize("fault", ["crash", "silence", "cut-off", "stopped", "node-away", "unreadable", "forbidden"])
def test_nothing_else_is_a_loss(fault: str) -> None:
    """Crashed, silent, cut off, stopped for ever; the node not Ready; the API server does not answer; no right."""
    model = fresh()
    if fault == "silence":
        model.silent.add(1)
        model.pods[1].ready = False
    elif fault == "cut-off":
        model.cut_off(1)
    elif fault == "node-away":
        model.lose_volume(1, "node-away")
    elif fault in ("unreadable", "forbidden"):
        setattr(model.volumes, fault, True)
        model.lose_volume(1, "volume")
    else:
        model.crash(1)
    for _ in range(300):
        if fault == "stopped":
            model.crash(1)
        plan = model.plan()
        assert not any(isinstance(one, ACTS) for one in plan.actions)
        assert condition(plan.status, "VolumeLost")["status"] != "True"
        model.carry_out(plan)
        model.tick()
    if fault in ("unreadable", "forbidden", "node-away"):
        assert told(model)["status"] == "Unknown"
        assert told(model)["message"]


def test_a_lost_claim_says_so_itself_where_volumes_may_not_be_read() -> None:
    """A release in some namespaces may read no PersistentVolumes; the claim's phase is in its namespace."""
    model = fresh()
    model.volumes.forbidden = True
    model.lose_volume(1, "volume")
    passes(model, 10)
    world = model.world()
    found = world.storage["c-1"]
    assert isinstance(found.claim, ClaimView)
    lost = replace(found, claim=replace(found.claim, phase="Lost"))
    assert [one.pod for one in judge(replace(world, storage={"c-1": lost})).lost] == ["c-1"]


@pytest.mark.parametrize(("bound_to", "lost"), [("this", False), ("another", True), (None, True)])
def test_a_lost_claim_whose_volumes_name_is_taken_by_another_volume_is_lost(bound_to: str | None, lost: bool) -> None:
    """A provisioner of local volumes offers an emptied one under the name that it had."""
    model = fresh()
    model.lose_volume(1, "node-away")
    passes(model, 10)
    world = model.world()
    found = world.storage["c-1"]
    assert isinstance(found.claim, ClaimView)
    assert isinstance(found.volume, VolumeView)
    uid = found.claim.uid if bound_to == "this" else bound_to
    odd = replace(found, claim=replace(found.claim, phase="Lost"), volume=replace(found.volume, claim_uid=uid))
    judged = judge(replace(world, storage={"c-1": odd}))
    assert (len(judged.lost), len(judged.unclear)) == ((1, 0) if lost else (0, 1))


def test_a_new_claim_on_the_old_volume_is_not_judged_before_its_replica_says_what_is_on_it() -> None:
    """Somebody restores the claim of a volume that was retained, or a backup does."""
    model = fresh()
    before = model.volumes.claims[1]
    model.lose_claim(1)
    model.volumes.claims[1] = replace(before, uid="restored")
    model.silent.add(1)
    assert passes(model, 60) == []
    world = model.world()
    away = {**world.replicas, "c-1": Unknown(reason="Silent", message="no answer")}
    statefulset = world.statefulset
    assert isinstance(statefulset, StatefulSetView)
    unready = replace(statefulset, pods=tuple(replace(one, ready=False) for one in statefulset.pods))
    storage = {"c-1": model.volumes.view(1, volume_read=False, pod_uid=None)}
    judged = judge(replace(world, replicas=away, statefulset=unready, storage=storage))
    assert (judged.lost, len(judged.unclear)) == ((), 1)
    model.silent.clear()
    converge(model)
    assert model.volumes.gone == set()
    assert stored_records(model.status)["c-1"].claim_uid == "restored"


def test_a_status_of_an_earlier_release_declares_nobody_lost() -> None:
    model = fresh()
    model.status = {key: value for key, value in model.status.items() if key != "volumes"}
    model.lose_volume(2, "volume")
    for _ in range(200):
        plan = model.plan()
        assert not any(isinstance(one, ACTS) for one in plan.actions)
        model.status = {key: value for key, value in plan.status.items() if key != "volumes"}
        model.tick()
    assert judge(model.world()).lost == ()


def test_coordinators_of_an_earlier_release_cannot_be_judged() -> None:
    """They tell no folder of their own: an answer of theirs is no sign of a loss."""
    model = fresh()
    model.refusal = "not now"
    model.lose_claim(2)
    passes(model, 20)
    world = model.world()
    old = {
        name: replace(view, folder=None, seats={}) if isinstance(view, ReplicaView) else view
        for name, view in world.replicas.items()
    }
    assert judge(replace(world, replicas=old)).lost == ()


def test_a_replica_that_answers_from_its_folder_has_lost_nothing_though_its_claim_is_gone() -> None:
    """Its volume stays mounted as long as it runs; and no leader answers who could say whose place it has."""
    model = fresh()
    world = model.world()
    claimless = {"c-1": StorageView(claim=None, volume=None)}
    alone = {
        name: replace(view, ready=False) if name == "c-1" and isinstance(view, ReplicaView)
        else Unknown(reason="Silent", message="no answer")
        for name, view in world.replicas.items()
    }  # fmt: skip
    assert judge(replace(world, replicas=alone, storage=claimless)).lost == ()


def test_claim_deleted_and_made_again_between_two_looks() -> None:
    """By the uid: the name is the same, and the claim is Bound."""
    model = fresh()
    model.lose_claim(2)
    for _ in range(12):
        model.tick()
    assert 2 in model.pods
    found = judge(model.world()).lost
    assert [(one.pod, one.evidence) for one in found] == [("c-2", "new claim")]


# Who may be replaced, and by whom.


def test_a_claim_of_somebody_elses_is_left_alone() -> None:
    model = fresh()
    model.volumes.claims[1].ours = False
    model.lose_volume(1, "volume")
    assert names(passes(model, 60)) == ["ReplaceReplica c-1"]
    assert "delete claim data-c-1" in told(model)["message"]
    assert condition(model.status, "Degraded")["status"] == "True"


def test_one_at_a_time() -> None:
    model = fresh(5)
    model.lose_volume(1, "volume")
    model.lose_volume(3, "volume")
    asked = [one.pod for one in passes(model, 120) if isinstance(one, ReplaceReplica)]
    assert list(dict.fromkeys(asked)) == ["c-1", "c-3"]
    converge(model)
    assert {seat.binding for seat in model.volumes.seats.values()} == {0, 1}


def test_nobody_is_declared_gone_while_a_place_waits_that_a_person_has_emptied() -> None:
    """By `muster cluster replace`, of a replica of which nothing was recorded."""
    model = fresh(5)
    model.status = {**model.status, "volumes": [one for one in model.status["volumes"] if one["name"] != "c-1"]}
    folder = model.volumes.seats[1].folder
    assert folder is not None
    model.silent.add(1)
    model.crash(1)
    model.volumes.declare_gone(1, folder)
    model.lose_claim(3)
    assert passes(model, 40) == []
    assert "c-1 is replaced first" in told(model)["message"]


def test_the_only_replica_is_never_replaced_and_its_data_is_told_to_be_lost() -> None:
    model = fresh(1)
    model.lose_claim(0)
    assert passes(model, 100) == []
    found = told(model)
    assert (found["status"], found["reason"]) == ("True", Reason.DATA_LOST)
    assert "what the cluster had stored is lost" in found["message"]
    assert condition(model.status, "Degraded")["reason"] == Reason.DATA_LOST


@pytest.mark.parametrize("how", ["volume", "node"])
def test_a_founder_that_alone_had_the_controller_group_needs_a_person_though_others_have_joined(how: str) -> None:
    """It forms no cluster beside them (ADR 103), and nobody can give it its place."""
    model = ModelCluster(replicas=3, factor=1, factor_now=1, image="muster:0.3.0")
    converge(model)
    assert model.rafts[0].voters == (0,)
    model.lose_volume(0, how)
    model.silent = {1}
    passes(model, 5)
    assert told(model)["reason"] != "DataLost", "one that does not answer may know better"
    model.silent = set()
    assert not [one for one in passes(model, 30) if isinstance(one, ReplaceReplica)]
    lost = told(model)
    assert (lost["status"], lost["reason"]) == ("True", "DataLost")
    assert "it alone had the controller group" in lost["message"]


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_cluster_that_empty_folders_formed_anew_is_told_until_a_person_has_read_it(replicas: int) -> None:
    """All volumes are gone at once: the coordinators cannot know that there was a cluster before."""
    model = fresh(replicas)
    before = stored_records(model.status)
    for one in range(replicas):
        model.lose_claim(one)
    model.formed, model.rafts = False, []
    for _ in range(40):
        plan = model.plan()
        assert not any(isinstance(one, ACTS) for one in plan.actions)
        model.carry_out(plan)
        model.tick()
    assert model.formed
    assert (told(model)["status"], told(model)["reason"]) == ("True", Reason.DATA_LOST)
    assert stored_records(model.status) == before
    model.replace_folder = before["c-0"].folder
    converge(model)
    assert told(model)["reason"] == Reason.VOLUMES_PRESENT
    assert stored_records(model.status)["c-0"].folder == model.volumes.claims[0].folder


def test_a_paused_cluster_is_only_told() -> None:
    model = fresh()
    model.paused = True
    model.lose_volume(2, "volume")
    for _ in range(30):
        plan = model.plan()
        assert plan.actions == ()
        model.carry_out(plan)
        model.tick()
    assert told(model)["status"] == "True"


def test_an_annotation_of_a_folder_that_lives_or_is_gone_already_does_nothing() -> None:
    model = fresh()
    model.replace_folder = model.volumes.seats[1].folder
    assert passes(model, 30) == [], "it lives"
    model.crash(1)
    converge(model)
    model.replace_folder = "f" * 32
    model.crash(2)
    assert passes(model, 30) == [], "nobody's"
    model.replace_folder = None
    model.lose_claim(2)
    passes(model, 60)
    converge(model)
    (gone,) = model.volumes.gone
    model.replace_folder = gone
    model.crash(2)
    model.lose_volume(2, "node-away")
    assert passes(model, 60) == [], "it names the folder before"


@pytest.mark.parametrize("fault", ["crash", "cut-off"])
def test_an_annotation_that_was_forgotten_costs_no_replica_whose_volume_is_there(fault: str) -> None:
    """It named a folder on a node that was away; the node came back, and much later the pod restarts."""
    model = fresh()
    model.replace_folder = model.volumes.seats[1].folder
    if fault == "crash":
        model.crash(1)
    else:
        model.cut_off(1)
    assert passes(model, 200) == []
    model.heal()
    converge(model)
    assert model.volumes.gone == set()


def test_where_nodes_may_not_be_read_a_word_counts_when_the_pod_is_away_for_long_and_deletes_no_claim() -> None:
    """Its replica may run there, on a new folder, and only not be reached."""
    model = fresh()
    model.volumes.forbidden = True
    model.replace_folder = model.volumes.seats[1].folder
    model.cut_off(1)
    assert passes(model, 140) == []
    assert names(passes(model, 60)) == ["ReplaceReplica c-1"]


def test_a_refusal_is_asked_again_and_holds_up_nothing() -> None:
    model = fresh()
    model.refusal = "another replica is down"
    model.lose_claim(2)
    model.set_image("good-2")
    asked = passes(model, 60)
    assert {type(one) for one in asked} == {ReplaceReplica}
    assert len(asked) > 30
    assert model.pods[2].image == "good-2", "the lost one takes the new revision meanwhile"
    model.refusal = ""
    converge(model)


# Roll-outs beside it.


def test_five_roll_past_a_lost_volume_and_two_lost_ones_hold_the_others() -> None:
    model = fresh(5)
    model.volumes.provides = False
    model.lose_claim(4)
    model.set_image("good-2")
    passes(model, 150)
    assert {pod.image for pod in model.pods.values()} == {"good-2"}
    model.lose_claim(3)
    model.set_image("good-3")
    passes(model, 150)
    assert {pod.image for ordinal, pod in model.pods.items() if ordinal < 3} == {"good-2"}, "three of five are needed"
    model.volumes.provides = True
    converge(model)
    assert {pod.image for pod in model.pods.values()} == {"good-3"}


@pytest.mark.parametrize("replicas", [3, 5])
def test_a_lost_volume_is_no_evidence_against_a_revision(replicas: int) -> None:
    model = fresh(replicas)
    model.refusal = "no"
    model.set_image("good-2")
    model.lose_claim(replicas - 1)
    passes(model, 150)
    assert condition(model.status, "Degraded")["reason"] == Reason.AS_EXPECTED
    model.refusal = ""
    converge(model)
    assert {pod.image for pod in model.pods.values()} == {"good-2"}


def test_a_crash_loop_is_evidence_also_of_a_pod_that_lost_its_volume() -> None:
    model = fresh(5)
    model.refusal = "no"
    model.lose_claim(4)
    passes(model, 20)
    model.set_image("bad-crash")
    passes(model, 60)
    assert condition(model.status, "Degraded")["reason"] == Reason.NEW_REVISION_UNHEALTHY
    voters = [pod for ordinal, pod in model.pods.items() if ordinal != 4]
    assert sum(pod.image == "bad-crash" for pod in voters) <= 1, "one that counts, and no more"
    assert model.pods[4].image == "bad-crash"


def test_the_lost_one_takes_the_new_revision_whatever_the_others_wait_for() -> None:
    model = fresh()
    model.refusal = "no"
    model.lose_volume(1, "volume")
    passes(model, 10)
    model.set_image("good-2")
    passes(model, 20)
    assert {ordinal for ordinal, pod in model.pods.items() if pod.image == "good-2"} == {1}


def test_two_on_a_revision_that_never_serves_do_not_wait_for_each_other_if_one_lost_its_volume() -> None:
    """The StatefulSet makes a lost pod anew with whatever revision is wanted then."""
    model = fresh(5)
    model.set_image("bad-silent")
    passes(model, 6)
    bad = {ordinal for ordinal, pod in model.pods.items() if pod.image == "bad-silent"}
    assert len(bad) == 1
    model.lose_claim(next(iter({0, 3} - bad)))
    passes(model, 20)
    assert sum(pod.image == "bad-silent" for pod in model.pods.values()) == 2
    model.set_image("good-2")
    converge(model)
    assert model.volumes.lost() == set()


def test_a_folder_that_was_lost_before_it_was_seen_on_a_claim_needs_a_persons_word() -> None:
    """The operator was away when it was bound."""
    model = fresh()
    model.lose_claim(2)
    while model.volumes.seats[2].binding == 0:
        passes(model, 1)
    second = model.volumes.seats[2].folder
    assert second is not None
    model.lose_claim(2)
    assert passes(model, 30) == []
    assert f"replace-folder={second}" in told(model)["message"]
    model.replace_folder = second
    assert names(passes(model, 200)) == ["ReplaceReplica c-2"]
    converge(model)
    assert model.volumes.lost() == set()


def test_the_budget_leaves_room_for_one_more_only_while_a_volume_is_lost() -> None:
    model = fresh(5)
    budget = lambda: model.live["PodDisruptionBudget", "c"]["spec"]["maxUnavailable"]  # noqa: E731
    assert budget() == 1
    model.refusal = "no"
    model.lose_claim(4)
    passes(model, 20)
    assert budget() == 2
    model.lose_claim(3)
    passes(model, 20)
    assert budget() == 2, "three of five are a majority"
    model.refusal = ""
    converge(model)
    assert budget() == 1
    three = fresh(3)
    three.refusal = "no"
    three.lose_claim(1)
    passes(three, 20)
    assert three.live["PodDisruptionBudget", "c"]["spec"]["maxUnavailable"] == 1


def test_a_cluster_that_waits_for_a_lost_volume_holds_up_no_other_cluster() -> None:
    model = fresh()
    model.replace_lost = False
    model.lose_claim(2)
    passes(model, 30)
    world = model.world()
    settings = replace(SETTINGS, operator_image="good-1")
    follows = replace(world, spec=replace(world.spec, image=None))
    assert need(follows, settings, next_step(follows, settings)) is Need.NONE
    model.set_image("good-2")
    passes(model, 30)
    world = model.world()
    follows = replace(world, spec=replace(world.spec, image=None))
    settings = replace(SETTINGS, operator_image="good-2")
    assert next_step(follows, settings).decision == Reason.VOLUME_LOST
    assert need(follows, settings, next_step(follows, settings)) is Need.UNFIT


# Words.


def test_events_tell_the_loss_once_and_the_end_once() -> None:
    model = fresh()
    model.lose_volume(2, "volume")
    told_events = []
    for _ in range(60):
        plan = model.plan()
        told_events += [
            one.reason for one in plan.events if one.reason in (Reason.REPLACING_REPLICA, Reason.REPLICA_REPLACED)
        ]
        model.carry_out(plan)
        model.tick()
    assert told_events == [Reason.REPLACING_REPLICA, Reason.REPLICA_REPLACED]


def test_the_command_in_the_message_names_the_folder_that_it_is_about() -> None:
    model = fresh()
    model.replace_lost = False
    folder = model.volumes.seats[2].folder
    model.lose_claim(2)
    passes(model, 20)
    assert f"kubectl -n ns annotate --overwrite cc/c muster.dev/replace-folder={folder}" in told(model)["message"]


def test_the_end_is_not_told_before_every_group_has_taken_it_in() -> None:
    model = fresh()
    model.lose_claim(2)
    seen = set()
    for _ in range(60):
        plan = model.plan()
        if condition(plan.status, "VolumeLost")["status"] == "True":
            assert plan.requeue_after_ms <= SETTINGS.wait_ms, "nothing else would bring the next look"
        if condition(plan.status, "VolumeLost")["status"] == "False":
            seen.add(all(model.volumes.is_member(raft.number, one) for raft in model.rafts for one in range(3)))
            assert not model.volumes.lost()
        model.carry_out(plan)
        model.tick()
    assert seen == {True}


def test_it_stays_lost_as_long_as_a_leader_is_not_seen() -> None:
    model = fresh()
    model.lose_claim(2)
    while model.volumes.seats[2].folder != model.volumes.claims.get(2, model.volumes.claims[0]).folder:
        passes(model, 1)
    assert told(model)["status"] == "True"
    world = model.world()
    silent = {name: Unknown(reason="Silent", message="no answer") for name in world.replicas}
    unseen = replace(world, replicas=silent, storage={})
    assert condition(plan_cluster(unseen, SETTINGS).status, "VolumeLost")["status"] == "True"


def test_what_was_not_looked_at_is_not_judged() -> None:
    model = fresh()
    model.lose_volume(2, "volume")
    world = replace(model.world(), storage={"c-2": StorageView(claim=Unknown(reason="x", message="y"), volume=None)})
    assert judge(world).lost == ()
    assert judge(replace(world, storage={})).lost == ()


# A bad revision takes one pod, lost or not.


def test_a_lost_pod_does_not_take_a_revision_that_another_one_is_trying() -> None:
    model = fresh(5)
    model.refusal = "no"
    model.set_image("bad-silent")
    passes(model, 6)
    (trying,) = [ordinal for ordinal, pod in model.pods.items() if pod.image == "bad-silent"]
    model.lose_volume(next(iter({0, 3} - {trying})), "volume")
    passes(model, 60)
    assert sum(pod.image == "bad-silent" for pod in model.pods.values()) == 1
    assert condition(model.status, "Degraded")["reason"] == Reason.NEW_REVISION_UNHEALTHY


def test_no_other_pod_takes_a_revision_that_a_lost_one_is_trying() -> None:
    model = fresh(5)
    model.refusal = "no"
    model.lose_claim(4)
    passes(model, 20)
    model.set_image("bad-silent")
    passes(model, 60)
    assert [ordinal for ordinal, pod in model.pods.items() if pod.image == "bad-silent"] == [4]
    assert condition(model.status, "Degraded")["reason"] == Reason.NEW_REVISION_UNHEALTHY


def test_a_broken_pod_is_replaced_though_a_lost_one_cannot_start() -> None:
    model = fresh(5)
    model.refusal = "no"
    model.lose_volume(2, "volume")
    passes(model, 10)
    model.set_image("good-2")
    while model.pods.get(2) is None or model.pods[2].image != "good-2":
        passes(model, 1)
    model.pods[1].image, model.pods[1].ready = "bad-pull", False
    for _ in range(4):
        model.tick()
    assert "DeletePod c-1" in names(passes(model, 4))


def test_a_lost_pod_that_never_ends_holds_up_nobody() -> None:
    """On a node that is gone, before Kubernetes removes it."""
    model = fresh(5)
    model.refusal = "no"
    model.lose_volume(1, "node")
    model.cut_off(1)
    model.pods[1].stopping = 2
    passes(model, 10)
    model.set_image("good-2")
    passes(model, 150)
    assert {ordinal for ordinal, pod in model.pods.items() if pod.image == "good-2"} == {0, 2, 3, 4}
    assert next_step(model.world(), SETTINGS).decision == Reason.VOLUME_LOST


def test_a_claim_that_was_never_recorded_makes_room_when_its_volume_is_gone() -> None:
    """The coordinators have given up whatever was on any claim of this ordinal."""
    model = fresh()
    model.lose_claim(2)
    while model.volumes.seats[2].binding == 0:
        passes(model, 1)
    second = model.volumes.seats[2].folder
    model.lose_volume(2, "volume")
    model.replace_folder = second
    assert names(passes(model, 200)) == ["ReplaceReplica c-2", "DeleteClaim data-c-2", "DeletePod c-2"]
    converge(model)
    assert model.volumes.lost() == set()


@pytest.mark.parametrize("how", ["volume", "node-away"])
def test_a_pass_disturbs_one_pod_also_when_a_replacement_and_a_rollout_are_due(how: str) -> None:
    model = fresh(5)
    model.lose_volume(1, how)
    model.replace_folder = model.volumes.seats[1].folder
    passes(model, 6)
    model.set_image("good-2")
    most = 0
    for _ in range(200):
        plan = model.plan()
        disturbing = [one for one in plan.actions if isinstance(one, Drain | EvictPod | DeletePod | DeleteClaim)]
        most = max(most, len(disturbing))
        model.carry_out(plan)
        model.tick()
    assert most == 1
    converge(model)
    assert model.volumes.lost() == set()


def test_a_group_that_has_not_taken_it_in_is_looked_at_again_soon_though_every_pod_is_ready() -> None:
    """Nothing wakes a pass when it does."""
    model = fresh()
    model.lose_claim(2)
    passes(model, 30)
    converge(model)
    model.volumes.members[3, 2] = 0
    plan = plan_cluster(model.world(), SETTINGS)
    assert plan.decision == Reason.CONVERGED
    assert condition(plan.status, "VolumeLost")["reason"] == Reason.REPLACING_REPLICA
    assert plan.requeue_after_ms <= SETTINGS.wait_ms


def test_replicas_that_are_moved_for_other_reasons_are_no_lost_volume() -> None:
    """A broker was added, or leaves: its Raft groups are about to change, and every volume is there."""
    model = fresh()
    passes(model, 3)
    world = model.world()
    views = {
        name: replace(view, groups_to_change=5) if isinstance(view, ReplicaView) else view
        for name, view in world.replicas.items()
    }
    found = condition(plan_cluster(replace(world, replicas=views), SETTINGS).status, "VolumeLost")
    assert (found["status"], found["reason"]) == ("False", Reason.VOLUMES_PRESENT)
