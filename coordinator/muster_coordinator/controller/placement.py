"""Which brokers get the replicas of new partitions (ADR 44). Pure: (image, loads) → placed partitions, or why not.

Problem: a topic has fewer replicas than the cluster has brokers. A rack, and a broker, must hold as few replicas of one
partition as can be, and no broker more replicas or leaderships than another. Mechanism: partitions are placed one after
the other, on what those before have left. Each replica goes to the rack that has the fewest of this partition, among
these to the one with the fewest for each of its brokers, and there to the broker with the fewest. The preferred leader
is the replica whose broker is the preferred leader of the fewest partitions; when all are placed, preferences are
shifted among their replicas until brokers are as equal as can be. Brokers without a rack share one that has no name, as
in Kafka. Brokers that drain, and those that the caller wants avoided, get a replica only when no other is left: two
replicas in one rack are better than one on a broker that is away.

The result depends on the arguments alone, but only its proposer has to compute it: the command carries it, and apply
judges each named broker, not the choice.

What this does not do: look at who is alive (the caller does, with `avoided`), how full a disk is or how busy a
partition, or move what is placed.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple

from muster_coordinator.controller.image import Broker, ClusterImage
from muster_coordinator.controller.moves import VOTER_COUNTS
from muster_coordinator.ids import BrokerId


class Loads(NamedTuple):
    """What brokers hold; those that hold nothing need not be in it."""

    replicas: Mapping[BrokerId, int]
    leaders: Mapping[BrokerId, int]
    """Partitions of which the broker is the preferred leader."""


class Reason(Enum):
    """Why nothing can be placed."""

    FACTOR = "no partition has this number of replicas"
    BROKERS = "too few brokers can take a replica"


class Unplaceable(NamedTuple):
    """No partition can be placed so."""

    reason: Reason
    message: str


class Placed(NamedTuple):
    """New partitions, in their order."""

    partitions: tuple[tuple[BrokerId, ...], ...]
    """The brokers of each, the preferred leader first."""
    why: str
    """For people: what the choice came from, and what it could not keep."""
    loads: Loads
    """With the new partitions."""


class _Choice(NamedTuple):
    """A broker that may take a replica."""

    broker: BrokerId
    rack: str
    reluctance: int
    """Lower ones first: 0, draining 1, avoided 2."""


class _Pool(NamedTuple):
    """The brokers of one rack with the same reluctance."""

    rack: str
    reluctance: int
    brokers: tuple[BrokerId, ...]


def loads_of(cluster: ClusterImage) -> Loads:
    """What the image's partitions want of each broker, those of the offsets topic included. O(partitions)."""
    replicas: Counter[BrokerId] = Counter()
    leaders: Counter[BrokerId] = Counter()
    for topic in cluster.topics.values():
        for partition in topic.partitions:
            replicas.update(partition.voters)
            leaders[partition.preferred] += 1
    return Loads(replicas, leaders)


def with_placed(loads: Loads, partitions: Collection[tuple[BrokerId, ...]]) -> Loads:
    """The loads with these partitions, too."""
    replicas, leaders = Counter(loads.replicas), Counter(loads.leaders)
    for brokers in partitions:
        replicas.update(brokers)
        leaders[brokers[0]] += 1
    return Loads(replicas, leaders)


def default_factor(cluster: ClusterImage, wanted: int) -> int:
    """The replicas of a partition whose creator leaves that to the cluster: as many as its log says (ADR 48), else as
    are `wanted` by whoever creates it, or as its brokers allow. One that has not registered yet, or lost its folder,
    counts: it is to come back, and a topic would have fewer replicas for good."""
    most = min(cluster.replication_factor or wanted, len({*cluster.voters, *cluster.brokers}))
    return max(count for count in VOTER_COUNTS if count <= most)


def place(
    cluster: ClusterImage, loads: Loads, count: int, factor: int, avoided: Collection[BrokerId] = ()
) -> Placed | Unplaceable:
    """Brokers for `count` new partitions with `factor` replicas each."""
    if factor not in VOTER_COUNTS:
        return Unplaceable(Reason.FACTOR, f"a partition has 1, 3 or 5 replicas, not {factor}")
    usable = [
        _Choice(broker.broker, broker.rack, 2 if broker.broker in avoided else int(broker.draining))
        for broker in cluster.brokers.values()
        if _usable(broker)
    ]
    if len(usable) < factor:
        return Unplaceable(Reason.BROKERS, _too_few(cluster, factor, len(usable)))
    planner = _Planner(usable, loads)
    partitions = planner.place(count, factor)
    return Placed(partitions, _why(usable, factor), Loads(planner.replicas, planner.leaders))


