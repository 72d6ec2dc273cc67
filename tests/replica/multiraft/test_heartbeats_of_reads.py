"""Rounds for reads ask no more peers than a quorum needs, and whoever is left out or silent confirms nothing."""

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId, GroupNo, member_no
from muster_coordinator.limits import HEARTBEAT_MS
from muster_coordinator.raft.messages import Role
from muster_coordinator.replica.multiraft.heartbeats import Heartbeats
from muster_coordinator.replica.multiraft.payloads import HostHeartbeat, HostHeartbeatAck

from tests.replica.cluster import SimCluster, commit_request, fetch_request, fetched
from tests.replica.multiraft.test_heartbeats import Core, Group
from tests.sim.loop import SimLoop, World

LEADER = BrokerId(0)


class Hosts:
    """A leader of some groups and its peers; every heartbeat and ack is delivered by hand."""

    def __init__(self, peers: int = 2, groups: int = 2) -> None:
        self.world = World(1)
        self.loop = SimLoop(self.world)
        self.peers = [BrokerId(n) for n in range(1, peers + 1)]
        self.down: dict[BrokerId, list[HostHeartbeat]] = {peer: [] for peer in self.peers}
        self.cut: set[BrokerId] = set()
        """Links that refuse to queue a heartbeat."""
        self.groups = {GroupNo(n): Group(n, 0) for n in range(groups)}
        self.leader = self._heartbeats(self.groups)
        self.followers: dict[BrokerId, Heartbeats] = {}
        self.following: dict[BrokerId, dict[GroupNo, Group]] = {}
        for peer in self.peers:
            self.following[peer] = {GroupNo(n): Group(n, int(peer)) for n in range(groups)}
            self.followers[peer] = self._heartbeats(self.following[peer])
            self.leader.peer_up(peer, member_no(peer, 3))
            self.followers[peer].peer_up(LEADER, member_no(LEADER, 1))
        for group in self.groups.values():
            self._make_leader(group.core)
            self.leader.leads(group)
        self.settle()

    def _make_leader(self, core: Core) -> None:
        core.role, core.leader, core.quorum_peers = Role.LEADER, member_no(LEADER, 1), (len(self.peers) + 1) // 2
        core.progresses = {member_no(peer, 3): None for peer in self.peers}

    def _heartbeats(self, groups: dict[GroupNo, Group]) -> Heartbeats:
        return Heartbeats(
            self.loop,
            groups,
            send_heartbeat=self._send,
            send_ack=lambda to, ack: True,
            may_heartbeat=lambda: True,
            acked=lambda group: None,
            heartbeat_ms=HEARTBEAT_MS,
        )

    def _send(self, peer: BrokerId, heartbeat: HostHeartbeat) -> bool:
        if peer not in self.cut:
            self.down[peer].append(heartbeat)
        return peer not in self.cut

    def answer(self, peer: BrokerId) -> HostHeartbeatAck:
        """The peer takes its oldest heartbeat; the leader gets the ack, and ends its turn."""
        acks: list[HostHeartbeatAck] = []
        follower = self.followers[peer]
        follower._send_ack = lambda to, ack: acks.append(ack) is None
        follower.received(LEADER, self.down[peer].pop(0))
        self.leader.ack(peer, acks[0])
        self.leader.end_of_turn()
        return acks[0]

    def settle(self) -> None:
        """A few regular rounds, answered by all in order of their numbers."""
        for _ in range(3):
            self.world.run_for(100)
            self.leader.send_round()
            self.deliver(self.peers)

    def deliver(self, peers: list[BrokerId]) -> None:
        for peer in peers:
            while self.down[peer]:
                self.answer(peer)

    def read(self, number: int) -> int:
        """A read arrives, and the turn ends; the round it waits for."""
        group = self.groups[GroupNo(number)]
        group.core.wants_heartbeats = True
        wanted = self.leader.next_round(group)
        self.leader.end_of_turn()
        return wanted

    def oks(self, number: int) -> list[int]:
        return self.groups[GroupNo(number)].core.oks

    def asked(self) -> list[int]:
        """Peers with a heartbeat under way."""
        return [int(peer) for peer in self.peers if self.down[peer]]


