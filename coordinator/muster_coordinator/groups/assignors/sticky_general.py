"""Sticky assignment where members subscribe to different topics: keep valid ownership, then move until balanced.

1. Members keep what they owned of topics that they still subscribe to (with racks: only what has a replica in their
   rack).
2. Every unassigned partition goes to the least loaded subscriber, topics with the fewest subscribers first; with racks,
   first only to members whose rack has a replica.
3. Partitions with only one possible owner, and members that can neither give nor take a partition, take no part in
   step 4.
4. While some partition's owner holds at least two more than another subscriber of its topic, the partition moves: to
   its owner of an earlier generation if that improves the balance, else to the least loaded subscriber. The first pass
   moves only partitions that had no owner, unless step 1 revoked something; the second moves all.
5. If the second pass moved partitions, and the balance score is no lower than before step 4, step 4 is undone. (Not if
   no member owned anything at the start.)

Balance score: sum over all pairs of members of the difference of their loads; 0 is perfectly even.
Two moves of one topic in opposite directions between two members cancel out (`_Movements`).
Deviation from Kafka: an earlier owner that no longer subscribes to the topic gets nothing back.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from muster_coordinator.groups.assignors.java_order import bucket, hash_table_size, partition_hash, string_hash
from muster_coordinator.groups.assignors.sticky_input import NO_GENERATION, Key, StickyInput

TRADES_PER_PARTITION_MAX = 64
"""Safety bound on the loop of step 4, which ends anyway, because every move improves the balance."""


class GeneralAssignment:
    """Runs the steps above once; `assigned` by member."""

    __slots__ = (
        "_by_load",
        "_earlier_owner",
        "_movements",
        "_owner",
        "_owners_of_topic",
        "_problem",
        "_revoked",
        "_subscribers",
        "assigned",
    )

    def __init__(self, problem: StickyInput) -> None:
        self._problem = problem
        members = range(len(problem.member_ids))
        self._subscribers: list[list[int]] = [[] for _ in problem.topics]
        for member in members:
            for topic in problem.subscribed[member]:
                self._subscribers[topic].append(member)
        self.assigned: list[dict[Key, None]] = [{} for _ in members]
        self._owner: dict[Key, int] = {}
        self._owners_of_topic: list[dict[int, int]] = [{} for _ in problem.topics]
        """Topic → member → number of the topic's partitions that the member holds."""
        self._movements = _Movements(problem.topics)
        self._revoked = False
        self._keep_owned()
        self._earlier_owner = _earlier_owners(problem)
        self._by_load = sorted((len(self.assigned[member]), member) for member in members)
        # Invariant: sorted by (load, member) with each member's current load; `_leave_order` and `_enter_order` bracket
        # every change of a load.
        self._balance()

    def _keep_owned(self) -> None:
        for member, keys in enumerate(self._problem.owned):
            for key in keys:
                if key.topic not in self._problem.subscribed[member] or self._problem.racks.mismatch(member, key):
                    self._revoked = True
                else:
                    self._hand(key, member)

    def _hand(self, key: Key, member: int) -> None:
        self.assigned[member][key] = None
        self._owner[key] = member
        owners = self._owners_of_topic[key.topic]
        owners[member] = owners.get(member, 0) + 1

    def _take(self, key: Key) -> int:
        member = self._owner.pop(key)
        del self.assigned[member][key]
        owners = self._owners_of_topic[key.topic]
        owners[member] -= 1
        if not owners[member]:
            del owners[member]
        return member

    def _leave_order(self, member: int) -> None:
        del self._by_load[bisect_left(self._by_load, (len(self.assigned[member]), member))]

    def _enter_order(self, member: int) -> None:
        insort(self._by_load, (len(self.assigned[member]), member))

    def _balance(self) -> None:
        starts_empty = self._by_load[-1][0] == 0
        topics = sorted(range(len(self._problem.topics)), key=lambda topic: (len(self._subscribers[topic]), topic))
        every = self._problem.all_partitions(topics)
        unassigned = [key for key in every if key not in self._owner]
        left = self._place(unassigned, near_only=True) if self._problem.racks.usable else unassigned
        self._place(left, near_only=False)
        tradable = [key for key in every if len(self._subscribers[key.topic]) > 1]
        for member in range(len(self.assigned)):
            if not self._can_trade(member):
                self._leave_order(member)
        if not self._by_load:
            return
        traders = [member for _load, member in self._by_load]
        before = [dict(keys) for keys in self.assigned]
        if not self._revoked:
            self._trade([key for key in unassigned if len(self._subscribers[key.topic]) > 1])
        if self._trade(tradable) and not starts_empty:
            score = balance_score(len(self.assigned[member]) for member in traders)
            if score >= balance_score(len(before[member]) for member in traders):
                self.assigned = before

    def _place(self, unassigned: Sequence[Key], *, near_only: bool) -> list[Key]:
        """Step 2; returns the partitions that no member could take."""
        subscribed, racks, left = self._problem.subscribed, self._problem.racks, []
        for key in unassigned:
            for _load, member in self._by_load:
                if key.topic in subscribed[member] and not (near_only and racks.mismatch(member, key)):
                    self._leave_order(member)
                    self._hand(key, member)
                    self._enter_order(member)
                    break
            else:
                left.append(key)
        return left

    def _can_trade(self, member: int) -> bool:
        possible = sum(self._problem.partition_counts[topic] for topic in self._problem.subscribed[member])
        if len(self.assigned[member]) < possible:
            return True
        return any(len(self._subscribers[topic]) > 1 for topic in self._problem.subscribed[member])

    def _balanced(self) -> bool:
        """Whether no subscriber of a topic holds at least two less than an owner of one of the topic's partitions."""
        if self._by_load[0][0] >= self._by_load[-1][0] - 1:
            return True
        load = [len(keys) for keys in self.assigned]
        return all(
            max(map(load.__getitem__, owners)) <= min(map(load.__getitem__, subscribers)) + 1
            for owners, subscribers in zip(self._owners_of_topic, self._subscribers, strict=True)
        )

    def _trade(self, keys: Sequence[Key]) -> bool:
        """Step 4 over `keys`, in passes until a pass moves nothing. Returns whether any partition moved."""
        trades, trades_max = 0, TRADES_PER_PARTITION_MAX * (len(self._owner) + 1)
        balanced = self._balanced()
        moved_in_pass = True
        while moved_in_pass and not balanced and trades < trades_max:
            moved_in_pass = False
            for key in keys:
                target = self._better_owner(key)
                if target is None:
                    continue
                self._move(self._movements.actual(key, self._owner[key], target), target)
                moved_in_pass = True
                trades += 1
                balanced = self._balanced()
                if balanced or trades >= trades_max:
                    break
        return trades > 0

    def _better_owner(self, key: Key) -> int | None:
        """The member that should get the partition instead of its owner; None: it stays."""
        load = len(self.assigned[self._owner[key]])
        earlier = self._earlier_owner.get(key)
        if earlier is not None and load > len(self.assigned[earlier]) + 1:
            return earlier
        subscribed = self._problem.subscribed
        lightest = next(member for _load, member in self._by_load if key.topic in subscribed[member])
        return lightest if load > len(self.assigned[lightest]) + 1 else None

    def _move(self, key: Key, target: int) -> None:
        source = self._owner[key]
        if source == target:
            return
        self._leave_order(source)
        self._leave_order(target)
        self._take(key)
        self._hand(key, target)
        self._movements.note(key, source, target)
        self._enter_order(source)
        self._enter_order(target)


