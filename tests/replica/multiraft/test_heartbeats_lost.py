"""A heartbeat or an ack that is lost within a link's life costs one round, whatever it said."""

from muster_coordinator.ids import GroupNo

from tests.replica.multiraft.test_heartbeats import Pair


def settled_pair() -> Pair:
    pair = Pair(3)
    for number in range(3):
        pair.lead(number, 1)
    pair.settle()
    return pair


def test_a_commit_that_a_lost_heartbeat_named_is_told_by_the_next_rounds() -> None:
    pair = settled_pair()
    group = pair.leading[GroupNo(1)]
    group.core.commit = 9
    pair.leader.moved(group)
    pair.leader.send_round()
    pair.down.clear()  # lost in silence
    pair.settle(3)
    assert pair.following[GroupNo(1)].heard_commit == 9
    assert pair.confirmed(1)


def test_an_ack_behind_a_lost_commit_does_not_pass_for_a_match() -> None:
    pair = settled_pair()
    group = pair.leading[GroupNo(2)]
    group.core.commit = 5
    pair.leader.moved(group)
    pair.leader.send_round()
    pair.down.clear()
    group.core.commit = 6
    pair.leader.moved(group)
    pair.settle(2)
    assert pair.following[GroupNo(2)].heard_commit == 6
    assert all(pair.confirmed(number) for number in range(3))


def test_a_desertion_that_a_lost_ack_told_is_told_again() -> None:
    """Else the old leader would go on to count the deserter, answer reads with it and never notice."""
    pair = settled_pair()
    pair.desert(1)
    pair.leader.send_round()
    pair.deliver_one_down()
    pair.up.clear()  # lost in silence
    pair.leader.send_round()
    pair.deliver_one_down()
    pair.deliver_one_up()
    assert pair.leading[GroupNo(1)].core.rejections == [2]
    assert not pair.confirmed(1)
    assert pair.confirmed(0)
