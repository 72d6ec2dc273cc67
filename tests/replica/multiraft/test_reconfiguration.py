"""From the members that a group has to those that it should have, step by step."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.ids import MemberNo
from muster_coordinator.raft.members import is_sound
from muster_coordinator.raft.quorum import Config, majority
from muster_coordinator.replica.multiraft.reconfiguration import Standing, Step, Wanted
from muster_coordinator.replica.multiraft.reconfiguration import next_step as step_to

AWAY, BEHIND, LEVEL = Standing.AWAY, Standing.BEHIND, Standing.LEVEL
NEW = 3 + (1 << 32)
THREE = Config((1, 2, 3))
WANTED = (1, 2, NEW)


def next_step(present: Config, voters: Sequence[int], standings: Mapping[int, Standing], *watching: int) -> Step | None:
    observers = tuple(map(MemberNo, watching))
    return step_to(present, Wanted(tuple(map(MemberNo, voters)), observers), standings)


def test_a_group_with_the_wanted_members_in_any_order_is_left_alone() -> None:
    assert next_step(THREE, (3, 1, 2), {}) is None


def test_a_replaced_member_learns_first_and_votes_when_it_is_level() -> None:
    standings = {1: LEVEL, 2: LEVEL, 3: AWAY, NEW: BEHIND}
    assert next_step(THREE, WANTED, standings) == Step("new members learn the log", (1, 2, 3), (NEW,))
    learning = Config((1, 2, 3), (), (NEW,))
    waits = next_step(learning, WANTED, standings)
    assert waits == Step(f"member {NEW} is behind")
    assert next_step(learning, WANTED, {**standings, NEW: LEVEL}) == Step("all new members are level", WANTED)


def test_a_member_that_is_not_there_is_waited_for_and_not_taken_in() -> None:
    for standings in ({1: LEVEL, 2: LEVEL}, {1: LEVEL, 2: LEVEL, NEW: AWAY}):
        assert next_step(THREE, WANTED, standings) == Step(f"member {NEW} is away")


def test_a_joint_configuration_is_left_alone() -> None:
    joint = Config(WANTED, (1, 2, 3))
    step = next_step(joint, WANTED, dict.fromkeys((1, 2, 3, NEW), LEVEL))
    assert step is not None
    assert not step.voters


def test_a_learner_that_is_not_wanted_any_more_leaves_before_anything_else() -> None:
    newer = 3 + (2 << 32)
    present = Config((1, 2, 3), (), (NEW,))
    standings = dict.fromkeys((1, 2, NEW, newer), LEVEL)
    assert next_step(present, (1, 2, newer), standings) == Step(
        "learners that are not wanted any more leave", (1, 2, 3), ()
    )
    assert next_step(present, (1, 2, 3), standings) == Step(
        "learners that are not wanted any more leave", (1, 2, 3), ()
    )


def test_voters_do_not_change_before_a_majority_of_those_to_come_is_level() -> None:
    present = Config((1, 2, 3), (), (NEW,))
    assert next_step(present, WANTED, {1: LEVEL, 2: AWAY, NEW: LEVEL}) == Step("all new members are level", WANTED)
    step = next_step(Config((1,), (), ()), (1,), {1: LEVEL})
    assert step is None
    shrinking = next_step(Config((1, 2, 3, 4, 5)), (1, 2, 3), {1: LEVEL, 2: BEHIND, 3: AWAY})
    assert shrinking == Step("1 of 3 voters to come are level")


def test_where_voters_are_only_added_one_that_is_away_does_not_keep_the_others_out() -> None:
    """As after a recovery: of two new folders one has come. What is acknowledged is to be on two disks."""
    other = 2 + (1 << 32)
    wanted = (1, other, NEW)
    learning = Config((1,), (), (other,))
    assert next_step(Config((1,)), wanted, {1: LEVEL, other: BEHIND}) == Step(
        "new members learn the log", (1,), (other,)
    )
    assert next_step(learning, wanted, {1: LEVEL, other: BEHIND}) == Step(f"member {other} is behind")
    added = next_step(learning, wanted, {1: LEVEL, other: LEVEL})
    assert added == Step("those that are level become voters, others are away", (1, other), ())
    assert next_step(Config((1, other)), wanted, {1: LEVEL, other: LEVEL}) == Step(f"member {NEW} is away")
    both = Config((1, other), (), (NEW,))
    assert next_step(both, wanted, dict.fromkeys(wanted, LEVEL)) == Step("all new members are level", wanted)


def test_a_member_that_learns_is_waited_for_and_a_voter_that_leaves_is_no_reason_to_add_some() -> None:
    other = 2 + (1 << 32)
    learning = Config((1,), (), (other, NEW))
    assert next_step(learning, (1, other, NEW), {1: LEVEL, other: LEVEL, NEW: BEHIND}) == Step(
        f"member {NEW} is behind"
    )
    standings = {1: LEVEL, 2: AWAY, 3: AWAY, other: LEVEL}
    assert next_step(Config((1, 2, 3), (), (other,)), (1, other, NEW), standings) == Step(f"member {NEW} is away")


def test_voters_are_not_added_without_a_majority_that_is_level() -> None:
    standings = {1: LEVEL, 2: AWAY, 3: AWAY, 4: LEVEL}
    assert next_step(Config((1, 2, 3), (), (4,)), (1, 2, 3, 4, 5), standings) == Step("member 5 is away")


def test_an_observer_learns_for_good() -> None:
    """When it comes, and whatever else changes. It is neither dropped nor asked whether it is level."""
    standings = {1: LEVEL, 2: LEVEL, 3: LEVEL}
    assert next_step(THREE, (1, 2, 3), standings, 7) is None, "it is away"
    assert next_step(THREE, (1, 2, 3), standings | {7: BEHIND}, 7) == Step("new members learn the log", (1, 2, 3), (7,))
    watched = Config((1, 2, 3), (), (7,))
    assert next_step(watched, (1, 2, 3), standings, 7) is None
    assert next_step(watched, WANTED, standings | {NEW: BEHIND}, 7) == Step(
        "new members learn the log", (1, 2, 3), (7, NEW)
    )
    learning = Config((1, 2, 3), (), (7, NEW))
    assert next_step(learning, WANTED, standings | {NEW: LEVEL}, 7) == Step("all new members are level", WANTED, (7,))
    assert next_step(learning, WANTED, standings | {NEW: LEVEL}) == Step(
        "learners that are not wanted any more leave", (1, 2, 3), (NEW,)
    )


MEMBERS = st.integers(0, 9)
VOTERS = st.lists(MEMBERS, min_size=1, max_size=5, unique=True)


@given(VOTERS, VOTERS, st.sets(MEMBERS, max_size=3), st.data())
def test_it_ends_with_the_wanted_members_and_every_step_is_sound(
    present: list[int], wanted: list[int], watching: set[int], data: st.DataObject
) -> None:
    """The steps are carried out as `raft.change` does; members come and go, and in the end all are level."""
    config = Config(tuple(present))
    observers = sorted(watching - set(wanted))
    for turn in range(40):
        restless = turn < 20
        standings = (
            data.draw(st.dictionaries(MEMBERS, st.sampled_from(Standing)))
            if restless
            else dict.fromkeys(range(10), LEVEL)
        )
        step = next_step(config, wanted, standings, *observers)
        if step is None or not step.voters:
            continue
        after = Config(step.voters, (), step.learners)
        assert is_sound(after)
        entering = set(after.voters) - set(config.voters)
        assert entering <= set(config.learners), "whoever votes has learned before"
        assert all(standings.get(member) is LEVEL for member in entering)
        if set(after.voters) != set(config.voters):
            added = set(config.voters) < set(after.voters) < set(wanted)
            assert added or set(after.voters) == set(wanted), "all that are wanted, or more of them than before"
            assert sum(standings.get(member) is LEVEL for member in after.voters) >= majority(len(after.voters))
        assert set(after.learners) <= {*wanted, *observers}, "nobody learns who is not wanted"
        assert after != config, "a step changes something"
        config = after
    assert set(config.voters) == set(wanted)
    assert set(config.learners) == set(observers)
    assert next_step(config, wanted, {}, *observers) is None


def test_a_voter_that_is_to_observe_does_so_from_the_same_change_on() -> None:
    """It is never out of the group: it would hear of nothing until it is taken in again."""
    present = Config((1, 2, 3), (), (4, 5))
    standings = dict.fromkeys((1, 2, 3, 4, 5), LEVEL)
    assert next_step(present, (1, 4, 5), standings, 2, 3) == Step("all new members are level", (1, 4, 5), (2, 3))
    assert next_step(present, (1,), standings, 2, 3, 4, 5) == Step("all new members are level", (1,), (4, 5, 2, 3))
    assert next_step(Config((1,), (), (2, 3, 4, 5)), (1,), standings, 2, 3, 4, 5) is None