@pytest.mark.parametrize(("peers", "needed"), [(2, [1]), (4, [1, 2])])
def test_a_read_asks_as_many_peers_as_a_quorum_needs(peers: int, needed: list[int]) -> None:
    hosts = Hosts(peers)
    wanted = hosts.read(0)
    assert hosts.asked() == needed
    hosts.deliver(hosts.peers)
    assert hosts.oks(0)[-len(needed) :] == [wanted] * len(needed)


def test_the_peers_that_answered_the_last_round_to_all_first_are_asked() -> None:
    hosts = Hosts(4)
    hosts.leader.send_round()
    hosts.deliver([BrokerId(3), BrokerId(2)])
    hosts.read(0)
    assert not hosts.down[BrokerId(1)][1:], "the slow ones are left out"
    assert not hosts.down[BrokerId(4)][1:]
    assert hosts.down[BrokerId(2)]
    assert hosts.down[BrokerId(3)]


def test_a_peer_that_was_left_out_confirms_no_read_with_an_older_round() -> None:
    hosts = Hosts()
    hosts.leader.send_round()
    older = hosts.leader.round
    hosts.deliver([BrokerId(1)])
    wanted = hosts.read(0)
    assert wanted == older + 1
    hosts.answer(BrokerId(2))  # of the round to all, which began before the read
    assert max(hosts.oks(0)) == older
    hosts.answer(BrokerId(1))
    assert hosts.oks(0)[-1] == wanted


def test_a_silent_peer_costs_a_read_one_regular_round_and_is_not_asked_again() -> None:
    hosts = Hosts()
    wanted = hosts.read(0)
    assert hosts.asked() == [1]
    hosts.down[BrokerId(1)].clear()  # it never hears of it
    hosts.leader.send_round()
    hosts.answer(BrokerId(2))
    assert hosts.oks(0)[-1] == wanted + 1, "a round that began after the read, by another peer"
    hosts.down[BrokerId(1)].clear()
    hosts.read(1)
    assert hosts.asked() == [2]


def test_a_lost_ack_costs_a_read_one_regular_round() -> None:
    hosts = Hosts()
    wanted = hosts.read(0)
    hosts.followers[BrokerId(1)].received(LEADER, hosts.down[BrokerId(1)].pop(0))  # and its ack is lost
    hosts.leader.send_round()
    hosts.answer(BrokerId(2))
    assert hosts.oks(0)[-1] == wanted + 1


def test_a_link_that_refuses_the_heartbeat_sends_the_read_to_all_at_once() -> None:
    hosts = Hosts()
    hosts.cut = {BrokerId(1)}
    wanted = hosts.read(0)
    assert hosts.asked() == [2]
    hosts.answer(BrokerId(2))
    assert hosts.oks(0)[-1] == wanted + 1


@pytest.mark.parametrize("back", [False, True])
def test_a_round_that_ended_with_its_link_is_followed_by_one_to_all(back: bool) -> None:
    hosts = Hosts()
    wanted = hosts.read(0)
    hosts.down[BrokerId(1)].clear()
    if back:
        hosts.leader.peer_up(BrokerId(1), member_no(BrokerId(1), 3))
    else:
        hosts.leader.peer_down(BrokerId(1))
    hosts.leader.end_of_turn()
    hosts.answer(BrokerId(2))
    assert hosts.oks(0)[-1] == wanted + 1


