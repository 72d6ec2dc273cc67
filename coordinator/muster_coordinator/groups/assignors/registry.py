"""Assignors by name.

Accepts Kafka's names and the spellings with an underscore, which users write (decision 32).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from muster_coordinator.errors import CallerError
from muster_coordinator.groups.assignors import range as range_assignor
from muster_coordinator.groups.assignors import roundrobin, sticky
from muster_coordinator.groups.assignors.membership import Member, Plan, Topology


class UnknownAssignor(CallerError):
    """No assignor of that name."""


class Assignor(NamedTuple):
    """One algorithm: `assign(members, topology)`. Subscriptions must have the form that this assignor reads."""

    name: str
    assign: Callable[[Sequence[Member], Topology], Plan]
    cooperative: bool = False


ASSIGNORS = {
    assignor.name: assignor
    for assignor in (
        Assignor("range", range_assignor.assign),
        Assignor("roundrobin", roundrobin.assign),
        Assignor("sticky", sticky.assign_sticky),
        Assignor("cooperative-sticky", sticky.assign_cooperative, cooperative=True),
    )
}
"""By Kafka's names."""

_SPELLINGS = {"round_robin": "roundrobin", "round-robin": "roundrobin", "cooperative_sticky": "cooperative-sticky"}


def kafka_name(name: str) -> str:
    """Kafka's name of an assignor in any accepted spelling. Raises UnknownAssignor."""
    found = _SPELLINGS.get(name.strip().lower(), name.strip().lower())
    if found not in ASSIGNORS:
        raise UnknownAssignor(f"unknown assignor {name!r}; known: {', '.join(ASSIGNORS)}")
    return found


def assignor(name: str) -> Assignor:
    """The assignor of that name, in any accepted spelling. Raises UnknownAssignor."""
    return ASSIGNORS[kafka_name(name)]
