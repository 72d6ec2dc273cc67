"""A voter that lost what it had promised counts for nothing until its leader has made good for it (rules 11, 31)."""

import random

from muster_coordinator.raft.core import RaftCore
from muster_coordinator.raft.messages import ACKNOWLEDGED_MAX, KNOWS_SUSPENSION, EntryKind, Message, MsgType, Role
from muster_coordinator.raft.progress import ProgressState

from tests.raft.making import NOW, acknowledge, append, entries, make_core, make_leader, persist, settle
from tests.raft.network import Network, Options

TOKEN = 77
LATE = NOW + 1_000_000


def suspended(terms: tuple[int, ...] = (1, 1), **options) -> RaftCore:
    core = make_core(terms, **options)
    core.suspend()
    return core


def known(
    core: RaftCore,
    previous: tuple[int, int],
    terms: tuple[int, ...] = (),
    *,
    context: int = KNOWS_SUSPENSION,
    hint: int = 0,
    commit: int = 0,
) -> list[Message]:
    """An append of leader 2, which knows of suspended voters; what is answered."""
    after = entries(terms, previous[0] + 1)
    core.step(
        NOW,
        Message(MsgType.APPEND, 2, core.node, core.term, *previous, commit, after, hint=hint, context=context),
    )
    return settle(core)


def lost(core: RaftCore, peer: int = 2, token: int = TOKEN) -> int:
    """`peer` refuses what the leader sent, under a token; the leader's barrier."""
    before = core.last_index
    core.step(NOW, Message(MsgType.APPEND_REPLY, peer, core.node, core.term, before, reject=True, context=token))
    assert core.last_index == before + 1
    return core.last_index


def holds(core: RaftCore, peer: int, index: int, token: int = TOKEN) -> None:
    core.step(NOW, Message(MsgType.APPEND_REPLY, peer, core.node, core.term, index, context=token))


def releases(sent: list[Message], peer: int = 2) -> list[int]:
    return [m.context for m in sent if m.type == MsgType.APPEND and m.to == peer and m.context > KNOWS_SUSPENSION]


def test_it_gives_no_vote_and_no_pre_vote() -> None:
    for kind, reply in ((MsgType.VOTE, MsgType.VOTE_REPLY), (MsgType.PRE_VOTE, MsgType.PRE_VOTE_REPLY)):
        core = suspended()
        core.step(LATE, Message(kind, 2, 1, 5, index=9, log_term=4))
        [answer] = settle(core)
        assert (answer.type, answer.reject) == (reply, True)


def test_it_does_not_campaign() -> None:
    core = suspended()
    core.advance(LATE)
    core.campaign(LATE)
    assert core.role is Role.FOLLOWER
    assert settle(core) == []
    assert core.deadline_ms > LATE, "and does not turn in circles"


def test_it_does_not_take_leadership_over() -> None:
    core = suspended()
    core.step(NOW, Message(MsgType.TIMEOUT_NOW, 2, 1, core.term))
    assert core.role is Role.FOLLOWER
    leader = make_leader()
    lost(leader)
    assert not leader.transfer(NOW, 2)
    holds(leader, 2, leader.last_index)
    assert not leader.transfer(NOW, 2)
    assert leader.transfer(NOW, 3)


def test_it_accepts_no_heartbeat_but_follows_and_applies() -> None:
    core = suspended(own_heartbeats=False)
    assert not core.heartbeat(NOW, 2, 1, 2)
    assert (core.leader, core.commit) == (2, 2)
    core.step(NOW, Message(MsgType.HEARTBEAT, 2, 1, 1, commit=2, context=4))
    answers = settle(core)
    assert [(m.type, m.reject) for m in answers] == [(MsgType.HEARTBEAT_REPLY, True)]


def test_its_acknowledgements_and_refusals_carry_its_token() -> None:
    core = suspended()
    token = core.suspended
    [taken] = known(core, (2, 1), (1,))
    assert (taken.type, taken.index, taken.context) == (MsgType.APPEND_REPLY, 3, token)
    [refused] = known(core, (9, 1))
    assert (refused.reject, refused.context) == (True, token)


