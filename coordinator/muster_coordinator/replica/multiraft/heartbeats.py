"""One heartbeat per pair of hosts for all groups between them (decision 19): liveness, check-quorum, commits and reads.

Problem: 50 groups with two followers each would be 1,000 heartbeats a second. Mechanism: a heartbeat names a group only
when its term or commit changed since the last heartbeat to that peer; all others are *covered*: sender and receiver
each keep the set of (group, term, commit) that both agree on, and a heartbeat carries only its count and hash. Order
holds within a channel and a link's life, so both sets change in step; whatever breaks the step (a lost message, a
restart) shows as a mismatch and is mended by one heartbeat that names everything anew.

The receiver marks a group deserted the moment its own core follows somebody else or another term, and says so in its
acks until the sender reacts; the sender drops it from the set and names it again while it leads it. So a matched ack of
round r proves for every group covered since r or before, and not reported as deserted, that the peer's core followed
this sender in this term when it got the heartbeat: it confirms all reads that waited when r was sent (decision 36), and
its sending time is the proof of life that check-quorum counts. Cores decide; this only carries.

Rounds for reads follow one another: the first read starts one with the end of its turn; those that come before a peer
has answered it share the next, which starts at the end of the turn of that answer. So a busy leader costs its peers a
heartbeat a round trip and not a heartbeat a read, and a read waits two round trips at most.

A round for reads goes to as few peers as make a quorum with this host, those first that were quickest to answer the
last round to all; of three hosts one other is asked. It names nothing, so it serves only groups that are covered there
already; else it goes to all. Every round has a number of its own wherever it goes, so a peer that was left out has
nothing to acknowledge it with. Whoever was asked and does not answer costs a read the time to the next regular round,
which goes to all and puts the quick ones in front.

A heartbeat that has much to say goes as several, one behind another, as if that many rounds had followed at once: each
has a number of its own and covers what it and those before it named, so its ack proves nothing of a group that a later
one names. An ack that has to reject much is preceded by ones that confirm nothing (round 0, sent at 0).
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.ports import Loop
from muster_coordinator.raft.core import RaftCore
from muster_coordinator.raft.messages import Role
from muster_coordinator.replica import limits
from muster_coordinator.replica.multiraft.payloads import HostHeartbeat, HostHeartbeatAck, NamedGroup

_MASK = (1 << 64) - 1
NO_CONTACT: Mapping[int, int] = {}


def mix(group: int, term: int, commit: int) -> int:
    """A number whose sum over a set tells sets apart."""
    value = (
        group * 0x9E3779B97F4A7C15 + term * 0xC2B2AE3D27D4EB4F + commit * 0xFF51AFD7ED558CCD + 0x165667B19E3779F9
    ) & _MASK
    value ^= value >> 29
    value = (value * 0xBF58476D1CE4E5B9) & _MASK
    return value ^ (value >> 32)


class HeartbeatGroup(Protocol):
    """What heartbeats need of a group's runtime."""

    number: GroupNo
    core: RaftCore

    def heartbeat_named(self, leader: BrokerId, term: int, commit: int, leader_commit: int) -> bool:
        """A heartbeat names this group; step the core. False: not accepted."""


class _Outgoing:
    """The sender's side towards one peer."""

    __slots__ = ("anew", "confirmed_ms", "confirmed_round", "cover", "cover_hash", "dropped", "mended_round", "named")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """The link is new: nothing is agreed on."""
        self.cover: dict[GroupNo, tuple[int, int]] = {}
        """group -> (term, round since which it is covered)"""
        self.cover_hash = 0
        self.named: dict[GroupNo, tuple[int, int]] = {}
        """group -> (term, commit) as last named; its keys are those of `cover`"""
        self.dropped: list[GroupNo] = []
        self.anew = True
        self.mended_round = -1
        self.confirmed_round = -1
        self.confirmed_ms = 0

    def add(self, group: GroupNo, term: int, commit: int, round_no: int) -> None:
        """Name it: covered in this term since the first naming, with the commit of the last."""
        known = self.cover.get(group)
        if known is not None:
            self.cover_hash -= mix(group, *self.named[group])
        if known is None or known[0] != term:
            self.cover[group] = (term, round_no)
        self.named[group] = (term, commit)
        self.cover_hash = (self.cover_hash + mix(group, term, commit)) & _MASK

    def remove(self, group: GroupNo) -> bool:
        if self.cover.pop(group, None) is None:
            return False
        self.cover_hash = (self.cover_hash - mix(group, *self.named.pop(group))) & _MASK
        return True


