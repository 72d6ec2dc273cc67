"""A voter's groups as Raft lets them live: what was written to a WAL and synced, kept apart from the product.

Problem: whether a group that a start calls whole is whole can be judged only by a history that no code of the product
has a part in; and a history that breaks Raft's rules accuses a product that keeps them. Mechanism: the others of each
group are modelled by the logs of all leaders that were ever elected. A leader's log only grows, begins with all that
was committed when it was elected, and commits by an entry of its own term alone. The voter follows, leads, votes,
flushes, checkpoints and installs as `raft/` and `replica/` do. What it does not do: time, messages, more than a voter.
"""

from copy import deepcopy
from random import Random

from muster_coordinator.ids import GroupNo
from muster_coordinator.raft.members import Placed
from muster_coordinator.raft.messages import Entry, HardState
from muster_coordinator.raft.quorum import Config
from muster_coordinator.storage.contract import NO_RECOVERY_POINT, GroupWrites, RecoveryPoint

from tests.storage.wal_kit import conf, entry, some_config

NEVER = HardState(0, -1, 0)


class Others:
    """Of one group: every leader's log, as the terms of its entries. Entry i of a log is at [i - 1]."""

    def __init__(self) -> None:
        self.leaders: dict[int, list[int]] = {}
        self.committed: list[int] = []
        self.known: dict[int, int] = {}
        """Term -> how much of its leader's log that leader knows to be committed."""

    @property
    def newest(self) -> int:
        return max(self.leaders, default=0)

    def elect(self, rand: Random, term: int, log: list[int] | None = None) -> None:
        """`log`: the winner's; else any that may win."""
        if log is None:
            may = [one for one in self.leaders.values() if one[: len(self.committed)] == self.committed]
            base = rand.choice(may) if may else self.committed
            log = base[: rand.randrange(len(self.committed), len(base) + 1)]
        assert term > self.newest
        assert log[: len(self.committed)] == self.committed
        self.leaders[term] = [*log, term]
        self.known[term] = len(self.committed)

    def go_on(self, rand: Random) -> None:
        """Some leader, deposed or not, appends; the newest commits."""
        if not self.leaders:
            return
        term = rand.choice((self.newest, self.newest, rand.choice(tuple(self.leaders))))
        self.leaders[term] += [term] * rand.randrange(1, 4)
        log = self.leaders[self.newest]
        index = rand.randrange(len(log)) + 1
        if rand.random() < 0.5 and log[index - 1] == self.newest and index > len(self.committed):
            self.committed = log[:index]
            self.known[self.newest] = index

    def wrote(self, log: list[int]) -> bool:
        """Is this the beginning of a log that Raft allows? An entry determines all before it."""
        return not log or self.leaders.get(log[-1], [])[: len(log)] == log


