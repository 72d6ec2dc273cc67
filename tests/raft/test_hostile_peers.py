"""A voter gone mad cannot make a core raise, nor break what the core relies on. (It can of course lie.)"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.raft.core import RaftCore
from muster_coordinator.raft.messages import Entry, EntryKind, Message, MsgType, Role

from tests.raft.making import NOW, make_core, make_leader, settle

SMALL = st.one_of(st.integers(-2, 9), st.sampled_from((2**31 - 1, 2**31, 2**62)))
ENTRIES = st.lists(
    st.builds(Entry, st.integers(0, 6), st.integers(0, 9), st.integers(0, 5), st.binary(max_size=3)), max_size=4
)
MESSAGES = st.builds(
    Message,
    type=st.integers(-1, 12),
    sender=st.integers(1, 4),
    to=st.just(1),
    term=st.one_of(st.integers(0, 6), SMALL),
    index=SMALL,
    log_term=SMALL,
    commit=SMALL,
    entries=ENTRIES.map(tuple),
    reject=st.booleans(),
    hint=SMALL,
    context=SMALL,
)
JOINED = st.builds(  # appends that have a chance to be taken
    lambda sender, term, index, log_term, terms, commit: Message(
        MsgType.APPEND,
        sender,
        1,
        term,
        index,
        log_term,
        commit,
        tuple(Entry(t, index + 1 + i, 0, b"x") for i, t in enumerate(sorted(terms))),
    ),
    st.integers(2, 3),
    st.integers(2, 6),
    st.integers(0, 6),
    st.integers(0, 3),
    st.lists(st.integers(1, 6), max_size=4),
    st.integers(0, 9),
)


def check(core: RaftCore) -> None:
    assert core.applied <= core.handed <= core.commit <= core.last_index
    assert core.log.stable <= core.log.offered <= core.last_index
    assert core.log.compacted_index <= core.log.stable
    for progress in core.progresses.values():
        assert progress.match < progress.next <= core.last_index + 1


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(("follower", "candidate", "leader")),
    st.lists(st.one_of(MESSAGES, JOINED, st.just(None)), max_size=25),
)
def test_nothing_a_peer_sends_raises(role: str, messages: list[Message | None]) -> None:
    core = make_leader((1, 1)) if role == "leader" else make_core((1, 1, 2))
    if role == "candidate":
        core.campaign(NOW)
    for message in messages:
        term = core.term
        if message is None:
            settle(core)
        else:
            core.step(NOW, message)
        check(core)
        assert core.term >= term


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), SMALL, SMALL), max_size=12))
def test_no_heartbeat_raises(heartbeats: list[tuple[int, int, int]]) -> None:
    core = make_core((1, 1, 2), own_heartbeats=False)
    leader = make_leader((1, 1), own_heartbeats=False)
    for peer, term, number in heartbeats:
        core.heartbeat(NOW, peer, term, number)
        leader.heartbeat_ok(NOW, peer, number)
        leader.heartbeat_rejected(NOW, peer, term)
        check(core)
        check(leader)


def test_two_leaders_of_one_term_cut_the_log_once() -> None:
    core = make_core((1, 1, 1))
    core.step(NOW, Message(MsgType.APPEND, 2, 1, 2, index=2, log_term=1, entries=(Entry(2, 3, 0, b"two"),)))
    core.step(NOW, Message(MsgType.APPEND, 3, 1, 2, index=1, log_term=1, entries=(Entry(2, 2, 0, b"three"),)))
    assert [core.log.term_at(i) for i in (1, 2, 3)] == [1, 1, 2]
    assert [m.to for m in core.ready().after_persist] == [2]


def test_a_confirmation_of_a_round_that_was_never_begun_confirms_nothing() -> None:
    leader = make_leader()
    leader.read(NOW, 5)
    leader.step(NOW, Message(MsgType.HEARTBEAT_REPLY, 2, 1, leader.term, context=2**40))
    assert leader.ready().grants == ()


@pytest.mark.parametrize("kind", [MsgType.APPEND, MsgType.HEARTBEAT, MsgType.SNAPSHOT])
def test_a_leader_does_not_follow_another_of_its_own_term(kind: MsgType) -> None:
    leader = make_leader()
    leader.step(NOW, Message(kind, 2, 1, leader.term, index=9, log_term=1))
    assert leader.role is Role.LEADER
    assert not leader.has_ready()


def test_who_denies_what_it_acknowledged_is_asked_when_it_shows_life_and_not_in_circles() -> None:
    """Rule 25, for a disk that lied: the answer would come back at the speed of the link."""
    leader = make_leader((1, 1))
    leader.propose(NOW, ((EntryKind.NORMAL, b"x"),))
    leader.ready()
    leader.peer_unreachable(2)
    (probe,) = [m for m in leader.ready().messages if m.to == 2]
    match = leader.progress()[2].match
    assert probe.index == match
    leader.step(NOW, Message(MsgType.APPEND_REPLY, 2, 1, leader.term, index=match, reject=True, hint=1, log_term=1))
    assert leader.ready().messages == ()
    leader.heartbeat_ok(NOW, 2, 1)
    assert [m.index for m in leader.ready().messages if m.to == 2] == [match]