class _Incoming:
    """The receiver's side of one peer's heartbeats: a mirror of what the sender covers."""

    __slots__ = ("commits", "deserted", "hash", "heard_ms", "rejected", "table")

    def __init__(self) -> None:
        self.table: dict[GroupNo, int] = {}
        """group -> covered term"""
        self.commits: dict[GroupNo, int] = {}
        """group -> commit as last named"""
        self.hash = 0
        self.heard_ms = 0
        self.deserted: set[GroupNo] = set()
        """Covered groups whose core here does not follow the sender in the covered term."""
        self.rejected: dict[GroupNo, int] = {}
        """Deserted ones that the sender has not reacted to yet, with the own term."""

    def put(self, group: GroupNo, term: int, commit: int) -> None:
        self.take(group)
        self.table[group] = term
        self.commits[group] = commit
        self.hash = (self.hash + mix(group, term, commit)) & _MASK

    def take(self, group: GroupNo) -> None:
        term = self.table.pop(group, None)
        if term is not None:
            self.hash = (self.hash - mix(group, term, self.commits.pop(group))) & _MASK
        self.deserted.discard(group)
        self.rejected.pop(group, None)

    def desert(self, group: GroupNo, own_term: int) -> None:
        self.deserted.add(group)
        self.rejected[group] = own_term

    def clear(self) -> None:
        self.table.clear()
        self.commits.clear()
        self.hash = 0
        self.deserted.clear()
        self.rejected.clear()


