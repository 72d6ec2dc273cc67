"""A voter whose host should not lead campaigns after the others, and campaigns all the same."""

import pytest
from muster_coordinator.raft.messages import Message, MsgType, Role

from tests.made_settings import TIMING
from tests.raft.making import NOW, append, kinds, make_core, make_leader, settle, vote_request


def test_it_lets_two_time_outs_of_the_others_pass_and_then_campaigns() -> None:
    core = make_core((1,))
    core.advance(NOW)
    core.hesitate(NOW, True)
    core.advance(NOW + 3 * TIMING.election_min_ms)
    core.advance(NOW + 2 * TIMING.election_max_ms)
    assert core.role is Role.FOLLOWER
    core.advance(NOW + 3 * TIMING.election_max_ms)
    assert core.role is Role.PRE_CANDIDATE
    assert kinds(core.ready().messages) == [MsgType.PRE_VOTE, MsgType.PRE_VOTE]
    core.advance(core.deadline_ms)
    assert core.role is Role.PRE_CANDIDATE, "and again"


def test_no_haste_after_a_lost_link_either() -> None:
    core = make_core((1,))
    core.hesitate(NOW, True)
    append(core, (1, 1), ())
    settle(core)
    core.peer_lost(NOW, 2)
    assert core.deadline_ms >= NOW + 2 * TIMING.election_max_ms
    core.hesitate(NOW, False)
    assert core.deadline_ms <= NOW + TIMING.election_max_ms


def test_its_vote_is_as_quick_as_ever() -> None:
    core = make_core((1,))
    core.advance(NOW)
    core.hesitate(NOW, True)
    vote_request(core, term=2, last=(1, 1))
    assert core.vote == 2


@pytest.mark.parametrize("hesitates", [True, False])
def test_a_leader_that_wants_it_to_take_over_has_its_will(hesitates: bool) -> None:
    core = make_core((1,))
    append(core, (1, 1), ())
    settle(core)
    core.hesitate(NOW, hesitates)
    core.step(NOW, Message(MsgType.TIMEOUT_NOW, 2, 1, core.term))
    assert core.role is Role.CANDIDATE


def test_a_leader_goes_on_leading() -> None:
    leader = make_leader((1,))
    deadline_ms = leader.deadline_ms
    leader.hesitate(NOW, True)
    assert (leader.role, leader.deadline_ms) == (Role.LEADER, deadline_ms)
