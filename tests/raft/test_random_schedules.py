"""Safety under random schedules: loss, repetition, reordering, crashes that lose unwritten state, slow disks.

After every step the invariants of the Raft paper (figure 3) hold, and a few of our own: nothing counts as durable
that is not on the disk, a leader commits only what a quorum's disks hold, no read is granted below what was committed
when it was asked. After the faults end, a leader is found and everything catches up. The same with members that change
all the time: then a quorum is one by the configuration that stands last in the log of whoever commits.
"""

import os
import random
from collections.abc import Callable

import pytest
from muster_coordinator.raft.core import RaftCore
from muster_coordinator.raft.members import decode_config
from muster_coordinator.raft.messages import EntryKind, Message, MsgType, Role
from muster_coordinator.raft.quorum import Config
from muster_coordinator.raft.timing import FLOW

from tests.made_settings import TIMING
from tests.raft.network import Letter, Network, Options
from tests.raft.quorums import is_quorum, may_both_decide

SEEDS_PER_SIZE = int(os.environ.get("MUSTER_RAFT_SEEDS", "100"))
STEPS = 2_000
ROUNDS_TO_HEAL = 400


class Checker:
    """What must never happen, checked on the whole network after each step."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.leader_of: dict[int, int] = {}
        self.vote_of: dict[tuple[int, int], int] = {}
        self.committed: dict[int, tuple[int, bytes]] = {}
        self.committed_in: dict[int, int] = {}
        self.asked: dict[int, int] = {}
        self.granted = 0
        self.configs: list[Config] = []
        """Committed, in their order."""
        self.last_seen: dict[RaftCore, tuple[int, int, int]] = {}

    def check(self) -> None:
        for node, me in self.network.nodes.items():
            if me.up:
                self._monotone(me.core)
                self._election_safety(node, me.core)
                self._durable_is_durable(node, me.core)
                self._commits(node, me.core)
                self._reads(node)
        self._log_matching()
        self._leader_completeness()
        self._state_machine_safety()

    def _monotone(self, core: RaftCore) -> None:
        now = (core.term, core.commit, core.applied)
        before = self.last_seen.get(core, (0, 0, 0))
        assert all(a <= b for a, b in zip(before, now, strict=True)), "term, commit and applied only grow"
        assert core.applied <= core.handed <= core.commit <= core.last_index
        for progress in core.progresses.values():
            assert progress.match < progress.next <= core.last_index + 1
        self.last_seen[core] = now

    def _election_safety(self, node: int, core: RaftCore) -> None:
        if core.role is Role.LEADER:
            assert self.leader_of.setdefault(core.term, node) == node, "two leaders in one term"

    def votes(self, letter: Letter) -> None:
        """A vote that leaves a node, for itself or another."""
        if isinstance(letter, Message):
            if letter.type == MsgType.VOTE:
                who = letter.sender
            elif letter.type == MsgType.VOTE_REPLY and not letter.reject:
                who = letter.to
            else:
                return
            assert self.vote_of.setdefault((letter.sender, letter.term), who) == who, "two votes in one term"
            assert self.network.nodes[letter.sender].disk.hard_state.term >= letter.term, "a vote that is not durable"

    def _durable_is_durable(self, node: int, core: RaftCore) -> None:
        disk = self.network.nodes[node].disk
        for index in range(max(disk.compacted[0], core.log.compacted_index) + 1, core.log.stable + 1):
            assert disk.entries[index].term == core.log.term_at(index), "stable, but the disk holds something else"

    def _commits(self, node: int, core: RaftCore) -> None:
        for index in range(len(self.committed) + 1, core.commit + 1):
            term = core.log.term_at(index)
            assert term is not None
            holders = {
                number
                for number, n in self.network.nodes.items()
                if self._holds(n.disk.entries, n.disk.compacted, index, term)
            }
            assert is_quorum(self.config(node), holders), "committed, but not on the disks of a quorum"
            entries, _ = core.log.slice(index, index + 1, 1)
            if entries[0].kind == EntryKind.CONF:
                self._config(decode_config(entries[0].data))
            self.committed[index] = (term, entries[0].data)
            self.committed_in[index] = core.term

    def config(self, node: int) -> Config:
        """The last one in the log of `node`."""
        if not self.network.options.members:
            return Config(self.network.voters)
        me = self.network.nodes[node]
        log, index = me.core.log, me.core.log.last_index
        while index > log.compacted_index:
            entry = log.slice(index, index + 1, 1)[0][0]
            if entry.kind == EntryKind.CONF:
                return decode_config(entry.data)
            index -= 1
        return me.disk.config

    def _config(self, config: Config) -> None:
        before = self.configs[-1] if self.configs else Config(self.network.voters[: self.network.options.members])
        assert not may_both_decide(before, config), "two configurations in a row could decide without each other"
        self.configs.append(config)

    @staticmethod
    def _holds(entries: dict, compacted: tuple[int, int], index: int, term: int) -> bool:
        return index <= compacted[0] or (index in entries and entries[index].term == term)

    def _reads(self, node: int) -> None:
        me = self.network.nodes[node]
        for grant in me.grants:
            assert grant.index >= self.asked.pop(grant.context), "a read below what was committed when it was asked"
            self.granted += 1
        me.grants.clear()

    def _log_matching(self) -> None:
        cores = [me.core for me in self.network.nodes.values() if me.up]
        for i, one in enumerate(cores):
            for other in cores[i + 1 :]:
                low = max(one.log.compacted_index, other.log.compacted_index)
                agree = False
                for index in range(min(one.last_index, other.last_index), low - 1, -1):
                    same = one.log.term_at(index) == other.log.term_at(index)
                    assert same or not agree, "logs agree at an entry and differ before it"
                    agree = agree or same

    def _leader_completeness(self) -> None:
        for me in self.network.nodes.values():
            if me.up and me.core.role is Role.LEADER:
                log = me.core.log
                for index, (term, _) in self.committed.items():
                    if index >= log.compacted_index and self.committed_in[index] <= me.core.term:
                        assert log.term_at(index) == term, "a leader lacks an entry that was committed before its term"

    def _state_machine_safety(self) -> None:
        for me in self.network.nodes.values():
            for index, entry in me.applied.items():
                assert self.committed[index] == (entry.term, entry.data), (
                    "applied, but another entry is committed there"
                )


class Schedule:
    """Random steps from one seed."""

    def __init__(self, seed: int, size: int, members: int = 0) -> None:
        self.rand = random.Random(seed)
        squeezed = self.rand.random() < 0.5
        flow = FLOW
        if squeezed:
            flow = FLOW._replace(
                append_bytes_max=80, inflight_appends_max=2, inflight_bytes_max=200, apply_bytes_max=60
            )
        timing = TIMING._replace(heartbeat_ms=20, election_min_ms=100, election_max_ms=200, link_stagger_ms=5)
        options = Options(
            own_heartbeats=self.rand.random() < 0.5,
            timing=timing,
            flow=flow,
            cache_bytes_max=120 if self.rand.random() < 0.3 else 1 << 20,
            members=members,
            seed=seed,
        )
        self.network = Network(size, options)
        self.checker = Checker(self.network)
        self.proposed = 0
        self.contexts = 0
        self.loss = self.rand.choice((0.0, 0.05, 0.25))
        self.blocked: set[tuple[int, int]] = set()
        self.steps: list[tuple[float, Callable[[], None]]] = [
            (50, self.deliver), (25, self.take), (20, self.complete_write), (8, self.pass_time), (6, self.propose),
            (2, self.repeat), (2, self.read), (1, self.crash_or_restart), (1, self.peer_lost), (0.7, self.transfer),
            (0.7, self.checkpoint), (2, self.install), (2, self.heartbeats), (0.5, self.unreachable),
            (0.2, self.step_down), (1.5, self.cut_off), (1, self.bounce), (3 if members else 0, self.change),
        ]  # fmt: skip
        moderate = 5  # the first steps always happen; of the others every seed has its own mixture
        self.weights = [
            weight * (1 if i < moderate else self.rand.choice((0, 0.3, 1, 4)))
            for i, (weight, _) in enumerate(self.steps)
        ]

    def some_node(self) -> int | None:
        up = [i for i, me in self.network.nodes.items() if me.up]
        return self.rand.choice(up) if up else None

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.rand.choices(self.steps, self.weights)[0][1]()
            self.checker.check()

    def deliver(self) -> None:
        letters = self.network.letters
        if not letters:
            return
        position = 0 if self.rand.random() < 0.7 else self.rand.randrange(len(letters))
        letter = letters.pop(position)
        if self.rand.random() >= self.loss and (letter.sender, letter.to) not in self.blocked:
            self.network.deliver(letter)

    def repeat(self) -> None:
        if self.network.letters:
            self.network.letters.append(self.rand.choice(self.network.letters))

    def take(self) -> None:
        busy = [i for i, me in self.network.nodes.items() if me.up and me.core.has_ready()]
        if busy:
            for letter in self.network.take(self.rand.choice(busy)).messages:
                self.checker.votes(letter)

    def complete_write(self) -> None:
        writing = [i for i, me in self.network.nodes.items() if me.writes]
        if writing:
            for letter in self.network.complete_write(self.rand.choice(writing)).released:
                self.checker.votes(letter)

    def pass_time(self) -> None:
        self.network.tick(self.rand.randrange(1, 40))

    def propose(self) -> None:
        node = self.some_node()
        leaders = [i for i, me in self.network.nodes.items() if me.up and me.core.role is Role.LEADER]
        if leaders:
            node = self.rand.choice(leaders)
        if node is not None:
            count = self.rand.randrange(1, 4)
            items = tuple((EntryKind.NORMAL, b"%d" % (self.proposed + i)) for i in range(count))
            self.proposed += count
            self.network.nodes[node].core.propose(self.network.now_ms, items)

    def read(self) -> None:
        leaders = [i for i, me in self.network.nodes.items() if me.up and me.core.role is Role.LEADER]
        node = self.rand.choice(leaders) if leaders else None
        if node is not None:
            self.contexts += 1
            network = self.network
            if network.nodes[node].core.read(network.now_ms, self.contexts, network.round + 1):
                self.checker.asked[self.contexts] = len(self.checker.committed)

    def crash_or_restart(self) -> None:
        down = [i for i, me in self.network.nodes.items() if not me.up]
        if down and self.rand.random() < 0.7:
            self.network.restart(self.rand.choice(down))
            return
        node = self.some_node()
        if node is not None:
            self.network.crash(node)

    def bounce(self) -> None:
        """A crash and an immediate restart: what was promised must have been written."""
        node = self.some_node()
        if node is not None:
            self.network.crash(node)
            self.network.restart(node)

    def cut_off(self) -> None:
        """A partition, in one direction or both; or the end of one."""
        if self.blocked:
            self.blocked.clear()
            return
        voters = self.network.voters
        group = {voter for voter in voters if self.rand.random() < 0.4}
        leader = self.network.leader()
        if leader is not None and self.rand.random() < 0.5:
            group = {leader}
            if self.rand.random() < 0.5:  # the others see it and elect; it leads on unaware
                for voter in voters:
                    if voter != leader and self.network.nodes[voter].up:
                        self.network.nodes[voter].core.peer_lost(self.network.now_ms, leader)
        one_way = self.rand.random() < 0.25
        for one in group:
            for other in set(voters) - group:
                self.blocked.add((one, other))
                if not one_way:
                    self.blocked.add((other, one))

    def peer_lost(self) -> None:
        node = self.some_node()
        if node is not None:
            self.network.nodes[node].core.peer_lost(self.network.now_ms, self.rand.choice(self.network.voters))

    def unreachable(self) -> None:
        node = self.some_node()
        if node is not None:
            self.network.nodes[node].core.peer_unreachable(self.rand.choice(self.network.voters))

    def transfer(self) -> None:
        node = self.some_node()
        if node is not None:
            self.network.nodes[node].core.transfer(self.network.now_ms, self.rand.choice(self.network.voters))

    def change(self) -> None:
        """Any members, also none of those that there are."""
        node = self.network.leader()
        if node is not None:
            voters = self.rand.sample(self.network.voters, self.rand.randrange(1, min(6, len(self.network.voters) + 1)))
            others = [member for member in self.network.voters if member not in voters]
            learners = self.rand.sample(others, self.rand.randrange(0, min(2, len(others)) + 1))
            self.network.nodes[node].core.change_members(voters, learners)

    def step_down(self) -> None:
        """With or without an heir."""
        node = self.some_node()
        if node is None:
            return
        core = self.network.nodes[node].core
        if core.role is Role.LEADER and self.network.now_ms % 2:
            core.abdicate(self.network.now_ms)
        else:
            core.step_down(self.network.now_ms)

    def checkpoint(self) -> None:
        node = self.some_node()
        if node is None:
            return
        core = self.network.nodes[node].core
        if core.applied > core.log.compacted_index and core.config_at(core.applied) is not None:
            self.network.checkpoint(node)

    def install(self) -> None:
        for node, me in self.network.nodes.items():
            offer = me.core.snapshot_offer
            if me.up and offer is not None:
                self.network.install(node, *offer)
                return

    def heartbeats(self) -> None:
        node = self.some_node()
        if node is not None and not self.network.options.own_heartbeats:
            self.network.heartbeat_all(node)

    def heal(self) -> None:
        """No more faults: everybody up, everything delivered in order, time passes."""
        network = self.network
        for node, me in network.nodes.items():
            if not me.up:
                network.restart(node)
        self.loss = 0.0
        self.blocked.clear()
        target = None
        for _ in range(ROUNDS_TO_HEAL):
            network.tick(10)
            for node in network.voters:
                if not network.options.own_heartbeats:
                    network.heartbeat_all(node)
            network.run()
            self.install()
            self.checker.check()
            leader = network.leader()
            if leader is not None and target is None:
                index = network.nodes[leader].core.propose(network.now_ms, ((EntryKind.NORMAL, b"last"),))
                target = index if isinstance(index, int) else None
            if target is not None and leader is not None:
                wanted = self.checker.config(leader).everyone()
                if all(network.nodes[member].core.applied >= target for member in wanted):
                    return
            if target is not None and leader is not None and network.nodes[leader].core.last_index < target:
                target = None
        raise AssertionError("the network does not recover")


@pytest.mark.computes
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_no_schedule_breaks_safety_and_every_healed_network_recovers(size: int) -> None:
    granted = committed = terms = 0
    for seed in range(SEEDS_PER_SIZE if size in (3, 5) else SEEDS_PER_SIZE // 5):
        schedule = Schedule(seed * 10 + size, size)
        try:
            schedule.run(STEPS)
            schedule.heal()
        except AssertionError as error:
            raise AssertionError(f"size {size}, seed {seed}: {error}") from error
        granted += schedule.checker.granted
        committed += len(schedule.checker.committed)
        terms += len(schedule.checker.leader_of)
    assert min(committed, terms) >= SEEDS_PER_SIZE // 10, "the schedules reach elections and commits"
    assert granted > 0, "the schedules reach reads"


@pytest.mark.computes
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_schedule_with_changing_members_breaks_safety_and_every_healed_network_recovers() -> None:
    changed = joint = committed = terms = granted = 0
    for seed in range(SEEDS_PER_SIZE):
        schedule = Schedule(seed, 6, members=3)
        try:
            schedule.run(STEPS)
            schedule.heal()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        changed += len(schedule.checker.configs)
        joint += sum(bool(config.outgoing) for config in schedule.checker.configs)
        committed += len(schedule.checker.committed)
        terms += len(schedule.checker.leader_of)
        granted += schedule.checker.granted
    assert min(changed, joint, committed, terms) >= SEEDS_PER_SIZE // 10, "the schedules reach changes"
    assert granted > 0, "the schedules reach reads"
