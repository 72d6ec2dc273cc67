"""What the replicas' views prove, case by case: stale or missing leaders, lagging voters, majorities of five."""

import dataclasses

import pytest
from muster_operator.plan.cluster import plan_cluster
from muster_operator.plan.conditions import condition
from muster_operator.plan.quorum import (
    behind,
    controller_leader,
    objection,
    only_there,
    survey,
    unproven,
    without_majority,
)
from muster_operator.world.cluster import RaftGroupView, ReplicaView, Seat
from muster_operator.world.views import StatefulSetView

from tests.operator.plan.model_cluster import SETTINGS
from tests.operator.plan.test_rollout_properties import fresh

ALL = frozenset({0, 1, 2})


def raft(
    group: int, role: str, *, term: int = 5, match: dict[int, int] | None = None, voters: tuple[int, ...] = (0, 1, 2)
) -> RaftGroupView:
    return RaftGroupView(
        group=group, topic="t" if group else None, partition=group or None, role=role, term=term,
        leader=None, voters=voters, last_index=5_000, commit_index=0, applied_index=0, match=match or {},
    )  # fmt: skip


def replica(broker: int, *groups: RaftGroupView) -> ReplicaView:
    return ReplicaView(
        pod=f"c-{broker}", broker_id=broker, ready=True, not_ready=(), cluster_id="x", drain_phase="idle",
        leaderships=0, groups=groups,
    )  # fmt: skip


LEVEL = {0: 5_000, 1: 5_000, 2: 5_000}


def healthy() -> list[ReplicaView]:
    return [
        replica(0, raft(0, "leader", match=LEVEL), raft(1, "follower")),
        replica(1, raft(0, "follower"), raft(1, "leader", match=LEVEL)),
        replica(2, raft(0, "follower"), raft(1, "follower")),
    ]


def test_a_healthy_cluster_spares_any_one_but_not_a_second() -> None:
    found = survey(healthy())
    assert found.complete
    assert found.controller_leader == 0
    for broker in range(3):
        assert objection(found, without=broker, serving=ALL, entries_max=1_000) is None
        others = ALL - {(broker + 1) % 3}
        assert "majority" in str(objection(found, without=broker, serving=others, entries_max=1_000))


def test_the_leader_of_the_controller_group_is_found_as_the_survey_finds_it() -> None:
    two = [replica(0, raft(0, "leader", match=LEVEL)), replica(1, raft(0, "leader", match=LEVEL))]
    deposed = [replica(0, raft(0, "leader", match=LEVEL)), replica(1, raft(0, "follower", term=9))]
    others = [replica(1, raft(1, "leader", match=LEVEL))]
    for views, leader in ((healthy(), 0), ([], None), (two, None), (deposed, None), (others, None)):
        assert controller_leader(views) == leader
        assert survey(views).controller_leader == leader


def test_nobody_heard_is_not_nothing_to_lose() -> None:
    assert "controller" in str(objection(survey([]), without=0, serving=ALL, entries_max=1_000))
    assert not survey([]).complete


def test_a_group_without_a_visible_leader_objects_by_name() -> None:
    views = healthy()
    views[1] = replica(1, raft(0, "follower"), raft(1, "candidate", term=6))
    found = survey(views)
    assert found.headless == (1,)
    assert "t-1" in str(objection(found, without=2, serving=ALL, entries_max=1_000))


def test_an_old_leader_does_not_count_once_anybody_tells_of_a_higher_term() -> None:
    views = healthy()
    views[2] = replica(2, raft(0, "follower"), raft(1, "follower", term=6))
    assert survey(views).headless == (1,)
    views[2] = replica(2, raft(0, "follower"), raft(1, "leader", term=6, match=LEVEL))
    assert survey(views).led[1].leader == 2


def test_a_lagging_voter_is_not_part_of_the_majority() -> None:
    """Broker 2 lacks 1,001 entries: neither 0 nor 1 may go, 2 itself may."""
    views = healthy()
    views[1] = replica(1, raft(0, "follower"), raft(1, "leader", match={0: 5_000, 1: 5_000, 2: 3_999}))
    found = survey(views)
    assert objection(found, without=0, serving=ALL, entries_max=1_000) is not None
    assert objection(found, without=2, serving=ALL, entries_max=1_000) is None
    assert behind(found, 2, 1_000) == (1,)
    views[1] = replica(1, raft(0, "follower"), raft(1, "leader", match={0: 5_000, 1: 5_000, 2: 4_000}))
    assert objection(survey(views), without=0, serving=ALL, entries_max=1_000) is None


