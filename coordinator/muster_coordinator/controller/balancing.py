"""Which partitions are to move so that brokers are level, and one that is to leave is emptied (ADR 47). Pure.

Problem: a broker that joined holds nothing, and one that is to leave holds much; to name each partition by hand takes
a person hours and puts replicas of one partition into one rack. Mechanism: from one image, and from who can be reached,
the next moves, the most urgent first:

1. *Emptying*: each replica on a broker that is to leave goes to another one, also one that is only on its way there.
2. *Replication factor*: each partition that is to have more replicas gets them, or gives some away (`resizing`).
3. *Racks*: a partition whose replicas share a rack although there are more racks gives one of them away.
4. *Counts*: as long as one broker has two replicas more than another, one goes from the first to the second, unless the
   partition would be in fewer racks then.
5. *Leaders*: as long as one broker is the preferred leader of two partitions more than another, the preference goes
   from the first to the second, through others if they share no partition. No data moves for it.

Any other move takes a replica from one broker to another one and leaves the order of the others as it is. Each is
judged with those before it taken as done, so a plan can be shown as a whole and be carried out a few at a time.

Partitions of the offsets topic are moved like all others. The controller's group is not levelled: other brokers vote in
it only in the place of those that are to leave (`voters_without`), and when it is to have another number of them
(`voters_resized`). What this does not do: measure weights, level with a partition that is being moved, or decide when
to begin (`replica.maintenance.balancer` does).
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import NamedTuple

from typing_extensions import override

from muster_coordinator.controller.image import ClusterImage, Move, Partition
from muster_coordinator.controller.resizing import Candidates, enlarged, reduced, why_not
from muster_coordinator.controller.weighing import Copy, Decision, Held, Step, Weighing, Weights
from muster_coordinator.ids import BrokerId

DIFFERENCE_MAX = 1
"""Brokers are level when none has more than this many replicas, or preferred leaderships, more than another."""
STUCK_MAX = 10
AVOIDED = "every other broker has no room for it, or a copy to it was cancelled lately"


class PlannedMove(NamedTuple):
    """A partition and the brokers that its replicas should be on."""

    topic: str
    topic_id: bytes
    partition: int
    voters: tuple[BrokerId, ...]
    reason: str
    copies: bool = True
    """Do the partition's members change? Else only the preferred leader is another one."""


class Plan(NamedTuple):
    moves: tuple[PlannedMove, ...]
    stuck: tuple[str, ...] = ()
    """What cannot leave a broker that is to leave, or get or give away replicas, and why; the first `STUCK_MAX`."""
    more: bool = False
    """There are more moves than were asked for."""


def plan(
    image: ClusterImage,
    takers: Collection[BrokerId],
    most: int,
    *,
    connected: Collection[BrokerId] | None = None,
    level: bool = True,
    avoided: Collection[Copy] = (),
) -> Plan:
    """The next moves of a `Planner`, at most this many. O(partitions) for each."""
    planner = Planner(image, takers, connected=connected, level=level, avoided=avoided)
    moves = tuple(islice(planner, most))
    return Plan(moves, tuple(planner.stuck), more=next(planner, None) is not None)


def voters_without(image: ClusterImage, takers: Collection[BrokerId]) -> tuple[BrokerId, ...] | None:
    """Who is to vote in the controller's group so that nobody does who is to leave: others in their places, in racks
    that no other voter is in where there are such. None: there is nobody else for one of them."""
    racks = {broker.broker: broker.rack for broker in image.brokers.values()}
    leave = {voter for voter in image.voters if voter in image.brokers and image.brokers[voter].departing}
    voters = list(image.voters)
    for at, voter in enumerate(voters):
        if voter not in leave:
            continue
        used = {racks.get(other, "") for other in voters if other not in leave}
        fit = [
            broker.broker
            for broker in image.brokers.values()
            if broker.bound and not broker.departing and broker.broker in takers and broker.broker not in voters
        ]
        if not fit:
            return None
        voters[at] = min(fit, key=lambda broker: (racks[broker] in used, broker))
    return tuple(voters)


def voters_resized(
    image: ClusterImage, takers: Collection[BrokerId], connected: Collection[BrokerId], leader: BrokerId
) -> tuple[BrokerId, ...] | str:
    """Who is to vote in the controller's group so that it has as many voters as it is to have, its `leader` among them
    if that can be; else why there are none."""
    wanted, voters = image.controller_voters_wanted, image.voters
    fit = [broker for broker in sorted(takers) if (known := image.brokers.get(broker)) and known.bound]
    candidates = Candidates(image.brokers, [one for one in fit if not image.brokers[one].departing], connected, {})
    more = wanted > len(voters)
    if more:
        found = enlarged(voters, wanted, candidates)
    else:
        found = reduced(voters, wanted, candidates, preferred=leader, filled=voters)
    if found is not None:
        return found
    return f"the controller's group has {len(voters)} voters of {wanted}: {why_not(voters, candidates, more=more)}"


