"""Which replicas brokers exchange to hold about as many bytes, and which preferences to lead as much (ADR 81). Pure.

Problem: brokers with the same number of replicas need not hold the same number of bytes, nor do leaders of as many
partitions write and send as much. Mechanism: weights of partitions come from whoever leads them. Where two brokers
differ by more than the bound, they exchange a replica for one that weighs less, or give one away if they have one more:
no broker has more replicas or preferred leaderships than the fullest had, and no partition is in fewer racks. When no
such exchange of bytes is left, preferences are exchanged in the same way by the rates at which partitions are written
and read, which copies nothing.

The weight of a broker is known if that of each of its partitions is. One of which a single partition is not known
neither gives nor takes, and is no part of the mean. Sizes are not exact and late: `exchanges` says why nothing goes to
and fro for that. What this does not do: count (`balancing` comes before), weigh what writing costs the followers, or
know that a partition is going to grow.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from muster_coordinator.controller.exchanges import Exchange, Piece, Terms, best_exchange
from muster_coordinator.controller.image import Partition
from muster_coordinator.ids import BrokerId, GroupNo

PAIRS_MAX = 32
"""Pairs of brokers that are looked at for one exchange, those that differ most first: all pairs of eight brokers."""
RATE_DIFFERENCE_MIN = 1_048_576
"""Bytes a second by which leaders may differ in any case."""
UNKNOWN = -1

Copy = tuple[GroupNo, BrokerId]
"""A replica of a group on a broker."""


class Weight(NamedTuple):
    """Of one partition, as whoever leads it says."""

    size_bytes: int
    """On the leader's disk; the other replicas have about as much."""
    write_rate: int = UNKNOWN
    """Bytes a second, over minutes; `UNKNOWN`: it is not led for long enough."""
    read_rate: int = UNKNOWN


class Weights(NamedTuple):
    """What is known, and when it is a reason to move anything."""

    partitions: Mapping[GroupNo, Weight]
    room_bytes: Mapping[BrokerId, int]
    """What a broker can take before its disk is low. One that is not here has no room as far as anybody knows."""
    percent: int
    """Of the mean by which brokers may differ; negative: weights move nothing."""
    bytes_min: int
    """Bytes by which they may differ in any case."""


def too_large(weights: Weights) -> frozenset[Copy]:
    """What a broker has no room for, as far as is known. O(brokers), and O(partitions) for each that has less room than
    the largest partition takes."""
    largest = max((weight.size_bytes for weight in weights.partitions.values()), default=0)
    return frozenset(
        (group, broker)
        for broker, room_bytes in weights.room_bytes.items()
        if room_bytes < largest
        for group, weight in weights.partitions.items()
        if weight.size_bytes > room_bytes
    )


class Verdict(StrEnum):
    """Whether weights move something, for people and for the admin API."""

    OFF = "off"
    UNKNOWN = "unknown"
    LEVEL = "level"
    KEPT = "kept"
    """They differ, and no exchange is worth its cost."""
    EXCHANGE = "exchange"


class Decision(NamedTuple):
    verdict: Verdict
    reason: str


class Held(NamedTuple):
    """What a broker has by the image, and how much that weighs; None: it is not known."""

    broker: BrokerId
    replicas: int
    preferred: int
    """Partitions that prefer it as leader."""
    size_bytes: int | None
    led_rate: int | None
    """Bytes a second written to and read from the partitions that prefer it."""


class Placed(Protocol):
    """A partition of the plan."""

    topic: str
    number: int
    now: Partition
    busy: bool


class Change(NamedTuple):
    """A place that gets other voters, or another order of them."""

    place: int
    giver: BrokerId
    taker: BrokerId


class Step(NamedTuple):
    """One exchange: of one or of two places."""

    changes: tuple[Change, ...]
    copies: bool
    reason: str


class _Measure(NamedTuple):
    """What is levelled."""

    unit: str
    least: int
    """By so much brokers may differ in any case."""
    weight_of: Callable[[Weight], int | None]
    copies: bool


