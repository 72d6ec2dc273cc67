"""Restarts of coordinators, on a model cluster with faults from Hypothesis: never unsafe, and done when faults are
over.

Every disruptive action is judged by the model's own truth at the instant in which it is carried out.
"""

from collections.abc import Callable

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from muster_operator.api.conditions import Reason
from muster_operator.plan.actions import DeletePod, Drain, EvictPod, Plan
from muster_operator.plan.volume_records import stored_records

from tests.operator.plan.model_cluster import BAD_IMAGES, SETTINGS, ModelCluster

PASSES_MAX = 400
TOLD_AS_FOUND = tuple(phase for phase in Phase if phase is not Phase.shrink)
"""An example that does not converge takes a second: shrinking it would outlast the test's time-out and hide it."""
ORDINALS = st.integers(0, 2)
FAULTS = st.one_of(
    st.tuples(st.just("crash"), ORDINALS),
    st.tuples(st.just("cut_off"), ORDINALS),
    st.tuples(st.just("elect"), st.integers(0, 3), ORDINALS),
    st.tuples(st.just("fall_behind"), ORDINALS),
    st.tuples(st.just("silence"), ORDINALS),
    st.tuples(st.just("lose"), ORDINALS, st.sampled_from(["claim", "volume", "node", "node-away", "content"])),
    st.tuples(st.just("unreadable"), st.booleans()),
    st.tuples(st.just("forbidden"), st.booleans()),
    st.tuples(st.just("room"), st.booleans()),
    st.tuples(st.just("heal")),
)
CHANGES = st.tuples(st.just("image"), st.sampled_from(["good-1", "good-2", "good-3", *BAD_IMAGES]))
STEP = st.tuples(st.one_of(st.none(), FAULTS, CHANGES), st.sampled_from([None, None, None, 0, 1]), st.integers(0, 3))
"""What happens, after how many actions the operator dies in this pass, ticks until the next pass."""


def judge(model: ModelCluster, plan: Plan) -> None:
    """The guarantees of `plan.rollout`, at the instant of the action."""
    disruptive = [action for action in plan.actions if isinstance(action, Drain | EvictPod | DeletePod)]
    assert len(disruptive) <= 1
    for action in disruptive:
        name = action.pod if isinstance(action, Drain) else action.name
        pod = next(one for one in model.pods.values() if f"c-{one.ordinal}" == name)
        if isinstance(action, DeletePod):
            assert pod.image in BAD_IMAGES or not model.joined(pod.ordinal), "only a pod that does no work is deleted"
            continue
        if not any(one.ready for one in model.pods.values()):
            assert isinstance(action, EvictPod)
            continue  # nobody is served: there is nothing to protect
        if pod.ordinal in model.volumes.lost() or pod.folder is None:
            assert not model.leads(pod.ordinal)
            continue  # it has no vote, and gets none by waiting
        assert not model.away() - {pod.ordinal} - model.volumes.lost(), "another pod is away"
        others = [one for one in model.pods.values() if one is not pod]
        assert all(one.drain == "idle" for one in others), "another pod is being drained"
        if model.made > 1:
            assert model.majority_without(pod.ordinal), "a Raft group would lose its caught-up majority"
            if isinstance(action, EvictPod):
                assert model.leads(pod.ordinal) == [], "evicted while it leads"


def one_pass(model: ModelCluster, crash_after: int | None = None) -> Plan:
    plan = model.plan()
    judge(model, plan)
    model.carry_out(plan, crash_after=crash_after)
    return plan


def converge(model: ModelCluster, look: Callable[[Plan], None] = lambda plan: None) -> None:
    for _ in range(PASSES_MAX):
        plan = one_pass(model)
        look(plan)
        if plan.decision == Reason.CONVERGED and not plan.actions and not model.away():
            return
        model.tick()
    raise AssertionError(f"not converged: {plan.decision}: {plan.reason}")


def fresh(replicas: int = 3) -> ModelCluster:
    model = ModelCluster(replicas=replicas)
    converge(model)
    return model


def apply_fault(model: ModelCluster, fault: tuple[object, ...]) -> None:
    match fault:
        case ("crash", int(ordinal)):
            model.crash(ordinal)
        case ("cut_off", int(ordinal)):
            model.cut_off(ordinal)
        case ("elect", int(number), int(ordinal)):
            model.elect(number, ordinal)
        case ("fall_behind", int(ordinal)):
            model.fall_behind(ordinal)
        case ("silence", int(ordinal)):
            model.silent.add(ordinal)
        case ("heal",):
            model.heal()
        case ("lose", int(ordinal), str(how)):
            lose(model, ordinal, how)
        case ("unreadable", bool(so)):
            model.volumes.unreadable = so
        case ("forbidden", bool(so)):
            model.volumes.forbidden = so
        case ("room", bool(so)):
            model.volumes.provides = so
        case ("image", str(image)):
            model.set_image(image)
        case _:
            raise AssertionError(fault)


