"""R1, R2, R7, R8, R9 while a cluster runs: what no client can see.

Looks at every Raft message that leaves, every entry that is applied, and now and then at all states. Holds what must
be true over all lives of all replicas: one vote a voter and term, one leader a term, one entry an index, one state an
applied index.
"""

import hashlib
import random
from collections.abc import Callable
from itertools import pairwise

from crc32c import crc32c
from muster_coordinator.errors import Corruption
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.raft.core import RaftCore
from muster_coordinator.raft.messages import NOBODY, Entry, HardState, Message, MsgType
from muster_coordinator.raft.quorum import Config
from muster_coordinator.replica.group_manager import OFFSETS_WAL
from muster_coordinator.replica.multiraft.payloads import Kind, kind_of
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.multiraft.raft_payload import unpack_raft
from muster_coordinator.storage.contract import NO_RECOVERY_POINT, RecoveredGroup
from muster_coordinator.storage.wal import Wal

from tests.raft.quorums import may_both_decide
from tests.sim.cluster import Cluster, Replica
from tests.sim.history import Violation

VOTES_CHECKED_MAX = 10
ACKS_CHECKED_MAX = 6
ACKS_CHECKED = 0.02
"""Promises of one run that are held against what is durable at that instant; each costs a recovery of the WAL."""


