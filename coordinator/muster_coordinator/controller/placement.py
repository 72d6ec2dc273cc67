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
from heapq import heapify, heappop, heappush
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


_Weight = tuple[int, int, BrokerId]
"""(replicas, leaderships, broker): of two brokers the lesser one is taken."""


class _Choice(NamedTuple):
    """A broker that may take a replica."""

    broker: BrokerId
    rack: str
    reluctance: int
    """Lower ones first: 0, draining 1, avoided 2."""


class _Pool:
    """The brokers of one rack with the same reluctance. `light` is a heap of (replicas, leaderships, broker) of those
    that hold no replica of the partition that is being placed: who gets one is taken out, and comes back with the
    counts that it has then."""

    __slots__ = ("light", "rack", "reluctance", "replicas", "size")

    def __init__(self, rack: str, reluctance: int, light: list[_Weight]) -> None:
        heapify(light)
        self.rack, self.reluctance, self.light = rack, reluctance, light
        self.size = len(light)
        self.replicas = sum(weight[0] for weight in light)


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
    return Placed(partitions, _why(usable, factor), Loads(Counter(planner.replicas), Counter(planner.leaders)))


class _Planner:
    """Places one partition after the other, and then levels their preferred leaders. A replica costs a look at each
    pool and the logarithm of a pool's size: a thousand partitions are placed in one turn of the loop."""

    def __init__(self, usable: Collection[_Choice], loads: Loads) -> None:
        self.replicas = {choice.broker: loads.replicas.get(choice.broker, 0) for choice in usable}
        self.leaders = {choice.broker: loads.leaders.get(choice.broker, 0) for choice in usable}
        self._reluctance = {choice.broker: choice.reluctance for choice in usable}
        self._may_differ = len({choice.reluctance for choice in usable}) > 1
        weights: dict[tuple[int, str], list[_Weight]] = {}
        for broker, rack, reluctance in usable:
            weights.setdefault((reluctance, rack), []).append((self.replicas[broker], self.leaders[broker], broker))
        self._pools = [_Pool(rack, reluctance, weights[reluctance, rack]) for reluctance, rack in sorted(weights)]
        self._placed: list[list[BrokerId]] = []
        """The brokers of each partition, its leader first."""

    def place(self, count: int, factor: int) -> tuple[tuple[BrokerId, ...], ...]:
        for _ in range(count):
            taken = self._take(factor)
            chosen = [broker for broker, _ in taken]
            _, _, leader = min(
                (self.leaders[broker], self.replicas[broker], broker) for broker in self._may_lead(chosen)
            )
            self.leaders[leader] += 1
            for broker, pool in taken:
                self.replicas[broker] += 1
                pool.replicas += 1
                heappush(pool.light, (self.replicas[broker], self.leaders[broker], broker))
            chosen.remove(leader)
            self._placed.append([leader, *chosen])
        self._level()
        return tuple(map(tuple, self._placed))

    def _take(self, factor: int) -> list[tuple[BrokerId, _Pool]]:
        """Brokers for one partition, out of their pools."""
        taken: list[tuple[BrokerId, _Pool]] = []
        in_rack: dict[str, int] = {}
        for _ in range(factor):
            # (reluctance, of this partition in the rack, share of each of its brokers, the lightest one's weight)
            _, at = min(
                ((pool.reluctance, in_rack.get(pool.rack, 0), pool.replicas / pool.size, pool.light[0]), at)
                for at, pool in enumerate(self._pools)
                if pool.light
            )
            pool = self._pools[at]
            taken.append((heappop(pool.light)[-1], pool))
            in_rack[pool.rack] = in_rack.get(pool.rack, 0) + 1
        return taken

    def _may_lead(self, brokers: Collection[BrokerId]) -> list[BrokerId]:
        if not self._may_differ:
            return list(brokers)
        least = min(self._reluctance[broker] for broker in brokers)
        return [broker for broker in brokers if self._reluctance[broker] == least]

    def _level(self) -> None:
        """Shift leaderships until no two brokers between which there is a way differ by more than one."""
        led: dict[BrokerId, set[int]] = {}
        for at, brokers in enumerate(self._placed):
            led.setdefault(brokers[0], set()).add(at)
        ways: dict[BrokerId, dict[BrokerId, int]] = {}
        while self._shift_leadership(led, ways):
            pass

    def _shift_leadership(self, led: dict[BrokerId, set[int]], ways: dict[BrokerId, dict[BrokerId, int]]) -> bool:
        """Take a leadership from a broker that has two more than another, by way of others if no partition is on both.
        False: there is no such way. `led`: broker -> the partitions that it leads; `ways`: what is known of
        broker -> another that may lead one of these -> the first such partition."""
        least = min(self.leaders.values())
        for source in sorted(led, key=lambda broker: (-self.leaders[broker], broker)):
            if self.leaders[source] - least <= 1:
                return False
            came_from: dict[BrokerId, BrokerId] = {}
            reached = [source]
            for broker in reached:
                if broker not in ways:
                    ways[broker] = self._ways(led.get(broker, ()))
                for other in sorted(ways[broker]):
                    if other != source and other not in came_from:
                        came_from[other] = broker
                        reached.append(other)
            target = min(reached, key=lambda broker: (self.leaders[broker], broker))
            if self.leaders[source] - self.leaders[target] > 1:
                self.leaders[source] -= 1
                self.leaders[target] += 1
                while target != source:
                    before = came_from[target]
                    at = ways[before][target]
                    self._placed[at].remove(target)
                    self._placed[at].insert(0, target)
                    led[before].remove(at)
                    led.setdefault(target, set()).add(at)
                    ways.pop(target, None)
                    target = before
                del ways[source]
                return True
        return False

    def _ways(self, partitions: Collection[int]) -> dict[BrokerId, int]:
        way: dict[BrokerId, int] = {}
        for at in sorted(partitions):
            for broker in self._may_lead(self._placed[at])[1:]:
                way.setdefault(broker, at)
        return way


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