def balance_score(loads: Iterable[int]) -> int:
    """Sum over all pairs of the difference of their loads, in O(n log n)."""
    score = total = 0
    for lighter, load in enumerate(sorted(loads)):
        score += load * lighter - total
        total += load
    return score


def _earlier_owners(problem: StickyInput) -> dict[Key, int]:
    """Partition → its owner before the newest generation: of the subscribed members with a claim of an older
    generation, the one with the latest."""
    generations = [NO_GENERATION if one is None else one for one in problem.generations]
    newest = max(generations, default=NO_GENERATION)
    found: dict[Key, tuple[int, int]] = {}
    for member in problem.order:
        generation = generations[member]
        if generation >= newest:
            continue
        for key in problem.claims[member]:
            if key.topic in problem.subscribed[member] and (key not in found or generation > found[key][0]):
                found[key] = (generation, member)
    return {key: member for key, (_generation, member) in found.items()}


class _Movements:
    """Moves so far by (topic, source, target), so that opposite moves can cancel out.

    Invariant: a partition has at most one entry, from its first owner to its present one.
    """

    __slots__ = ("_pair_of", "_route", "_topic_hashes")

    def __init__(self, topics: Sequence[str]) -> None:
        self._topic_hashes = [string_hash(topic) for topic in topics]
        self._pair_of: dict[Key, tuple[int, int]] = {}
        self._route: dict[tuple[int, int, int], _Moved] = {}
        """(topic, source, target) → the partitions that moved so."""

    def note(self, key: Key, source: int, target: int) -> None:
        pair = self._pair_of.pop(key, None)
        if pair is not None:
            assert pair[1] == source
            route = self._route[key.topic, *pair]
            del route.keys[key]
            if not route.keys:
                del self._route[key.topic, *pair]
            source = pair[0]
            if source == target:
                return
        self._pair_of[key] = (source, target)
        route = self._route.setdefault((key.topic, source, target), _Moved())
        route.keys[key] = None
        route.table = max(route.table, hash_table_size(len(route.keys)))

    def actual(self, key: Key, source: int, target: int) -> Key:
        """The partition to move instead of `key`: one of the topic that moved the opposite way before, if any.

        Of several, Kafka takes the first of a `HashSet`. So do we, because the choice affects later moves.
        """
        pair = self._pair_of.get(key)
        if pair is not None:
            source = pair[0]
        route = self._route.get((key.topic, target, source))
        if route is None:
            return key
        topic_hash, table = self._topic_hashes[key.topic], route.table
        return min(route.keys, key=lambda one: bucket(partition_hash(topic_hash, one.partition), table))


class _Moved:
    """Partitions of one route, and the number of buckets that Kafka's set of them has grown to."""

    __slots__ = ("keys", "table")

    def __init__(self) -> None:
        self.keys: dict[Key, None] = {}
        self.table = 0