class Weighing:
    """Over the partitions of one plan, as they are by the moves so far. Each question takes O(partitions)."""

    def __init__(
        self,
        places: Sequence[Placed],
        takers: Iterable[BrokerId],
        racks: Mapping[BrokerId, str],
        weights: Weights,
        avoided: Collection[Copy] = (),
    ) -> None:
        """Only `takers` take part, and nothing of what is `avoided` is copied."""
        self._avoided = avoided
        self._places = places
        self._takers = sorted(takers)
        self._racks = racks
        self._weights = weights

    def held(self) -> tuple[Held, ...]:
        """Of each broker that takes part, by id."""
        replicas, preferred, sizes, rates = (dict.fromkeys(self._takers, 0) for _ in range(4))
        no_size: set[BrokerId] = set()
        no_rate: set[BrokerId] = set()
        for place in self._places:
            weight, leader = self._weights.partitions.get(place.now.group), place.now.preferred
            for broker in place.now.voters:
                if broker not in replicas:
                    continue
                replicas[broker] += 1
                if weight is None:
                    no_size.add(broker)
                else:
                    sizes[broker] += weight.size_bytes
            if leader not in preferred:
                continue
            preferred[leader] += 1
            rate = _rate(weight)
            if rate is None:
                no_rate.add(leader)
            else:
                rates[leader] += rate
        return tuple(
            Held(
                broker,
                replicas[broker],
                preferred[broker],
                None if broker in no_size else sizes[broker],
                None if broker in no_rate else rates[broker],
            )
            for broker in self._takers
        )

    def bytes_step(self, held: Sequence[Held]) -> tuple[Decision, Step | None]:
        """The next exchange of replicas, or why there is none."""
        sums = {one.broker: one.size_bytes for one in held}
        measure = _Measure("bytes", self._weights.bytes_min, lambda weight: weight.size_bytes, copies=True)
        return self._step(held, sums, measure)

    def load_step(self, held: Sequence[Held]) -> tuple[Decision, Step | None]:
        """The next exchange of preferences, or why there is none."""
        sums = {one.broker: one.led_rate for one in held}
        return self._step(held, sums, _Measure("bytes a second", RATE_DIFFERENCE_MIN, _rate, copies=False))

    def _step(
        self, held: Sequence[Held], sums: Mapping[BrokerId, int | None], measure: _Measure
    ) -> tuple[Decision, Step | None]:
        unit = measure.unit
        if self._weights.percent < 0:
            return Decision(Verdict.OFF, "switched off (muster.balancer.difference.percent)"), None
        known = {broker: total for broker, total in sums.items() if total is not None}
        unknown = ", ".join(str(broker) for broker in sums if broker not in known)
        besides = f"; the {unit} of broker {unknown} are not known" if unknown else ""
        if not known:
            return Decision(Verdict.UNKNOWN, besides.removeprefix("; ")), None
        bound = max(1, measure.least, sum(known.values()) * self._weights.percent // (100 * len(known)))
        pairs = sorted(
            ((known[giver] - known[taker], giver, taker) for giver in known for taker in known),
            key=lambda pair: (-pair[0], pair[1], pair[2]),
        )
        most, fullest, emptiest = pairs[0]
        if most <= bound:
            verdict = Verdict.UNKNOWN if unknown else Verdict.LEVEL
            return Decision(verdict, f"brokers differ by {most} {unit} at most, and may by {bound}{besides}"), None
        brokers, holders = {one.broker: one for one in held}, self._holders()
        for difference, giver, taker in pairs[:PAIRS_MAX]:
            if difference <= bound:
                break
            gives = self._pieces(holders[giver], giver, taker, measure)
            takes = self._pieces(holders[taker], taker, giver, measure)
            terms = self._terms(brokers[giver], brokers[taker], difference, bound, copies=measure.copies)
            found = best_exchange(gives, takes, terms)
            if found is not None:
                told = f"broker {giver} has {known[giver]} {unit}, broker {taker} {known[taker]}"
                return Decision(Verdict.EXCHANGE, told + besides), Step(
                    _changes(found, giver, taker), measure.copies, told
                )
        told = f"brokers {fullest} and {emptiest} differ by {most} {unit}, and no exchange is worth what it costs"
        return Decision(Verdict.KEPT, told + besides), None

    def _holders(self) -> dict[BrokerId, list[int]]:
        """The places that may be exchanged, of each broker."""
        found: dict[BrokerId, list[int]] = {broker: [] for broker in self._takers}
        for at, place in enumerate(self._places):
            if not place.busy:
                for broker in place.now.voters:
                    if broker in found:
                        found[broker].append(at)
        return found

    def _terms(self, giver: Held, taker: Held, difference: int, bound: int, *, copies: bool) -> Terms:
        more_led = giver.preferred - taker.preferred
        room = self._weights.room_bytes
        return Terms(
            difference,
            bound,
            # Who has one more and gives it has as many as the other had: the fullest has no more than before.
            alone=(giver.replicas - taker.replicas if copies else more_led) == 1,
            led_shifts=(0, more_led) if abs(more_led) == 1 else (0,),
            copies=copies,
            giver_room=room.get(giver.broker, 0),
            taker_room=room.get(taker.broker, 0),
        )

    def _pieces(self, places: Iterable[int], giver: BrokerId, taker: BrokerId, measure: _Measure) -> list[Piece]:
        """What `giver` could give to `taker`, of these places of its."""
        found = []
        for at in places:
            partition = self._places[at].now
            known = self._weights.partitions.get(partition.group)
            weight = None if known is None else measure.weight_of(known)
            led = partition.preferred == giver
            may = self._may_go(partition, giver, taker) if measure.copies else led and taker in partition.voters
            if weight is not None and may:
                found.append(Piece(weight, at, led))
        return found

    def _may_go(self, partition: Partition, giver: BrokerId, taker: BrokerId) -> bool:
        """May `taker` have the replica of `giver`: it has none, and the partition is in no fewer racks then."""
        if taker in partition.voters or (partition.group, taker) in self._avoided:
            return False
        before = {self._racks.get(broker, "") for broker in partition.voters}
        others = {self._racks.get(broker, "") for broker in partition.voters if broker != giver}
        return len(others | {self._racks.get(taker, "")}) >= len(before)


def _changes(found: Exchange, giver: BrokerId, taker: BrokerId) -> tuple[Change, ...]:
    given = Change(found.gives.place, giver, taker)
    return (given,) if found.takes is None else (given, Change(found.takes.place, taker, giver))


def _rate(weight: Weight | None) -> int | None:
    if weight is None or weight.write_rate < 0 or weight.read_rate < 0:
        return None
    return weight.write_rate + weight.read_rate
