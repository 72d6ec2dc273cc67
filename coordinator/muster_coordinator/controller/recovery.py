"""The image of a cluster that goes on from one folder: the rules of RecoverCluster (ADR 40). Pure.

What this does not do: know whether the folders are gone, or choose the numbers that are skipped (`replica.recovery`).
"""

from dataclasses import replace
from types import MappingProxyType

from muster_coordinator.controller.commands import RecoverCluster
from muster_coordinator.controller.image import EMPTY_ID, MEMBERS_LEVEL, ClusterImage, never_registered
from muster_coordinator.controller.limits import BROKER_ID_MAX, GONE_FOLDERS_MAX, UUID_BYTES
from muster_coordinator.controller.misfit import require
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import BROKERS_MAX


def recover(cluster: ClusterImage, command: RecoverCluster) -> ClusterImage:
    """Several folders are gone at once, and nobody voted on it: `muster recover` has made sure that no majority of the
    others can, and that the numbers which they may have given are not given again."""
    level, brokers = cluster.feature_level, dict(cluster.brokers)
    unregistered = dict(cluster.unregistered)
    require(level >= MEMBERS_LEVEL, Code.UNSUPPORTED_VERSION, f"the cluster has feature level {level}")
    for seat in command.seats:
        broker, uuids = seat.broker, (*seat.gone, seat.bound)
        require(0 <= broker <= BROKER_ID_MAX, Code.INVALID_REQUEST, f"a broker cannot have the id {broker}")
        require(all(len(uuid) == UUID_BYTES for uuid in uuids), Code.INVALID_REQUEST, "a replica uuid has 16 bytes")
        left = unregistered.pop(broker, ())  # the survivor knows that it has come back under its id since
        known = brokers.get(broker) or replace(never_registered(broker, EMPTY_ID, level), binding=len(left), gone=left)
        gone = (*known.gone, *seat.gone)
        bound_and_gone = seat.bound != EMPTY_ID and seat.bound in gone
        require(not bound_and_gone, Code.INVALID_REQUEST, f"the folder of broker {broker} is gone and bound")
        require(
            len(gone) <= GONE_FOLDERS_MAX,
            Code.POLICY_VIOLATION,
            f"broker {broker} had {len(gone)} data folders replaced, more than are kept",
        )
        brokers[broker] = replace(
            known,
            replica_uuid=seat.bound,
            incarnation=known.incarnation if seat.bound == known.replica_uuid else 0,
            draining=False,
            binding=known.binding + len(seat.gone),
            gone=gone,
        )
    count = len({*cluster.voters, *brokers, *unregistered})
    require(count <= BROKERS_MAX, Code.POLICY_VIOLATION, f"{count} brokers are more than {BROKERS_MAX}")
    return replace(
        cluster,
        brokers=MappingProxyType(brokers),
        unregistered=MappingProxyType(unregistered),
        next_group=GroupNo(max(cluster.next_group, command.next_group)),
        next_producer_id=max(cluster.next_producer_id, command.next_producer_id),
    )
