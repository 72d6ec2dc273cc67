"""Coalesced heartbeats against a model: covered means exactly "follows me in this term", whatever is lost or
reordered."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.ids import BrokerId, GroupNo, member_no
from muster_coordinator.limits import HEARTBEAT_MS
from muster_coordinator.raft.messages import Role
from muster_coordinator.replica.multiraft.heartbeats import Heartbeats
from muster_coordinator.replica.multiraft.payloads import (
    HostHeartbeat,
    HostHeartbeatAck,
    decode_heartbeat,
    decode_heartbeat_ack,
    encode_heartbeat,
    encode_heartbeat_ack,
)

from tests.replica.cluster import SimCluster, fetch_request, fetched
from tests.sim.loop import SimLoop, World

LEADER, FOLLOWER = BrokerId(0), BrokerId(1)
LEADER_MEMBER, FOLLOWER_MEMBER = member_no(LEADER, 2), member_no(FOLLOWER, 1)
"""Links know brokers, cores know members. Both have replaced lost folders, so that neither number is the other."""


class Core:
    """As much of a core as heartbeats look at."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.role = Role.FOLLOWER
        self.term = 1
        self.leader = -1
        self.commit = 0
        self.committed_in_term = True
        self.progresses: dict[int, None] = {FOLLOWER_MEMBER: None}
        self.wants_heartbeats = False
        self.quorum_peers = 1
        self.oks: list[int] = []
        self.ok_ms = 0
        self.rejections: list[int] = []

    def heartbeat_commit(self, peer: int) -> int:
        return self.commit

    def heartbeat_ok(self, sent_ms: int, peer: int, round_no: int) -> None:
        self.oks.append(round_no)
        self.ok_ms = sent_ms

    def heartbeat_rejected(self, now_ms: int, peer: int, term: int) -> None:
        self.rejections.append(term)


class Group:
    def __init__(self, number: int, node: int) -> None:
        self.number = GroupNo(number)
        self.core = Core(node)
        self.heard_commit = 0

    def heartbeat_named(self, leader: int, term: int, commit: int, leader_commit: int) -> bool:
        if term < self.core.term:
            return False
        self.core.term, self.core.leader, self.heard_commit = term, leader, commit
        return True


class Pair:
    """A leader's and a follower's heartbeats over one link with delay; `settle` delivers everything."""

    def __init__(self, groups: int) -> None:
        self.world = World(1)
        self.loop = SimLoop(self.world)
        self.down: list[bytes] = []
        self.up: list[bytes] = []
        self.lossy = False
        self.may = True
        self.leading = {GroupNo(n): Group(n, 0) for n in range(groups)}
        self.following = {GroupNo(n): Group(n, 1) for n in range(groups)}
        self.leader = self._heartbeats(self.leading)
        self.follower = self._heartbeats(self.following)
        self.link()

    def _heartbeats(self, groups: dict[GroupNo, Group]) -> Heartbeats:
        return Heartbeats(
            self.loop,
            groups,
            send_heartbeat=self._send_heartbeat,
            send_ack=self._send_ack,
            may_heartbeat=lambda: self.may,
            acked=lambda group: None,
            heartbeat_ms=HEARTBEAT_MS,
        )

    def _send_heartbeat(self, peer: BrokerId, heartbeat: HostHeartbeat) -> bool:
        if self.lossy:
            return False
        self.down.append(encode_heartbeat(heartbeat))
        return True

    def _send_ack(self, peer: BrokerId, ack: HostHeartbeatAck) -> bool:
        self.up.append(encode_heartbeat_ack(ack))
        return True

    def link(self) -> None:
        self.down.clear()
        self.up.clear()
        self.leader.peer_up(FOLLOWER, FOLLOWER_MEMBER)
        self.follower.peer_up(LEADER, LEADER_MEMBER)

    def lead(self, number: int, term: int) -> None:
        group = self.leading[GroupNo(number)]
        group.core.role, group.core.term, group.core.leader = Role.LEADER, term, LEADER_MEMBER
        self.leader.leads(group)

    def give_up(self, number: int) -> None:
        group = self.leading[GroupNo(number)]
        group.core.role = Role.FOLLOWER
        self.leader.leads_no_more(group)

    def desert(self, number: int) -> None:
        """The follower's core moves to another term."""
        group = self.following[GroupNo(number)]
        group.core.term += 1
        group.core.leader = -1
        self.follower.follows(group)

    def deliver_one_down(self) -> None:
        if self.down:
            self.follower.received(LEADER, decode_heartbeat(self.down.pop(0)))

    def deliver_one_up(self) -> None:
        if self.up:
            self.leader.ack(FOLLOWER, decode_heartbeat_ack(self.up.pop(0)))
            self.leader.end_of_turn()

    def settle(self, rounds: int = 4) -> None:
        for _ in range(rounds):
            self.world.run_for(100)
            self.leader.send_round()
            while self.down or self.up:
                self.deliver_one_down()
                self.deliver_one_up()

    def confirmed(self, number: int) -> bool:
        """Does the leader count the follower's proof of life for this group now?"""
        now = self.loop.monotonic_ms()
        return self.leader.contact(self.leading[GroupNo(number)]).get(FOLLOWER_MEMBER, 0) >= now - 100

    def follows(self, number: int) -> bool:
        mine, theirs = self.leading[GroupNo(number)].core, self.following[GroupNo(number)].core
        return mine.role is Role.LEADER and theirs.term == mine.term and theirs.leader == LEADER_MEMBER