@dataclass(slots=True)
class _Place:
    """A partition with where it is wanted by the plan so far."""

    topic: str
    topic_id: bytes
    number: int
    now: Partition
    busy: bool
    """It is being moved already, or has no leader who could."""
    wanted: int
    """How many replicas it is to have."""


class _HandOver(NamedTuple):
    place: _Place
    giver: BrokerId
    taker: BrokerId


class Planner(Iterator[PlannedMove]):
    """An iterator over the moves of a plan. Each takes O(partitions), the first also to count them.

    Only `takers` get replicas; a broker that is no such one and is not to leave keeps its own. A partition of whose
    replicas no majority is `connected` has no leader who could move it. Without `level` only what somebody has asked
    for is moved: brokers are emptied, and replication factors changed.
    """

    def __init__(
        self,
        image: ClusterImage,
        takers: Collection[BrokerId],
        *,
        connected: Collection[BrokerId] | None = None,
        level: bool = True,
        weights: Weights | None = None,
        avoided: Collection[Copy] = (),
    ) -> None:
        """`connected`: by default those that get replicas. Without `weights` a partition counts as one. `avoided`:
        brokers that get none of these groups, since one that was on its way there was cancelled."""
        self.stuck: list[str] = []
        """See `Plan`; complete when all moves were taken that somebody has asked for."""
        self._image = image
        self._avoided = frozenset(avoided)
        self._connected = takers if connected is None else connected
        self._racks = {broker.broker: broker.rack for broker in image.brokers.values()}
        self._takers = sorted(
            broker.broker
            for broker in image.brokers.values()
            if broker.bound and not broker.departing and broker.broker in takers
        )
        self._count = dict.fromkeys(self._takers, 0)
        """Replicas of each broker that may get some, also of partitions that are being moved."""
        self._led = dict.fromkeys(self._takers, 0)
        """Partitions that prefer each of them as leader."""
        self._places: list[_Place] = []
        """All partitions, in a fixed order."""
        for name in sorted(image.topics):
            topic = image.topics[name]
            for number, partition in enumerate(topic.partitions):
                self._add(partition, 1)
                busy = partition.moves or not self._has_majority(partition)
                wanted = topic.replication_wanted or len(partition.voters)
                self._places.append(_Place(name, topic.topic_id, number, partition, busy, wanted))
        self.weighing = (
            None if weights is None else Weighing(self._places, self._takers, self._racks, weights, self._avoided)
        )
        """By the moves so far."""
        asked = (self._emptying(), self._resizing())
        later = (self._into_racks(), self._level_counts(), self._level_leaders()) if level else ()
        weighed = chain.from_iterable(self.exchanges()) if level else ()
        self._moves: Iterator[PlannedMove] = chain(*asked, *later, weighed)

    @override
    def __next__(self) -> PlannedMove:
        return next(self._moves)

    def _add(self, partition: Partition, by: int) -> None:
        count, led = self._count, self._led
        for broker in partition.voters:
            if broker in count:
                count[broker] += by
        if partition.preferred in led:
            led[partition.preferred] += by

    # The kinds of moves, each with those before it taken as done.

    def _emptying(self) -> Iterator[PlannedMove]:
        for broker in sorted(self._image.brokers):
            if not self._image.brokers[broker].departing:
                continue
            for place in self._places:
                if broker not in place.now.voters:
                    continue
                taker = self._taker(place.now, broker)
                if not self._has_majority(place.now):
                    self._cannot_leave(place, broker, "no majority of its replicas is connected")
                elif taker is None:
                    avoided = not set(self._takers) <= set(place.now.voters)
                    self._cannot_leave(place, broker, AVOIDED if avoided else "every broker that can be reached has it")
                else:
                    yield self._moved(place, broker, taker, f"broker {broker} is to leave")

    def _resizing(self) -> Iterator[PlannedMove]:
        for place in self._places:
            have = len(place.now.voters)
            if have == place.wanted:
                continue
            voters = self._resized(place) if self._has_majority(place.now) else "no majority of them is connected"
            if isinstance(voters, str):
                self._tell_stuck(f"{place.topic}-{place.number} has {have} replicas of {place.wanted}: {voters}")
            else:
                reason = f"it is to have {place.wanted} replicas, and has {have}"
                self._take(place, voters)
                yield PlannedMove(place.topic, place.topic_id, place.number, voters, reason)

    def _resized(self, place: _Place) -> tuple[BrokerId, ...] | str:
        """Who is to have the partition so that it has as many replicas as it is to have; else why nobody is."""
        partition = place.now
        candidates = Candidates(self._image.brokers, self._open_to(partition), self._connected, self._count)
        origin = partition.move.origin if partition.move is not None and partition.moves else partition.voters
        first = partition.preferred
        # The preferred leader stays the first, which it need not have been: so no leadership has to move.
        voters = (first, *(broker for broker in partition.voters if broker != first))
        more = place.wanted > len(voters)
        if more:
            found = enlarged(voters, place.wanted, candidates)
        else:
            everyone = tuple(dict.fromkeys((*voters, *origin)))
            found = reduced(everyone, place.wanted, candidates, preferred=first, filled=origin)
        return found or why_not(voters, candidates, more=more)

    def _into_racks(self) -> Iterator[PlannedMove]:
        racks = {self._racks[broker] for broker in self._takers}
        if len(racks) < 2:
            return
        for place in self._places:
            while not place.busy:
                used = [self._rack(broker) for broker in place.now.voters]
                free = racks - set(used)
                if not free or len(set(used)) == len(used):
                    break
                # Of those that share a rack, one that is not the preferred leader: then no leadership has to move.
                doubled = [broker for broker in place.now.voters if used.count(self._rack(broker)) > 1]
                giver = max(
                    doubled, key=lambda broker: (broker != place.now.preferred, self._count.get(broker, 0), broker)
                )
                fit = [broker for broker in self._open_to(place.now) if self._racks[broker] in free]
                if not fit:
                    break
                taker = self._least(fit)
                yield self._moved(place, giver, taker, f"its replicas share the rack {self._rack(giver)!r}")

    def _level_counts(self) -> Iterator[PlannedMove]:
        while (step := self._level_step()) is not None:
            place, giver, taker = step
            reason = f"broker {giver} has {self._count[giver]} replicas, broker {taker} {self._count[taker]}"
            yield self._moved(place, giver, taker, reason)

    def _level_leaders(self) -> Iterator[PlannedMove]:
        while path := self._path():
            for place, giver, taker in path:
                reason = f"{self._led[giver]} partitions prefer broker {giver}, {self._led[taker]} broker {taker}"
                self._take(place, preferring(place.now, taker))
                voters = place.now.voters
                yield PlannedMove(place.topic, place.topic_id, place.number, voters, reason, copies=False)

    def exchanges(self) -> Iterator[tuple[PlannedMove, ...]]:
        """What weights ask for, each exchange whole: half of one would leave brokers that are not level by count."""
        weighing = self.weighing
        if weighing is None:
            return
        for step_of in (weighing.bytes_step, weighing.load_step):
            while (step := step_of(weighing.held())[1]) is not None:
                yield tuple(self._exchanged(step))

    def decisions(self) -> tuple[Decision, ...]:
        """Whether the bytes of brokers, and what their leaders write and send, are a reason for an exchange now."""
        weighing = self.weighing
        if weighing is None:
            return ()
        held = weighing.held()
        return weighing.bytes_step(held)[0], weighing.load_step(held)[0]

    def held(self) -> tuple[Held, ...]:
        """What each broker that may get replicas has, and what that weighs."""
        return () if self.weighing is None else self.weighing.held()

    def _exchanged(self, step: Step) -> Iterator[PlannedMove]:
        for at, giver, taker in step.changes:
            place = self._places[at]
            voters = exchanged(place.now, giver, taker) if step.copies else preferring(place.now, taker)
            self._take(place, voters)
            yield PlannedMove(place.topic, place.topic_id, place.number, voters, step.reason, copies=step.copies)

    def _cannot_leave(self, place: _Place, broker: BrokerId, why: str) -> None:
        self._tell_stuck(f"{place.topic}-{place.number} stays on broker {broker}: {why}")

    def _tell_stuck(self, said: str) -> None:
        if len(self.stuck) < STUCK_MAX:
            self.stuck.append(said)

    # Choosing.

    def _has_majority(self, partition: Partition) -> bool:
        """Of a partition that is on its way, of the replicas that it had."""
        move = partition.move
        replicas = move.origin if move is not None and move.origin else partition.voters
        return 2 * sum(broker in self._connected for broker in replicas) > len(replicas)

    def _rack(self, broker: BrokerId) -> str:
        return self._racks.get(broker, "")

    def _open_to(self, partition: Partition) -> list[BrokerId]:
        """Those that may get a replica, also of this partition."""
        return [broker for broker in self._takers if (partition.group, broker) not in self._avoided]

    def _least(self, brokers: Iterable[BrokerId]) -> BrokerId:
        return min(brokers, key=lambda broker: (self._count[broker], broker))

    def _taker(self, partition: Partition, giver: BrokerId) -> BrokerId | None:
        """Who should have the replica of `giver`: in a rack of its own, if there is one, with the fewest replicas."""
        others = {self._rack(broker) for broker in partition.voters if broker != giver}
        fit = [broker for broker in self._open_to(partition) if broker not in partition.voters]
        apart = [broker for broker in fit if self._racks[broker] not in others]
        return self._least(apart or fit) if fit else None

    def _level_step(self) -> _HandOver | None:
        """Of the pairs of brokers that differ most the first that has a partition which can go from one to the other;
        rather one that another broker leads, since then no leadership has to move."""
        pairs = [
            (self._count[giver] - self._count[taker], giver, taker) for giver in self._takers for taker in self._takers
        ]
        for difference, giver, taker in sorted(pairs, key=lambda pair: (-pair[0], pair[1], pair[2])):
            if difference <= DIFFERENCE_MAX:
                return None
            led = None
            for place in self._places:
                if giver not in place.now.voters or not self._may_go(place, giver, taker):
                    continue
                if place.now.preferred != giver:
                    return _HandOver(place, giver, taker)
                led = led or place
            if led is not None:
                return _HandOver(led, giver, taker)
        return None

    def _may_go(self, place: _Place, giver: BrokerId, taker: BrokerId) -> bool:
        voters = place.now.voters
        if place.busy or taker in voters or (place.now.group, taker) in self._avoided:
            return False
        before = {self._rack(broker) for broker in voters}
        after = {self._rack(broker) for broker in voters if broker != giver} | {self._racks[taker]}
        return len(after) >= len(before)

    def _path(self) -> list[_HandOver]:
        """Hand-overs of preference from a broker that many partitions prefer to one that at least two fewer do, each to
        a broker that has the partition too: the shortest way there. None: they are as level as can be."""
        if max(self._led.values(), default=0) - min(self._led.values(), default=0) <= DIFFERENCE_MAX:
            return []
        shared: dict[BrokerId, dict[BrokerId, _Place]] = {broker: {} for broker in self._takers}
        for place in self._places:
            ways = shared.get(place.now.preferred)
            if ways is not None and not place.busy:
                for taker in place.now.voters:
                    ways.setdefault(taker, place)
        for start in sorted(self._takers, key=lambda broker: (-self._led[broker], broker)):
            found = self._path_from(start, shared)
            if found:
                return found
        return []

    def _path_from(self, start: BrokerId, shared: Mapping[BrokerId, Mapping[BrokerId, _Place]]) -> list[_HandOver]:
        came: dict[BrokerId, _HandOver] = {}
        reached = deque([start])
        while reached:
            giver = reached.popleft()
            for taker, place in shared[giver].items():
                if taker == start or taker in came or taker not in self._led:
                    continue
                came[taker] = _HandOver(place, giver, taker)
                if self._led[start] - self._led[taker] > DIFFERENCE_MAX:
                    return _way(came, start, taker)
                reached.append(taker)
        return []

    # Taking a move as done.

    def _moved(self, place: _Place, giver: BrokerId, taker: BrokerId, reason: str) -> PlannedMove:
        self._take(place, tuple(taker if broker == giver else broker for broker in place.now.voters))
        return PlannedMove(place.topic, place.topic_id, place.number, place.now.voters, reason)

    def _take(self, place: _Place, voters: tuple[BrokerId, ...]) -> None:
        self._add(place.now, -1)
        place.now = replace(place.now, move=Move(voters))
        self._add(place.now, 1)


def preferring(partition: Partition, leader: BrokerId) -> tuple[BrokerId, ...]:
    """The partition's voters in an order in which `leader`, one of them, is the preferred leader of a moved partition;
    the others stay in the order in which they follow each other."""
    others = [broker for broker in partition.voters if broker != leader]
    orders = ((*others[:at], leader, *others[at:]) for at in range(len(others) + 1))
    return next(order for order in orders if replace(partition, move=Move(order)).preferred == leader)


def exchanged(partition: Partition, giver: BrokerId, taker: BrokerId) -> tuple[BrokerId, ...]:
    """The partition's voters with `taker` in the place of `giver`, also as the preferred leader."""
    preferred = partition.preferred
    first = taker if preferred == giver else preferred
    return (first, *(taker if broker == giver else broker for broker in partition.voters if broker != preferred))


def _way(came: Mapping[BrokerId, _HandOver], start: BrokerId, end: BrokerId) -> list[_HandOver]:
    steps: list[_HandOver] = []
    taker = end
    while taker != start:
        steps.append(came[taker])
        taker = came[taker].giver
    return steps
