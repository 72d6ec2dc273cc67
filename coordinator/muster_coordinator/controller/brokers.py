"""Brokers in the image: RegisterBroker, ReplaceReplica, SetDraining. Pure.

Problem: a broker's data folder holds its promises, so an id must never be answered for by two folders. Mechanism: an id
is bound to the folder that registered under it; it registers again with that one only, each time with a later
incarnation, until the folder is declared gone for good (ADR 38). Then the next new folder that registers is bound, and
the one before never registers again, under no id. What this does not do: look at who is alive, or let a broker leave
(`departures`).
"""

from dataclasses import replace

from muster_coordinator.controller.commands import (
    CommandResult,
    RegisterBroker,
    ReplaceReplica,
    SetDraining,
)
from muster_coordinator.controller.departures import require_unknown_folder
from muster_coordinator.controller.image import (
    EMPTY_ID,
    MEMBERS_LEVEL,
    Broker,
    ClusterImage,
    all_ids,
)
from muster_coordinator.controller.limits import BROKER_ID_MAX, GONE_FOLDERS_MAX, RACK_CHARS_MAX, UUID_BYTES
from muster_coordinator.controller.misfit import MisfitError, require, with_, without
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import BROKERS_MAX

DONE = CommandResult(Code.NONE)


def register(cluster: ClusterImage, command: RegisterBroker) -> tuple[ClusterImage, CommandResult]:
    """A broker says that it is there, with the data folder that it has."""
    broker = command.broker
    if broker not in cluster.voters and broker not in cluster.brokers:
        _require_newcomer(cluster, broker)
    require(len(command.replica_uuid) == UUID_BYTES, Code.INVALID_REQUEST, "a replica uuid has 16 bytes")
    short = len(command.rack) <= RACK_CHARS_MAX
    require(short, Code.INVALID_REQUEST, f"a rack's name has at most {RACK_CHARS_MAX} characters")
    require(
        command.feature_max >= cluster.feature_level,
        Code.UNSUPPORTED_VERSION,
        f"the cluster has feature level {cluster.feature_level}, broker {broker} supports up to {command.feature_max}",
    )
    known = cluster.brokers.get(broker)
    if cluster.feature_level >= MEMBERS_LEVEL:
        _require_folder(cluster, command)
    gone = known.gone if known is not None else cluster.unregistered.get(broker, ())
    fresh = Broker(
        broker=broker,
        replica_uuid=command.replica_uuid,
        incarnation=command.incarnation,
        endpoints=command.endpoints,
        admin=command.admin,
        draining=False,
        feature_max=command.feature_max,
        binding=len(gone),
        gone=gone,
        rack=command.rack,
        departing=known is not None and known.departing,
    )
    if known is not None and (known.bound or cluster.feature_level < MEMBERS_LEVEL):
        require(
            known.replica_uuid == command.replica_uuid,
            Code.DUPLICATE_BROKER_REGISTRATION,
            f"broker {broker} is registered with another data folder",
        )
        # The same start, proposed twice because the first answer was lost: a drain that was set in between stays.
        if replace(known, draining=False, rack=fresh.rack) == fresh:
            # Or it says its rack now, which it could not say below `MEMBERS_LEVEL`.
            same = replace(known, rack=fresh.rack)
            return cluster if same == known else replace(cluster, brokers=with_(cluster.brokers, broker, same)), DONE
        require(
            command.incarnation > known.incarnation,
            Code.STALE_BROKER_EPOCH,
            f"broker {broker} is registered with incarnation {known.incarnation}",
        )
    back = broker in cluster.unregistered
    unregistered = without(cluster.unregistered, broker) if back else cluster.unregistered
    return replace(cluster, brokers=with_(cluster.brokers, broker, fresh), unregistered=unregistered), DONE