def test_idle_heartbeats_are_short_and_name_nothing() -> None:
    pair = Pair(1_000)
    for number in range(1_000):
        pair.lead(number, 3)
    pair.settle()
    pair.leader.send_round()
    assert len(pair.down) == 1
    heartbeat = decode_heartbeat(pair.down[0])
    assert heartbeat.named == ()
    assert heartbeat.covered == 1_000
    assert len(pair.down[0]) < 50
    assert all(pair.confirmed(number) for number in range(1_000))


def test_a_moved_commit_names_its_group_once() -> None:
    pair = Pair(10)
    for number in range(10):
        pair.lead(number, 1)
    pair.settle()
    group = pair.leading[GroupNo(4)]
    group.core.commit = 77
    pair.leader.moved(group)
    pair.leader.send_round()
    assert [named.group for named in decode_heartbeat(pair.down[-1]).named] == [4]
    pair.settle(1)
    assert pair.following[GroupNo(4)].heard_commit == 77
    pair.leader.send_round()
    assert decode_heartbeat(pair.down[-1]).named == ()


def test_a_follower_that_left_is_not_counted_and_the_others_are() -> None:
    pair = Pair(5)
    for number in range(5):
        pair.lead(number, 1)
    pair.settle()
    pair.desert(2)
    pair.settle(2)
    assert not pair.confirmed(2)
    assert pair.leading[GroupNo(2)].core.rejections, "the leader learns that a later term exists"
    assert all(pair.confirmed(number) for number in (0, 1, 3, 4))


def test_a_group_that_the_peer_does_not_have_yet_costs_the_others_nothing() -> None:
    pair = Pair(3)
    absent = pair.following.pop(GroupNo(1))
    for number in range(3):
        pair.lead(number, 1)
    pair.settle(5)
    assert pair.confirmed(0)
    assert pair.confirmed(2)
    assert not pair.confirmed(1)
    pair.following[GroupNo(1)] = absent
    pair.settle(2)
    assert pair.confirmed(1)


def test_no_heartbeats_leave_while_the_disk_is_stuck() -> None:
    pair = Pair(1)
    pair.lead(0, 1)
    pair.may = False
    pair.leader.send_round()
    assert not pair.down


def disturb(pair: Pair, rand: random.Random, groups: int) -> None:
    """A hundred and twenty random events."""
    term = 1
    for _ in range(120):
        number = rand.randrange(groups)
        leads = pair.leading[GroupNo(number)].core.role is Role.LEADER
        event = rand.randrange(9)
        if event == 0:
            term += 1
            if not leads:
                pair.lead(number, max(term, pair.following[GroupNo(number)].core.term))
        elif event == 1:
            if leads:
                pair.give_up(number)
        elif event == 5:
            pair.leader.send_round()
            pair.world.run_for(30)
        else:
            if event == 4:
                pair.lossy = rand.random() < 0.3
            calls = {2: lambda n=number: pair.desert(n), 3: pair.link, 4: lambda: None, 8: pair.deliver_one_up}
            calls.get(event, pair.deliver_one_down)()


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 8))
def test_confirmed_means_following_whatever_happens(seed: int, groups: int) -> None:
    """Random leads, losses, desertions, lost heartbeats and new links, with heartbeats and acks in flight at any
    time."""
    pair = Pair(groups)
    disturb(pair, random.Random(seed), groups)
    pair.lossy = False
    for number in range(groups):  # a leader that was told of a later term gives up, as its core would
        mine, theirs = pair.leading[GroupNo(number)].core, pair.following[GroupNo(number)].core
        if mine.role is Role.LEADER and theirs.term > mine.term:
            pair.give_up(number)
    pair.settle()
    for number in range(groups):
        assert pair.confirmed(number) == pair.follows(number), number
        if pair.leading[GroupNo(number)].core.role is Role.LEADER:
            assert pair.follows(number), "a leader of the highest term is followed in the end"


