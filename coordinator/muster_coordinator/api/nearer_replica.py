"""Which follower a consumer had better read from: one in its own rack (KIP-392, Kafka's RackAwareReplicaSelector).

Problem: between zones each byte costs time and money, and every consumer reads from the leader. Mechanism: a consumer
says its rack (`client.rack`); the leader sends it to a voter there that is linked, and has all but the last entries of
the log. If the leader is in that rack itself, or nobody is, it serves. What it does not do: look at offsets. A follower
that is some entries behind answers with nothing until it has them (`LocalLog.read_following`).
"""

from muster_coordinator.api.limits import NEARER_REPLICA_LAG_ENTRIES_MAX
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.replica.partitions.surface import Surface


def nearer_replica(surface: Surface, image: ClusterImage, group: GroupNo, rack: str) -> BrokerId | None:
    """The follower that has the most of the log among those in `rack`; None: this leader serves."""
    if _rack(image, surface.broker) == rack:
        return None
    status = surface.group_status(group)
    if status is None:
        return None
    near = [
        (match, broker)
        for broker, match in status.match.items()
        if broker in status.voters
        and _rack(image, broker) == rack
        and surface.alive(broker)
        and status.commit - match <= NEARER_REPLICA_LAG_ENTRIES_MAX
    ]
    return max(near, key=lambda one: (one[0], -one[1]))[1] if near else None


def _rack(image: ClusterImage, broker: BrokerId) -> str:
    registered = image.brokers.get(broker)
    return "" if registered is None else registered.rack