class Heartbeats:
    """All heartbeats of one host, both ways. `send_heartbeat` and `send_ack` give them to the link."""

    def __init__(
        self,
        loop: Loop,
        groups: Mapping[GroupNo, HeartbeatGroup],
        *,
        send_heartbeat: Callable[[BrokerId, HostHeartbeat], bool],
        send_ack: Callable[[BrokerId, HostHeartbeatAck], bool],
        may_heartbeat: Callable[[], bool],
        acked: Callable[[HeartbeatGroup], None],
        heartbeat_ms: int,
        rows_max: int = limits.HEARTBEAT_ROWS_MAX,
    ) -> None:
        """`may_heartbeat`: False while the WAL makes no progress. `acked(group)`: its core may have a `Ready` now."""
        self._loop = loop
        self._groups = groups
        self._send_heartbeat = send_heartbeat
        self._send_ack = send_ack
        self._may_heartbeat = may_heartbeat
        self._acked = acked
        self._heartbeat_ms = heartbeat_ms
        self._rows_max = rows_max
        self.round = 0
        """The last round, or part of one, that was sent."""
        self._begun_round = 0
        """The first part of it."""
        self._asking: dict[GroupNo, HeartbeatGroup] = {}
        """Groups with reads that wait for a round to be sent."""
        self._mending = False
        """A round to all is wanted, whether or not anybody reads."""
        self._asked_round = self._answered_round = 0
        """The last round that reads asked for; the last that any peer has answered."""
        self._full_rounds = range(0)
        """Of the last round that went to all: the numbers of its parts."""
        self._quick: list[BrokerId] = []
        """Who has acknowledged that one, in order."""
        self._outgoing: dict[BrokerId, _Outgoing] = {}
        """Quick ones first."""
        self._incoming: dict[BrokerId, _Incoming] = {}
        self._led: dict[GroupNo, HeartbeatGroup] = {}
        self._moved: dict[GroupNo, HeartbeatGroup] = {}
        """Led groups whose commit, or a follower's match, may have changed since the last heartbeat."""
        self._watched: dict[GroupNo, HeartbeatGroup] = {}
        """Led groups that want single `heartbeat_ok` calls."""
        self.sent = 0

    def start(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + self._heartbeat_ms, self._tick)

    def _tick(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + self._heartbeat_ms, self._tick)
        self.send_round()

    # -- links -----------------------------------------------------------------------------------------------------

    def peer_up(self, peer: BrokerId) -> None:
        """A link is new: messages may have been lost before it."""
        self._lost_on_the_way()
        self._outgoing[peer] = _Outgoing()
        self._incoming[peer] = _Incoming()
        self._watched.update(self._led)

    def peer_down(self, peer: BrokerId) -> None:
        self._lost_on_the_way()
        self._outgoing.pop(peer, None)
        self._incoming.pop(peer, None)

    def _lost_on_the_way(self) -> None:
        """The round that reads wait for may be lost with a link: the next goes to all, and need not wait for it."""
        if self._asked_round > self._answered_round:
            self._asked_round = self._answered_round
            self._mending = True

    # -- leading ---------------------------------------------------------------------------------------------------

    def leads(self, group: HeartbeatGroup) -> None:
        """The group is led here from now on, in its core's term."""
        self._led[group.number] = group
        self.moved(group)

    def leads_no_more(self, group: HeartbeatGroup) -> None:
        number = group.number
        if self._led.pop(number, None) is None:
            return
        self._moved.pop(number, None)
        self._watched.pop(number, None)
        self._asking.pop(number, None)
        for outgoing in self._outgoing.values():
            if outgoing.remove(number):
                outgoing.dropped.append(number)

    def moved(self, group: HeartbeatGroup) -> None:
        """Something about a led group changed that a heartbeat might have to tell, or an ack to act upon."""
        self._moved[group.number] = group
        self._watched[group.number] = group

    def next_round(self, group: HeartbeatGroup) -> int:
        """The number of a round that starts after this call (for a read): at the end of this turn, or of the turn in
        which the round that reads wait for now is answered, and no later than the next regular one."""
        self._asking[group.number] = group
        return self.round + 1

    def end_of_turn(self) -> None:
        """Start the round that reads asked for, unless the one before is still on its way."""
        if (self._asking or self._mending) and self._answered_round >= self._asked_round:
            chosen = None if self._mending else self._enough()
            if chosen:
                self._send_to(chosen, {})
            if not chosen or any(outgoing.anew for outgoing in chosen.values()):
                self.send_round()  # not enough cover a group, or a link is lost, or nobody need be asked
            self._asked_round = self._begun_round

    def _enough(self) -> dict[BrokerId, _Outgoing] | None:
        """The quickest peers that make a quorum for every group that asks; None: not enough of them cover one."""
        chosen: dict[BrokerId, _Outgoing] = {}
        for number, group in self._asking.items():
            core = group.core
            term, missing = core.term, core.quorum_peers
            for peer, outgoing in self._outgoing.items():
                if missing <= 0:
                    break
                covered = outgoing.cover.get(number)
                if covered is not None and covered[0] == term and not outgoing.anew:
                    chosen[peer] = outgoing
                    missing -= 1
            if missing > 0:
                return None
        return chosen

    def send_round(self) -> None:
        """One heartbeat to every peer that has a link."""
        if self._send_to(self._outgoing, self._moved):
            self._moved = {}
            self._full_rounds = range(self._begun_round, self.round + 1)
            self._quick = []
            self._mending = False

    def _send_to(self, peers: Mapping[BrokerId, _Outgoing], moved: Mapping[GroupNo, HeartbeatGroup]) -> bool:
        """Start a round. What moved and is not told now stays moved until a round to all."""
        asking, self._asking = self._asking, {}
        self._watched.update(asking)  # from now on: no ack of an earlier round is of use to them
        if not self._may_heartbeat():
            return False
        begins = self._begun_round = self.round = self.round + 1
        now_ms = self._loop.monotonic_ms()
        for peer, outgoing in peers.items():
            self.round = max(self.round, self._heartbeat_to(peer, outgoing, moved, begins, now_ms))
        return True

    def _heartbeat_to(
        self, peer: BrokerId, outgoing: _Outgoing, moved: Mapping[GroupNo, HeartbeatGroup], round_no: int, now_ms: int
    ) -> int:
        """Say what changed, in one heartbeat or several; the number of the last one."""
        # The cover is without what was dropped, so one heartbeat has to say all of that.
        anew = outgoing.anew or len(outgoing.dropped) > self._rows_max
        if anew:
            outgoing.cover.clear()
            outgoing.cover_hash = 0
            outgoing.named.clear()
            outgoing.dropped.clear()
            moved = self._led
        dropped, outgoing.dropped = outgoing.dropped, []
        named: list[NamedGroup] = []
        for number, group in moved.items():
            core = group.core
            if core.role is not Role.LEADER or peer not in core.progresses:
                continue
            commit = core.heartbeat_commit(peer)
            if outgoing.named.get(number) == (core.term, commit):
                continue
            if len(dropped) + len(named) >= self._rows_max:
                if not self._heartbeat(peer, outgoing, anew, round_no, now_ms, dropped, named):
                    return round_no
                dropped, named, anew, round_no = [], [], False, round_no + 1
            outgoing.add(number, core.term, commit, round_no)
            told = core.commit if core.committed_in_term else 0
            named.append(NamedGroup(number, core.term, commit, told))
        if outgoing.cover or dropped or anew:
            self._heartbeat(peer, outgoing, anew, round_no, now_ms, dropped, named)
        return round_no

    def _heartbeat(
        self,
        peer: BrokerId,
        outgoing: _Outgoing,
        anew: bool,
        round_no: int,
        now_ms: int,
        dropped: list[GroupNo],
        named: list[NamedGroup],
    ) -> bool:
        """One frame. One that could not be queued is a lost message: the next heartbeat starts anew."""
        cover = (len(outgoing.cover), outgoing.cover_hash)
        self.sent += 1
        queued = self._send_heartbeat(peer, HostHeartbeat(anew, round_no, now_ms, *cover, tuple(dropped), tuple(named)))
        outgoing.anew = not queued
        return queued

    def ack(self, peer: BrokerId, ack: HostHeartbeatAck) -> None:
        """A peer answered a heartbeat of this host's present link. An `end_of_turn` has to follow."""
        outgoing = self._outgoing.get(peer)
        now_ms = self._loop.monotonic_ms()
        if outgoing is None or ack.round > self.round or ack.sent_ms > now_ms:
            return
        self._answered_round = max(self._answered_round, ack.round)
        for number, term in ack.rejected:
            self._rejected(peer, outgoing, GroupNo(number), term, now_ms)
        if ack.round == 0:
            return  # what the next one had no room for
        if ack.matched:
            outgoing.confirmed_round = max(outgoing.confirmed_round, ack.round)
            outgoing.confirmed_ms = max(outgoing.confirmed_ms, ack.sent_ms)
            if ack.round in self._full_rounds:
                self._was_quick(peer)
            self._confirm(peer, outgoing, ack.round, ack.sent_ms)
        elif ack.round > outgoing.mended_round:
            outgoing.mended_round = self.round
            outgoing.anew = True
            self._mending = True

    def _was_quick(self, peer: BrokerId) -> None:
        """The next to acknowledge the last round to all; links may have ended since."""
        if peer not in self._quick:
            self._quick.append(peer)
            known = self._outgoing
            self._outgoing = {one: known[one] for one in (*self._quick, *known) if one in known}

    def _rejected(self, peer: BrokerId, outgoing: _Outgoing, number: GroupNo, term: int, now_ms: int) -> None:
        if outgoing.remove(number):
            outgoing.dropped.append(number)
        group = self._led.get(number)
        if group is None:
            return
        self._moved[number] = group
        group.core.heartbeat_rejected(now_ms, peer, term)
        self._acked(group)

    def _confirm(self, peer: BrokerId, outgoing: _Outgoing, round_no: int, sent_ms: int) -> None:
        """Tell the groups that wait for single acks; the others ask `contact` when their deadline comes."""
        done = []
        for number, group in self._watched.items():
            core = group.core
            covered = outgoing.cover.get(number)
            if covered is not None and covered[0] == core.term and covered[1] <= round_no:
                core.heartbeat_ok(sent_ms, peer, round_no)
                self._acked(group)
            if not core.wants_heartbeats:
                done.append(number)
        for number in done:
            del self._watched[number]

    # -- following -------------------------------------------------------------------------------------------------

    def received(self, peer: BrokerId, heartbeat: HostHeartbeat) -> None:
        """A peer's heartbeat: step what it names, judge what it covers, answer."""
        incoming = self._incoming.get(peer)
        if incoming is None:
            return
        if heartbeat.anew:
            incoming.clear()
        for dropped in heartbeat.dropped:
            incoming.take(GroupNo(dropped))
        for named in heartbeat.named:
            number = GroupNo(named.group)
            group = self._groups.get(number)
            incoming.put(number, named.term, named.commit)
            if group is None or not group.heartbeat_named(peer, named.term, named.commit, named.leader_commit):
                incoming.desert(number, 0 if group is None else group.core.term)
        matched = len(incoming.table) == heartbeat.covered and incoming.hash == heartbeat.cover_hash
        if matched:
            incoming.heard_ms = self._loop.monotonic_ms()
        # Told in every ack until the sender drops or names it anew: an ack that is lost must not pass for consent.
        rejected = tuple(incoming.rejected.items())
        while len(rejected) > self._rows_max:
            if not self._send_ack(peer, HostHeartbeatAck(True, 0, 0, rejected[: self._rows_max])):
                return  # without these the rest would pass for consent
            rejected = rejected[self._rows_max :]
        self._send_ack(peer, HostHeartbeatAck(matched, heartbeat.round, heartbeat.sent_ms, rejected))

    def follows(self, group: HeartbeatGroup) -> None:
        """The group's core changed role, term or leader: cover it only where that still holds."""
        number, core = group.number, group.core
        for peer, incoming in self._incoming.items():
            term = incoming.table.get(number)
            if term is not None and number not in incoming.deserted and (core.term != term or core.leader != peer):
                incoming.desert(number, core.term)

    # -- what is known ---------------------------------------------------------------------------------------------

    def contact(self, group: HeartbeatGroup) -> Mapping[int, int]:
        """Last proof of life by heartbeats of each peer, for this group in its present term (see
        `RaftCore.advance`)."""
        core = group.core
        number, term = group.number, core.term
        if core.role is Role.LEADER:
            found = {}
            for peer, outgoing in self._outgoing.items():
                covered = outgoing.cover.get(number)
                if covered is not None and covered[0] == term and covered[1] <= outgoing.confirmed_round:
                    found[int(peer)] = outgoing.confirmed_ms
            return found
        leader = BrokerId(core.leader)
        incoming = self._incoming.get(leader)
        if incoming is None or incoming.table.get(number) != term or number in incoming.deserted:
            return NO_CONTACT
        return {leader: incoming.heard_ms}

    def led(self) -> Mapping[GroupNo, HeartbeatGroup]:
        """Groups led here, ready or not."""
        return self._led

    def forget(self, number: GroupNo) -> None:
        """The group was deleted."""
        self._led.pop(number, None)
        self._moved.pop(number, None)
        self._watched.pop(number, None)
        self._asking.pop(number, None)
        for outgoing in self._outgoing.values():
            if outgoing.remove(number):
                outgoing.dropped.append(number)
        for incoming in self._incoming.values():
            if number in incoming.table:
                incoming.desert(number, 0)
