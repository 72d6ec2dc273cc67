"""One heartbeat per pair of hosts for all groups between them (decision 19): liveness, check-quorum, commits and reads.

Problem: 50 groups with two followers each would be 1,000 heartbeats a second. Mechanism: a heartbeat names a group only
if its term or commit changed since the last heartbeat to that peer; all other led groups are *covered*: sender and
receiver each keep the set of (group, term, commit) that both agree on, and a heartbeat carries only the set's count and
hash. A channel keeps the order of messages while its link lives, so both sets change in step. A lost message or a
restart shows as a mismatch, which is repaired by one heartbeat that names everything anew.

The receiver marks a covered group as deserted when its own core follows another leader or term, and reports it as
rejected in its acks until the sender has removed it from the set; the sender names it again while it leads it. So a
matched ack of round r proves, for every group covered since r or earlier and not rejected, that the peer's core
followed this sender in this term when it received the heartbeat: the ack confirms all reads that waited when r was sent
(decision 36), and check-quorum counts the time at which r was sent. What this does not do: decide; the cores do.

Rounds for reads follow one another. The first read starts a round at the end of its turn; reads that arrive before a
peer has answered that round share the next, which starts at the end of the turn in which the answer arrives. So a busy
leader sends one heartbeat a round trip instead of one a read, and a read waits two round trips at most.

A round for reads goes to the fewest peers that make a quorum with this host (one peer of a cluster of three), and to
those first that acknowledged the last full round first. It names no group, so it is used only if every group that reads
is covered at enough peers; otherwise the round goes to all peers. Each round has its own number, so a peer that was
left out cannot acknowledge it. If a chosen peer does not answer, the read waits for the next regular round, which goes
to all peers and sorts them anew.

A heartbeat of more than `rows_max` rows is sent as several frames, as if that many rounds followed at once: each frame
has its own number and covers what it and those before it named, so its ack proves nothing of a group that a later frame
names. An ack with more than `rows_max` rejections is preceded by acks that confirm nothing (round 0, sent at 0).
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from muster_coordinator.ids import BrokerId, GroupNo, MemberNo, broker_of
from muster_coordinator.ports import Loop
from muster_coordinator.raft.core import RaftCore
from muster_coordinator.raft.messages import Role
from muster_coordinator.replica import limits
from muster_coordinator.replica.multiraft.payloads import HostHeartbeat, HostHeartbeatAck, NamedGroup

_MASK = (1 << 64) - 1
NO_CONTACT: Mapping[int, int] = {}


def mix(group: int, term: int, commit: int) -> int:
    """Hash of one covered group, 64 bits: the sum over a set, modulo 2^64, is the set's hash."""
    value = (
        group * 0x9E3779B97F4A7C15 + term * 0xC2B2AE3D27D4EB4F + commit * 0xFF51AFD7ED558CCD + 0x165667B19E3779F9
    ) & _MASK
    value ^= value >> 29
    value = (value * 0xBF58476D1CE4E5B9) & _MASK
    return value ^ (value >> 32)


class HeartbeatGroup(Protocol):
    """The part of `RaftGroup` that heartbeats use."""

    number: GroupNo
    core: RaftCore

    def heartbeat_named(self, leader: MemberNo, term: int, commit: int, leader_commit: int) -> bool:
        """Step a heartbeat that names this group into the core. False: the core did not accept it."""


