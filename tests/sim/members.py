"""Members of classic groups: join, sync, heartbeat, commit, leave, vanish, come back; dynamic and static.

A member keeps to the protocol as a Kafka client does: the leader computes the plan, errors lead where Kafka's clients
go. Some are rude: they vanish without leaving, keep committing under a generation that is over, or two of them claim
one instance id. The product must keep its promises with all of them.
"""

from dataclasses import dataclass

from tests.sim import frames
from tests.sim.client import RETRIABLE, Client, Line, Steps
from tests.sim.cluster import Cluster
from tests.sim.committers import row
from tests.sim.frames import Joined, Out, Synced
from tests.sim.history import CommitAsk, FetchAsk, JoinAsk, MemberAsk, SyncAsk

HASTY = 0.4
"""Share of the commits out of turn that come before the own plan."""
UNKNOWN_TOPIC = 3
"""Of a commit: the topic is not created yet."""
UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCE, ID_REQUIRED, MAX_SIZE, FENCED = 25, 22, 27, 79, 81, 82


@dataclass(frozen=True, kw_only=True)
class GroupPlan:
    """What all members of a group have in common."""

    name: str
    topic: str
    partitions: int
    session_ms: int
    rebalance_ms: int
    heartbeat_ms: int
    commit_ms: int
    consumer: bool = True
    """False: a generic group; metadata and assignments are arbitrary bytes."""
    restless: float = 0.02
    """Chance at each heartbeat that a member leaves, vanishes or restarts."""
    zombies: float = 0.1
    """Chance that a member that got a new generation commits once more under the old one."""
    two_protocols: bool = False
    calm: bool = False
    """Nobody leaves and time-outs outlast every fault: once stable, nothing is a reason to rebalance (G15)."""

    def protocols(self) -> list[tuple[str, bytes]]:
        metadata = _subscription(self.topic) if self.consumer else b"\x00any bytes\xff"
        found = [("range" if self.consumer else "default", metadata)]
        if self.two_protocols:
            found.append(("roundrobin" if self.consumer else "other", metadata))
        return found