def test_a_voter_that_the_leader_does_not_tell_of_is_not_caught_up() -> None:
    views = healthy()
    views[1] = replica(1, raft(0, "follower"), raft(1, "leader", match={0: 5_000, 1: 5_000}))
    assert objection(survey(views), without=0, serving=ALL, entries_max=1_000) is not None


def test_two_leaders_in_one_term_are_no_leader() -> None:
    """Raft forbids it; if it is ever told, nothing is vouched for."""
    views = healthy()
    views[2] = replica(2, raft(0, "leader", match=LEVEL), raft(1, "follower"))
    assert survey(views).headless == (0,)


def test_of_five_voters_three_must_stay() -> None:
    voters = (0, 1, 2, 3, 4)
    views = [replica(0, raft(0, "leader", voters=voters, match=dict.fromkeys(voters, 5_000)))]
    serving = frozenset({0, 1, 2, 3})
    assert objection(survey(views), without=3, serving=serving, entries_max=0) is None
    assert objection(survey(views), without=3, serving=frozenset({0, 1, 3}), entries_max=0) is not None
    assert without_majority(survey(views), frozenset({0, 1, 2}), 0) == ()
    assert without_majority(survey(views), frozenset({0, 1}), 0) == (0,)


@pytest.mark.parametrize("told", [{1: 5_000}, {0: 0, 1: 5_000, 2: 0}])
def test_a_leader_that_was_elected_a_moment_ago_has_lost_nothing_and_proves_nothing(told: dict[int, int]) -> None:
    """It begins with an index of 0 for everybody else; with a long log that is no news of a lost majority."""
    views = healthy()
    views[1] = replica(1, raft(0, "follower"), raft(1, "leader", match=told))
    found = survey(views)
    assert without_majority(found, ALL, 1_000) == ()
    assert unproven(found, ALL, 1_000) == (1,)
    assert objection(found, without=0, serving=ALL, entries_max=1_000) is not None, "nobody goes on its word"
    assert without_majority(found, frozenset({1}), 1_000) == (0, 1), "who does not serve is no majority, heard or not"


def test_who_lags_is_not_unheard() -> None:
    views = healthy()
    views[1] = replica(1, raft(0, "follower"), raft(1, "leader", match={0: 1, 1: 5_000, 2: 1}))
    assert without_majority(survey(views), ALL, 1_000) == (1,)


def test_a_group_with_one_voter_holds_nobody_up() -> None:
    """A topic with one replica: whoever has it must restart some day, and nobody else can ever serve it meanwhile."""
    views = healthy()
    views[2] = replica(2, *views[2].groups, raft(7, "leader", match={2: 5_000}, voters=(2,)))
    found = survey(views)
    assert (only_there(found, 2), only_there(found, 1)) == ((7,), ())
    for broker in range(3):
        assert objection(found, without=broker, serving=ALL, entries_max=1_000) is None
    assert without_majority(found, frozenset({0, 1}), 1_000) == (7,), "while it is away that is told"
    views[2] = replica(2, *views[2].groups[:2], raft(7, "candidate", voters=(2,)))
    assert "t-7" in str(objection(survey(views), without=0, serving=ALL, entries_max=1_000)), "it is not up yet"


def test_many_groups_are_counted_in_a_sentence_not_listed() -> None:
    found = survey([replica(0, *(raft(number, "follower") for number in range(1, 60)))])
    assert found.naming(found.headless).endswith("t-5 and 54 more")


SEATS = {0: Seat(folder="a" * 32, binding=0), 1: Seat(folder="b" * 32, binding=0), 2: Seat(folder="c" * 32, binding=1)}


