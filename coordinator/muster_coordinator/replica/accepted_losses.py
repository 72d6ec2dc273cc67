"""Accepting what the only replica of a cluster has lost: without it its suspended groups would stand aside for ever.

Problem: a suspended voter is made whole by a leader whose quorum does without it. Where it is the only voter nobody can
be, and what is lost is lost: somebody has to say that the cluster is to go on with what is left. Mechanism: while the
replica is stopped, the lists of `storage.wal_losses` are emptied; the next start then takes each group up at what its
WAL still proves. No promise to another voter can be broken by that, because there is none; acknowledged records,
commits and topics can be missing. So it is refused unless the formed record has one voter and that is this replica.
What it does not do: decide what is lost, or find anything of it again.
"""

from typing import NamedTuple

from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Disk
from muster_coordinator.replica.bootstrap.identity import Phase, StartRefused, load_cluster
from muster_coordinator.replica.group_manager import OFFSETS_WAL, TOPICS_WAL
from muster_coordinator.storage import wal_losses
from muster_coordinator.storage.wal_losses import Losses


class Lost(NamedTuple):
    """What one WAL says."""

    wal: str
    groups: tuple[GroupNo, ...]
    """Raft groups that may have lost something they had promised."""
    unknown: bool
    """Others may have, of which the WAL knows nothing any more."""


def losses(disk: Disk) -> list[Lost]:
    """Of both WALs, those that have lost something. Blocking. StartRefused where other voters make good for it, or may:
    there is nothing to accept then."""
    phase, record = load_cluster(disk)
    if record is None or phase is not Phase.FORMED:
        raise StartRefused("this data folder belongs to no cluster yet")
    if len(record.voters) != 1:
        others = f"{len(record.voters)} voters: {', '.join(str(voter.broker) for voter in record.voters)}"
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
    """The next start goes on with what is left. Durable when it returns."""
    for lost in found:
        wal_losses.store(disk, lost.wal, Losses(set(), unknown=False).encoded())
