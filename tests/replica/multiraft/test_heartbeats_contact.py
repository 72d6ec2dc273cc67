"""What heartbeats count as a proof of life (`Heartbeats.contact`): of this group, in this term, over this link, and
from when."""

from muster_coordinator.ids import GroupNo

from tests.replica.multiraft.test_heartbeats import FOLLOWER_MEMBER, LEADER_MEMBER, Pair


def settled_pair(groups: int = 2) -> Pair:
    """All groups are led in term 1 and covered."""
    pair = Pair(groups)
    for number in range(groups):
        pair.lead(number, 1)
    pair.settle()
    return pair


def heard_by_leader(pair: Pair, number: int) -> int | None:
    """From when the leader counts the follower's last proof of life."""
    return pair.leader.contact(pair.leading[GroupNo(number)]).get(FOLLOWER_MEMBER)


def heard_by_follower(pair: Pair, number: int) -> int | None:
    """From when the follower counts the leader's."""
    return pair.follower.contact(pair.following[GroupNo(number)]).get(LEADER_MEMBER)


def round_trip(pair: Pair) -> None:
    pair.deliver_one_down()
    pair.deliver_one_up()


def test_an_ack_of_a_round_from_before_the_cover_is_no_contact() -> None:
    """The peer has not heard of this leader of group 1 yet; what it acknowledges was said before it led."""
    pair = Pair(2)
    pair.lead(0, 1)
    pair.settle()
    pair.leader.send_round()  # covers group 0 only
    pair.lead(1, 1)
    pair.leader.send_round()  # names group 1
    round_trip(pair)
    assert heard_by_leader(pair, 0) is not None
    assert heard_by_leader(pair, 1) is None


def test_an_ack_counts_from_when_its_heartbeat_was_sent_however_late_it_comes() -> None:
    """A leader that stood still for a minute finds acks of a minute ago; they say nothing of now."""
    pair = settled_pair()
    sent_ms = pair.loop.monotonic_ms()
    pair.leader.send_round()
    pair.deliver_one_down()
    pair.world.run_for(60_000)
    pair.deliver_one_up()
    assert heard_by_leader(pair, 0) == sent_ms


def test_a_group_that_waits_for_single_acks_counts_them_from_when_their_heartbeat_was_sent_too() -> None:
    pair = settled_pair(1)
    group = pair.leading[GroupNo(0)]
    group.core.wants_heartbeats = True
    pair.leader.moved(group)
    sent_ms = pair.loop.monotonic_ms()
    pair.leader.send_round()
    pair.deliver_one_down()
    pair.world.run_for(60_000)
    pair.deliver_one_up()
    assert group.core.ok_ms == sent_ms


def test_a_follower_that_deserted_hears_its_leader_again_when_it_is_named_anew() -> None:
    """It lost its leader, so it said that it deserted, and then follows the same one again by an append. Until the
    leader has reacted, the heartbeats' cover says nothing of this group."""
    pair = settled_pair()
    core = pair.following[GroupNo(1)].core
    core.leader = -1
    pair.follower.follows(pair.following[GroupNo(1)])
    core.leader = LEADER_MEMBER
    pair.follower.follows(pair.following[GroupNo(1)])
    pair.leader.send_round()
    pair.deliver_one_down()
    assert heard_by_follower(pair, 0) == pair.loop.monotonic_ms()
    assert heard_by_follower(pair, 1) is None
    pair.deliver_one_up()
    pair.settle(2)
    assert heard_by_follower(pair, 1) == heard_by_follower(pair, 0)


def test_nothing_is_covered_over_a_new_link_before_it_is_named_there() -> None:
    """The peer may be another process by now: one round names everything and is enough."""
    pair = settled_pair()
    pair.link()
    assert heard_by_leader(pair, 0) is None
    pair.leader.send_round()
    round_trip(pair)
    assert heard_by_leader(pair, 0) == pair.loop.monotonic_ms()
    assert not pair.down, "the first heartbeat over the link agreed on everything"


def test_a_leader_is_not_heard_over_a_new_link_before_it_named_the_group_there() -> None:
    pair = settled_pair()
    pair.link()
    assert heard_by_follower(pair, 0) is None
    pair.leader.send_round()
    pair.deliver_one_down()
    assert heard_by_follower(pair, 0) == pair.loop.monotonic_ms()


def test_an_ack_of_one_term_says_nothing_of_the_next() -> None:
    """The core has won another term in this turn; the heartbeats hear of it when the turn ends."""
    pair = settled_pair(1)
    group = pair.leading[GroupNo(0)]
    group.core.wants_heartbeats = True
    pair.leader.moved(group)
    pair.leader.send_round()
    group.core.oks.clear()
    group.core.term = 2
    round_trip(pair)
    assert heard_by_leader(pair, 0) is None
    assert group.core.oks == []


def test_a_heartbeat_of_one_term_says_nothing_of_the_next() -> None:
    pair = settled_pair(1)
    assert heard_by_follower(pair, 0) is not None
    pair.following[GroupNo(0)].core.term = 2
    assert heard_by_follower(pair, 0) is None