def with_replaced(bindings: dict[int, int | None], told_by: int = 1) -> list[ReplicaView]:
    """Broker 2 was replaced; only `told_by` has heard of it. Group 0's leader reports the lost folder's last match."""
    leading = dataclasses.replace(raft(0, "leader", match=LEVEL), bindings=bindings)
    views = [dataclasses.replace(replica(0, leading)), replica(1, raft(0, "follower")), replica(2)]
    return [dataclasses.replace(one, seats=SEATS if one.broker_id == told_by else {}) for one in views]


@pytest.mark.parametrize("bindings", [{0: 0, 1: 0, 2: 0}, {0: 0, 1: 0, 2: None}])
@pytest.mark.parametrize("told_by", [0, 1])
def test_a_folder_that_was_replaced_is_no_vote_though_its_leader_reports_how_far_it_was(
    bindings: dict[int, int | None], told_by: int
) -> None:
    found = survey(with_replaced(bindings, told_by))
    assert found.changing == (0,)
    assert "majority" in str(objection(found, without=1, serving=ALL, entries_max=1_000))
    assert objection(found, without=2, serving=ALL, entries_max=1_000) is None, "it counts for nothing anyway"
    assert behind(found, 2, 1_000) == (0,)


def test_a_new_folder_that_the_group_has_taken_in_is_a_vote_like_any_other() -> None:
    found = survey(with_replaced({0: 0, 1: 0, 2: 1}))
    assert found.changing == ()
    assert objection(found, without=1, serving=ALL, entries_max=1_000) is None


def test_coordinators_that_tell_neither_folders_nor_bindings_are_counted_as_before() -> None:
    assert survey(healthy()).changing == ()


@pytest.mark.parametrize(
    ("told", "ready", "status", "reason"),
    [
        ({0: 5_000, 1: 5_000, 2: 5_000}, (0, 1, 2), "True", "QuorumHealthy"),
        ({0: 0, 1: 5_000, 2: 0}, (0, 1, 2), "Unknown", "QuorumUnknown"),
        ({0: 1, 1: 5_000, 2: 1}, (0, 1, 2), "False", "QuorumLost"),
        ({0: 0, 1: 5_000, 2: 0}, (1,), "False", "QuorumLost"),
        ({0: 5_000, 1: 5_000, 2: 0}, (1, 2), "True", "QuorumHealthy"),
        ({0: 1, 1: 5_000, 2: 5_000}, (0, 1), "True", "QuorumHealthy"),
        ({0: 5_000, 1: 5_000, 2: 5_000}, (), "True", "QuorumHealthy"),
    ],
)
def test_what_is_told_of_a_leader_by_whom_it_has_heard(
    told: dict[int, int], ready: tuple[int, ...], status: str, reason: str
) -> None:
    world = fresh().world()
    assert isinstance(world.statefulset, StatefulSetView)
    views = healthy()
    views[1] = replica(1, raft(0, "follower"), raft(1, "leader", match=told))
    pods = tuple(dataclasses.replace(pod, ready=pod.ordinal in ready) for pod in world.statefulset.pods)
    world = dataclasses.replace(
        world,
        statefulset=dataclasses.replace(world.statefulset, pods=pods),
        replicas={view.pod: view for view in views},
    )
    found = condition(plan_cluster(world, SETTINGS).status, "QuorumAvailable")
    assert (found["status"], found["reason"]) == (status, reason)


@pytest.mark.parametrize(
    ("answers", "is_ending", "reason"),
    [(True, False, "QuorumHealthy"), (False, False, "QuorumLost"), (True, True, "QuorumLost")],
)
def test_a_voter_whose_pod_is_not_ready_yet_counts_when_it_answers_and_is_caught_up(
    answers: bool, is_ending: bool, reason: str
) -> None:
    """Brokers 1 and 2 have just been made voters; the kubelet has not looked at their pods since."""
    world = fresh().world()
    assert isinstance(world.statefulset, StatefulSetView)
    views = healthy()
    pods = tuple(
        dataclasses.replace(pod, ready=pod.ordinal == 0, terminating=is_ending and pod.ordinal != 0)
        for pod in world.statefulset.pods
    )
    world = dataclasses.replace(
        world,
        statefulset=dataclasses.replace(world.statefulset, pods=pods),
        replicas={view.pod: view for view in (views if answers else views[:1])},
    )
    assert condition(plan_cluster(world, SETTINGS).status, "QuorumAvailable")["reason"] == reason