class Oracle:
    """Attach it before the cluster starts; call `look` from time to time."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.leaders: dict[tuple[int, int], int] = {}
        self.votes: dict[tuple[int, int, int], int] = {}
        self.entries: dict[tuple[int, int], tuple[int, int, int]] = {}
        """(group, index) -> (term, kind, CRC)"""
        self.hashes: dict[tuple[int, int], tuple[str, int]] = {}
        self.served: dict[int, tuple[int, int, int]] = {}
        """group -> (term, applied, by whom)"""
        self.on_applied: list[Callable[[Replica, int], None]] = []
        """Called as call(replica, group) after a replica applied an entry."""
        self.on_entry: list[Callable[[Replica, int, Entry], None]] = []
        """Called as call(replica, group, entry) then."""
        self._rows: set[tuple[Config, Config]] = set()
        """Configurations that followed each other, each pair judged once."""
        self._told_to_transfer: set[tuple[int, int]] = set()
        """(replica, group) that somebody outside told to: a drain, a fault."""
        self._rand = random.Random(f"{cluster.setup.seed}/oracle")
        self._votes_left = VOTES_CHECKED_MAX
        self._acks_left = ACKS_CHECKED_MAX
        cluster.net.watch = self._message
        cluster.on_started.append(self._started)

    def _say(self, invariant: str, text: str) -> None:
        self.cluster.violations.append(Violation(invariant, text))

    def _message(self, sender: int, receiver: int, channel: int, payload: bytes) -> None:
        if kind_of(payload) is not Kind.RAFT:
            return
        host = self.cluster.everyone[sender].node.host
        member, peer = int(host.member), int(host.peers[BrokerId(receiver)])
        if member in self.cluster.everyone[sender].lost_members and self._is_heard(sender, receiver, member):
            self._say("R7", f"{sender} lost its disk and takes part as the voter that it was")
        for group, message in unpack_raft(payload, member, peer):
            if message.type == MsgType.VOTE_REPLY and not message.reject:
                known = self.votes.setdefault((member, group, message.term), peer)
                if known != peer:
                    self._say("R2", f"{member} voted for {known} and {peer} in term {message.term} of {group}")
                if self._votes_left and self._rand.random() < 0.5:
                    self._votes_left -= 1
                    self._vote_is_durable(self.cluster.everyone[sender], group, message)
            elif message.type == MsgType.APPEND_REPLY and not message.reject:
                if self._acks_left and message.index and self._rand.random() < ACKS_CHECKED:
                    self._acks_left -= 1
                    self._ack_is_durable(self.cluster.everyone[sender], group, message)
            elif message.type == MsgType.TIMEOUT_NOW:
                node = self.cluster.everyone[sender].node
                held = node.host.groups.get(GroupNo(group))
                asked = (sender, group) in self._told_to_transfer
                if held and node.formed is not None and not asked and receiver == node.formed.preferred.of(held):
                    self.cluster.marks.add("leadership was taken back")
            elif message.type == MsgType.APPEND:
                known = self.leaders.setdefault((group, message.term), member)
                if known != member:
                    self._say("R2", f"{known} and {member} lead group {group} in term {message.term}")

    def _is_heard(self, sender: int, receiver: int, member: int) -> bool:
        """An old folder that turns up again may speak until it learns that it is gone, as long as nobody listens."""
        life = self.cluster.everyone[receiver].life
        listens = life is not None and life.node.host.peers.get(BrokerId(sender)) == member
        return listens or self.cluster.everyone[sender].spare is None

    def _durable(self, replica: Replica, group: int) -> RecoveredGroup | None:
        """What a power loss at this instant would leave of a group of the offsets WAL, at least."""
        group_manager = replica.node.group_manager
        assert group_manager is not None
        if group > self.cluster.setup.partitions:
            return None
        try:
            wal = Wal.open(
                replica.disk.durable_copy(OFFSETS_WAL),
                OFFSETS_WAL,
                node_uuid=replica.node.identity.replica_uuid,
                cluster_uuid=hashlib.blake2b(group_manager.record.cluster_id.encode(), digest_size=16).digest(),
                file_bytes=replica.settings().wal_file_bytes,
                bytes_max=replica.settings().wal_bytes_max,
            )
        except Corruption as error:
            self._say("R5", f"what is durable at {replica.broker} cannot be recovered: {error}")
            return None
        return wal.groups().get(
            GroupNo(group), RecoveredGroup(HardState(0, NOBODY, 0), 1, 0, 0, NO_RECOVERY_POINT, (0, 0))
        )

    def _vote_is_durable(self, replica: Replica, group: int, message: Message) -> None:
        stored = self._durable(replica, group)
        if stored is None:
            return
        term, vote, _ = stored.hard_state
        if term < message.term or (term == message.term and vote != message.to):
            self._say(
                "R2",
                f"{replica.broker} grants {message.to} term {message.term} of group {group}; its disk says "
                f"term {term}, vote {vote}",
            )

    def _ack_is_durable(self, replica: Replica, group: int, message: Message) -> None:
        held = replica.node.host.groups.get(GroupNo(group))  # a deleted topic's is gone, and what it had said leaves
        stored = None if held is None else self._durable(replica, group)
        if held is None or stored is None or held.core.term != message.term or held.core.log.last_index < message.index:
            return
        if max(stored.last_index, stored.checkpoint[0]) < message.index:
            self._say(
                "R3",
                f"{replica.broker} acknowledges {message.index} of group {group}; its disk ends at {stored.last_index}",
            )

    def _started(self, replica: Replica) -> None:
        """Watch what this life applies: its groups are made when the cluster is formed."""
        host = replica.node.host
        added = host.add

        def add(group: RaftGroup) -> None:
            self._watch(replica, group)
            added(group)

        for group in host.groups.values():
            self._watch(replica, group)
        setattr(host, "add", add)  # noqa: B010  # the product has no such hook, and needs none
        told = replica.node.transfer

        def transfer(group: GroupNo, target: BrokerId) -> bool:
            self._told_to_transfer.add((replica.broker, group))
            return told(group, target)

        setattr(replica.node, "transfer", transfer)  # noqa: B010

    def _watch(self, replica: Replica, group: RaftGroup) -> None:
        inner = group.machine.apply

        def apply(entry: Entry) -> object:
            self.applied(replica.broker, group.number, entry)
            result = inner(entry)
            for call in self.on_applied:
                call(replica, group.number)
            for look in self.on_entry:
                look(replica, group.number, entry)
            return result

        setattr(group.machine, "apply", apply)  # noqa: B010

    def applied(self, broker: int, group: int, entry: Entry) -> None:
        """A replica applies an entry."""
        mine = (entry.term, int(entry.kind), crc32c(entry.data))
        known = self.entries.setdefault((group, entry.index), mine)
        if known != mine:
            self._say("R1", f"{broker} applies {mine} at {entry.index} of group {group}; elsewhere it is {known}")

    def look(self) -> None:
        """Leaders, commits and states at this instant; and no replica says what another cannot read."""
        met = [replica.broker for replica in self.cluster.replicas if replica.was_a_stranger]
        strangers = {f"broker {broker} speaks before it belongs to this cluster" for broker in met}
        for error in self.cluster.net.wire_errors:
            if error[-1] not in strangers:
                self._say("link", f"a peer link broke: {error}")
        for replica in self.cluster.all_up():
            self._mark(replica)
            for number, group in replica.node.host.groups.items():
                core = group.core
                self._in_a_row(number, core)
                if core.log.era:
                    self.cluster.marks.add("an entry was cut")
                if group.leads:
                    if core.term > 1:
                        self.cluster.marks.add("a leader changed")
                    known = self.leaders.setdefault((number, core.term), core.node)
                    if known != core.node:
                        self._say("R2", f"{known} and {core.node} lead group {number} in term {core.term}")
                    if group.serves:
                        self._serves(replica.broker, number, core.term, group.applied)

    def _in_a_row(self, group: int, core: RaftCore) -> None:
        """No two configurations that follow each other in a log could decide without a common voter."""
        for before, after in pairwise(core.members._placed):
            halves = before.config, after.config
            if halves in self._rows or not before.config.voters:
                continue
            self._rows.add(halves)
            if may_both_decide(*halves):
                self._say("R9", f"{before} and {after} of group {group} could decide without each other")

    def _mark(self, replica: Replica) -> None:
        marks = self.cluster.marks
        formed = replica.node.formed
        if formed is not None and formed.installs.installed:
            marks.add("a checkpoint was transferred")
        if replica.lives > 1 and replica.node.group_manager is not None:
            marks.add("a replica replayed its WAL")
        if replica.node.group_manager is not None and replica.node.group_manager.checkpoints.syncs:
            marks.add("a segment was synced between flushes")

    def mark_files(self) -> None:
        """What the disks hold at the end."""
        for replica in self.cluster.up():
            files = replica.disk.files()
            if sum(path.startswith(OFFSETS_WAL) and path.endswith(".wal") for path in files) > 1:
                self.cluster.marks.add("two WAL files")
            logs = [path.rpartition("/")[0] for path in files if path.endswith(".log")]
            if len(set(logs)) < len(logs):
                self.cluster.marks.add("two segments")

    def _serves(self, broker: int, group: int, term: int, applied: int) -> None:
        """Leader completeness: who serves in a term has all that was served in earlier ones."""
        newest, done, by = self.served.get(group, (0, 0, broker))
        if term < newest:
            return  # a deposed leader that has not noticed yet
        if applied < done:
            self._say("R2", f"{broker} serves group {group} at {applied} in term {term}, {by} had {done} in {newest}")
        self.served[group] = (term, max(done, applied), broker)

    def compare_members(self) -> None:
        """The members of each group, when all replicas have applied the same."""
        for number in self.cluster.groups():
            all_seats = (*self.cluster.voters(), *self.cluster.observers)
            seated = [replica for replica in all_seats if GroupNo(number) in replica.node.host.groups]
            known = {replica.node.host.groups[GroupNo(number)].core.config for replica in seated}
            if len(known) > 1:
                self._say("R9", f"replicas have different members in group {number}: {known}")

    def compare_states(self) -> None:
        """States by applied index; O(state)."""
        for replica in self.cluster.all_up():
            for number, group in replica.node.host.groups.items():
                if group.installing:
                    continue
                state = replica.node.state_hash(GroupNo(number))
                if state is None:
                    continue
                known, by = self.hashes.setdefault((number, group.applied), (state, replica.broker))
                if known != state:
                    self._say(
                        "R8", f"states of {by} and {replica.broker} differ at index {group.applied} of group {number}"
                    )
