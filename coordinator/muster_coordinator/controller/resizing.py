"""Which brokers have a Raft group that gets more replicas, or fewer (ADR 48). Pure.

More: those that are there stay, in their order; each further one goes where placement would put it (ADR 44): to a
broker that does not drain, in the rack with the fewest of this group, among these in the one with the fewest replicas
for each of its brokers, there to the broker with the fewest. Fewer: who cannot be relied on goes first (away, without a
folder, or to leave), then who has not got the data yet, then one of those that share a rack, the preferred leader last,
then the broker that has the most. A group is as safe as its number says only if all that are left can be relied on; if
some cannot, nobody goes.

What this does not do: decide how many there should be (`replication`), or when a group changes (`balancing`).
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from muster_coordinator.controller.image import Broker
from muster_coordinator.ids import BrokerId

NAMED_MAX = 5
"""Brokers that a reason names."""


class Candidates(NamedTuple):
    """Brokers as whoever plans sees them."""

    brokers: Mapping[BrokerId, Broker]
    takers: Collection[BrokerId]
    """Those that may get a replica: with a folder, not to leave, connected and with room."""
    connected: Collection[BrokerId]
    replicas: Mapping[BrokerId, int]
    """What the takers have."""

    def rack(self, broker: BrokerId) -> str:
        return self.brokers[broker].rack if broker in self.brokers else ""

    def stays(self, broker: BrokerId) -> bool:
        """Can be relied on as one of the last that have a replica?"""
        known = self.brokers.get(broker)
        return known is not None and known.bound and not known.departing and broker in self.connected


def enlarged(voters: Sequence[BrokerId], count: int, candidates: Candidates) -> tuple[BrokerId, ...] | None:
    """The voters with as many more as make `count`; None: too few brokers may get a replica."""
    chosen = list(voters)
    shares = _shares(candidates)
    while len(chosen) < count:
        fit = [broker for broker in candidates.takers if broker not in chosen]
        if not fit:
            return None
        in_rack = Counter(map(candidates.rack, chosen))

        def order(broker: BrokerId, in_rack: Counter[str] = in_rack) -> tuple[bool, int, float, int, BrokerId]:
            rack = candidates.rack(broker)
            drains = candidates.brokers[broker].draining
            return drains, in_rack[rack], shares[rack], candidates.replicas.get(broker, 0), broker

        chosen.append(min(fit, key=order))
    return tuple(chosen)


def reduced(
    voters: Sequence[BrokerId],
    count: int,
    candidates: Candidates,
    *,
    preferred: BrokerId,
    filled: Collection[BrokerId],
) -> tuple[BrokerId, ...] | None:
    """`count` of the voters, in their order; None: not as many can be relied on. `filled`: those that had a replica
    before the move that is under way."""
    left = list(voters)
    while len(left) > count:
        in_rack = Counter(map(candidates.rack, left))

        def order(broker: BrokerId, in_rack: Counter[str] = in_rack) -> tuple[bool, bool, int, bool, int, BrokerId]:
            doubled = in_rack[candidates.rack(broker)]
            load = candidates.replicas.get(broker, 0)
            return not candidates.stays(broker), broker not in filled, doubled, broker != preferred, load, broker

        left.remove(max(left, key=order))
    return tuple(left) if all(map(candidates.stays, left)) else None


def why_not(voters: Collection[BrokerId], candidates: Candidates, *, more: bool) -> str:
    """Why `enlarged` or `reduced` has nothing to say, for people."""
    asked = [broker for broker in sorted(candidates.brokers) if (broker not in voters) == more]
    told = [f"broker {broker} {trouble}" for broker in asked if (trouble := _trouble(broker, candidates))]
    said = "no other broker can take a replica" if more else "too few of its replicas can be relied on"
    return said + (f": {', '.join(told[:NAMED_MAX])}" if told else "")


def _trouble(broker: BrokerId, candidates: Candidates) -> str:
    known = candidates.brokers[broker]
    if not known.bound:
        return "waits for a new data folder"
    if known.departing:
        return "is to leave"
    if broker not in candidates.connected:
        return "is not connected"
    return "" if broker in candidates.takers else "has no room on its disk"


def _shares(candidates: Candidates) -> Mapping[str, float]:
    """Replicas for each taker of a rack."""
    takers = Counter(map(candidates.rack, candidates.takers))
    replicas: Counter[str] = Counter()
    for broker in candidates.takers:
        replicas[candidates.rack(broker)] += candidates.replicas.get(broker, 0)
    return {rack: replicas[rack] / count for rack, count in takers.items()}