class Voter:
    """Of one group: what it has written. `log` is whole, from entry 1, whatever was compacted."""

    def __init__(self, number: int, *, bears_log: bool) -> None:
        self.number = number
        self.bears_log = bears_log
        self.others = Others()
        self.hard = NEVER
        self.log: list[int] = []
        self.checkpoint = (0, 0)
        self.checkpoints = {(0, 0)}
        self.recovery_point = NO_RECOVERY_POINT
        self.recovery_points = {NO_RECOVERY_POINT}
        self.suspended = False
        self.lost_in = 0
        """The highest term that there was when it lost something."""
        self.verified = 0
        """How much of the log is known to be that of the leader of its term."""
        self._captured: tuple[int, int] | None = None
        """A checkpoint whose recovery point is written."""

    def brought(self, index: int, term: int) -> Config | None:
        """The configuration that this entry brings, if it is one. Of every third group none ever is."""
        number = 3 * index + 5 * term + self.number
        return some_config(number) if self.number % 3 and number % 7 == 0 else None

    def config_at(self, log: list[int], index: int) -> Config | None:
        """The one in effect at `index` of this log, None if no entry has brought one."""
        found = (self.brought(at, log[at - 1]) for at in range(index, 0, -1))
        return next((config for config in found if config is not None), None)

    def _placed(self, index: int) -> Placed | None:
        config = self.config_at(self.log, index)
        return None if config is None else Placed(index, config)

    def entry(self, index: int) -> Entry:
        term = self.log[index - 1]
        config = self.brought(index, term)
        if config is not None:
            return conf(index, config, term)
        size = (37 * index + 91 * term) % 200
        return entry(index, term, b"%d:%d:%d|" % (self.number, term, index) + bytes(size))

    def restarted(self) -> None:
        """What was not written is forgotten."""
        self.verified, self._captured = 0, None

    def turn(self, rand: Random) -> list[GroupWrites]:
        """What the next batch has of this group; already part of it."""
        for _ in range(rand.randrange(3)):
            self.others.go_on(rand)
        kinds = (self.follow,) * 8 + (self.flush,) * 3 + (self.lead, self.vote, self.learn, self.install)
        return rand.choice(kinds)(rand)

    def _written(self, hard: HardState, first: int = 0, **more: object) -> list[GroupWrites]:
        """`first`: the first new entry, 0 for none."""
        told = None if hard == self.hard else hard
        self.hard = hard
        new = tuple(self.entry(index) for index in range(first, len(self.log) + 1)) if first else ()
        if told is None and not new and not more:
            return []
        return [GroupWrites(GroupNo(self.number), told, new, **more)]  # type: ignore[arg-type]

    # -- the others lead -------------------------------------------------------------------------------------------

    def _enter(self, rand: Random) -> HardState | None:
        """The hard state in the term of a leader, who may be new."""
        others, hard = self.others, self.hard
        if others.newest < max(hard.term, 1) or rand.random() < 0.15:
            others.elect(rand, max(others.newest + 1, hard.term + rand.randrange(2), 1))
        if hard.term not in others.leaders or rand.random() < 0.3:
            term = rand.choice([one for one in others.leaders if one >= hard.term])
            if term > hard.term:
                self.verified = 0
                vote = term % 3 if hard.term not in others.leaders and rand.random() < 0.3 else -1
                return HardState(term, vote, hard.commit)
        return hard

    def follow(self, rand: Random) -> list[GroupWrites]:
        """Take some entries of the leader's: cut at the first that conflicts."""
        hard = self._enter(rand)
        leading = self.others.leaders[hard.term]
        same = next((at for at, (a, b) in enumerate(zip(self.log, leading, strict=False)) if a != b), None)
        first = min(len(self.log), len(leading)) + 1 if same is None else same + 1
        if first > len(leading):
            self.verified = max(self.verified, len(leading))
            return self._written(self._commits(hard))
        last = min(len(leading), first + rand.randrange(4))
        if first <= self.checkpoint[0]:
            return self._written(hard)
        assert first > self.hard.commit, "a committed entry is never overwritten"
        self.log = leading[:last]
        self.verified = last
        return self._written(self._commits(hard), first)

    def learn(self, rand: Random) -> list[GroupWrites]:
        """A commit index alone."""
        return self._written(self._commits(self.hard))

    def _commits(self, hard: HardState) -> HardState:
        known = min(self.others.known.get(hard.term, 0), self.verified)
        return hard._replace(commit=max(hard.commit, known))

    def install(self, rand: Random) -> list[GroupWrites]:
        """The leader's checkpoint, which is far ahead or in conflict."""
        if rand.random() < 0.5:
            return []
        hard = self._enter(rand)
        known = self.others.known[hard.term]
        if known <= max(hard.commit, self.checkpoint[0]):
            return self._written(hard)
        index = rand.randrange(max(hard.commit, self.checkpoint[0]), known) + 1
        leading = self.others.leaders[hard.term]
        at = (index, leading[index - 1])
        if self.log[:index] != leading[:index]:
            self.log = leading[:index]
        self.verified = max(self.verified, index)
        found = self._written(hard)
        self.checkpoint = at
        self.checkpoints.add(at)
        self._captured = None
        more: dict[str, object] = {"checkpoint": at, "config": self._placed(index)}
        if self.bears_log:
            more["recovery_point"] = self._marked(index)
        found += self._written(hard, **more)
        return found + (self._written(hard._replace(commit=index)) if rand.random() < 0.7 else [])

    # -- by itself -------------------------------------------------------------------------------------------------

    def vote(self, rand: Random) -> list[GroupWrites]:
        if self.suspended:
            return []
        self.verified = 0
        term = max(self.hard.term, self.others.newest) + 1
        return self._written(HardState(term, rand.randrange(3), self.hard.commit))

    def lead(self, rand: Random) -> list[GroupWrites]:
        committed = self.others.committed
        if self.suspended or self.log[: len(committed)] != committed:
            return []
        term = max(self.hard.term, self.others.newest) + 1
        self.others.elect(rand, term, self.log)
        first = len(self.log) + 1
        self.log = self.others.leaders[term][:]
        self.verified = len(self.log)
        return self._written(HardState(term, 0, self.hard.commit), first)

    def flush(self, rand: Random) -> list[GroupWrites]:
        """The recovery point of the segments; then, in a batch of its own, the checkpoint that it is for."""
        if self._captured is not None:
            at, self._captured = self._captured, None
            if at[0] <= self.checkpoint[0]:
                return []
            self.checkpoint = at
            self.checkpoints.add(at)
            return self._written(self.hard, checkpoint=at, config=self._placed(at[0]))
        applied = self.hard.commit
        if applied <= self.checkpoint[0]:
            return []
        if rand.random() < 0.8:
            self._captured = applied, self.log[applied - 1]
        if not self.bears_log:
            return self.flush(rand) if self._captured is not None else []
        return (
            self._written(self.hard, recovery_point=self._marked(applied))
            if applied > self.recovery_point.applied
            else []
        )

    def _marked(self, applied: int) -> RecoveryPoint:
        self.recovery_point = max(self.recovery_point, RecoveryPoint(applied, 10 * applied, 0, 100 * applied))
        self.recovery_points.add(self.recovery_point)
        return self.recovery_point


class History:
    """Of all groups of a WAL."""

    def __init__(self, rand: Random) -> None:
        self.rand = rand
        self.voters = {number: Voter(number, bears_log=number % 2 == 0) for number in (1, 2, 3)}
        self.numbers = 3

    def turn(self) -> list[GroupWrites | GroupNo]:
        """The writes of one batch, in order; a number is a group that is deleted."""
        rand = self.rand
        found: list[GroupWrites | GroupNo] = []
        for number in rand.sample(tuple(self.voters), min(len(self.voters), rand.choice((1, 1, 2, 3)))):
            for _ in range(rand.choice((1, 1, 2))):
                found += self.voters[number].turn(rand)
        if rand.random() < 0.05:
            self.numbers += 1
            self.voters[self.numbers] = Voter(self.numbers, bears_log=self.numbers % 2 == 0)
        if rand.random() < 0.03 and len(self.voters) > 2:
            number = rand.choice(tuple(self.voters))
            del self.voters[number]
            found = [one for one in found if isinstance(one, int) or one.group != number]
            found.append(GroupNo(number))
        return found

    def copy(self) -> "History":
        """As it is now; draws go on from the same source."""
        copy = deepcopy(self)
        copy.rand = self.rand
        return copy