def lose(model: ModelCluster, ordinal: int, how: str) -> None:
    """One volume at a time, and never one without which there is no majority: what is lost then is lost."""
    if not model.formed or ordinal not in model.pods or model.volumes.lost() or not model.majority_without(ordinal):
        return
    if how == "claim":
        model.lose_claim(ordinal)
    elif how == "content":
        model.empty(ordinal)
    else:
        model.lose_volume(ordinal, how)


def heal_all(model: ModelCluster) -> None:
    """A person says that a folder which was emptied under its claim is gone, and deletes a claim that the operator
    has never seen in use."""
    model.heal()
    for broker in model.volumes.lost():
        model.replace_folder = model.volumes.seats[broker].folder or model.replace_folder
        if f"c-{broker}" not in stored_records(model.status):
            model.lose_claim(broker)


def assert_done(model: ModelCluster) -> None:
    """All pods are of the wanted revision, nobody is drained, and looking again does and says nothing new."""
    assert {pod.revision for pod in model.pods.values()} == {model.update_revision}
    assert all(pod.drain == "idle" for pod in model.pods.values())
    if model.formed:
        assert not model.volumes.lost()
        assert all(model.volumes.is_member(raft.number, one) for raft in model.rafts for one in model.pods)
    one_pass(model)
    before = model.status
    model.tick()
    again = model.plan()
    assert again.actions == ()
    assert again.events == ()
    assert again.status == before


@settings(max_examples=25, phases=TOLD_AS_FOUND)
@given(st.lists(STEP, min_size=1, max_size=40))
def test_whatever_happens_it_stays_safe_and_ends_well(script: list[tuple[object, int | None, int]]) -> None:
    model = fresh()
    for fault, crash_after, ticks in script:
        if fault is not None:
            apply_fault(model, fault)
        one_pass(model, crash_after)
        for _ in range(ticks):
            model.tick()
    heal_all(model)
    model.set_image("good-4")
    converge(model)
    assert_done(model)


NO_MAJORITY_TO_JOIN: list[tuple[tuple[object, ...] | None, int | None, int]] = [
    (None, None, 0), (None, None, 3), (("image", "bad-silent"), None, 1), (("heal",), None, 3),
    (("crash", 0), None, 2), (("cut_off", 2), None, 0), (("elect", 3, 0), None, 0),
]  # fmt: skip
"""The first good pod runs among others that never serve: it alone cannot become Ready."""


@settings(max_examples=15, phases=TOLD_AS_FOUND)
@given(st.lists(STEP, min_size=1, max_size=15), st.sampled_from(["good-1", *BAD_IMAGES]))
@example(NO_MAJORITY_TO_JOIN, "bad-crash")
def test_also_from_a_first_installation_that_fails(script: list[tuple[object, int | None, int]], image: str) -> None:
    model = ModelCluster(image=image)
    for fault, crash_after, ticks in script:
        if fault is not None:
            apply_fault(model, fault)
        one_pass(model, crash_after)
        for _ in range(ticks):
            model.tick()
    heal_all(model)
    model.set_image("good-4")
    converge(model)
    assert_done(model)