def test_an_ack_confirms_no_round_before_the_group_was_covered() -> None:
    """A group that joins the cover while older heartbeats are in flight is confirmed by its own round only."""
    pair = Pair(2)
    pair.lead(0, 1)
    pair.settle()
    pair.leader.send_round()  # in flight: covers group 0 only
    pair.lead(1, 1)
    pair.leading[GroupNo(1)].core.wants_heartbeats = True
    wanted = pair.leader.next_round(pair.leading[GroupNo(1)])
    pair.leader.end_of_turn()
    pair.deliver_one_down()
    pair.deliver_one_up()
    assert pair.leading[GroupNo(1)].core.oks == []
    pair.deliver_one_down()
    pair.deliver_one_up()
    assert pair.leading[GroupNo(1)].core.oks == [wanted]


def test_reads_that_come_during_a_round_share_the_next_one() -> None:
    pair = Pair(groups=1)
    pair.lead(0, 1)
    pair.settle()
    group = pair.leading[GroupNo(0)]
    group.core.wants_heartbeats = True
    group.core.oks.clear()
    sent = pair.leader.sent
    first = pair.leader.next_round(group)
    pair.leader.end_of_turn()
    later = []
    for _ in range(5):
        later.append(pair.leader.next_round(group))
        pair.leader.end_of_turn()
    assert (pair.leader.sent - sent, pair.leader.round) == (1, first), "the first is on its way"
    assert set(later) == {first + 1}
    pair.deliver_one_down()
    pair.deliver_one_up()
    assert pair.leader.sent - sent == 2, "its answer starts the next"
    pair.deliver_one_down()
    pair.deliver_one_up()
    assert group.core.oks == [first, first + 1]
    assert pair.leader.sent - sent == 2, "nobody asked for a third"


def test_reads_of_a_round_that_nobody_answers_go_with_the_regular_one() -> None:
    pair = Pair(groups=1)
    pair.lead(0, 1)
    pair.settle()
    group = pair.leading[GroupNo(0)]
    group.core.wants_heartbeats = True
    group.core.oks.clear()
    pair.leader.next_round(group)
    pair.leader.end_of_turn()
    pair.down.clear()
    wanted = pair.leader.next_round(group)
    pair.leader.end_of_turn()
    assert pair.down == []
    pair.leader.send_round()
    pair.deliver_one_down()
    pair.deliver_one_up()
    assert group.core.oks == [wanted]
    sent = pair.leader.sent
    pair.leader.next_round(group)
    pair.leader.end_of_turn()
    assert pair.leader.sent == sent + 1, "an answer to a later round frees the way"


def test_an_idle_cluster_sends_few_frames() -> None:
    """50 groups on three replicas: one heartbeat and one ack per directed pair and heartbeat, nothing else."""
    cluster = SimCluster(World(11), partitions=50)
    cluster.start()
    cluster.world.run_for(15_000)
    before = cluster.net.sent_messages
    cluster.world.run_for(10_000)
    per_pair_second = (cluster.net.sent_messages - before) / 6 / 10
    assert per_pair_second <= 21


def test_a_turns_reads_share_one_round() -> None:
    cluster = SimCluster(World(12), partitions=8, replicas=3)
    cluster.start()
    cluster.world.run_for(2_000)
    leader = cluster.wait_leader(1)
    led = [p for p in range(8) if cluster.leader_of(1 + p) == leader]
    heartbeats = cluster.nodes[leader].host.heartbeats
    round_before, began_us = heartbeats.round, cluster.world.now_us
    answers = [cluster.ask_later(leader, p, fetch_request("g")) for p in led for _ in range(10)]
    cluster.world.run_until("all reads", lambda: all(answers), 1_000)
    assert all(fetched(a[0])[0] == 0 for a in answers)
    assert heartbeats.round - round_before <= 2
    assert (cluster.world.now_us - began_us) / 1000 < 20, "the round is started at once, not at the next tick"