class _Outgoing:
    """The sender's state of its heartbeats to one peer."""

    __slots__ = (
        "anew",
        "confirmed_ms",
        "confirmed_round",
        "cover",
        "cover_hash",
        "dropped",
        "member",
        "mended_round",
        "named",
    )

    def __init__(self, member: MemberNo) -> None:
        """The link is new: no group is covered."""
        self.member = member
        """The peer, as the cores call it."""
        self.cover: dict[GroupNo, tuple[int, int]] = {}
        """group -> (term, round since which it is covered)"""
        self.cover_hash = 0
        self.named: dict[GroupNo, tuple[int, int]] = {}
        """group -> (term, commit) as last named. Invariant: the keys are those of `cover`."""
        self.dropped: list[GroupNo] = []
        """Groups removed from `cover` that the next heartbeat must report as dropped."""
        self.anew = True
        """The next heartbeat names everything anew."""
        self.mended_round = -1
        """The last round sent when a mismatch was last seen: acks of rounds up to it start no further repair."""
        self.confirmed_round = -1
        """The latest round with a matched ack."""
        self.confirmed_ms = 0
        """When that round was sent, by this host's monotonic clock."""

    def add(self, group: GroupNo, term: int, commit: int, round_no: int) -> None:
        """Cover a named group. The round is that of its first naming in this term, the commit that of the last."""
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
    """The receiver's state of one peer's heartbeats: a copy of the sender's `cover`."""

    __slots__ = ("commits", "deserted", "hash", "heard_ms", "member", "rejected", "table")

    def __init__(self, member: MemberNo) -> None:
        self.member = member
        """The peer, as the cores call it."""
        self.table: dict[GroupNo, int] = {}
        """group -> covered term"""
        self.commits: dict[GroupNo, int] = {}
        """group -> commit as last named"""
        self.hash = 0
        self.heard_ms = 0
        self.deserted: set[GroupNo] = set()
        """Covered groups whose core here does not follow the sender in the covered term."""
        self.rejected: dict[GroupNo, int] = {}
        """Deserted groups that the sender has not yet dropped or named anew -> this replica's term."""

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
    """All heartbeats that one host sends and receives. `send_heartbeat` and `send_ack` queue a frame on the link and
    return False if they could not."""

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
        """`may_heartbeat()`: False while the WAL makes no progress. `acked(group)` is called when the group's core may
        have a `Ready`."""
        self._loop = loop
        self._groups = groups
        self._send_heartbeat = send_heartbeat
        self._send_ack = send_ack
        self._may_heartbeat = may_heartbeat
        self._acked = acked
        self._heartbeat_ms = heartbeat_ms
        self._rows_max = rows_max
        self.round = 0
        """Number of the last frame that was sent; a round of several frames has as many numbers."""
        self._begun_round = 0
        """Number of the first frame of the last round."""
        self._asking: dict[GroupNo, HeartbeatGroup] = {}
        """Groups with reads that wait for a round to be sent."""
        self._mending = False
        """The next round must go to all peers, and start even if no read waits."""
        self._asked_round = self._answered_round = 0
        """The last round that was started for reads or for `_mending`; the last that any peer has answered."""
        self._full_rounds = range(0)
        """The frame numbers of the last round that went to all peers."""
        self._quick: list[BrokerId] = []
        """The peers that have acknowledged that round, in the order of their acks."""
        self._outgoing: dict[BrokerId, _Outgoing] = {}
        """The peers in `_quick` first."""
        self._incoming: dict[BrokerId, _Incoming] = {}
        self._led: dict[GroupNo, HeartbeatGroup] = {}
        self._moved: dict[GroupNo, HeartbeatGroup] = {}
        """Led groups whose commit, or a follower's match, may have changed since the last heartbeat."""
        self._watched: dict[GroupNo, HeartbeatGroup] = {}
        """Led groups whose core is told of each ack by `heartbeat_ok`."""
        self.sent = 0
        """Heartbeat frames given to links."""

    def start(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + self._heartbeat_ms, self._tick)

    def _tick(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + self._heartbeat_ms, self._tick)
        self.send_round()

    # -- links -----------------------------------------------------------------------------------------------------

    def peer_up(self, peer: BrokerId, member: MemberNo) -> None:
        """A link is new: messages may have been lost before it."""
        self._lost_on_the_way()
        self._outgoing[peer] = _Outgoing(member)
        self._incoming[peer] = _Incoming(member)
        self._watched.update(self._led)

    def peer_down(self, peer: BrokerId) -> None:
        self._lost_on_the_way()
        self._outgoing.pop(peer, None)
        self._incoming.pop(peer, None)

    def _lost_on_the_way(self) -> None:
        """A link began or ended, and the round that reads wait for may be lost with it: do not wait for its answer; the
        next round goes to all peers."""
        if self._asked_round > self._answered_round:
            self._asked_round = self._answered_round
            self._mending = True

    # -- leading ---------------------------------------------------------------------------------------------------

    def leads(self, group: HeartbeatGroup) -> None:
        """This replica leads the group from now on, in its core's term."""
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
        """A led group's term, commit or follower progress may have changed: the next heartbeat may have to name it, and
        its core may want acks."""
        self._moved[group.number] = group
        self._watched[group.number] = group

    def next_round(self, group: HeartbeatGroup) -> int:
        """Ask for a round for a read; returns the number of a round that starts after this call: at the end of this
        turn, or of the turn in which the current round for reads is answered, and no later than the next regular round.
        """
        self._asking[group.number] = group
        return self.round + 1

    def end_of_turn(self) -> None:
        """Start the round that reads asked for, unless the one before it is not answered yet."""
        if (self._asking or self._mending) and self._answered_round >= self._asked_round:
            chosen = None if self._mending else self._enough()
            if chosen:
                self._send_to(chosen, {})
            if not chosen or any(outgoing.anew for outgoing in chosen.values()):
                self.send_round()  # too few peers cover a group, a frame was not queued, or this host is a quorum
            self._asked_round = self._begun_round

    def _enough(self) -> dict[BrokerId, _Outgoing] | None:
        """The quickest peers that make a quorum for every group that reads; None: too few peers cover some group."""
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
        """Start a round to `peers` that names what changed of `moved`. False: the WAL makes no progress."""
        asking, self._asking = self._asking, {}
        self._watched.update(asking)  # only now: acks of earlier rounds do not confirm these reads
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
        """Send one round's heartbeat to `peer`, in one frame or several; returns the number of the last frame."""
        # Invariant: one frame reports all dropped groups, since the count and hash of `cover` no longer include them.
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
            if core.role is not Role.LEADER or outgoing.member not in core.progresses:
                continue
            commit = core.heartbeat_commit(outgoing.member)
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
        """Send one frame. If it cannot be queued it counts as lost, and the next heartbeat names everything anew."""
        cover = (len(outgoing.cover), outgoing.cover_hash)
        self.sent += 1
        queued = self._send_heartbeat(peer, HostHeartbeat(anew, round_no, now_ms, *cover, tuple(dropped), tuple(named)))
        outgoing.anew = not queued
        return queued

    def ack(self, peer: BrokerId, ack: HostHeartbeatAck) -> None:
        """A peer answered a heartbeat sent over the current link. `end_of_turn` must be called after it."""
        outgoing = self._outgoing.get(peer)
        now_ms = self._loop.monotonic_ms()
        if outgoing is None or ack.round > self.round or ack.sent_ms > now_ms:
            return
        self._answered_round = max(self._answered_round, ack.round)
        for number, term in ack.rejected:
            self._rejected(outgoing, GroupNo(number), term, now_ms)
        if ack.round == 0:
            return  # it only carries rejections for which the ack that follows had no room
        if ack.matched:
            outgoing.confirmed_round = max(outgoing.confirmed_round, ack.round)
            outgoing.confirmed_ms = max(outgoing.confirmed_ms, ack.sent_ms)
            if ack.round in self._full_rounds:
                self._was_quick(peer)
            self._confirm(outgoing, ack.round, ack.sent_ms)
        elif ack.round > outgoing.mended_round:
            outgoing.mended_round = self.round
            outgoing.anew = True
            self._mending = True

    def _was_quick(self, peer: BrokerId) -> None:
        """Note that `peer` is the next to acknowledge the last full round. Peers of `_quick` whose link has ended since
        are not put back."""
        if peer not in self._quick:
            self._quick.append(peer)
            known = self._outgoing
            self._outgoing = {one: known[one] for one in (*self._quick, *known) if one in known}

    def _rejected(self, outgoing: _Outgoing, number: GroupNo, term: int, now_ms: int) -> None:
        if outgoing.remove(number):
            outgoing.dropped.append(number)
        group = self._led.get(number)
        if group is None:
            return
        self._moved[number] = group
        group.core.heartbeat_rejected(now_ms, outgoing.member, term)
        self._acked(group)

    def _confirm(self, outgoing: _Outgoing, round_no: int, sent_ms: int) -> None:
        """Pass an ack to the cores that want each one; the other groups read `contact` when their deadline comes."""
        done = []
        for number, group in self._watched.items():
            core = group.core
            covered = outgoing.cover.get(number)
            if covered is not None and covered[0] == core.term and covered[1] <= round_no:
                core.heartbeat_ok(sent_ms, outgoing.member, round_no)
                self._acked(group)
            if not core.wants_heartbeats:
                done.append(number)
        for number in done:
            del self._watched[number]

    # -- following -------------------------------------------------------------------------------------------------

    def received(self, peer: BrokerId, heartbeat: HostHeartbeat) -> None:
        """Handle a peer's heartbeat: step the groups it names into their cores, compare what it covers, and answer."""
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
            heard = named.term, named.commit, named.leader_commit
            if group is None or not group.heartbeat_named(incoming.member, *heard):
                incoming.desert(number, 0 if group is None else group.core.term)
        matched = len(incoming.table) == heartbeat.covered and incoming.hash == heartbeat.cover_hash
        if matched:
            incoming.heard_ms = self._loop.monotonic_ms()
        # Invariant: every ack carries every rejection until the sender has dropped the group or named it anew. Else the
        # ack after a lost one would confirm a group that this replica has deserted.
        rejected = tuple(incoming.rejected.items())
        while len(rejected) > self._rows_max:
            if not self._send_ack(peer, HostHeartbeatAck(True, 0, 0, rejected[: self._rows_max])):
                return  # a final ack without these rejections would confirm their groups
            rejected = rejected[self._rows_max :]
        self._send_ack(peer, HostHeartbeatAck(matched, heartbeat.round, heartbeat.sent_ms, rejected))

    def follows(self, group: HeartbeatGroup) -> None:
        """The group's core changed role, term or leader: mark it deserted for peers that it no longer follows."""
        number, core = group.number, group.core
        for incoming in self._incoming.values():
            term = incoming.table.get(number)
            if term is None or number in incoming.deserted:
                continue
            if core.term != term or core.leader != incoming.member:
                incoming.desert(number, core.term)

    # -- what is known ---------------------------------------------------------------------------------------------

    def contact(self, group: HeartbeatGroup) -> Mapping[int, int]:
        """Member -> the last time in ms at which its heartbeats or acks prove contact, for this group in its current
        term (see `RaftCore.advance`)."""
        core = group.core
        number, term = group.number, core.term
        if core.role is Role.LEADER:
            found = {}
            for outgoing in self._outgoing.values():
                covered = outgoing.cover.get(number)
                if covered is not None and covered[0] == term and covered[1] <= outgoing.confirmed_round:
                    found[int(outgoing.member)] = outgoing.confirmed_ms
            return found
        leader = core.leader
        incoming = self._incoming.get(broker_of(leader))
        if incoming is None or incoming.member != leader:
            return NO_CONTACT
        if incoming.table.get(number) != term or number in incoming.deserted:
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