class _Planner:
    """Places one partition after the other, and then levels their preferred leaders."""

    def __init__(self, usable: Collection[_Choice], loads: Loads) -> None:
        self.replicas = Counter({choice.broker: loads.replicas.get(choice.broker, 0) for choice in usable})
        self.leaders = Counter({choice.broker: loads.leaders.get(choice.broker, 0) for choice in usable})
        self._reluctance = {choice.broker: choice.reluctance for choice in usable}
        kinds = sorted({(choice.reluctance, choice.rack) for choice in usable})
        self._pools = [
            _Pool(rack, reluctance, tuple(c.broker for c in usable if (c.reluctance, c.rack) == (reluctance, rack)))
            for reluctance, rack in kinds
        ]
        self._placed: list[list[BrokerId]] = []
        """The brokers of each partition, its leader first."""

    def place(self, count: int, factor: int) -> tuple[tuple[BrokerId, ...], ...]:
        for _ in range(count):
            chosen = self._choose(factor)
            leader = min(
                self._may_lead(chosen), key=lambda broker: (self.leaders[broker], self.replicas[broker], broker)
            )
            self.replicas.update(chosen)
            self.leaders[leader] += 1
            self._placed.append([leader, *(broker for broker in chosen if broker != leader)])
        while self._shift_leadership():
            pass
        return tuple(map(tuple, self._placed))

    def _choose(self, factor: int) -> list[BrokerId]:
        chosen: list[BrokerId] = []
        in_rack: Counter[str] = Counter()
        offers = [self._offer(pool, chosen, in_rack) for pool in self._pools]
        for _ in range(factor):
            offer = min(offer for offer in offers if offer is not None)
            broker = offer[-1]
            rack = next(pool.rack for pool in self._pools if broker in pool.brokers)
            chosen.append(broker)
            in_rack[rack] += 1
            for at, pool in enumerate(self._pools):
                if pool.rack == rack:
                    offers[at] = self._offer(pool, chosen, in_rack)
        return chosen

    def _offer(
        self, pool: _Pool, chosen: Collection[BrokerId], in_rack: Mapping[str, int]
    ) -> tuple[int, int, float, int, int, BrokerId] | None:
        """The pool's lightest broker that is not chosen yet, last, after what it is judged by; the least is taken."""
        left = [
            (self.replicas[broker], self.leaders[broker], broker) for broker in pool.brokers if broker not in chosen
        ]
        if not left:
            return None
        share = sum(self.replicas[broker] for broker in pool.brokers) / len(pool.brokers)
        return (pool.reluctance, in_rack[pool.rack], share, *min(left))

    def _may_lead(self, brokers: Collection[BrokerId]) -> list[BrokerId]:
        least = min(self._reluctance[broker] for broker in brokers)
        return [broker for broker in brokers if self._reluctance[broker] == least]

    def _shift_leadership(self) -> bool:
        """Take a leadership from a broker that has two more than another, by way of others if no partition is on both.
        False: no two brokers between which there is such a way differ by more than one."""
        way: dict[BrokerId, dict[BrokerId, int]] = {}
        for at, (leader, *followers) in enumerate(self._placed):
            for broker in self._may_lead((leader, *followers))[1:]:
                way.setdefault(leader, {}).setdefault(broker, at)
        for source in sorted(way, key=lambda broker: (-self.leaders[broker], broker)):
            came_from: dict[BrokerId, BrokerId] = {}
            reached = [source]
            for broker in reached:
                for other in sorted(way.get(broker, {})):
                    if other != source and other not in came_from:
                        came_from[other] = broker
                        reached.append(other)
            target = min(reached, key=lambda broker: (self.leaders[broker], broker))
            if self.leaders[source] - self.leaders[target] > 1:
                self.leaders[source] -= 1
                self.leaders[target] += 1
                while target != source:
                    before = came_from[target]
                    brokers = self._placed[way[before][target]]
                    brokers.remove(target)
                    brokers.insert(0, target)
                    target = before
                return True
        return False


def _why(usable: Collection[_Choice], factor: int) -> str:
    racks = len({choice.rack for choice in usable if not choice.reluctance})
    fit = sum(not choice.reluctance for choice in usable)
    if fit < factor:
        return f"{factor} replicas, and {fit} brokers that neither drain nor are away"
    if racks < factor:
        return f"{factor} replicas in {racks} racks: level by rack, then by broker"
    return f"{factor} replicas, each in a rack of its own, level by broker"


def _usable(broker: Broker | None) -> bool:
    return broker is not None and broker.bound and not broker.departing


def _too_few(cluster: ClusterImage, factor: int, usable: int) -> str:
    def trouble(broker: BrokerId, known: Broker | None) -> str:
        if known is None:
            return f"broker {broker} has not registered"
        return f"broker {broker} {'is to leave' if known.bound else 'waits for a new data folder'}"

    everyone = sorted({*cluster.voters, *cluster.brokers})
    others = [(broker, cluster.brokers.get(broker)) for broker in everyone]
    unusable = [trouble(broker, known) for broker, known in others if not _usable(known)]
    said = f"{factor} replicas need as many brokers; {usable} can take one"
    return said + (f": {', '.join(unusable)}" if unusable else "")
