"""Consumer groups on a model with faults: nobody is removed whose pod exists or is wanted, and nothing is done
twice."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from muster_operator.api.conditions import Reason
from muster_operator.plan.actions import Plan, RemoveMembers

from tests.operator.plan.model_group import PARTITIONS, SESSION_TICKS, ModelGroup

NAMES = st.sampled_from([f"g-{number}" for number in range(6)])
EVENTS = st.one_of(
    st.none(),
    st.tuples(st.just("scale"), st.integers(0, 6)),
    st.tuples(st.just("by hand"), st.integers(0, 6)),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("cut_off"), NAMES),
    st.tuples(st.just("stranger"), NAMES),
    st.tuples(st.just("silence")),
    st.tuples(st.just("heal")),
)
STEP = st.tuples(EVENTS, st.sampled_from([None, None, 0, 1, 2]), st.integers(0, 8))
"""What happens, after how many actions the operator dies in this pass, seconds until the next pass."""


def one_pass(model: ModelGroup, crash_after: int | None = None) -> Plan:
    plan = model.plan()
    model.carry_out(plan, crash_after=crash_after)
    return plan


def run(model: ModelGroup, seconds: int) -> list[Plan]:
    plans = []
    for _ in range(seconds):
        plans.append(one_pass(model))
        model.tick()
    plans.append(one_pass(model))
    return plans


def conditions(model: ModelGroup) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in model.status["conditions"]}


def assert_idle(model: ModelGroup) -> None:
    before = model.status
    model.now_ms += 60_000
    again = model.plan()
    assert (again.actions, again.events) == ((), ())
    assert again.status == before


@settings(max_examples=40, deadline=None)
@given(st.lists(STEP, max_size=30), st.booleans(), st.booleans())
def test_whatever_happens_only_the_departed_are_removed(
    script: list[tuple[Any, int | None, int]], knows_generation: bool, refers: bool
) -> None:
    """Of a StatefulSet that the operator made, and of one that somebody else did."""
    model = ModelGroup(knows_generation=knows_generation, refers=refers)
    run(model, 8)
    for event, crash_after, seconds in script:
        match event:
            case ("scale", int(replicas)):
                model.scale(replicas)
            case ("by hand", int(replicas)):
                model.scale_by_hand(replicas)
            case ("delete", str(name)):
                model.delete(name)
            case ("cut_off", str(name)):
                model.cut_off(name)
            case ("stranger", str(name)):
                model.join_from_elsewhere(name)
            case ("silence",):
                model.reachable = False
            case ("heal",):
                model.heal()
        one_pass(model, crash_after)  # the model judges each removal
        model.tick(seconds)
    model.heal()
    run(model, 60)
    assert set(model.members) == {f"g-{number}" for number in range(model.replicas)}
    assert_idle(model)


def test_three_to_five_to_two() -> None:
    model = ModelGroup()
    run(model, 10)
    model.scale(5)
    run(model, 10)
    assert model.status["lastRebalance"]["cause"] == Reason.SCALED_UP
    assert len(model.members) == 5
    model.scale(2)
    started_ms = model.now_ms
    run(model, 12)
    assert [name for _, name in model.removed] == ["g-2", "g-3", "g-4"]
    assert max(at for at, _ in model.removed) - started_ms <= 5_000, "long before the session timeout of 45 s"
    owned = [number for share in model.assignment().values() for number in share]
    assert sorted(owned) == list(range(PARTITIONS))
    assert model.status["lastRebalance"]["cause"] == Reason.SCALED_DOWN
    assert conditions(model)["Ready"] == ("True", Reason.GROUP_STABLE)
    assert_idle(model)


def test_all_instances_leave_in_one_request() -> None:
    model = ModelGroup(replicas=5)
    run(model, 10)
    model.scale(2)
    plans = run(model, 12)
    removals = [action for plan in plans for action in plan.actions if isinstance(action, RemoveMembers)]
    assert [[one.instance_id for one in action.members] for action in removals] == [["g-2", "g-3", "g-4"]]


def test_a_cut_off_pod_is_never_taken_for_gone() -> None:
    model = ModelGroup()
    run(model, 10)
    model.cut_off("g-2")
    model.scale(2)
    run(model, 200)
    assert model.removed == []
    assert "g-2" in model.pods
    assert conditions(model)["Ready"] == ("False", Reason.SCALING)
    model.heal()
    run(model, 10)
    assert "g-2" not in model.pods
    assert_idle(model)


def test_a_pod_back_within_its_session_costs_no_generation() -> None:
    model = ModelGroup()
    run(model, 10)
    generation, record = model.group_generation, model.status.get("lastRebalance")
    model.delete("g-1")
    run(model, 15)
    assert model.group_generation == generation
    assert model.status.get("lastRebalance") == record
    assert model.removed == []


def test_a_lost_pod_is_the_cause() -> None:
    model = ModelGroup()
    run(model, 10)
    model.cut_off("g-1")
    run(model, 60)
    record = model.status["lastRebalance"]
    assert record["cause"] == Reason.POD_LOST
    assert "g-1" in record["message"]
    assert record["generation"] == model.group_generation


def test_an_unreachable_coordinator_is_unknown_everywhere_and_removes_nobody() -> None:
    model = ModelGroup(replicas=5)
    run(model, 10)
    model.reachable = False
    model.scale(2)
    run(model, 20)
    status = model.status
    assert model.removed == []
    assert (status["state"], status["lagText"]) == ("Unknown", "Unknown")
    assert not {"members", "memberCount", "lag", "coordinator"} & set(status)
    assert conditions(model)["ClusterReachable"][0] == "False"
    assert conditions(model)["StaticMembership"][0] == "Unknown"
    assert_idle(model)
    model.reachable = True
    run(model, SESSION_TICKS)
    assert model.removed == [], "nobody was seen in a pod, so the session timeout ends what is left"
    assert sorted(model.members) == ["g-0", "g-1"]


def test_paused_changes_nothing() -> None:
    model = ModelGroup(replicas=5)
    run(model, 10)
    model.paused = True
    model.scale(2)
    plans = run(model, 20)
    assert all(plan.actions == () for plan in plans)
    assert conditions(model)["Paused"][0] == "True"
    assert len(model.pods) == 5


def test_dynamic_members_get_no_promise_and_are_never_removed() -> None:
    model = ModelGroup(static=False)
    run(model, 10)
    assert conditions(model)["StaticMembership"] == ("False", Reason.NOT_REQUESTED)
    model.scale(1)
    run(model, 60)
    assert model.removed == []
    assert len(model.members) == 1


def test_without_a_template_it_only_looks() -> None:
    model = ModelGroup(template=False)
    plans = run(model, 3)
    assert all(plan.actions == () for plan in plans)
    assert conditions(model)["Progressing"] == ("False", Reason.OBSERVING_ONLY)
    assert model.status["readyText"] == "-"


def test_taking_the_template_away_takes_the_pods_away() -> None:
    model = ModelGroup()
    run(model, 10)
    model.template = False
    run(model, 10)
    assert model.live == {}
    assert model.pods == {}


def test_zero_replicas_is_ready_when_nobody_is_left() -> None:
    model = ModelGroup()
    run(model, 10)
    model.scale(0)
    run(model, 10)
    assert conditions(model)["Ready"] == ("True", Reason.SCALED_TO_ZERO)
    assert model.members == {}
    assert_idle(model)
