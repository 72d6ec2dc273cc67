"""Accepting the losses of the only replica of a cluster, whose suspended groups would otherwise stay out of service.

Problem: a suspended voter is released by a leader that has a quorum without it. If it is the only voter, there is no
such leader, and the lost data cannot be restored: an operator has to decide that the cluster goes on with the rest.
Mechanism: while the replica is stopped, the lists of `storage.wal_losses` are emptied; the next start then recovers
each group from what its WAL still has. That breaks no promise to another voter, because there is none; but acknowledged
records, commits and topics can be missing. So it is refused unless this replica is the only one of the cluster's
record: one that joined may vote by now, also in the controller's group (ADR 45). Without it, see `replica.recovery`.
What it does not do: decide what is lost, or restore any of it.
"""

from typing import NamedTuple

from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Disk
from muster_coordinator.replica.bootstrap.identity import UNBOUND, Phase, StartRefused, load_cluster
from muster_coordinator.replica.group_manager import OFFSETS_WAL, TOPICS_WAL
from muster_coordinator.storage import wal_losses
from muster_coordinator.storage.wal_losses import Losses


class Lost(NamedTuple):
    """The losses of one WAL."""

    wal: str
    groups: tuple[GroupNo, ...]
    """Raft groups that may have lost votes or acknowledged entries."""
    unknown: bool
    """True: other groups may have lost all their records, so that the WAL does not know them."""


def losses(disk: Disk) -> list[Lost]:
    """The losses of each WAL that has any. Blocking. Raises StartRefused if the cluster has other voters, which can
    restore what is lost: nothing must be accepted then."""
    phase, record = load_cluster(disk)
    if record is None or phase is not Phase.FORMED:
        raise StartRefused("this data folder belongs to no cluster yet")
    bound = [seat for seat in record.seats if seat.replica_uuid != UNBOUND]
    if len(record.voters) != 1 or len(bound) > 1:
        others = f"{len(bound)} replicas: {', '.join(str(seat.broker) for seat in bound)}"
        raise StartRefused(f"cluster {record.cluster_id} has {others}; the others make good for what is lost here")
    found = []
    for wal in (OFFSETS_WAL, TOPICS_WAL):
        lost = wal_losses.load(disk, wal)
        if lost is None:
            found.append(Lost(wal, (), unknown=True))
        elif lost.groups or lost.unknown:
            found.append(Lost(wal, tuple(sorted(lost.groups)), lost.unknown))
    return found


def accept(disk: Disk, found: list[Lost]) -> None:
    """Accept the losses: the next start recovers from what is left. Durable when it returns."""
    for lost in found:
        wal_losses.store(disk, lost.wal, Losses(set(), unknown=False).encoded())
