"""A handful of cores, their disks and the messages between them, all in the hands of a test.

Nothing happens by itself: a test takes a node's Ready, completes its disk writes one by one, and delivers, drops or
repeats messages. A crash loses everything that was not written. Used by the scenario files and the random schedules.
"""

import random
from dataclasses import dataclass, field
from typing import NamedTuple

from muster_coordinator.ports import Rand
from muster_coordinator.raft.core import RaftCore
from muster_coordinator.raft.log import RaftLog, entries_bytes
from muster_coordinator.raft.members import Placed, decode_config
from muster_coordinator.raft.messages import (
    NOBODY,
    Entry,
    EntryKind,
    HardState,
    Message,
    MsgType,
    ReadGrant,
    Ready,
    Role,
)
from muster_coordinator.raft.quorum import Config
from muster_coordinator.raft.timing import FLOW, Flow, Timing

from tests.made_settings import TIMING


class Write(NamedTuple):
    """One batch on its way to a disk, and what waits for it."""

    hard_state: HardState | None
    entries: tuple[Entry, ...]
    released: tuple[Message, ...]
    persist: tuple[int, int]


class HostHeartbeat(NamedTuple):
    """A host's coalesced heartbeat, cut down to one group."""

    sender: int
    to: int
    term: int
    commit: int
    round: int


class HostHeartbeatReply(NamedTuple):
    """`term` is the heartbeat's when accepted, else the sender's own."""

    sender: int
    to: int
    accepted: bool
    term: int
    round: int


Letter = Message | HostHeartbeat | HostHeartbeatReply


class Disk:
    """Hard state and log of one node: what is durable, and what was handed to it. Also the core's LogReader."""

    def __init__(self) -> None:
        self.hard_state = HardState(0, NOBODY, 0)
        self.compacted = (0, 0)
        self.config = Config(())
        """As of `compacted`."""
        self.entries: dict[int, Entry] = {}
        self.seen: dict[int, Entry] = {}
        self.applied = 0

    @staticmethod
    def _put(into: dict[int, Entry], entries: tuple[Entry, ...]) -> None:
        if entries:
            first = entries[0].index
            for index in [i for i in into if i >= first]:
                del into[index]
            into.update((entry.index, entry) for entry in entries)

    def stage(self, entries: tuple[Entry, ...]) -> None:
        self._put(self.seen, entries)

    def write(self, write: Write) -> None:
        if write.hard_state is not None:
            assert write.hard_state.term >= self.hard_state.term, "a durable term never falls"
            self.hard_state = write.hard_state
        self._put(self.entries, write.entries)

    def checkpoint(self, index: int, term: int, config: Config | None = None) -> None:
        """A checkpoint at (index, term) is durable: what it covers goes; the rest too, if the log does not hold it."""
        self.config = self.config if config is None else config
        self.applied = max(self.applied, index)
        for view in (self.entries, self.seen):
            held = view.get(index)
            keep = held is not None and held.term == term
            for i in [i for i in view if i <= index or not keep]:
                del view[i]
        self.compacted = (index, term)

    def read(self, low: int, high: int, max_bytes: int) -> list[Entry]:
        found: list[Entry] = []
        for index in range(low, high):
            entry = self.seen.get(index)
            if entry is None or (found and entries_bytes([*found, entry]) > max_bytes):
                break
            found.append(entry)
        return found

    def term_at(self, index: int) -> int | None:
        if index == self.compacted[0]:
            return self.compacted[1]
        entry = self.seen.get(index)
        return None if entry is None else entry.term

    def configs(self) -> list[Placed]:
        """What a start finds in the log, its beginning's first."""
        found = [Placed(self.compacted[0], self.config)]
        for index in sorted(self.entries):
            if self.entries[index].kind == EntryKind.CONF:
                found.append(Placed(index, decode_config(self.entries[index].data)))
        return found

    def log(self, cache_bytes_max: int) -> RaftLog:
        """After a crash: what was not written is gone."""
        self.seen = dict(self.entries)
        last = max(self.entries, default=self.compacted[0])
        return RaftLog(self, compacted=self.compacted, last_index=last, cache_bytes_max=cache_bytes_max)


