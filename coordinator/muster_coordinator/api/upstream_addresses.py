"""Where clients go beside an upstream Kafka: addresses of ours for its brokers, and ids for our replicas (ADR 96).

Problem: a client of a listener must be led to a replica that is alive, at the port that stands for the broker it wants;
and a replica's id must be none of the upstream's. Mechanism: each replica registers, beside its listeners, where the
ports of each begin; a broker's home is one of them, and another one only while that one is dead. What this does not do:
know who the upstream's brokers are.
"""

from typing import NamedTuple

from muster_coordinator.api.cluster_view import ClusterView
from muster_coordinator.controller.image import UPSTREAM_LISTENER, ClusterImage, Endpoint
from muster_coordinator.ids import BrokerId
from muster_coordinator.replica.partitions.surface import Surface
from muster_coordinator.upstream.brokers import Broker
from muster_coordinator.upstream.node_ids import NodeIds, home


class UpstreamIds(NamedTuple):
    """Which ids are whose, by the configuration."""

    nodes: NodeIds
    """Of the upstream's brokers."""
    coordinator_base: int
    """What is added to a replica's id."""


class UpstreamAddresses:
    """`upstream.view.Addresses` of one listener."""

    def __init__(self, surface: Surface, ids: UpstreamIds, listener: str) -> None:
        self._surface = surface
        self._ids = ids
        self._listener = listener

    def address(self, node: int) -> tuple[str, int] | None:
        """Where to go for this broker of the upstream; None: nowhere."""
        place, image = self._ids.nodes.place(node), self._surface.image()
        if place is None or image is None:
            return None
        first = _firsts(image, self._listener)
        alive = frozenset(int(broker) for broker in first if self._surface.alive(broker))
        replica = home(tuple(sorted(int(broker) for broker in first)), alive, place)
        if replica is None:
            return None
        endpoint = first[BrokerId(replica)]
        return endpoint.host, endpoint.port + place

    def replicas(self) -> list[Broker]:
        """Our replicas, as brokers beside those of the upstream."""
        image = self._surface.image()
        if image is None:
            return []
        nodes = ClusterView(self._surface, image, self._listener).nodes()
        base = self._ids.coordinator_base
        return [Broker(base + node.node_id, node.host, node.port, node.rack) for node in nodes]


def _firsts(image: ClusterImage, listener: str) -> dict[BrokerId, Endpoint]:
    """Where the ports of this listener begin, by replica."""
    name = UPSTREAM_LISTENER + listener
    return {
        broker: endpoint
        for broker, registered in image.brokers.items()
        for endpoint in registered.endpoints
        if endpoint.listener == name
    }