def test_a_leader_of_an_earlier_release_is_answered_nothing_that_it_would_count() -> None:
    core = suspended()
    append(core, (2, 1), (1,))
    core.step(NOW, Message(MsgType.SNAPSHOT, 2, 1, 1, index=2, log_term=1))
    assert settle(core) == []
    assert core.leader == 2, "its election timer starts anew all the same"
    known(core, (2, 1), (1,))
    core.step(NOW, Message(MsgType.APPEND, 3, 1, 2, index=3, log_term=1))
    assert settle(core) == [], "that another leader knew says nothing of this one"


def test_a_checkpoint_that_arrives_is_acknowledged_with_the_token_and_only_to_who_knows_it() -> None:
    for context in (0, KNOWS_SUSPENSION):
        core = suspended()
        core.step(NOW, Message(MsgType.SNAPSHOT, 2, 1, 1, index=9, log_term=1, context=KNOWS_SUSPENSION))
        core.step(NOW, Message(MsgType.APPEND, 2, 1, 1, index=9, log_term=1, context=context))
        settle(core)
        assert core.snapshot_installed(9, 1)
        assert [(m.index, m.context) for m in settle(core)] == [(9, core.suspended)] * bool(context)


def test_what_a_leader_knows_to_be_acknowledged_and_is_not_there_suspends() -> None:
    """It was refused for ever, by a voter that went on voting: the leader takes no match back."""
    core = make_core((1, 1))
    [refused] = known(core, (3, 1), hint=3)
    assert core.suspended
    assert (refused.reject, refused.hint, refused.context) == (True, 2, core.suspended)


def test_what_a_heartbeat_commits_and_is_not_there_suspends() -> None:
    core = make_core((1, 1), own_heartbeats=False)
    assert not core.heartbeat(NOW, 2, 1, 3)
    assert core.suspended
    assert core.commit == 0


def test_what_was_not_acknowledged_suspends_nobody() -> None:
    core = make_core((1, 1))
    known(core, (9, 1), hint=2)
    assert not core.suspended


def test_promises_that_have_not_left_are_not_made() -> None:
    core = make_core((1, 1))
    core.step(NOW, Message(MsgType.APPEND, 2, 1, 1, 2, 1, 0, entries((1,), 3), context=KNOWS_SUSPENSION))
    core.heartbeat(NOW, 2, 1, 9)
    assert persist(core).after_persist == ()


def test_it_does_not_count_for_commit() -> None:
    leader = make_leader()
    barrier = lost(leader)
    holds(leader, 2, barrier)
    settle(leader)
    holds(leader, 2, barrier)
    assert leader.commit < barrier
    acknowledge(leader, 3)
    assert leader.commit == barrier


def test_it_does_not_confirm_reads() -> None:
    leader = make_leader(own_heartbeats=False)
    lost(leader)
    settle(leader)
    assert leader.read(NOW, 5, 9)
    leader.heartbeat_ok(NOW, 2, 9)
    assert not leader.ready().grants
    leader.heartbeat_ok(NOW, 3, 9)
    assert [grant.context for grant in leader.ready().grants] == [5]


def test_it_does_not_count_for_check_quorum() -> None:
    leader = make_leader(own_heartbeats=False)
    lost(leader)
    late = leader.quorum_deadline_ms + 1
    assert not leader.quorum_heard(late - 1, {2: late})
    assert leader.quorum_heard(late - 1, {3: late})
    leader.advance(late)
    leader.advance(leader.deadline_ms, {2: leader.deadline_ms})
    assert leader.role is Role.FOLLOWER


def test_its_acknowledgements_from_before_the_loss_count_no_more() -> None:
    leader = make_leader()
    assert leader.progresses[2].match == leader.last_index
    barrier = lost(leader)
    assert leader.progresses[2].match == 0
    settle(leader)
    acknowledge(leader, 2, barrier)
    assert leader.commit < barrier
    assert leader.progresses[2].match == 0
    holds(leader, 2, 1)
    assert leader.progresses[2].match == 1


def test_it_is_released_once_its_barrier_is_committed_without_it_and_held_by_it() -> None:
    leader = make_leader()
    barrier = lost(leader)
    assert leader.log.slice(barrier, barrier + 1, 1 << 20)[0][0].kind == EntryKind.NOOP
    assert not releases(settle(leader))
    holds(leader, 2, barrier)
    assert not releases(settle(leader)), "not committed"
    acknowledge(leader, 3)
    assert set(releases(settle(leader))) == {TOKEN}

    leader = make_leader()
    barrier = lost(leader)
    settle(leader)
    acknowledge(leader, 3)
    holds(leader, 2, barrier - 1)
    assert leader.commit == barrier
    assert not releases(settle(leader)), "not held"
    holds(leader, 2, barrier)
    assert set(releases(settle(leader))) == {TOKEN}