class FixedRand:
    """Node n draws n-tenths of every range: elections in scenarios are decided by node numbers."""

    def __init__(self, node: int) -> None:
        self.node = node

    def random(self) -> float:
        return self.node / 10

    def randrange(self, start: int, stop: int) -> int:
        return start + (stop - 1 - start) * self.node // 10

    def randbytes(self, n: int) -> bytes:
        return bytes(n)

    def getrandbits(self, k: int) -> int:
        return 0


@dataclass
class Node:
    """A running or crashed replica."""

    core: RaftCore
    disk: Disk
    writes: list[Write] = field(default_factory=list)
    applied: dict[int, Entry] = field(default_factory=dict)
    grants: list[ReadGrant] = field(default_factory=list)
    lost_reads: list[int] = field(default_factory=list)
    up: bool = True


@dataclass
class Options:
    own_heartbeats: bool = True
    timing: Timing = TIMING
    flow: Flow = FLOW
    cache_bytes_max: int = 1 << 20
    members: int = 0
    """So many of the nodes, the first ones, are members, which may change; 0: all are, for good."""
    seed: int | None = None


class Network:
    """Nodes 1..size. `letters` are the messages in flight, oldest first."""

    def __init__(self, size: int, options: Options | None = None) -> None:
        self.options = options or Options()
        self.voters = tuple(range(1, size + 1))
        self.now_ms = 1_000
        self.round = 0
        self.letters: list[Letter] = []
        self.configs: dict[int, Config] = {}
        """Index of a checkpoint -> the configuration that it carries."""
        self.nodes: dict[int, Node] = {}
        for node in self.voters:
            disk = Disk()
            if node <= self.options.members:
                disk.config = Config(self.voters[: self.options.members])
            self.nodes[node] = Node(self._core(node, disk), disk)

    def _core(self, node: int, disk: Disk) -> RaftCore:
        options = self.options
        rand: Rand = FixedRand(node) if options.seed is None else random.Random(f"{options.seed}/{node}/{self.now_ms}")
        core = RaftCore(
            node=node,
            voters=() if options.members else self.voters,
            configs=disk.configs() if options.members else (),
            log=disk.log(options.cache_bytes_max),
            hard_state=disk.hard_state,
            applied=disk.applied,
            rand=rand,
            timing=options.timing,
            flow=options.flow,
            own_heartbeats=options.own_heartbeats,
        )
        core.advance(self.now_ms)
        return core

    def take(self, node: int) -> Ready:
        """One Ready: messages leave, the batch is queued for the disk, committed entries are applied."""
        me = self.nodes[node]
        me.core.release()  # stored at once
        ready = me.core.ready()
        self.letters += ready.messages
        me.disk.stage(ready.entries)
        if ready.must_sync or ready.after_persist:
            persist = (ready.persist_term, ready.persist_index)
            me.writes.append(Write(ready.hard_state, ready.entries, ready.after_persist, persist))
        for entry in ready.committed:
            me.applied[entry.index] = entry
        if ready.committed:
            me.core.applied_to(ready.committed[-1].index)
        me.grants += ready.grants
        me.lost_reads += ready.lost_reads
        return ready

    def complete_write(self, node: int) -> Write:
        """The oldest batch of `node` becomes durable."""
        me = self.nodes[node]
        write = me.writes.pop(0)
        me.disk.write(write)
        self.letters += write.released
        me.core.persisted(*write.persist)
        return write

    def deliver(self, letter: Letter) -> None:
        """Hand over one letter; a node that is down loses it."""
        me = self.nodes[letter.to]
        if not me.up:
            return
        core = me.core
        if isinstance(letter, Message):
            core.step(self.now_ms, letter)
        elif isinstance(letter, HostHeartbeat):
            accepted = core.heartbeat(self.now_ms, letter.sender, letter.term, letter.commit)
            term = letter.term if accepted else core.term
            self.letters.append(HostHeartbeatReply(letter.to, letter.sender, accepted, term, letter.round))
        elif not letter.accepted:
            core.heartbeat_rejected(self.now_ms, letter.sender, letter.term)
        elif core.role is Role.LEADER and core.term == letter.term:
            core.heartbeat_ok(self.now_ms, letter.sender, letter.round)

    def heartbeat_all(self, node: int) -> None:
        """The host of `node` starts a round of heartbeats, if it leads."""
        core = self.nodes[node].core
        self.round += 1
        if core.role is Role.LEADER:
            self.letters += [
                HostHeartbeat(node, p, core.term, core.heartbeat_commit(p), self.round) for p in core.peers
            ]

    def crash(self, node: int) -> None:
        """Everything of `node` that was not written is gone."""
        me = self.nodes[node]
        me.up = False
        me.writes.clear()

    def restart(self, node: int) -> None:
        """`node` comes back with its disk. What it applied since its checkpoint is applied again."""
        me = self.nodes[node]
        me.core = self._core(node, me.disk)
        me.up = True

    def checkpoint(self, node: int, index: int | None = None) -> tuple[int, int]:
        """A checkpoint of what is applied at `node` (or up to `index`) becomes durable; its log is compacted."""
        me = self.nodes[node]
        index = me.core.applied if index is None else index
        term = me.core.log.term_at(index)
        assert term is not None
        config = me.core.config_at(index)
        assert config is not None
        assert self.configs.setdefault(index, config) == config, "what is committed is the same everywhere"
        me.core.checkpointed(index, term)
        me.core.compacted(index, term)
        me.disk.checkpoint(index, term, config)
        return index, term

    def install(self, node: int, source: int, index: int, term: int) -> bool:
        """The checkpoint (index, term) of `source` has reached the disk of `node`."""
        me = self.nodes[node]
        while me.writes:  # the disk is one queue: what was handed out before lands before the checkpoint does
            self.complete_write(node)
        config = self.configs.get(index) or self.nodes[source].core.config_at(index)
        if not me.core.snapshot_installed(index, term, config):
            return False
        me.disk.checkpoint(index, term, config)
        history = self.nodes[source].applied
        me.applied.update({i: history[i] for i in history if i <= index})
        return True

    def run(self, nodes: tuple[int, ...] | None = None, limit: int = 10_000) -> None:
        """Readys, writes and letters of `nodes` (of all that are up) until nothing moves; other letters stay."""
        for _ in range(limit):
            chosen = [n for n in nodes or self.voters if self.nodes[n].up]
            moved = False
            for node in chosen:
                me = self.nodes[node]
                while me.core.has_ready():
                    self.take(node)
                    moved = True
                while me.writes:
                    self.complete_write(node)
                    moved = True
            mine = [m for m in self.letters if m.to in chosen and (nodes is None or m.sender in chosen)]
            self.letters = [m for m in self.letters if m not in mine]
            for letter in mine:
                self.deliver(letter)
            if not moved and not mine:
                return
        raise AssertionError("the network does not come to rest")

    def elect(self, node: int) -> RaftCore:
        """Make `node` the leader of everybody, with its no-op committed."""
        self.nodes[node].core.campaign(self.now_ms)
        self.run()
        core = self.nodes[node].core
        assert core.role is Role.LEADER
        return core

    def leader(self) -> int | None:
        """The live leader of the highest term."""
        leaders = [(n.core.term, i) for i, n in self.nodes.items() if n.up and n.core.role is Role.LEADER]
        return max(leaders)[1] if leaders else None

    def tick(self, by_ms: int) -> None:
        """Time passes, and every deadline that is due is told."""
        self.now_ms += by_ms
        for node in self.nodes.values():
            if node.up and node.core.deadline_ms <= self.now_ms:
                node.core.advance(self.now_ms)


def message_kinds(letters: list[Letter]) -> list[MsgType]:
    """Types of the Raft messages among `letters`."""
    return [MsgType(letter.type) for letter in letters if isinstance(letter, Message)]
