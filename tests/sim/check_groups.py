"""G1-G5, G7, G12, G15, G16 of memberships and generations, from the history alone."""

from collections import defaultdict

from tests.sim import frames
from tests.sim.frames import Joined
from tests.sim.history import CommitAsk, History, JoinAsk, MemberAsk, Op, SyncAsk, Violation
from tests.sim.members import GroupPlan, owned_partitions

FENCED, UNKNOWN_MEMBER = 82, 25


def check_groups(history: History, plans: dict[str, GroupPlan]) -> list[Violation]:
    """All groups with members. `plans`: how each of them was to behave."""
    by_group: dict[str, list[Op]] = defaultdict(list)
    for op in history.answered():
        if op.group in plans:
            by_group[op.group].append(op)
    found: list[Violation] = []
    for group, ops in by_group.items():
        found += _Generations(group).check(ops)
        found += _syncs(group, plans[group], ops)
        found += _removed(group, ops)
        found += _coordinators(group, ops)
    return found


class _Generations:
    """G2, G3, G16, and G7 by generation."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.found: list[Violation] = []
        self.newest = -1
        self.newest_us = 0
        self.seats: dict[int, frozenset[str]] = {}
        """generation -> who is in it, by instance where there is one."""
        self.chosen: dict[int, str] = {}
        self.leaders: dict[int, str] = {}
        self.seat_of: dict[str, str] = {}
        self.handed_out: set[str] = set()

    def check(self, ops: list[Op]) -> list[Violation]:
        for op in ops:
            if op.api == frames.JOIN:
                self._join(op, op.ask, op.answer)
            elif op.api in (frames.COMMIT, frames.SYNC):
                self._stale(op)
        return self.found

    def _say(self, invariant: str, text: str) -> None:
        self.found.append(Violation(invariant, f"{self.group}: {text}"))

    def _join(self, op: Op, ask: JoinAsk, answer: Joined) -> None:
        if answer.error == 79:
            self.handed_out.add(answer.member)
            return
        if answer.error != 0:
            return
        generation = answer.generation
        self.seat_of[answer.member] = ask.instance or answer.member
        if generation < self.newest and op.sent_us > self.newest_us:
            self._say("G2", f"generation {generation} was answered after {self.newest}")
        if generation > self.newest:
            assert op.answered_us is not None
            self.newest, self.newest_us = generation, op.answered_us
        if ask.member and ask.member != answer.member:
            self._say("G16", f"{ask.member} joined and became {answer.member}")
        if self.chosen.setdefault(generation, answer.protocol) != answer.protocol:
            self._say("G3", f"generation {generation} has protocols {self.chosen[generation]} and {answer.protocol}")
        if answer.members:
            self.seat_of.update({member: instance or member for member, instance, _ in answer.members})
            seats = frozenset(instance or member for member, instance, _ in answer.members)
            if len(seats) != len(answer.members):
                self._say("G12", f"generation {generation} has an instance id twice: {answer.members}")
            if self.seats.setdefault(generation, seats) != seats:
                self._say(
                    "G2",
                    f"generation {generation} was given to {sorted(self.seats[generation])} and to {sorted(seats)}",
                )
            if answer.member not in {member for member, _, _ in answer.members}:
                self._say("G3", f"{answer.member} leads generation {generation} and is not in it")
        leader_seat = self.seat_of.get(answer.leader)
        # A static leader that nobody ever heard of: it was replaced before its own answer left.
        if leader_seat is not None and self.leaders.setdefault(generation, leader_seat) != leader_seat:
            self._say("G3", f"generation {generation} has leaders {self.leaders[generation]} and {leader_seat}")

    def _stale(self, op: Op) -> None:
        """A change under a generation older than one that was answered before the change was even sent."""
        ask: CommitAsk | SyncAsk = op.ask
        if ask.generation < 0 or ask.generation >= self.newest or op.sent_us <= self.newest_us:
            return
        accepted = op.answer.error == 0 if op.api == frames.SYNC else 0 in op.answer.values()
        if accepted:
            self._say("G7", f"{op.client} under generation {ask.generation} was accepted after {self.newest} began")


def _syncs(group: str, plan: GroupPlan, ops: list[Op]) -> list[Violation]:
    """G4: what a member gets is what a leader of that generation said, and never changes. G5: no partition twice."""
    found: list[Violation] = []
    said: dict[tuple[int, str], set[bytes]] = defaultdict(set)
    seats: dict[str, str] = {}
    for op in ops:
        if op.api == frames.JOIN and op.answer.error == 0:
            seats[op.answer.member] = op.ask.instance or op.answer.member
    given: dict[int, dict[str, bytes]] = defaultdict(dict)
    for op in [op for op in ops if op.api == frames.SYNC]:
        ask: SyncAsk = op.ask
        for member, assignment in ask.plan:
            said[ask.generation, seats.get(member, member)].add(assignment)
        if op.answer.error != 0:
            continue
        seat = seats.get(ask.member, ask.member)
        known = given[ask.generation].setdefault(seat, op.answer.assignment)
        if known != op.answer.assignment:
            found.append(Violation("G4", f"{group}: {seat} has two assignments in generation {ask.generation}"))
    for generation, assignments in given.items():
        owners: dict[int, str] = {}
        for seat, assignment in assignments.items():
            if assignment and (generation, seat) in said and assignment not in said[generation, seat]:
                found.append(Violation("G4", f"{group}: nobody assigned that to {seat} in generation {generation}"))
            for partition in owned_partitions(plan, assignment):
                if owners.setdefault(partition, seat) != seat:
                    found.append(
                        Violation(
                            "G5", f"{group}: {partition} has owners {owners[partition]} and {seat} in {generation}"
                        )
                    )
    return found


def _removed(group: str, ops: list[Op]) -> list[Violation]:
    """G7, G12: an id that was told 82, or that left, is never served again."""
    found: list[Violation] = []
    over: dict[str, int] = {}
    for op in ops:
        assert op.answered_us is not None
        member = getattr(op.ask, "member", "")
        if not member:
            continue
        code = _code(op)
        if code == 0 and member in over and op.sent_us > over[member]:
            found.append(Violation("G7", f"{group}: {member} is served by API {op.api} after its end"))
        left = op.api == frames.LEAVE and code == 0 and isinstance(op.ask, MemberAsk) and op.ask.instance is None
        if code == FENCED or left:
            over.setdefault(member, op.answered_us)
    return found


def _code(op: Op) -> int:
    answer = op.answer
    if isinstance(answer, int):
        return answer
    if isinstance(answer, dict):
        return next(iter(answer.values()), 0)
    return int(answer.error)


def _coordinators(group: str, ops: list[Op]) -> list[Violation]:
    """G1: in one term one replica accepts changes, and terms do not interleave."""
    found: list[Violation] = []
    who: dict[int, int] = {}
    newest = -1
    newest_us = 0
    for op in ops:
        if op.api not in (frames.COMMIT, frames.SYNC, frames.JOIN) or _code(op) != 0 or op.term < 0:
            continue
        assert op.answered_us is not None
        if who.setdefault(op.term, op.broker) != op.broker:
            found.append(Violation("G1", f"{group}: replicas {who[op.term]} and {op.broker} in term {op.term}"))
        if op.term < newest and op.sent_us > newest_us and op.api == frames.COMMIT:
            found.append(Violation("G1", f"{group}: a commit in term {op.term} after one in term {newest}"))
        if op.term > newest:
            newest, newest_us = op.term, op.answered_us
    return found


def check_calm(history: History, plan: GroupPlan, size: int) -> list[Violation]:
    """G10, G15: once all `size` members have their assignment, no fault is a reason for another generation."""
    seats: dict[str, str] = {}
    got: dict[int, set[str]] = defaultdict(set)
    complete: int | None = None
    for op in history.answered():
        if op.group != plan.name:
            continue
        if op.api == frames.JOIN and op.answer.error == 0:
            seats[op.answer.member] = op.ask.instance or op.client
            if complete is not None and op.answer.generation > complete:
                return [
                    Violation(
                        "G15", f"{plan.name}: {op.client} got generation {op.answer.generation}, all had {complete}"
                    )
                ]
        elif op.api == frames.SYNC and op.answer.error == 0:
            members = got[op.ask.generation]
            members.add(seats.get(op.ask.member, op.ask.member))
            if len(members) == size and complete is None:
                complete = op.ask.generation
    return []
