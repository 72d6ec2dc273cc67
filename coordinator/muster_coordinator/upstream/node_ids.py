"""Ids of the upstream's brokers, and the port that stands for each.

Problem: a client knows a broker by the address that it was told for its id, so each broker of the upstream needs an
address of ours: the same on every replica, after each restart, and before anybody has asked the upstream who its
brokers are. Mechanism: the ids that there may be are configured as ranges, and the first id has a listener's first
port, the next one the next port. A replica of ours has an id as well, in the same answers, so those begin far above.
What this does not do: know which brokers there are, or bind a port.
"""

from typing import NamedTuple

from muster_coordinator.upstream.limits import NODES_MAX

_ID_MAX = 2**31 - 1


class NodeIds(NamedTuple):
    """The ids that the upstream's brokers may have, in the order of the configuration."""

    ids: tuple[int, ...]

    def place(self, node: int) -> int | None:
        """How many ports behind the first one this broker's is; None: it has none."""
        try:
            return self.ids.index(node)
        except ValueError:
            return None


def parse_node_ids(text: str) -> NodeIds:
    """Of `0-8,1001-1003`. Raises `ValueError`."""
    found: list[int] = []
    for part in filter(None, (item.strip() for item in text.split(","))):
        low, dash, high = part.partition("-")
        ends = (low, high if dash else low)
        if not all(end.isascii() and end.isdigit() and int(end) <= _ID_MAX for end in ends):
            raise ValueError(f"{part!r} is neither an id nor a range of ids such as 0-8")
        first, last = map(int, ends)
        if last < first:
            raise ValueError(f"{part!r} ends before it begins")
        if len(found) + last - first + 1 > NODES_MAX:
            raise ValueError(f"more than {NODES_MAX} ids")
        found.extend(range(first, last + 1))
    if not found:
        raise ValueError("no id")
    if len(set(found)) != len(found):
        raise ValueError("an id comes twice")
    return NodeIds(tuple(found))


def home(replicas: tuple[int, ...], alive: frozenset[int], place: int) -> int | None:
    """Which replica clients are told for the broker at this place; None: nobody is alive.

    `replicas`: all that are registered, ascending. A death moves the brokers of the dead one only, so the connections
    of the others' clients stay where they are.
    """
    count = len(replicas)
    for step in range(count):
        replica = replicas[(place + step) % count]
        if replica in alive:
            return replica
    return None