class Member(Client):
    """One seat in a group: it is taken again after every end of a member. `instance`: static membership."""

    def __init__(
        self, cluster: Cluster, name: str, plan: GroupPlan, instance: str | None = None, *, restart: float = 0.0
    ) -> None:
        super().__init__(cluster, name)
        self.restart = restart
        """Chance at each heartbeat that a static member starts anew, quickly."""
        self.plan = plan
        self.instance = instance
        self.member = ""
        self.generation = -1
        self.leader = False
        self.owned: tuple[int, ...] = ()
        self.stable = False
        """Got its assignment in `generation`, and has heard nothing else since."""
        self.stable_us = 0
        self.fenced = False
        self.quiet = False
        """No more stirring: the group is to become stable."""
        self._before: tuple[int, str] | None = None
        self._overlapping = False

    def steps(self) -> Steps:
        while not self.fenced:
            if not (yield from self._join()):
                continue
            yield from self._live()

    # -- into the group --------------------------------------------------------------------------------------------

    def _call(self, api: int, ask: object, request: frames.Request, timeout_ms: int = 0) -> Steps:
        line = yield from self.coordinator(self.plan.name)
        return (yield from self.ask(line, api, self.plan.name, ask, request, timeout_ms))

    def _join(self) -> Steps:
        """True once there is an assignment."""
        plan = self.plan
        self.stable = False
        self._before = (self.generation, self.member) if self.generation >= 0 else None
        ask = JoinAsk(self.member, self.instance, plan.session_ms, plan.rebalance_ms)
        request = self.dialect.join(
            plan.name,
            self.member,
            self.instance,
            plan.session_ms,
            plan.rebalance_ms,
            "consumer" if plan.consumer else "connect",
            plan.protocols(),
        )
        joined: Joined | None = yield from self._call(frames.JOIN, ask, request, min(plan.rebalance_ms + 1_000, 6_000))
        if joined is None or joined.error != 0:
            yield from self._join_refused(joined)
            return False
        self.member, self.generation = joined.member, joined.generation
        self.leader = joined.leader == joined.member
        if self.rand.random() < plan.zombies:
            yield from self._zombie_commit()
        return (yield from self._sync(joined))

    def _join_refused(self, joined: Joined | None) -> Steps:
        if joined is None:
            self.cluster.marks.add("join with unknown outcome")
        elif joined.error == ID_REQUIRED:
            self.member = joined.member
            return
        elif joined.error == UNKNOWN_MEMBER:
            self.cluster.marks.add("join of an unknown member")
            self._reset()
        elif joined.error == FENCED:
            self.cluster.marks.add("fenced at join")
            yield from self._fenced_out()
        elif joined.error in RETRIABLE:
            self.hang_up()
        else:
            assert joined.error in (MAX_SIZE, REBALANCE), f"JoinGroup answered {joined.error}"
        yield from self.sleep(self.rand.uniform(20, 200))

    def _sync(self, joined: Joined) -> Steps:
        plan = self.plan
        assignments: tuple[tuple[str, bytes], ...] = ()
        if self.leader and not joined.skip:
            assignments = tuple(make_plan(plan, [m[0] for m in joined.members]))
        for _ in range(3):
            ask = SyncAsk(self.generation, self.member, self.instance, assignments)
            request = self.dialect.sync(
                plan.name,
                self.generation,
                self.member,
                self.instance,
                "consumer" if plan.consumer else "connect",
                joined.protocol,
                assignments,
            )
            synced: Synced | None = yield from self._call(
                frames.SYNC, ask, request, min(plan.rebalance_ms + 1_000, 6_000)
            )
            if synced is not None and synced.error not in RETRIABLE:
                break
            if synced is not None:
                self.hang_up()
            yield from self.sleep(self.rand.uniform(5, 50))
        else:
            return False
        if synced.error != 0:
            yield from self._refused(synced.error)
            return False
        self.owned = owned_partitions(plan, synced.assignment)
        self.stable = True
        self.stable_us = self.world.now_us
        return True

    def _refused(self, error: int) -> Steps:
        """An error that ends the generation for this member."""
        self.stable = False
        if error == UNKNOWN_MEMBER:
            self.cluster.marks.add("told it is no member")
            self._reset()
        elif error == FENCED:
            self.cluster.marks.add("fenced")
            yield from self._fenced_out()
        elif error == ILLEGAL_GENERATION:
            self.cluster.marks.add("told its generation is over")
        else:
            assert error == REBALANCE, f"error {error} for a member"
        yield from self.sleep(self.rand.uniform(1, 50))

    def _reset(self) -> None:
        self.member, self.generation = "", -1

    def _fenced_out(self) -> Steps:
        """Somebody else holds the instance id now."""
        self.fenced = True
        self.hang_up()
        yield from self.sleep(1)

    # -- in the group ----------------------------------------------------------------------------------------------

    def _live(self) -> Steps:
        if not (yield from self._read_offsets()):
            return
        next_commit_us = self.world.now_us
        while self.stable:
            yield from self.sleep(self.rand.uniform(0.5, 1.0) * self.plan.heartbeat_ms)
            if self.owned and self.world.now_us >= next_commit_us:
                next_commit_us = self.world.now_us + self.plan.commit_ms * 1000
                if self.rand.random() < 0.3 and not self._overlapping:
                    self._overlapping = True
                    self.spawn(self._overlapping_commit(), self.rand.randint(0, 5))
                elif not (yield from self._commit(self.generation, self.member)):
                    return
            if not (yield from self._heartbeat()):
                return
            if not self.quiet and self.rand.random() < max(self.restart, self.plan.restless):
                yield from self._stir()
                return

    def _read_offsets(self) -> Steps:
        """What a consumer does with a new assignment (O8)."""
        keys = tuple((self.plan.topic, p) for p in self.owned)
        if not keys:
            return True
        answer = yield from self._call(frames.FETCH, FetchAsk(keys), self.dialect.fetch(self.plan.name, keys))
        if answer is not None and answer.error in RETRIABLE:
            self.hang_up()
        return True

    def _heartbeat(self) -> Steps:
        ask = MemberAsk(self.generation, self.member, self.instance)
        request = self.dialect.heartbeat(self.plan.name, self.generation, self.member, self.instance)
        error = yield from self._call(frames.HEARTBEAT, ask, request)
        if error is None or error == 0:
            return True
        if error in RETRIABLE:
            self.hang_up()
            return True
        yield from self._refused(error)
        return False

    def _commit(self, generation: int, member: str, line: Line | None = None) -> Steps:
        """False when the member has to join again."""
        if not self.owned:
            return True
        chosen = sorted(self.rand.sample(self.owned, self.rand.randint(1, min(3, len(self.owned)))))
        rows = tuple(row(self.cluster, self.plan.topic, p) for p in chosen)
        ask = CommitAsk(generation, member, self.instance, rows)
        request = self.dialect.commit(self.plan.name, generation, member, self.instance, rows)
        if line is None:
            line = yield from self.coordinator(self.plan.name)
        codes = yield from self.ask(line, frames.COMMIT, self.plan.name, ask, request)
        if codes is None:
            return True
        code = next(iter(codes.values()))
        assert set(codes.values()) == {code}, "a group error is on every partition"
        if code in (0, UNKNOWN_TOPIC):
            return True
        if code in RETRIABLE:
            self.hang_up()
            return True
        if (generation, member) == (self.generation, self.member):
            yield from self._refused(code)
            return False
        return True

    def _overlapping_commit(self) -> Steps:
        """On a connection of its own, so that it overlaps heartbeats, rejoins, everything."""
        line = self.line
        if line is not None and line.open:
            second = Line(self, line.wire.broker)
            generation, member = self.generation, self.member
            yield from self._quiet_commit(second, generation, member)
            second.close()
        self._overlapping = False

    def _zombie_commit(self) -> Steps:
        """Under the generation before, or hastily under the new one, whose plan is not out yet (27)."""
        if self._before is None or not self.owned:
            return
        line = yield from self.coordinator(self.plan.name)
        if self.rand.random() < HASTY:
            yield from self._quiet_commit(line, self.generation, self.member)
            return
        self.cluster.marks.add("commit under an old generation")
        yield from self._quiet_commit(line, *self._before)

    def _quiet_commit(self, line: Line, generation: int, member: str) -> Steps:
        chosen = self.rand.choice(self.owned) if self.owned else 0
        rows = (row(self.cluster, self.plan.topic, chosen),)
        ask = CommitAsk(generation, member, self.instance, rows)
        request = self.dialect.commit(self.plan.name, generation, member, self.instance, rows)
        yield from self.ask(line, frames.COMMIT, self.plan.name, ask, request)

    def _stir(self) -> Steps:
        """Leave, vanish, or start anew; then join again."""
        way = self.rand.random()
        if way < 0.4 and self.instance is None:
            ask = MemberAsk(self.generation, self.member, self.instance)
            yield from self._call(frames.LEAVE, ask, self.dialect.leave(self.plan.name, self.member, self.instance))
            self.cluster.marks.add("left")
            away_ms = self.rand.uniform(10, 2_000)
        else:
            self.cluster.marks.add("static restart" if self.instance else "vanished")
            away_ms = self.rand.uniform(10, 500 if self.instance else 2 * self.plan.session_ms)
        self.stable = False
        self.hang_up()
        self._reset()
        yield from self.sleep(away_ms)


