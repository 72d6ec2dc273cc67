"""Random lives of groups with crashes anywhere, against what clients may rely on (docs/invariants.md, O and G).

The checker knows only requests and answers; `Host.check` looks inside after every call, and replicas are compared.
"""

import random

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.groups.requests import DeleteGroup, JoinGroup, OffsetFetch
from muster_coordinator.groups.shard import GroupShard

from tests.groups.host import LOST, Host, beat, code_of, commit, join, leave, sync
from tests.made_settings import shard_config

GROUPS = ("g", "h")
CODES = (Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_ENOUGH_REPLICAS, Code.MESSAGE_TOO_LARGE)
INDEFINITE = {15, 16, -1, -999}


class Checker:
    """What was promised to clients so far."""

    def __init__(self) -> None:
        self.highest: dict[str, int] = {}
        self.people: dict[tuple[str, int], frozenset[str]] = {}
        self.protocol: dict[tuple[str, int], str] = {}
        self.plan: dict[tuple[str, int, str], bytes] = {}
        self.gone: set[str] = set()
        self.acked: dict[str, int] = {}
        self.refused: dict[str, set[int]] = {group: set() for group in GROUPS}
        self.holders: dict[tuple[str, str], list[str]] = {}

    def joined(self, request: JoinGroup, answer) -> None:
        group = request.group
        assert answer.generation >= self.highest.get(group, 0), "a generation went backwards"
        self.highest[group] = answer.generation
        at = group, answer.generation
        assert self.protocol.setdefault(at, answer.protocol) == answer.protocol
        assert answer.member not in self.gone, "a removed member came back"
        if answer.members:
            people = frozenset(m.instance or m.member for m in answer.members)
            assert self.people.setdefault(at, people) == people, "one number for two member sets"
        if request.instance is not None:
            holders = self.holders.setdefault((group, request.instance), [])
            if answer.member not in holders:
                self.gone.update(holders)
                holders.append(answer.member)

    def served(self, member: str) -> None:
        assert member not in self.gone, "a removed or fenced member was served"

    def forget(self, group: str) -> None:
        self.highest.pop(group, None)
        self.acked.pop(group, None)
        for table in (self.people, self.protocol, self.plan):
            for key in [key for key in table if key[0] == group]:
                del table[key]


class World:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.rand = random.Random(seed)
        delay = self.rand.choice([0, 100, 3_000])
        config = shard_config(
            initial_rebalance_delay_ms=delay,
            group_max_size=4,
            offsets_retention_check_ms=10**12,  # a group that is swept away may start again at 1
        )
        self.host = Host(config, followers=2, seed=seed)
        self.checker = Checker()
        self.open: dict[int, object] = {}
        self.known: dict[str, list[tuple[str, str | None, int]]] = {group: [] for group in GROUPS}
        self.offset = 0

    def send(self, request) -> None:
        self.open[self.host.send(request)] = request

    def someone(self, group: str) -> tuple[str, str | None, int]:
        people = self.known[group]
        if not people or self.rand.random() < 0.05:
            return "stranger", None, self.rand.randrange(5)
        return self.rand.choice(people[-6:])

    def collect(self) -> None:
        for ticket in [t for t in self.open if t in self.host.answers]:
            self.judge(self.open.pop(ticket), self.host.answers[ticket])

    def judge(self, request, answer) -> None:
        kind = type(request).__name__
        if kind == "DeleteGroup" and (answer is LOST or answer.error in INDEFINITE | {0}):
            self.checker.forget(request.group)
        if answer is LOST:
            return
        if kind == "JoinGroup":
            if answer.error == 0:
                self.checker.joined(request, answer)
                self.known[request.group].append((answer.member, request.instance, answer.generation))
            elif answer.error == 79:
                self.known[request.group].append((answer.member, None, -1))
        elif kind == "SyncGroup" and answer.error == 0:
            self.checker.served(request.member)
            key = request.group, request.generation, self.stable_name(request)
            assert self.checker.plan.setdefault(key, answer.assignment) == answer.assignment, "a plan changed"
        elif kind == "Heartbeat" and answer.error in (0, 27):
            self.checker.served(request.member)
        elif kind == "LeaveGroup" and answer.error == 0:
            for member, _, code in answer.leavers:
                if code == 0 and member:
                    self.checker.gone.add(member)
        elif kind == "OffsetCommit":
            self.committed(request, code_of(answer))
        elif kind == "OffsetFetch":
            self.fetched(request.group, answer)

    def stable_name(self, request) -> str:
        return request.instance or request.member

    def committed(self, request, code: int) -> None:
        offset = request.topics[0].partitions[0].offset
        if code == 0:
            if request.generation >= 0:
                self.checker.served(request.member)
            self.checker.acked[request.group] = max(offset, self.checker.acked.get(request.group, 0))
        elif code not in INDEFINITE:
            self.checker.refused[request.group].add(offset)

    def fetched(self, group: str, answer) -> None:
        offset = answer.topics[0][1][0].offset
        assert offset not in self.checker.refused[group], "a refused commit took effect"
        assert offset >= self.checker.acked.get(group, -1), "an acknowledged commit is lost"

    def step(self) -> None:
        action = self.rand.choices(ACTIONS, WEIGHTS)[0]
        if action in FAULTS:
            self.happen(action)
        else:
            self.ask(action)
        self.collect()

    def ask(self, action: str) -> None:
        rand = self.rand
        group = rand.choice(GROUPS)
        member, instance, generation = self.someone(group)
        if action == "new":
            self.send(join(group, known=rand.random() < 0.5, session=rand.choice([6_000, 20_000])))
        elif action == "static":
            names = ("range", "sticky") if rand.random() < 0.7 else ("sticky", "range")
            self.send(join(group, instance=rand.choice("ab"), names=names, skip=rand.random() < 0.5))
        elif action == "rejoin":
            self.send(join(group, member, instance=instance, data=rand.choice([b"meta-", b"meta-", b"new-"])))
        elif action == "sync":
            plan = tuple((m, b"%d" % rand.randrange(99)) for m, _, _ in self.known[group][-5:])
            self.send(sync(member, generation, group=group, instance=instance, plan=plan, protocol=None))
        elif action == "beat":
            self.send(beat(member, generation, group=group, instance=instance))
        elif action == "leave":
            self.send(leave((member, instance), group=group))
        elif action == "commit":
            self.offset += 1
            who = (member, generation) if rand.random() < 0.8 else ("", -1)
            self.send(commit(*who, self.offset, group=group, instance=instance if who[0] else None))
        elif action == "fetch":
            self.send(OffsetFetch(group, (("t", (0,)),), False))
        elif action == "delete":
            self.send(DeleteGroup(group))

    def happen(self, action: str) -> None:
        rand, host = self.rand, self.host
        if action == "time":
            host.advance(rand.choice([0, 50, 1_000, 5_000, 30_000]))
        elif action == "hold":
            host.hold = not host.hold
            if not host.hold:
                host.commit_all()
        elif action == "commit one" and host.in_flight:
            host.commit()
        elif action == "drop" and host.in_flight:
            host.drop(rand.choice(CODES))
        elif action == "crash":
            host.crash(committed=rand.randrange(4))
        elif action == "hand over":
            host.hand_over()
        elif action == "restore":
            restored = GroupShard(host.config, host.rand)
            restored.restore(host.followers[0].image().encode())
            host.followers[0] = restored