@pytest.mark.parametrize("replicas", [3, 5])
def test_without_faults_each_pod_is_drained_then_evicted_once_and_the_controller_leader_last(replicas: int) -> None:
    model = fresh(replicas)
    leader = model.rafts[0].leader
    model.log.clear()
    model.set_image("good-2")
    converge(model)
    evicted = [what.split()[1] for _, what in model.log if what.startswith("EvictPod")]
    assert evicted[-1] == f"c-{leader}"
    assert sorted(evicted) == [f"c-{ordinal}" for ordinal in range(replicas)]
    assert [what for _, what in model.log] == [
        text for name in evicted for text in (f"drain {name}", f"EvictPod {name}")
    ]


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(BAD_IMAGES)), st.integers(0, 2))
def test_a_bad_revision_takes_one_pod_and_its_revert_heals(bad: str, leader: int) -> None:
    model = fresh()
    model.elect(0, leader)
    model.log.clear()
    model.set_image(bad)
    for _ in range(PASSES_MAX // 4):
        plan = one_pass(model)
        model.tick()
    assert plan.decision == Reason.NEW_REVISION_UNHEALTHY
    assert sum(what.startswith(("EvictPod", "DeletePod")) for _, what in model.log) == 1
    assert model.majority_without(None), "the cluster goes on working meanwhile"
    assert all(pod.drain == "idle" for pod in model.pods.values() if pod.runs)
    model.set_image("good-1")
    converge(model)
    assert sum(what.startswith(("EvictPod", "DeletePod")) for _, what in model.log) == 2, "only the bad pod goes again"
    assert_done(model)


def test_a_bad_revision_stays_halted_when_the_others_lose_power() -> None:
    """They were Ready while its pod was not: it had its chance, and they come back by themselves."""
    model = fresh()
    model.set_image("bad-silent")
    for _ in range(PASSES_MAX // 4):
        one_pass(model)
        model.tick()
    bad = {pod.ordinal for pod in model.pods.values() if not pod.ready}
    for ordinal in set(model.pods) - bad:
        model.cut_off(ordinal)
    model.log.clear()
    for _ in range(PASSES_MAX // 4):
        plan = one_pass(model)
        model.tick()
    assert (plan.decision, model.log) == (Reason.NEW_REVISION_UNHEALTHY, [])
    model.heal()
    for _ in range(PASSES_MAX // 4):
        one_pass(model)
        model.tick()
    assert (model.away(), model.log) == (bad, [])


def test_a_halt_is_said_once_and_costs_nothing_while_it_lasts() -> None:
    model = fresh()
    model.set_image("bad-pull")
    said = []
    for _ in range(60):
        plan = one_pass(model)
        said += [event.reason for event in plan.events if event.warning]
        model.tick()
    assert said == [Reason.NEW_REVISION_UNHEALTHY]
    again = model.plan()
    assert (again.actions, again.status) == ((), model.status)


def test_a_single_replica_restarts_without_a_drain_and_says_so() -> None:
    model = fresh(1)
    events = []
    model.set_image("good-2")
    converge(model, lambda plan: events.extend(plan.events))
    assert next(event for event in events if event.reason == Reason.OUTAGE_EXPECTED).warning
    assert [what for _, what in model.log] == ["EvictPod c-0"]
    assert_done(model)


def test_a_restart_that_is_called_off_is_undrained() -> None:
    model = fresh()
    model.set_image("good-2")
    while not any(pod.drain == "drained" for pod in model.pods.values()):
        one_pass(model, crash_after=None if not model.log else 0)
        model.tick()
    model.set_image("good-1")
    decisions = []
    converge(model, lambda plan: decisions.append(plan.decision))
    assert Reason.UNDRAINING_POD in decisions
    assert not any("Evict" in what for _, what in model.log)
    assert_done(model)


def test_a_pod_on_a_cut_off_node_is_asked_to_go_once_and_everybody_else_waits_for_it() -> None:
    """It is outdated and leads nothing, so it may go; whether it went nobody knows until the node is back."""
    model = fresh()
    model.cut_off(1)
    uid = model.pods[1].uid
    model.set_image("good-2")
    for _ in range(30):
        plan = one_pass(model)
        model.tick()
    assert [what for _, what in model.log] == ["EvictPod c-1"]
    assert model.pods[1].uid == uid
    assert plan.decision == Reason.WAITING_FOR_POD
    model.heal()
    converge(model)
    assert_done(model)


def test_nothing_is_restarted_while_the_statefulset_is_not_ours() -> None:
    """Somebody edits the template: it is put back first, and no pod goes for their revision."""
    model = fresh(1)
    model.live["StatefulSet", "c"]["spec"]["template"]["spec"]["containers"][0]["image"] = "somebody's"
    model.live["StatefulSet", "c"]["metadata"]["generation"] += 1
    model.tick()
    converge(model)
    assert model.log == []


def test_paused_means_only_status() -> None:
    model = fresh()
    model.set_image("good-2")
    model.paused = True
    plan = model.plan()
    assert plan.actions == ()
    assert {one["type"]: one["status"] for one in plan.status["conditions"]}["Paused"] == "True"


def test_the_judge_itself_would_notice() -> None:
    """Positive control: an eviction of a pod that leads is refused by the same judge that the properties use."""
    model = fresh()
    pod = model.pods[0]
    assert model.leads(0)
    wrong = model.plan()
    object.__setattr__(wrong, "actions", (EvictPod(name="c-0", uid=pod.uid),))
    with pytest.raises(AssertionError, match="evicted while it leads"):
        judge(model, wrong)
    assert SETTINGS.caught_up_entries_max < 5_000, "a replica that falls behind in the model counts as behind"