def test_a_group_that_a_peer_does_not_cover_is_read_with_the_others() -> None:
    """The quick peer has deserted one group: that one is asked of the other peer, in the same round."""
    hosts = Hosts()
    deserter = hosts.following[BrokerId(1)][GroupNo(0)]
    deserter.core.term += 1
    hosts.followers[BrokerId(1)].follows(deserter)
    hosts.leader.send_round()
    hosts.deliver(hosts.peers)
    hosts.read(1)
    assert hosts.asked() == [1]
    hosts.deliver(hosts.peers)
    wanted = hosts.read(0)
    assert hosts.asked() == [2]
    hosts.answer(BrokerId(2))
    assert hosts.oks(0)[-1] == wanted


def test_a_group_that_is_new_here_is_named_to_all_by_the_round_of_its_first_read() -> None:
    hosts = Hosts()
    group = Group(7, 0)
    hosts._make_leader(group.core)
    hosts.groups[GroupNo(7)] = group
    for peer in hosts.peers:
        hosts.following[peer][GroupNo(7)] = Group(7, int(peer))
    hosts.leader.leads(group)
    wanted = hosts.read(7)
    assert hosts.asked() == [1, 2]
    hosts.answer(BrokerId(2))
    assert hosts.oks(7) == [wanted]


def test_what_moved_is_told_by_the_next_round_to_all_however_many_reads_come_before() -> None:
    hosts = Hosts()
    group = hosts.groups[GroupNo(0)]
    group.core.commit = 9
    hosts.leader.moved(group)
    for _ in range(3):
        hosts.read(1)
        assert hosts.down[BrokerId(1)][0].named == ()
        assert hosts.answer(BrokerId(1)).matched
    hosts.leader.send_round()
    hosts.deliver(hosts.peers)
    assert [hosts.following[peer][GroupNo(0)].heard_commit for peer in hosts.peers] == [9, 9]


def test_a_group_without_other_voters_holds_up_nobody() -> None:
    """Its read needs no round; one that nobody is asked in would never be answered, and the next waits for that."""
    hosts = Hosts()
    hosts.groups[GroupNo(0)].core.quorum_peers = 0
    hosts.read(0)
    wanted = hosts.read(1)
    hosts.deliver(hosts.peers)
    assert wanted in hosts.oks(1)


def test_reads_go_on_when_the_peer_that_is_asked_dies_without_a_word() -> None:
    cluster = SimCluster(World(21), partitions=3)
    cluster.start()
    leader = cluster.wait_leader(1)
    assert cluster.commit(leader, 0, "g", 5) == Code.NONE
    cluster.world.run_for(1_000)
    first = int(next(iter(cluster.nodes[leader].host.heartbeats._outgoing)))
    cluster.net.isolate(first)
    waited_ms = []
    for _ in range(10):
        began_us = cluster.world.now_us
        assert cluster.fetch(leader, 0, "g") == (Code.NONE, 5)
        waited_ms.append((cluster.world.now_us - began_us) / 1000)
    assert max(waited_ms) < 150, "the next regular round at the latest"
    assert max(waited_ms[2:]) < 10, "after that the living peer is asked"


def test_a_leader_that_is_cut_off_from_the_peer_it_asks_and_from_all_others_never_answers_a_read() -> None:
    cluster = SimCluster(World(22), partitions=1)
    cluster.start()
    old = cluster.wait_leader(1)
    others = [broker for broker in cluster.nodes if broker != old]
    assert cluster.commit(old, 0, "g", 1) == Code.NONE
    for _ in range(3):
        assert cluster.fetch(old, 0, "g") == (Code.NONE, 1)
    waiting = [cluster.ask_later(old, 0, fetch_request("g")) for _ in range(3)]
    cluster.net.isolate(old)
    late = cluster.ask_later(old, 0, fetch_request("g"))
    new = cluster.wait_leader(1, among=others)
    assert cluster.ask(new, 0, commit_request("g", 2)).topics[0][1][0][1] == Code.NONE
    cluster.world.run_for(3_000)
    assert all(answers for answers in (*waiting, late))
    assert fetched(late[0])[0] in (Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE)