ACTIONS, WEIGHTS = zip(
    ("new", 8), ("static", 5), ("rejoin", 14), ("sync", 16), ("beat", 8), ("leave", 4), ("commit", 14), ("fetch", 6),
    ("delete", 1), ("time", 10), ("hold", 6), ("commit one", 12), ("drop", 2), ("crash", 1), ("hand over", 1),
    ("restore", 1), strict=True,
)  # fmt: skip


FAULTS = frozenset(ACTIONS[ACTIONS.index("time") :])


@pytest.mark.parametrize("seed", range(40))
def test_random_lives(seed):
    world = World(seed)
    for number in range(250):
        world.step()
        if number % 50 == 0 and not world.host.in_flight:
            world.host.check_replicas()
    world.host.hold = False
    world.host.commit_all()
    world.host.check_replicas()
    finish(world)


def finish(world: World) -> None:
    """After the faults: whoever is silent is removed, everybody is answered, nothing is left over (L1)."""
    host = world.host
    host.advance(700_000)
    world.collect()
    assert not world.open, "somebody is still waiting"
    assert not host.leader._core.queues
    assert not host.leader._core.lives
    for group in GROUPS:
        world.send(OffsetFetch(group, (("t", (0,)),), False))
    world.collect()
    host.check_replicas()


def test_scenarios_reach_every_state_and_outcome():
    """The generator is worth something only if it gets everywhere."""
    seen: dict[str, int] = {}
    for seed in range(8):
        world = World(seed)
        judge = world.judge

        def note(request, answer, judge=judge):
            error = code_of(answer) if answer is not LOST else "lost"
            seen[f"{type(request).__name__} {error}"] = seen.get(f"{type(request).__name__} {error}", 0) + 1
            judge(request, answer)

        world.judge = note
        for _ in range(250):
            world.step()
        finish_hold(world)
    for outcome in (
        "JoinGroup 0", "JoinGroup 25", "JoinGroup 27", "JoinGroup 79", "JoinGroup 81", "JoinGroup 16", "JoinGroup 15",
        "SyncGroup 0", "SyncGroup 22", "SyncGroup 25", "SyncGroup 27", "Heartbeat 0", "Heartbeat 27", "LeaveGroup 0",
        "OffsetCommit 0", "OffsetCommit 22", "OffsetCommit 25", "OffsetCommit 27", "DeleteGroup 0", "DeleteGroup 68",
    ):  # fmt: skip
        assert seen.get(outcome), f"never seen: {outcome}"


def finish_hold(world: World) -> None:
    world.host.hold = False
    world.host.commit_all()
    world.collect()