def test_an_entry_from_before_the_loss_is_no_barrier() -> None:
    """Idle: it holds all that was ever committed. A majority may be in a later term all the same, by its lost vote."""
    leader = make_leader()
    last = leader.last_index
    lost(leader)
    holds(leader, 2, last)
    assert not releases(settle(leader))


def test_it_counts_again_once_it_has_heard_of_its_release() -> None:
    leader = make_leader()
    barrier = lost(leader)
    settle(leader)
    acknowledge(leader, 3)
    holds(leader, 2, barrier)
    assert releases(settle(leader))
    leader.heartbeat_rejected(NOW, 2, leader.term)
    assert releases(settle(leader)), "told again, if that was lost"
    acknowledge(leader, 2)
    leader.propose(NOW, ((EntryKind.NORMAL, b"x"),))
    settle(leader)
    acknowledge(leader, 2)
    assert leader.commit == leader.last_index


def test_only_its_own_token_releases_it() -> None:
    core = suspended()
    token = core.suspended
    known(core, (2, 1), context=token - 1)
    assert core.suspended == token
    core.release()
    assert core.suspended == token, "it was not told"
    [answer] = known(core, (2, 1), context=token)
    assert (answer.index, answer.context) == (2, token), "it promises nothing before its release is stored"
    core.campaign(LATE)
    assert core.role is Role.FOLLOWER
    core.release()
    [answer] = known(core, (2, 1))
    assert (answer.index, answer.context) == (2, 0)
    core.campaign(LATE)
    assert core.role is Role.PRE_CANDIDATE


def test_what_is_lost_before_a_release_is_stored_is_a_loss_of_its_own() -> None:
    """The release was for the loss before: stored or not, it ends nothing now."""
    core = suspended()
    core.rand = random.Random(1)  # tokens are drawn
    first = core.suspended
    known(core, (2, 1), context=first)
    core.suspend()
    assert core.suspended not in (0, first)
    assert not core.release_told
    core.release()
    assert core.suspended
    second = core.suspended
    known(core, (2, 1), context=first)
    core.release()
    assert core.suspended == second


def test_a_leader_goes_on_telling_the_release_until_it_is_acted_on() -> None:
    """A disk may take long: what it acknowledges meanwhile counts for nothing."""
    leader = make_leader()
    barrier = lost(leader)
    settle(leader)
    acknowledge(leader, 3)
    holds(leader, 2, barrier)
    for _ in range(3):
        assert releases(settle(leader))
        leader.propose(NOW, ((EntryKind.NORMAL, b"x"),))
        settle(leader)
        holds(leader, 2, leader.last_index)
        assert leader.commit < leader.last_index
        acknowledge(leader, 3)
        leader.heartbeat_rejected(NOW, 2, leader.term)
    acknowledge(leader, 2)
    assert not leader.progresses[2].suspended


def test_another_loss_in_the_same_term_makes_another_barrier() -> None:
    leader = make_leader()
    first = lost(leader)
    settle(leader)
    acknowledge(leader, 3)
    holds(leader, 2, first)
    assert releases(settle(leader))
    second = lost(leader, token=TOKEN + 1)
    assert second == first + 1
    holds(leader, 2, first, TOKEN + 1)
    assert not releases(settle(leader))


def hints(sent: list[Message], peer: int = 2) -> list[int]:
    return [m.hint for m in sent if m.type in (MsgType.APPEND, MsgType.SNAPSHOT) and m.to == peer]


def test_who_answers_without_its_token_before_its_release_is_told_that_it_lost_something() -> None:
    """It restarted, and what it found on its disk does not say so: it took no notice, and was ignored for good."""
    leader = make_leader()
    barrier = lost(leader)
    holds(leader, 2, barrier - 1)
    settle(leader)
    acknowledge(leader, 2, barrier - 1)
    leader.heartbeat_rejected(NOW, 2, leader.term)
    [hint] = hints(settle(leader))
    assert hint == ACKNOWLEDGED_MAX

    core = make_core((1, 1))
    [answer] = known(core, (2, 1), hint=hint)
    assert core.suspended
    holds(leader, 2, barrier - 1, answer.context)
    assert set(hints(settle(leader))) == {barrier - 1}, "it is told once"
    assert leader.progresses[2].barrier == barrier + 1, "and makes good for a loss of its own"


