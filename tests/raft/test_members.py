"""Members that change: learners, joint configurations, and what a configuration counts for (rules 12, 19 to 22)."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.errors import Corruption
from muster_coordinator.raft.core import RaftCore
from muster_coordinator.raft.limits import MEMBERS_MAX
from muster_coordinator.raft.members import Members, Placed, decode_config, encode_config
from muster_coordinator.raft.messages import NOBODY, Entry, EntryKind, HardState, Message, MsgType, Refused, Role
from muster_coordinator.raft.quorum import Config

from tests.made_settings import TIMING
from tests.raft.making import NOW, acknowledge, append, entries, kinds, settle, vote_request
from tests.raft.network import Disk, FixedRand, Network, Options
from tests.raft.scenario import run_scenario

LATE = NOW + 1_000_000
OLD = Config((1, 2, 3))


def member(config: Config = OLD, terms: tuple[int, ...] = (), *, node: int = 1) -> RaftCore:
    """A restarted follower whose log began with `config`."""
    disk = Disk()
    disk.config = config
    disk.entries = {entry.index: entry for entry in entries(terms)}
    core = RaftCore(
        node=node,
        configs=disk.configs(),
        log=disk.log(1 << 20),
        hard_state=HardState(max(terms, default=0), -1, 0),
        applied=0,
        rand=FixedRand(node),
        timing=TIMING,
        own_heartbeats=False,
    )
    core.advance(NOW)
    return core


def leading(config: Config = OLD) -> RaftCore:
    """Leader of term 1; nobody has acknowledged its first entry yet."""
    core = member(config)
    core.campaign(NOW)
    settle(core)
    for kind in (MsgType.PRE_VOTE_REPLY, MsgType.VOTE_REPLY):
        for peer in core.electors:
            core.step(NOW, Message(kind, peer, 1, 1))
        settle(core)
    assert core.role is Role.LEADER
    return core


def leader(config: Config = OLD) -> RaftCore:
    """The same, with the first entry committed."""
    core = leading(config)
    for peer in core.electors:
        acknowledge(core, peer)
    settle(core)
    assert core.committed_in_term
    return core


def conf(config: Config, index: int, term: int = 1) -> Entry:
    return Entry(term, index, EntryKind.CONF, encode_config(config))


def sent(core: RaftCore, kind: MsgType) -> set[int]:
    return {message.to for message in settle(core) if message.type == kind}


def test_rule_12_a_joint_configuration_commits_with_majorities_of_both_halves() -> None:
    for first, second in (((2, 3), (4,)), ((4, 5), (2,))):
        core = leader()
        index = core.change_members((1, 4, 5))
        assert core.config == Config((1, 4, 5), (1, 2, 3))
        settle(core)
        for peer in first[:1] if first == (4, 5) else first:
            acknowledge(core, peer, index)
        settle(core)
        assert core.commit < index
        acknowledge(core, second[0], index)
        assert core.commit == index


def test_rule_12_a_joint_configuration_elects_with_majorities_of_both_halves() -> None:
    for votes, won in (((2, 3), False), ((4, 5), False), ((2, 4), True)):
        core = member(Config((1, 4, 5), (1, 2, 3)))
        core.campaign(NOW)
        assert sent(core, MsgType.PRE_VOTE) == {2, 3, 4, 5}
        for peer in votes:
            core.step(NOW, Message(MsgType.PRE_VOTE_REPLY, peer, 1, 1))
        assert (core.role is Role.CANDIDATE) is won


def test_rule_12_a_joint_configuration_confirms_reads_and_life_with_majorities_of_both_halves() -> None:
    core = leader()
    core.change_members((1, 4, 5))
    settle(core)
    assert core.read(NOW, 7, 1)
    core.heartbeat_ok(NOW, 2, 1)
    core.heartbeat_ok(NOW, 3, 1)
    assert not core.ready().grants
    assert not core.quorum_heard(NOW)
    core.heartbeat_ok(NOW, 5, 1)
    assert [grant.context for grant in core.ready().grants] == [7]
    assert core.quorum_heard(NOW)


def test_rule_12_a_learner_counts_for_nothing() -> None:
    core = leader()
    index = core.change_members((1, 2, 3), (4, 5))
    assert {4, 5} <= sent(core, MsgType.APPEND)
    acknowledge(core, 4, index)
    acknowledge(core, 5, index)
    assert core.commit < index
    assert core.read(NOW, 7, 1)
    core.heartbeat_ok(NOW + 5, 4, 1)
    assert not core.ready().grants
    assert not core.quorum_heard(NOW + 5)
    assert not core.transfer(NOW, 4)
    core.campaign(NOW)
    follower = member(Config((1, 2, 3), (), (4,)))
    follower.campaign(NOW)
    assert sent(follower, MsgType.PRE_VOTE) == {2, 3}


def test_who_is_to_vote_is_throttled_no_longer() -> None:
    """A copy that keeps to a rate may owe for half a minute when it is level, and commits may need it from then on."""
    core = leader()
    index = core.change_members((1, 2, 3), (4,))
    settle(core)
    for peer in (2, 4):
        acknowledge(core, peer, index)
    settle(core)
    core.throttle(4, True)
    core.propose(NOW, ((EntryKind.NORMAL, b"x"),))
    assert not any(message.entries for message in settle(core) if message.to == 4)
    acknowledge(core, 2)
    settle(core)
    index = core.change_members((1, 2, 4))
    told = [message for message in settle(core) if message.to == 4 and message.entries]
    assert told
    assert told[-1].entries[-1].index == index


def test_rule_19_no_change_before_the_first_commit_of_the_term() -> None:
    core = leading()
    assert core.change_members((1, 2)) is Refused.CHANGING
    acknowledge(core, 2)
    assert core.change_members((1, 2)) == 2


def test_rule_19_one_change_at_a_time() -> None:
    core = leader()
    first = core.change_members((1, 2, 3, 4))
    assert core.change_members((1, 2, 3)) is Refused.CHANGING
    settle(core)
    for peer in (2, 3):
        acknowledge(core, peer, first)
    assert core.commit == first
    joint = core.change_members((1, 5, 6))
    settle(core)
    for peer in (2, 3, 5, 6):
        acknowledge(core, peer, joint)
    assert core.config == Config((1, 5, 6)), "left by itself"
    assert core.change_members((1, 5)) is Refused.CHANGING, "the entry that left it is not committed"


def test_rule_19_who_does_not_lead_or_hands_over_or_has_fixed_members_changes_nothing() -> None:
    assert member().change_members((1, 2)) is Refused.NOT_LEADER
    core = leader()
    assert core.transfer(NOW, 2)
    assert core.change_members((1, 2)) is Refused.TRANSFERRING
    assert core.propose(LATE, ((EntryKind.CONF, encode_config(OLD)),)) is Refused.TRANSFERRING
    core = leader()
    assert core.propose(NOW, ((EntryKind.CONF, encode_config(OLD)),)) is Refused.UNSUPPORTED


def test_rule_19_one_voter_is_one_entry_and_what_is_there_is_none() -> None:
    core = leader()
    assert core.change_members((3, 2, 1)) == 0
    assert core.last_index == 1
    core.change_members((1, 2, 3, 4))
    assert core.config.outgoing == ()
    core = leader()
    core.change_members((1, 2, 4))
    assert core.config.outgoing == (1, 2, 3), "one in and one out are two"


def test_rule_20_a_configuration_is_in_effect_with_its_entry_and_goes_with_it() -> None:
    core = member(terms=(1,))
    core.step(NOW, Message(MsgType.APPEND, 2, 1, 1, 1, 1, entries=(conf(Config((1, 2)), 2),)))
    assert core.config == Config((1, 2))
    append(core, (1, 1), (2,), sender=3, term=2)
    assert core.config == OLD
    assert core.members.newest == Placed(0, OLD)


def test_rule_20_nobody_is_handed_over_to_while_a_configuration_is_joint() -> None:
    """Its end is appended while the target campaigns, and who holds that does not vote for who does not."""
    core = leader()
    index = core.change_members((1, 4, 5))
    settle(core)
    assert not core.transfer(NOW, 2), "it is leaving"
    assert not core.transfer(NOW, 4)
    for peer in (2, 3, 4):
        acknowledge(core, peer, index)
    assert core.config == Config((1, 4, 5))
    assert not core.transfer(NOW, 2), "it has left"
    assert core.transfer(NOW, 4)


def test_rule_20_with_fewer_voters_a_waiting_read_is_answered() -> None:
    core = leader(Config((1, 2)))
    assert core.read(NOW, 7, 1)
    assert not core.ready().grants
    core.change_members((1,))
    assert [grant.context for grant in core.ready().grants] == [7]


def test_rule_20_a_leader_that_leaves_does_not_count_itself_and_hands_over_when_that_is_committed() -> None:
    core = leader(Config((1, 2, 3, 4)))
    index = core.change_members((2, 3, 4))
    settle(core)
    acknowledge(core, 2, index)
    assert core.commit < index, "itself and one are two of four, but it is none of three"
    assert core.deadline_ms > NOW
    acknowledge(core, 3, index)
    assert core.commit == index
    assert core.deadline_ms == 0
    assert core.change_members((1, 2, 3, 4)) is Refused.TRANSFERRING
    core.advance(NOW)
    assert sent(core, MsgType.TIMEOUT_NOW) == {2}
    vote_request(core, sender=2, term=2, last=(index, 1), forced=True)
    assert core.role is Role.FOLLOWER
    core.advance(LATE)
    core.campaign(LATE)
    told = {(message.type, message.to, message.term) for message in settle(core)}
    news = {(MsgType.APPEND_REPLY, 3, 2), (MsgType.APPEND_REPLY, 4, 2)}
    assert told == {(MsgType.VOTE_REPLY, 2, 2), *news}


def test_rule_20_everybody_hears_that_an_heir_stands_and_nobody_else_is_told_of_candidates() -> None:
    """The heir may have told the old leader only. The others would be loyal to a leader that leads no longer, and vote
    for nobody."""
    core = leaving()
    assert sent(core, MsgType.TIMEOUT_NOW) == {2}
    vote_request(core, sender=3, term=2, last=(9, 1), forced=True)
    assert MsgType.APPEND_REPLY not in kinds(settle(core)), "another candidate, which tells of itself"
    other = member(OLD, terms=(1,))
    append(other, (1, 1), (), sender=3, term=1)
    other.step(NOW, Message(MsgType.APPEND_REPLY, 3, 1, 2, reject=True))
    assert (other.term, other.leader, other.vote) == (2, NOBODY, NOBODY)
    vote_request(other, sender=2, term=2, last=(1, 1), forced=True)
    assert other.vote == 2, "its vote is free"


def test_rule_28_who_hears_of_an_election_and_no_candidate_campaigns_soon_when_one_may_be_dead() -> None:
    for lost, soon in ((2, True), (7, False)):
        core = member(OLD, terms=(1,))
        append(core, (1, 1), (), sender=3, term=1)
        core.step(NOW, Message(MsgType.APPEND_REPLY, 3, 1, 2, reject=True))
        assert core.deadline_ms >= NOW + TIMING.election_min_ms, "as long as it may be won"
        core.peer_lost(NOW, lost)
        assert (core.deadline_ms <= NOW + 4 * TIMING.heartbeat_ms) is soon, "7 has no vote"


def leaving(*, holders: tuple[int, ...] = (2, 3), busy: bool = False) -> RaftCore:
    """Member 1 of (1 2 3 4) leads and has left: these hold the configuration. `busy`: a proposal lies behind it."""
    core = leader(Config((1, 2, 3, 4)))
    index = core.change_members((2, 3, 4))
    if busy:
        core.propose(NOW, ((EntryKind.NORMAL, b"x"),))
    settle(core)
    for peer in holders:
        acknowledge(core, peer, index)
    core.advance(NOW)
    return core


def test_rule_20_an_heir_that_lacks_what_clients_wrote_meanwhile_gets_it_first() -> None:
    core = leaving(busy=True)
    assert sent(core, MsgType.TIMEOUT_NOW) == set()
    assert core.propose(NOW, ((EntryKind.NORMAL, b"y"),)) is Refused.TRANSFERRING, "or it would never be level"
    assert core.change_members((1, 2, 3, 4)) is Refused.TRANSFERRING
    acknowledge(core, 3)
    assert sent(core, MsgType.TIMEOUT_NOW) == set(), "another one is the heir"
    acknowledge(core, 2)
    assert sent(core, MsgType.TIMEOUT_NOW) == {2}
    assert core.role is Role.LEADER, "who does not hear a leader would campaign as well"
    assert core.read(NOW, 1, 1)


def test_rule_20_heirs_are_asked_one_at_a_time_and_each_once() -> None:
    """The first does not take over in time, the link of the second breaks, and the third has not heard that it may."""
    core = leaving()
    assert sent(core, MsgType.TIMEOUT_NOW) == {2}
    for peer in (2, 3):
        core.heartbeat_ok(NOW + TIMING.election_min_ms, peer, 1)
    core.advance(NOW + TIMING.election_min_ms - 1)
    assert sent(core, MsgType.TIMEOUT_NOW) == set()
    core.advance(NOW + TIMING.election_min_ms)
    assert sent(core, MsgType.TIMEOUT_NOW) == {3}
    core.peer_unreachable(2)
    assert core.deadline_ms > 0, "it is not the heir any more"
    core.peer_unreachable(3)
    assert core.deadline_ms == 0
    core.advance(NOW + TIMING.election_min_ms + 1)
    assert core.role is Role.FOLLOWER, "nobody is left: they find each other by an election timeout"
    assert sent(core, MsgType.TIMEOUT_NOW) == set()


def test_rule_20_a_suspended_voter_is_no_heir() -> None:
    core = leader(Config((1, 2, 3, 4)))
    index = core.change_members((2, 3, 4))
    settle(core)
    core.step(NOW, Message(MsgType.APPEND_REPLY, 2, 1, 1, index=index, context=77))
    settle(core)
    for peer in (3, 4):
        acknowledge(core, peer)
    core.advance(NOW)
    assert core.transfer_target == 3


def test_rule_20_a_drain_under_way_goes_on_when_the_leader_has_left() -> None:
    core = leader(Config((1, 2, 3, 4)))
    index = core.change_members((2, 3, 4))
    settle(core)
    assert core.transfer(NOW, 4)
    for peer in (2, 3):
        acknowledge(core, peer, index)
    core.advance(NOW)
    assert sent(core, MsgType.TIMEOUT_NOW) == set()
    acknowledge(core, 4)
    assert sent(core, MsgType.TIMEOUT_NOW) == {4}


def test_rule_20_who_takes_over_tells_the_leader_that_has_left() -> None:
    core = member(Config((1, 2)), terms=(1,))
    append(core, (1, 1), (), sender=3, term=1)
    settle(core)
    core.step(NOW, Message(MsgType.TIMEOUT_NOW, 3, 1, 1))
    assert sent(core, MsgType.VOTE) == {2, 3}
    core.step(NOW, Message(MsgType.VOTE_REPLY, 3, 1, 2))
    assert core.role is Role.CANDIDATE, "it has no vote"
    core.step(NOW, Message(MsgType.VOTE_REPLY, 2, 1, 2))
    assert core.role is Role.LEADER


def test_rule_28_an_election_that_may_have_failed_with_who_died_is_repeated_soon() -> None:
    """A leader dies as it hands over: another campaigns beside the heir, and of a joint configuration one half is one
    vote short. Nobody has a leader whose link could break any more."""
    joint = Config((0, 1, 2), (3, 1, 2))
    core = member(joint, terms=(1,))
    append(core, (1, 1), (), sender=3, term=1)
    core.step(NOW, Message(MsgType.TIMEOUT_NOW, 3, 1, 1))
    assert (core.role, core.term) == (Role.CANDIDATE, 2)
    assert core.deadline_ms >= NOW + TIMING.election_min_ms
    core.peer_lost(NOW, 7)
    assert core.deadline_ms >= NOW + TIMING.election_min_ms, "it has no vote"
    core.peer_lost(NOW, 3)
    assert NOW + 2 * TIMING.heartbeat_ms <= core.deadline_ms <= NOW + 4 * TIMING.heartbeat_ms
    core.advance(core.deadline_ms)
    assert (core.role, core.term) == (Role.PRE_CANDIDATE, 2), "and nobody who has a leader is disturbed"


@pytest.mark.parametrize("voted_for", [3, 2])
def test_rule_28_who_voted_for_one_that_died_campaigns_soon(voted_for: int) -> None:
    core = member(OLD, terms=(1,))
    vote_request(core, sender=voted_for, term=2, last=(1, 1))
    assert core.vote == voted_for
    core.peer_lost(NOW, 3)
    soon = core.deadline_ms <= NOW + 4 * TIMING.heartbeat_ms
    assert soon is (voted_for == 3)


def test_rule_20_a_leader_that_leaves_confirms_no_read_by_itself() -> None:
    core = leader(Config((1, 2, 3, 4)))
    core.change_members((2, 3, 4))
    settle(core)
    assert core.read(NOW, 7, 1)
    core.heartbeat_ok(NOW, 2, 1)
    assert not core.ready().grants
    core.heartbeat_ok(NOW, 3, 1)
    assert core.ready().grants


def test_rule_20_the_next_leader_leaves_a_joint_configuration() -> None:
    core = member(Config((1, 2, 4), (1, 2, 3)))
    core.campaign(NOW)
    settle(core)
    for kind in (MsgType.PRE_VOTE_REPLY, MsgType.VOTE_REPLY):
        core.step(NOW, Message(kind, 2, 1, 1))
        settle(core)
    assert core.config.outgoing, "not before its own entry is committed"
    acknowledge(core, 2)
    assert core.config == Config((1, 2, 4))


def test_rule_20_a_joint_configuration_is_not_left_for_what_is_committed_before_it() -> None:
    core = leader()
    before = core.propose(NOW, ((EntryKind.NORMAL, b"x"),))
    core.change_members((1, 4, 5))
    settle(core)
    for peer in (2, 4):
        acknowledge(core, peer, before)
    assert core.commit == before
    assert core.config.outgoing


def test_rule_21_a_learner_votes_and_never_campaigns() -> None:
    for config in (Config((2, 3), (), (1,)), Config((2, 3)), Config(())):
        core = member(config)
        core.advance(LATE)
        core.campaign(LATE)
        core.step(NOW, Message(MsgType.TIMEOUT_NOW, 2, 1, 0))
        assert (settle(core), core.role) == ([], Role.FOLLOWER)
        assert core.deadline_ms > LATE
        vote_request(core, sender=3, term=1, last=(0, 0))
        [answer] = settle(core)
        assert (answer.type, answer.reject) == (MsgType.VOTE_REPLY, False)


def test_rule_21_whoever_leads_or_asks_is_listened_to_although_the_log_does_not_name_it_yet() -> None:
    core = member(terms=(1,))
    append(core, (1, 1), (2,), sender=9, term=2)
    assert (core.leader, core.last_index) == (9, 2)
    assert core.heartbeat(NOW, 8, 3, 0)
    vote_request(core, sender=7, term=4, last=(9, 3), forced=True)
    assert core.vote == 7
    core.step(NOW, Message(MsgType.APPEND, 1, 1, 9, 2, 2))
    assert core.term == 4, "but nobody is oneself"


def test_who_was_removed_and_answers_late_counts_for_nothing() -> None:
    core = leader()
    index = core.change_members((1, 2))
    settle(core)
    acknowledge(core, 3, index)
    core.heartbeat_ok(NOW, 3, 5)
    core.peer_unreachable(3)
    core.peer_lost(NOW, 3)
    assert core.commit < index
    assert core.heartbeat_commit(3) == 0
    assert set(core.progress()) == {2}


def test_rule_22_a_checkpoint_carries_the_configuration_of_its_index() -> None:
    core = leader()
    index = core.change_members((1, 2))
    settle(core)
    acknowledge(core, 2, index)
    settle(core)
    assert core.config_at(index - 1) == OLD
    assert core.config_at(index) == Config((1, 2))
    core.checkpointed(index, 1)
    core.compacted(index, 1)
    assert core.config == Config((1, 2))
    with pytest.raises(AssertionError):
        core.config_at(index - 1)


def test_rule_22_an_installed_checkpoint_brings_its_configuration() -> None:
    core = member(Config(()), node=4)
    core.step(NOW, Message(MsgType.SNAPSHOT, 1, 4, 1, index=9, log_term=1))
    settle(core)
    assert core.snapshot_installed(9, 1, Config((1, 2, 4)))
    assert core.config == Config((1, 2, 4))
    core.campaign(NOW)
    assert sent(core, MsgType.PRE_VOTE) == {1, 2}


def test_rule_22_a_checkpoint_that_no_entry_led_up_to_has_the_configuration_of_the_beginning() -> None:
    """The entry that is in this log was of a deposed leader: what the checkpoint covers has none."""
    core = member(terms=(1, 1))
    core.step(NOW, Message(MsgType.APPEND, 2, 1, 1, 2, 1, entries=(conf(Config((1, 2)), 3),)))
    settle(core)
    assert core.config == Config((1, 2))
    assert core.is_first_config(2)
    assert not core.is_first_config(3)
    core.step(NOW, Message(MsgType.SNAPSHOT, 3, 1, 2, index=9, log_term=2))
    settle(core)
    assert core.snapshot_installed(9, 2, None)
    assert core.config == OLD
    assert core.is_first_config(9)


def test_rule_22_who_came_later_than_an_entry_makes_no_checkpoint_there() -> None:
    core = member(Config(()), node=4)
    new = (*entries((1,)), conf(Config((1, 2, 3, 4)), 2))
    core.step(NOW, Message(MsgType.APPEND, 1, 4, 1, entries=new, commit=2))
    settle(core)
    assert core.config_at(1) is None
    assert core.config_at(2) == Config((1, 2, 3, 4))


def test_a_configuration_that_this_release_does_not_know_does_not_get_into_the_log() -> None:
    for data in (b"", b"\x02" + encode_config(OLD)[1:], encode_config(OLD) + b"\0", encode_config(OLD)[:-1]):
        core = member(terms=(1,))
        new = (*entries((1,), 2), Entry(1, 3, EntryKind.CONF, data))
        core.step(NOW, Message(MsgType.APPEND, 2, 1, 1, 1, 1, entries=new))
        assert core.last_index == 1
        assert kinds(settle(core)) == []


MEMBERS = st.lists(st.integers(0, 2**63 - 1), unique=True, max_size=MEMBERS_MAX).map(tuple)


@given(MEMBERS.filter(bool), MEMBERS, MEMBERS)
def test_what_is_written_is_read(voters: tuple[int, ...], outgoing: tuple[int, ...], learners: tuple[int, ...]) -> None:
    config = Config(voters, outgoing, tuple(one for one in learners if one not in voters))
    assert decode_config(encode_config(config)) == config


@given(st.binary(max_size=80) | st.tuples(st.sampled_from([b"\x01\x01\x00\x00", b"\x01\x02\x00\x01"]), st.binary()))
def test_any_bytes_are_a_sound_configuration_or_refused(data: bytes | tuple[bytes, bytes]) -> None:
    raw = data if isinstance(data, bytes) else b"".join(data)
    try:
        config = decode_config(raw)
    except Corruption:
        return
    assert encode_config(config) == raw
    assert config.voters
    assert len(set(config.voters)) == len(config.voters)
    assert not set(config.learners) & set(config.voters)


def test_the_newest_configuration_before_the_beginning_of_the_log_stays() -> None:
    members = Members([Placed(0, OLD), Placed(3, Config((1, 2))), Placed(7, Config((1,)))])
    members.compact(2)
    assert members.at(2) == OLD
    members.compact(5)
    assert (members.at(5), members.at(7)) == (Config((1, 2)), Config((1,)))
    assert members.cut(6)
    assert not members.cut(6)
    assert members.newest == Placed(3, Config((1, 2)))


def test_the_scenarios_of_members_end_as_they_say() -> None:
    files = sorted((Path(__file__).parent / "scenarios").glob("members_*.txt"))
    assert len(files) >= 10
    for path in files:
        text = path.read_text()
        assert run_scenario(text) == text, path.stem


def test_a_newcomer_that_hears_of_itself_late_is_made_a_voter_and_elected() -> None:
    network = Network(4, Options(members=3))
    network.elect(1)
    one = network.nodes[1].core
    one.change_members((1, 2, 3), (4,))
    network.run()
    one.change_members((1, 2, 3, 4))
    network.run()
    network.crash(1)
    network.now_ms += 10_000
    network.nodes[4].core.campaign(network.now_ms)
    network.run()
    assert network.leader() == 4
