"""A broker leaves the cluster for good: the rules of DecommissionBroker (ADR 47) and UnregisterBroker (ADR 43). Pure.

Problem: a broker that is not to come back stays in the list of brokers, holds up feature levels and takes one of their
seats. Its process may still run, or be started again by whoever runs it. Mechanism: the broker is taken out of the
image, and its folders are kept among those that never register again, as those that were replaced (ADR 38). So the
next folder under its id is another member, and has to be an empty one. Before, it may be marked as one that is to
leave: then it gets nothing new, and the balancer moves away what it has and unregisters it.

What this does not do: look at whether the broker runs, move anything away from it, or end its process.
"""

from collections.abc import Iterator
from dataclasses import replace

from muster_coordinator.controller.commands import DecommissionBroker, UnregisterBroker
from muster_coordinator.controller.image import Broker, ClusterImage
from muster_coordinator.controller.limits import GONE_FOLDERS_MAX
from muster_coordinator.controller.misfit import MisfitError, require, with_, without
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId


def unregister(cluster: ClusterImage, command: UnregisterBroker) -> ClusterImage:
    """The image without the broker; the same object if this folder of it was unregistered already. Raises
    `MisfitError`."""
    broker, uuid = command.broker, command.replica_uuid
    votes = broker in cluster.voters or broker in cluster.former_voters
    require(not votes, Code.POLICY_VIOLATION, f"broker {broker} votes in the controller's group")
    if uuid in cluster.unregistered.get(broker, ())[-1:]:
        return cluster  # proposed again because the first answer was lost
    known = _known(cluster, broker, uuid)
    held = list(holdings(cluster, broker))
    told = min(held, default="") + (f" and {len(held) - 1} more" if len(held) > 1 else "")
    require(not held, Code.POLICY_VIOLATION, f"broker {broker} has replicas: move {told} away from it first")
    gone = (*known.gone, uuid) if known.bound else known.gone
    require(
        len(gone) <= GONE_FOLDERS_MAX,
        Code.POLICY_VIOLATION,
        f"broker {broker} had {len(known.gone)} data folders replaced, the most that are kept",
    )
    return replace(
        cluster,
        brokers=without(cluster.brokers, broker),
        unregistered=with_(cluster.unregistered, broker, gone),
        broker_configs=without(cluster.broker_configs, broker),
    )


def decommission(cluster: ClusterImage, command: DecommissionBroker) -> ClusterImage:
    """The image in which the broker is to leave, or to stay; the same object if it is so already. Raises
    `MisfitError`: also if so few brokers would be left that a replica that it has, or its vote in the controller's
    group, could not go to another one."""
    broker = command.broker
    known = _known(cluster, broker, command.replica_uuid)
    if known.departing == command.departing:
        return cluster
    if command.departing:
        left = sum(other.bound and not other.departing for other in cluster.brokers.values()) - int(known.bound)
        # What is still to have more replicas may need a broker that has none of it yet.
        if broker in cluster.voters or cluster.controller_voters_wanted > left:
            count = max(len(cluster.voters), cluster.controller_voters_wanted)
            said = f"the controller's group has {count} voters, and {left} brokers would be left for them"
            require(count <= left, Code.POLICY_VIOLATION, said)
        for topic in cluster.topics.values():
            for number, partition in enumerate(topic.partitions):
                if broker in partition.voters or topic.replication_wanted > left:
                    count = max(len(partition.voters), topic.replication_wanted)
                    said = f"{topic.name}-{number} has {count} replicas, and {left} brokers would be left for them"
                    require(count <= left, Code.POLICY_VIOLATION, said)
    return replace(cluster, brokers=with_(cluster.brokers, broker, replace(known, departing=command.departing)))


def require_unknown_folder(cluster: ClusterImage, uuid: bytes) -> None:
    """Raises `MisfitError` if this was a folder of a broker that left."""
    for broker, folders in cluster.unregistered.items():
        require(
            uuid not in folders,
            Code.DUPLICATE_BROKER_REGISTRATION,
            f"broker {broker} with data folder {uuid.hex()} was unregistered: remove it, and start with an empty one",
        )


def _known(cluster: ClusterImage, broker: BrokerId, uuid: bytes) -> Broker:
    """The broker, which is bound to this folder. Raises `MisfitError`."""
    known = cluster.brokers.get(broker)
    if known is None:
        raise MisfitError(Code.BROKER_ID_NOT_REGISTERED, f"broker {broker} is not registered")
    require(
        known.replica_uuid == uuid,
        Code.INVALID_REQUEST,
        f"broker {broker} is bound to data folder {known.replica_uuid.hex()}, not to {uuid.hex()}",
    )
    return known


def is_emptied(cluster: ClusterImage, broker: BrokerId) -> bool:
    """Is the broker to leave, and has nothing any more? Clients are told of the others then (ADR 49)."""
    known = cluster.brokers.get(broker)
    votes = broker in cluster.voters or broker in cluster.former_voters
    return known is not None and known.departing and not votes and next(holdings(cluster, broker), None) is None


def holdings(cluster: ClusterImage, broker: BrokerId) -> Iterator[str]:
    """The partitions of which the broker has a replica, or is to have one, or that have not let it go yet."""
    for topic in cluster.topics.values():
        for number, partition in enumerate(topic.partitions):
            if broker in partition.holders:
                yield f"{topic.name}-{number}"
