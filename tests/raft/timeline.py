"""A network of cores on virtual time: letters take their time, disks theirs, a client writes all the while, and one
node dies at any moment that matters.

A moment is what leaves a node or gets onto its disk: the n-th such effect. `Timeline.kill_at` ends a node just before
one of them, so also between two requests for votes that one `Ready` holds. What it had on its way is lost, and the
others learn of it as hosts do: when its link was not up again for the grace of a re-dial.

For how long nobody was served is told by the client alone. The members of the group are brought where they are wanted
by the product's own plan (`multiraft.reconfiguration`).
"""

import random
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import pairwise

from muster_coordinator.ids import MemberNo
from muster_coordinator.limits import LINK_REDIAL_GRACE_MS
from muster_coordinator.raft.core import RaftCore
from muster_coordinator.raft.messages import EntryKind, Role
from muster_coordinator.replica.multiraft.reconfiguration import Standing, Wanted, next_step

from tests.raft.network import Letter, Network, Options

LETTER_US = (50, 500)
WRITE_US = (100, 400)
AFTERWARDS_US = 20_000
LOOK_US = 10_000
"""How often a leader's host looks whether its members are those that are wanted."""


class Timeline:
    """Nodes 1..`size`, of which the first `members` form the group. Time is in microseconds."""

    def __init__(self, size: int, members: int, seed: int, pace_us: int) -> None:
        self.rand = random.Random(seed)
        self.network = Network(size, Options(members=members, seed=seed))
        self.now_us = self.network.now_ms * 1_000
        self.pace_us = pace_us
        self.wanted: Sequence[int] = ()
        """The voters to come; empty: those that are."""
        self.heir = 0
        """Who is to lead; 0: whoever does."""
        self.effects = 0
        self.kill_at: tuple[int, int] | None = None
        """Before which effect who dies; 0: whose effect it is."""
        self.dead = 0
        self.died_us = 0
        self.served_us: list[int] = []
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._arrival_us: dict[tuple[int, int], int] = {}
        self._writing: set[int] = set()
        self._armed: dict[int, int] = {}
        for node in self.network.nodes:
            self._pump(node)
        self._propose()
        self._every(LOOK_US, self._look)

    # -- time ------------------------------------------------------------------------------------------------------

    def _at(self, when_us: int, call: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._heap, (when_us, self._count, call))

    def _every(self, period_us: int, call: Callable[[], None]) -> None:
        def again() -> None:
            call()
            self._at(self.now_us + period_us, again)

        self._at(self.now_us + period_us, again)

    def run_until(self, done: Callable[[], object], ms: int) -> bool:
        """False: not within this time."""
        end_us = self.now_us + ms * 1_000
        while not done():
            if self._heap[0][0] > end_us:
                self.now_us = end_us
                return False
            self.now_us, _, call = heappop(self._heap)
            self.network.now_ms = self.now_us // 1_000
            call()
        return True

    # -- nodes -----------------------------------------------------------------------------------------------------

    def core(self, node: int) -> RaftCore:
        return self.network.nodes[node].core

    def leader(self) -> int:
        return self.network.leader() or 0

    def transfer(self, leader: int, target: int) -> None:
        self.heir = target
        assert self.core(leader).transfer(self.network.now_ms, target)
        self._pump(leader)

    def _is_up(self, node: int) -> bool:
        return self.network.nodes[node].up

    def kill(self, node: int) -> None:
        assert not self.dead, "one at a time"
        self.dead, self.died_us = node, self.now_us
        self.network.crash(node)
        self._at(self.now_us + LINK_REDIAL_GRACE_MS * 1_000, self._lost)

    def _lost(self) -> None:
        for node in self.network.nodes:
            if self._is_up(node):
                self.core(node).peer_lost(self.network.now_ms, self.dead)
                self._pump(node)

    def _may(self, node: int) -> bool:
        """Something is about to leave the node, or to be on its disk. False: it died before that."""
        self.effects += 1
        if self.kill_at is not None and self.kill_at[0] == self.effects:
            self.kill(self.kill_at[1] or node)
        return self._is_up(node)

    def _pump(self, node: int) -> None:
        """Take all that the core has to say."""
        me = self.network.nodes[node]
        while me.up and me.core.has_ready():
            before = me.core.role is Role.LEADER
            ready = self.network.take(node)
            if before and any(entry.kind == EntryKind.NORMAL for entry in ready.committed):
                self.served_us.append(self.now_us)
            self._send()
        if me.up and me.writes and node not in self._writing:
            self._writing.add(node)
            self._at(self.now_us + self.rand.randint(*WRITE_US), lambda: self._written(node))
        if me.up:
            self._arm(node)

    def _send(self) -> None:
        """In any order of the receivers: a host has a frame for each."""
        letters, self.network.letters = self.network.letters, []
        receivers = sorted({letter.to for letter in letters})
        self.rand.shuffle(receivers)
        for letter in sorted(letters, key=lambda letter: receivers.index(letter.to)):
            if not self._may(letter.sender):
                return
            way = (letter.sender, letter.to)
            arrives_us = max(self.now_us + self.rand.randint(*LETTER_US), self._arrival_us.get(way, 0) + 1)
            self._arrival_us[way] = arrives_us
            self._at(arrives_us, lambda letter=letter: self._arrive(letter))

    def _arrive(self, letter: Letter) -> None:
        if self._is_up(letter.sender) and self._is_up(letter.to):
            self.network.deliver(letter)
            self._pump(letter.to)

    def _written(self, node: int) -> None:
        self._writing.discard(node)
        if self._is_up(node) and self._may(node):
            self.network.complete_write(node)
            self._send()
            self._pump(node)

    def _arm(self, node: int) -> None:
        """Call the core at its deadline, which may move later without notice."""
        due_us = max(self.now_us, self.core(node).deadline_ms * 1_000)
        armed_us = self._armed.get(node, 0)
        if self.now_us < armed_us <= due_us:
            return
        self._armed[node] = due_us

        def due() -> None:
            if self._is_up(node) and self._armed[node] == due_us:
                self._armed[node] = 0
                if self.core(node).deadline_ms <= self.network.now_ms:
                    self.core(node).advance(self.network.now_ms)
                self._pump(node)

        self._at(due_us, due)

    # -- whom it serves --------------------------------------------------------------------------------------------

    def _propose(self) -> None:
        """One client: a record at a time to whoever takes it, ever more seldom when somebody died."""
        self._at(self.now_us + (AFTERWARDS_US if self.dead else self.pace_us), self._propose)
        for node, me in self.network.nodes.items():
            if me.up and me.core.role is Role.LEADER:
                me.core.propose(self.network.now_ms, [(EntryKind.NORMAL, b"x")])
                self._pump(node)

    def _look(self) -> None:
        node = self.leader()
        if not node or not self.wanted or not self.core(node).committed_in_term:
            return
        core = self.core(node)
        standings = {node: Standing.LEVEL}
        for peer, progress in core.progresses.items():
            level = progress.match >= core.commit
            standings[peer] = Standing.LEVEL if level else Standing.BEHIND
        for other, it in self.network.nodes.items():
            if not it.up:
                standings[other] = Standing.AWAY
            standings.setdefault(other, Standing.BEHIND)
        step = next_step(core.config, Wanted([MemberNo(one) for one in self.wanted]), standings)
        if step is not None and step.voters:
            core.change_members(step.voters, step.learners)
            self._pump(node)

    def longest_ms(self, since_us: int) -> float:
        """The longest time without any answer from then up to now."""
        times = [since_us, *(time_us for time_us in self.served_us if time_us >= since_us), self.now_us]
        return max(two - one for one, two in pairwise(times)) / 1_000