def _subscription(topic: str) -> bytes:
    out = Out(False)
    out.i16(0)
    out.count(1)
    out.string(topic)
    out.data(None)
    return b"".join(out.parts)


def make_plan(plan: GroupPlan, members: list[str]) -> list[tuple[str, bytes]]:
    """Partitions dealt out in the order of the member ids."""
    ordered = sorted(members)
    dealt: dict[str, list[int]] = {member: [] for member in ordered}
    for partition in range(plan.partitions):
        dealt[ordered[partition % len(ordered)]].append(partition)
    return [(member, _assignment(plan, partitions)) for member, partitions in dealt.items()]


def _assignment(plan: GroupPlan, partitions: list[int]) -> bytes:
    if not plan.consumer:
        return bytes(partitions)
    out = Out(False)
    out.i16(0)
    out.count(1)
    out.string(plan.topic)
    out.count(len(partitions))
    for partition in partitions:
        out.i32(partition)
    out.data(None)
    return b"".join(out.parts)


def owned_partitions(plan: GroupPlan, assignment: bytes) -> tuple[int, ...]:
    """Inverse of what `make_plan` gives one member; nothing for an empty assignment."""
    if not assignment:
        return ()
    if not plan.consumer:
        return tuple(assignment)
    source = frames.In(assignment, 2, False)
    found: list[int] = []
    for _ in range(source.count()):
        assert source.text() == plan.topic
        found += [source.i32() for _ in range(source.count())]
    return tuple(found)