def test_an_answer_from_before_the_loss_that_arrives_late_suspends_it_no_second_time() -> None:
    leader = make_leader()
    barrier = lost(leader)
    acknowledge(leader, 2, barrier - 1)
    leader.heartbeat_rejected(NOW, 2, leader.term)
    [hint] = set(hints(settle(leader)))
    core = suspended()
    token = core.suspended
    [answer] = known(core, (2, 1), hint=hint)
    assert answer.context == token
    holds(leader, 2, barrier - 1)
    settle(leader)
    assert leader.progresses[2].barrier == barrier


def test_a_checkpoint_is_offered_with_the_same_words() -> None:
    leader = make_leader((1, 1, 1), compacted=(3, 1))
    lost(leader)
    settle(leader)
    behind = leader.last_index - 1
    leader.step(NOW, Message(MsgType.APPEND_REPLY, 2, 1, leader.term, behind, reject=True, context=TOKEN))
    assert leader.progresses[2].state is ProgressState.SNAPSHOT
    acknowledge(leader, 2, 3)
    leader.heartbeat_rejected(LATE, 2, leader.term)
    assert hints(settle(leader))[-1] == ACKNOWLEDGED_MAX
    core = make_core((1, 1))
    core.step(NOW, Message(MsgType.SNAPSHOT, 2, 1, 1, 9, 1, context=KNOWS_SUSPENSION, hint=ACKNOWLEDGED_MAX))
    assert core.suspended


def without_its_last_entry(own_heartbeats: bool) -> tuple[Network, RaftCore]:
    """1 leads and knows that 2 holds entry 3. It is gone from the disk of 2, which has restarted."""
    network = Network(3, Options(own_heartbeats=own_heartbeats))
    leader = network.elect(1)
    leader.propose(network.now_ms, ((EntryKind.NORMAL, b"a"),))
    leader.propose(network.now_ms, ((EntryKind.NORMAL, b"b"),))
    network.run()
    network.crash(2)
    del network.nodes[2].disk.entries[3]
    network.restart(2)
    return network, leader


def round_of_heartbeats(network: Network, leader: RaftCore) -> None:
    network.now_ms += 100
    if leader.own_heartbeats:
        leader.advance(network.now_ms)
    else:
        network.heartbeat_all(1)
    network.run()


def assert_it_counts(network: Network, leader: RaftCore) -> None:
    follower = network.nodes[2].core
    assert follower.last_index == leader.last_index
    assert not follower.suspended
    assert not leader.progresses[2].suspended
    network.crash(3)
    leader.propose(network.now_ms, ((EntryKind.NORMAL, b"c"),))
    network.run()
    assert leader.commit == leader.last_index


def test_a_suspended_voter_that_forgot_it_in_a_restart_is_brought_back() -> None:
    """The end of its log is gone; it is told so, and restarts before that is written down, or its barrier is."""
    for own_heartbeats in (False, True):
        network, leader = without_its_last_entry(own_heartbeats)
        follower = network.nodes[2].core
        follower.suspend()
        refusal = Message(MsgType.APPEND_REPLY, 2, 1, leader.term, 3, reject=True, hint=2, context=follower.suspended)
        leader.step(network.now_ms, refusal)
        network.crash(2)
        network.restart(2)
        assert leader.progresses[2].suspended
        assert not network.nodes[2].core.suspended
        for _ in range(8):
            round_of_heartbeats(network, leader)
        assert_it_counts(network, leader)


def test_a_wedged_follower_is_brought_back_and_counts() -> None:
    """The last synced entry is gone: the leader knew 3, the log ends at 2, and nothing moved ever again."""
    for own_heartbeats in (False, True):
        network, leader = without_its_last_entry(own_heartbeats)
        for _ in range(6):
            leader.peer_unreachable(2)
            round_of_heartbeats(network, leader)
        assert leader.last_index == 4
        assert_it_counts(network, leader)


def test_a_group_whose_majority_lost_something_elects_nobody() -> None:
    network = Network(3)
    network.elect(1)
    for node in (1, 2):
        network.crash(node)
        network.restart(node)
        network.nodes[node].core.suspend()
    network.crash(3)
    network.restart(3)
    for node in (1, 2, 3):
        network.nodes[node].core.campaign(network.now_ms)
        network.run()
    assert network.leader() is None
