"""One loop turn for all Raft groups of a replica (docs/architecture.md, "One turn").

Problem: hundreds of Raft groups share one event loop, one link to each peer and two WALs. Mechanism: inputs (messages,
deadlines, proposals, completions) step cores and mark their groups dirty. One queued turn then takes the `Ready` of the
first dirty groups, within a number and a time: messages that may leave before the local sync (appends) are packed by
peer and channel; writes go into one batch per WAL, with one job in flight each; committed entries are applied within a
budget. Messages that promise something leave when their batch is durable. What it does not do: interpret entries, or
scan all groups in a turn.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from muster_coordinator.errors import Corruption, WireError
from muster_coordinator.events import WAL_SLOW, Event, Tell, untold
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId, GroupNo, MemberNo, broker_of, member_no
from muster_coordinator.limits import APPLY_BYTES_PER_TURN_MAX
from muster_coordinator.links import channels
from muster_coordinator.ports import Loop, PeerNet
from muster_coordinator.raft.log import entries_bytes
from muster_coordinator.raft.messages import Entry, Message, MsgType
from muster_coordinator.raft.timing import Timing
from muster_coordinator.replica import limits
from muster_coordinator.replica.multiraft.deadlines import Deadlines
from muster_coordinator.replica.multiraft.heartbeats import Heartbeats
from muster_coordinator.replica.multiraft.leaders import Leaders
from muster_coordinator.replica.multiraft.payloads import (
    HostHeartbeat,
    HostHeartbeatAck,
    LeaderNews,
    encode_heartbeat,
    encode_heartbeat_ack,
    encode_leaders,
)
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.multiraft.raft_payload import URGENT, RaftPacker, unpack_raft
from muster_coordinator.replica.multiraft.throttle import Throttle
from muster_coordinator.replica.multiraft.wal_writer import WalGroup, WalWriter
from muster_coordinator.storage.contract import WalStore

GROUPS_PER_TURN_MAX = 256
"""Groups whose `Ready` one turn takes, 20 to 50 us each; the others keep their order and wait for the next turn. A link
that ends makes every group dirty at once."""
GROUPS_MS_PER_TURN_MAX = 10
"""After this time a turn takes no further group: one that has become leader costs ten times as much as most."""
SEGMENT, SIDECAR, CHECKPOINT = "segment", "sidecar", "checkpoint"
"""Files whose write can be retried later when the disk is full: see `Host.no_space`."""


class Host:
    """See the module. Groups are added by `group_manager`."""

    def __init__(
        self,
        loop: Loop,
        net: PeerNet,
        broker: BrokerId,
        *,
        fatal: Callable[[BaseException], None],
        timing: Timing,
    ) -> None:
        self.loop = loop
        self.net = net
        self.broker = broker
        self.member = member_no(broker, 0)
        """This replica's member number in every group; set before groups are made if another folder had the broker's id
        before."""
        self.timing = timing
        self.fatal = fatal
        self.groups: dict[GroupNo, RaftGroup] = {}
        self.deadlines = Deadlines(loop)
        self.leaders = Leaders(loop)
        self.wal_writers: list[WalWriter] = []
        self.heartbeats = Heartbeats(
            loop,
            self.groups,
            send_heartbeat=self._send_heartbeat,
            send_ack=self._send_ack,
            may_heartbeat=self._wal_moves,
            acked=self._acked,
            heartbeat_ms=timing.heartbeat_ms,
        )
        self._dirty: list[RaftGroup] = []
        self._readers: dict[GroupNo, RaftGroup] = {}
        """Groups with reads that can be answered now, the longest waiting first."""
        self._applying: dict[GroupNo, RaftGroup] = {}
        self._queued = False
        self._outbox: dict[int, list[tuple[int, Message]]] = {}
        self._uncommitted_bytes = 0
        self.disk_low = False
        """Proposals of new data are refused, and leaderships are handed away; set by `disk_space`."""
        self.disk_full = False
        """Appends with new data from other leaders are refused too; set by `disk_space`."""
        self.low_peers: set[BrokerId] = set()
        """Peers whose last heartbeat ack said that their disk is low. A peer of an older release never says so."""
        self.no_space_found: Counter[str] = Counter()
        """How often the disk was full for a write that can be retried, by kind of file."""
        self.refused_space: Callable[[], None] = _nobody
        """Called at each of these."""
        self.waiting_for_space: dict[GroupNo, RaftGroup] = {}
        """Groups that apply nothing because the disk is full."""
        self.peers: dict[BrokerId, MemberNo] = {}
        """Peers whose link is up and whose identity the formed record names, and the members that they are. A link is a
        broker's; a message for a member leaves only over a link to the folder that this member is."""
        self.applied: Callable[[RaftGroup], None] = _ignore
        """Called with a group that may have applied entries (for checkpoints)."""
        self.deleted: Callable[[GroupNo], bool] = _still_there
        """Whether a group that is not on this replica has existed and was deleted."""
        self.offered: Callable[[GroupNo], None] = _unheard
        """Called with a group whose leader offers a checkpoint."""
        self.stopped: Callable[[RaftGroup, Entry, Exception], None] = _fail
        """Called with a group, the entry that it cannot apply, and the error."""
        self.unreadable: Callable[[GroupNo, Corruption], None] = _pass_over
        """Called once for each group with an entry that the WAL should carry to its end and cannot read back."""
        self.tell: Tell = untold
        self.suspension: Callable[[RaftGroup], None] = _ignore
        self.release: Callable[[RaftGroup], None] = _ignore
        """Called with a group whose core was suspended or released; which was told its release (`raft.suspension`)."""
        self.throttle = Throttle(broker)
        self.turns = 0
        self.refused_busy = 0
        """Proposals refused as busy because there was no room here or on the disks of a majority."""

    def add_wal_writer(self, name: str, wal: WalStore) -> WalWriter:
        wal_writer = WalWriter(
            self.loop,
            name,
            wal,
            release=self._release,
            turn_wanted=self.want_turn,
            shortened=self._shortened,
            unreadable=self._unreadable,
            fatal=self.fatal,
        )
        self.wal_writers.append(wal_writer)
        return wal_writer

    def _unreadable(self, group: GroupNo, error: Corruption) -> None:
        self.unreadable(group, error)

    def _shortened(self, wal_writer: WalWriter, numbers: Sequence[GroupNo]) -> None:
        """Before a WAL file is deleted: compact the cores' logs past its entries."""
        for number in numbers:
            group = self.groups.get(number)
            if group is not None:
                group.compact(wal_writer.wal.first_index(number) - 1)

    def add(self, group: RaftGroup) -> None:
        """Let turns handle a group from now on, and arm its timers."""
        self.groups[group.number] = group
        if self.disk_low:
            group.hesitate(True)
        group.core.advance(self.now_ms())
        self.touch(group)

    def remove(self, group: RaftGroup, dropped: Callable[[], None], *, deleted: bool = True) -> None:
        """The group was deleted, or is on other replicas now; `dropped` is called once its removal from the WAL is
        durable."""
        del self.groups[group.number]
        self._applying.pop(group.number, None)
        self._readers.pop(group.number, None)
        self.waiting_for_space.pop(group.number, None)
        self.deadlines.set(group.due, None)
        self.heartbeats.forget(group.number)
        if deleted:
            self.leaders.forget(group.number)
        elif self.leaders.of(group.number).leader == self.broker:
            self.leaders.left(group.number, group.core.term)
        group.wal_writer.drop_group(group.number, dropped)
        self.want_turn()

    # -- raft_group.GroupHost --------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        return self.loop.monotonic_ms()

    def touch(self, group: RaftGroup) -> None:
        if not group.dirty:
            group.dirty = True
            self._dirty.append(group)
            if not self._queued:
                self._queued = True
                self.loop.call_soon(self._turn)

    def reads_ready(self, group: RaftGroup) -> None:
        self._readers[group.number] = group
        self.want_turn()

    def admits(self, group: RaftGroup, size_bytes: int, *, makes_room: bool) -> bool:
        fits = self._uncommitted_bytes + size_bytes <= limits.HOST_UNCOMMITTED_BYTES_MAX
        if not makes_room and not self._disks_have_room(group):
            fits = False
        self.refused_busy += not fits
        return fits

    def _disks_have_room(self, group: RaftGroup) -> bool:
        """False if this disk is low, or the disks of half of the voters or more are. Data that a majority cannot store
        would stay uncommitted in the log, ahead of the commands that would free space."""
        if self.disk_low:
            return False
        return not self.low_peers or sum(voter in self.low_peers for voter in group.voters) * 2 < len(group.voters)

    def set_disk(self, *, low: bool, full: bool) -> None:
        """Take over what `disk_space` has measured. While its disk is low, a replica lets others campaign first, in all
        groups. O(groups) if `low` changes."""
        changed = low != self.disk_low
        self.disk_low, self.disk_full = low, full
        if changed:
            for group in self.groups.values():
                group.hesitate(low)
        groups, self.waiting_for_space = self.waiting_for_space, {}
        for group in groups.values():
            group.space_again()
            self._applying[group.number] = group
        if groups:
            self.want_turn()

    def no_space(self, what: str, times: int = 1) -> None:
        """The disk was full for `times` writes of `what` that can be retried later."""
        self.no_space_found[what] += times
        self.refused_space()

    def apply_waits(self, group: RaftGroup) -> None:
        self.waiting_for_space[group.number] = group
        self.no_space(SEGMENT)

    def uncommitted(self, size_bytes: int) -> None:
        self._uncommitted_bytes += size_bytes

    def cannot_apply(self, group: RaftGroup, entry: Entry, error: Exception) -> None:
        self.stopped(group, entry, error)

    # -- links -----------------------------------------------------------------------------------------------------

    def peer_up(self, peer: BrokerId, member: MemberNo) -> None:
        """A trusted peer's link is new: messages sent before may be lost."""
        self.peers[peer] = member
        self.heartbeats.peer_up(peer, member)
        for group in tuple(self.heartbeats.led().values()):
            self.groups[group.number].peer_unreachable(member, lost=False)
        self._gossip(self.leaders.table(), (peer,))

    def peer_down(self, peer: BrokerId) -> None:
        """The link is gone and did not come back: the peer counts as dead (decision 17). O(groups)."""
        member = self.peers.pop(peer, None)
        self.low_peers.discard(peer)
        self.heartbeats.peer_down(peer)
        self.leaders.broker_gone(peer)
        if member is None:
            return
        for group in tuple(self.groups.values()):
            group.peer_unreachable(member, lost=True)

    def raft_payload(self, peer: BrokerId, payload: bytes) -> None:
        """A trusted peer's Raft messages."""
        member = self.peers.get(peer)
        if member is None:
            return
        for number, message in unpack_raft(payload, member, self.member):
            group = self.groups.get(GroupNo(number))
            if group is None:
                continue
            group.step(message)
            if message.type == MsgType.SNAPSHOT and group.core.snapshot_offer is not None:
                self.offered(group.number)

    def leaders_heard(self, peer: BrokerId, news: Sequence[LeaderNews]) -> None:
        """A peer's gossip: who leads which groups. A leader without a link to this replica is noted only if it is the
        peer itself that says so."""
        for number, term, leader in news:
            if leader == self.broker or self._is_deleted(number):
                continue
            if leader == peer or self.net.is_up(leader):
                self.leaders.note(number, term, leader)

    def gossip_table(self) -> None:
        """Send the whole table of leaders to all peers (decision 18)."""
        self.leaders.prune(self._is_deleted)
        self._gossip(self.leaders.table(), self.peers)

    def gossip_to(self, peer: BrokerId) -> None:
        """Send it to one that may have missed it, if it is trusted here."""
        if peer in self.peers:
            self._gossip(self.leaders.table(), (peer,))

    def _gossip(self, news: Sequence[LeaderNews], peers: Iterable[BrokerId]) -> None:
        """Send `news` to `peers`. News that cannot be queued now reaches the peer with the next whole table."""
        payloads = encode_leaders(news)
        for peer in peers:
            for payload in payloads:
                self.net.send(peer, channels.CONTROL, payload)

    def _is_deleted(self, number: GroupNo) -> bool:
        return number not in self.groups and self.deleted(number)

    # -- the turn --------------------------------------------------------------------------------------------------

    def settle(self, group: RaftGroup) -> None:
        """Take the group's `Ready` now instead of in the next turn, so that its writes are staged before those that the
        caller stages next."""
        self._take(group)

    def want_turn(self) -> None:
        if not self._queued:
            self._queued = True
            self.loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._queued = False
        self.turns += 1
        self._take_some()
        if self._dirty:
            self.want_turn()
        left = limits.READS_ANSWERED_PER_TURN
        if self._readers:
            left = self._answer_reads(left)
        if self._applying:
            self._apply()
        if self._readers:
            self._answer_reads(left)
        self.heartbeats.end_of_turn()
        self._flush()
        for wal_writer in self.wal_writers:
            wal_writer.start()

    def _take_some(self) -> None:
        dirty, self._dirty = self._dirty[:GROUPS_PER_TURN_MAX], self._dirty[GROUPS_PER_TURN_MAX:]
        ends_ms = self.now_ms() + GROUPS_MS_PER_TURN_MAX
        for taken, group in enumerate(dirty, 1):
            group.dirty = False
            if group.number in self.groups:
                self._take(group)
                if self.now_ms() >= ends_ms:
                    self._dirty = dirty[taken:] + self._dirty
                    return

    def _take(self, group: RaftGroup) -> None:
        core = group.core
        if bool(core.suspended) is not group.suspended:
            group.suspended = not group.suspended
            self.suspension(group)
        if core.release_told and not group.releasing:
            group.releasing = True
            self.release(group)
        if core.has_ready():
            ready = core.ready()
            for message in ready.messages:
                self._post(group, message)
            if self.throttle.slows_entries and group.number != CONTROLLER_GROUP:
                self._pace(group, ready.messages)
            group.wal_writer.stage_ready(group, ready)
            if ready.soft_state is not None:
                self._note_leader(group)  # before `took`, which wakes requests that look up the leader
            group.took(ready)
            if core.has_ready():
                self.touch(group)
        if group.has_entries:
            self._applying[group.number] = group
        if group.leads:
            self.heartbeats.moved(group)
        self.deadlines.set(group.due, core.deadline_ms)

    def _pace(self, group: RaftGroup, messages: Iterable[Message]) -> None:
        """Entries for members that do not vote yet are copies: after these have left, more of them wait until they are
        paid for. Voters are never throttled, for what is acknowledged waits for them."""
        config = group.core.config
        voters = config.voters + config.outgoing
        copied: Counter[int] = Counter()
        for message in messages:
            if message.entries and message.to not in voters:
                copied[message.to] += entries_bytes(message.entries)
        now_ms = self.now_ms()
        for member, size in copied.items():
            wait_ms = self.throttle.entries_wait_ms(broker_of(member), now_ms, size)
            if wait_ms:  # one timer: until it fires the member gets no more that would have to wait
                group.core.throttle(member, True)
                self.loop.call_at(now_ms + wait_ms, partial(self._let_go, group, member))

    def _let_go(self, group: RaftGroup, member: int) -> None:
        if self.groups.get(group.number) is group:
            group.core.throttle(member, False)
            self.touch(group)

    def _note_leader(self, group: RaftGroup) -> None:
        core = group.core
        if core.leader >= 0:
            self.leaders.note(group.number, core.term, broker_of(core.leader))
        elif self.leaders.of(group.number).leader == self.broker:
            self.leaders.left(group.number, core.term)

    def _answer_reads(self, most: int) -> int:
        """Answer at most `most` reads, round-robin over the groups that have some; returns how many more it may be."""
        readers, self._readers = self._readers, {}
        for group in readers.values():
            most -= group.answer_reads(most)
            if group.has_reads:
                self._readers[group.number] = group
        if self._readers:
            self.want_turn()
        return most

    def _apply(self) -> None:
        """Apply committed entries, round-robin over the groups, within one turn's bytes and time."""
        budget = APPLY_BYTES_PER_TURN_MAX
        ends_ms = self.now_ms() + limits.APPLY_MS_PER_TURN_MAX
        while self._applying and budget > 0 and self.now_ms() < ends_ms:
            number, group = next(iter(self._applying.items()))
            del self._applying[number]
            budget -= group.apply_some(min(budget, limits.APPLY_BYTES_PER_VISIT))
            self.applied(group)
            if group.has_entries:
                self._applying[number] = group
            if group.core.has_ready():
                self.touch(group)  # applying lets the core hand out more committed entries
        if self._applying:
            self.want_turn()

    def _post(self, group: RaftGroup, message: Message) -> None:
        self._outbox.setdefault(message.to, []).append((group.number, message))

    def _release(self, group: WalGroup, messages: tuple[Message, ...]) -> None:
        for message in messages:
            self._outbox.setdefault(message.to, []).append((group.number, message))

    def _flush(self) -> None:
        """Send the turn's messages: one payload for each peer and channel, several if they are large."""
        if self._outbox:
            outbox, self._outbox = self._outbox, {}
            packer = RaftPacker()
            for to, messages in outbox.items():
                peer = broker_of(to)
                if self.peers.get(peer) != to:
                    continue  # dropped, as if lost on the network; `peer_up` makes the cores probe again
                urgent = [item for item in messages if item[1].type in URGENT]
                others = [item for item in messages if item[1].type not in URGENT] if urgent else messages
                for channel, items in ((channels.CONTROL, urgent), (channels.APPEND, others)):
                    for payload in packer.pack(items):
                        self.net.send(peer, channel, payload)
        news = self.leaders.take_changed()
        if news:
            self._gossip([item for item in news if item.leader == self.broker], self.peers)

    # -- heartbeats ----------------------------------------------------------------------------------------------------

    def _send_heartbeat(self, peer: BrokerId, heartbeat: HostHeartbeat) -> bool:
        return self.net.send(peer, channels.CONTROL, encode_heartbeat(heartbeat))

    def _send_ack(self, peer: BrokerId, ack: HostHeartbeatAck) -> bool:
        return self.net.send(
            peer, channels.CONTROL, encode_heartbeat_ack(ack._replace(low=True) if self.disk_low else ack)
        )

    def heartbeat_ack(self, peer: BrokerId, ack: HostHeartbeatAck) -> None:
        """A peer answered a heartbeat, and said whether its disk is low."""
        if ack.low:
            self.low_peers.add(peer)
        else:
            self.low_peers.discard(peer)
        self.heartbeats.ack(peer, ack)
        self.want_turn()

    def _acked(self, group: object) -> None:
        assert isinstance(group, RaftGroup)
        core = group.core
        if core.grants:  # the usual case: confirmed reads need no `Ready`
            group.confirmed(core.take_grants())
        if core.has_ready():
            self.touch(group)

    def _wal_moves(self) -> bool:
        """False while a WAL job has run for the election timeout or longer; this replica then leads no group of that
        WAL any more. Before, it hands over the groups of which others have written what waits here."""
        now_ms = self.now_ms()
        moves = True
        for wal_writer in self.wal_writers:
            stuck_ms = wal_writer.look(now_ms, self.timing.heartbeat_ms)
            if stuck_ms < self.timing.slow_disk_ms:
                continue
            is_stuck = stuck_ms >= self.timing.election_min_ms
            moves = moves and not is_stuck
            led = [self.groups[group.number] for group in self.heartbeats.led().values()]
            led = [group for group in led if group.wal_writer is wal_writer]
            if not wal_writer.slow_told:
                wal_writer.slow_told = True
                self.tell(Event(WAL_SLOW, {"wal": wal_writer.name, "running_ms": stuck_ms, "groups_led": len(led)}))
            for group in led:
                group.abdicate() if is_stuck else group.leave_slow_disk()
        return moves


def check_trusted(trusted: bool, peer: BrokerId) -> None:
    """Raises `WireError` for a peer that is not a voter of the formed record: until it is, it may send only its
    bootstrap state (decision 14)."""
    if not trusted:
        raise WireError(f"broker {peer} speaks before it belongs to this cluster")


def _nobody() -> None:
    """Default of `refused_space`, until `disk_space` is set up."""


def _ignore(group: RaftGroup) -> None:
    """Default of `applied` and `suspension`, until the parts that they call are set up."""


def _unheard(group: GroupNo) -> None:
    """Default of `offered`, until installs are set up: a leader repeats its offer."""


def _still_there(group: GroupNo) -> bool:
    """Default of `deleted`, until `group_manager` knows the image."""
    return False


def _pass_over(group: GroupNo, error: Corruption) -> None:
    """Default of `unreadable`: any reader of the entry meets the damage too."""


def _fail(group: RaftGroup, entry: Entry, error: Exception) -> None:
    """Default of `stopped`, until `group_manager` can stop one group alone."""
    raise error