def _require_newcomer(cluster: ClusterImage, broker: BrokerId) -> None:
    """A broker that the cluster was not formed with joins by its first registration. Releases below `MEMBERS_LEVEL`
    refuse it with these words."""
    may_join = cluster.feature_level >= MEMBERS_LEVEL
    require(may_join, Code.INVALID_REQUEST, f"broker {broker} is not a voter of this cluster")
    require(0 <= broker <= BROKER_ID_MAX, Code.INVALID_REQUEST, "a broker id is an i32, and not negative")
    ids, left = len(all_ids(cluster) - {broker}), len(cluster.unregistered)
    told = f", {left} of them unregistered, whose ids may be taken" if left else ""
    require(ids < BROKERS_MAX, Code.POLICY_VIOLATION, f"the cluster has {ids} brokers, the most there may be{told}")


def _require_folder(cluster: ClusterImage, command: RegisterBroker) -> None:
    """A folder that was ever replaced registers under no id again, and one of another broker is not bound to this."""
    uuid, known = command.replica_uuid, cluster.brokers.get(command.broker)
    require(uuid != EMPTY_ID, Code.INVALID_REQUEST, "a replica uuid is not all zero")
    bound = known is not None and known.replica_uuid == uuid
    require_unknown_folder(cluster, uuid)
    for other in cluster.brokers.values():
        require(
            uuid not in other.gone,
            Code.DUPLICATE_BROKER_REGISTRATION,
            f"data folder {uuid.hex()} of broker {other.broker} was replaced: remove it, and start with an empty one",
        )
        require(
            bound or uuid != other.replica_uuid,
            Code.DUPLICATE_BROKER_REGISTRATION,
            f"data folder {uuid.hex()} is bound to broker {other.broker}",
        )


def replace_folder(cluster: ClusterImage, command: ReplaceReplica) -> tuple[ClusterImage, CommandResult]:
    """Unbind the broker from its folder. What the broker had told of itself stays: it is where the next folder is
    expected, and the level that its binary is known to support counts until then, as no other is known."""
    broker, uuid = command.broker, command.gone_uuid
    known = registered(cluster, broker)
    if uuid in known.gone:  # the same replacement, proposed again because the first answer was lost
        return cluster, CommandResult(Code.NONE, "", known.gone.index(uuid) + 1)
    require(known.bound, Code.INVALID_REQUEST, f"broker {broker} waits for a new data folder already")
    require(
        known.replica_uuid == uuid,
        Code.INVALID_REQUEST,
        f"broker {broker} is bound to data folder {known.replica_uuid.hex()}, not to {uuid.hex()}",
    )
    spared = broker not in cluster.voters or len(cluster.voters) > 1
    require(spared, Code.INVALID_REQUEST, f"broker {broker} is the cluster's only replica")
    unbound = [other.broker for other in cluster.brokers.values() if not other.bound]
    require(not unbound, Code.POLICY_VIOLATION, f"broker {min(unbound, default=-1)} waits for a new data folder")
    require(
        len(known.gone) < GONE_FOLDERS_MAX,
        Code.POLICY_VIOLATION,
        f"broker {broker} had {len(known.gone)} data folders replaced, the most that are kept",
    )
    emptied = replace(
        known,
        replica_uuid=EMPTY_ID,
        incarnation=0,
        draining=False,
        binding=known.binding + 1,
        gone=(*known.gone, uuid),
    )
    image = replace(cluster, brokers=with_(cluster.brokers, broker, emptied))
    return image, CommandResult(Code.NONE, "", emptied.binding)


def set_draining(cluster: ClusterImage, command: SetDraining) -> tuple[ClusterImage, CommandResult]:
    """Whether a broker wants to lead nothing."""
    known = registered(cluster, command.broker)
    if known.draining == command.draining:
        return cluster, DONE
    changed = replace(known, draining=command.draining)
    return replace(cluster, brokers=with_(cluster.brokers, command.broker, changed)), DONE


def registered(cluster: ClusterImage, broker: BrokerId) -> Broker:
    """What is known of a broker. Raises MisfitError."""
    known = cluster.brokers.get(broker)
    if known is None:
        raise MisfitError(Code.BROKER_ID_NOT_REGISTERED, f"broker {broker} is not registered")
    return known
