"""Writes a recovery into a stopped replica's folder, so that a power loss at any point can be made good.

Invariant: each step is durable before the next begins.

1. The file `recovery` holds all that will be written. From here on no replica starts on the folder.
2. The WAL of the topics, then that of the controller and the offsets, each by one batch, which becomes durable as a
   whole: for each group its new term and the entries of `entries_of`, all of it committed.
3. The lists of suspended groups are emptied: there is nobody left who could make good for what they lost.
4. The cluster record, with the seats of the others unbound, and the next epoch.
5. The file `recovery` is removed.

A group whose term is that of the recovery has its entries, so whoever begins again writes only what is missing. What
this does not do: decide what is written (`plan`).
"""

from collections.abc import Iterable

from muster_coordinator.ids import CONTROLLER_GROUP, GroupNo, LogIndex, Term
from muster_coordinator.ports import Disk
from muster_coordinator.raft.members import encode_config
from muster_coordinator.raft.messages import Entry, EntryKind, HardState
from muster_coordinator.raft.quorum import Config
from muster_coordinator.replica.bootstrap.identity import Identity, Phase, store_cluster
from muster_coordinator.replica.bootstrap.recovery_file import RecoveryFile, remove_recovery, store_recovery
from muster_coordinator.replica.group_manager import OFFSETS_WAL, TOPICS_WAL
from muster_coordinator.replica.recovery.survey import ELSEWHERE, NOTHING, Survey, WalSizes, open_wals
from muster_coordinator.storage import wal_losses
from muster_coordinator.storage.contract import GroupWrites
from muster_coordinator.storage.wal import Wal
from muster_coordinator.storage.wal_losses import Losses


def execute(disk: Disk, found: Survey, recovery: RecoveryFile, sizes: WalSizes) -> None:
    """Blocking; durable and complete when it returns. Raises StorageFailed and OSError: call it again."""
    if found.begun is None:
        store_recovery(disk, recovery)
    wals = open_wals(disk, found.identity, found.record, sizes)
    numbers = [group.number for group in found.groups if group.trouble != ELSEWHERE]
    for wal in (wals.topics, wals.offsets):
        mine = [number for number in numbers if wals.of(number, found.record) is wal]
        _write(wal, mine, recovery, found.identity)
    wals.close()
    for name in (OFFSETS_WAL, TOPICS_WAL):
        wal_losses.store(disk, name, Losses(set(), unknown=False).encoded())
    store_cluster(disk, Phase.FORMED, recovery.record)
    remove_recovery(disk)


def _write(wal: Wal, numbers: Iterable[GroupNo], recovery: RecoveryFile, identity: Identity) -> None:
    member = recovery.record.member_of(identity.broker)
    for number in numbers:
        known = wal.groups().get(number, NOTHING)
        if known.hard_state.term >= recovery.term:
            continue
        entries = entries_of(number, known.last_index, recovery, member)
        state = HardState(recovery.term, member, entries[-1].index)
        wal.stage(GroupWrites(number, state, entries))
    job = wal.take_job(carry=False)
    if job is not None:
        job()
        wal.job_done()


def entries_of(number: GroupNo, last_index: int, recovery: RecoveryFile, member: int) -> tuple[Entry, ...]:
    """What a group's log gets: this replica is its only voter from here on; and, in the controller's, what becomes of
    the others."""
    wanted = [(EntryKind.CONF, encode_config(Config((member,))))]
    if number == CONTROLLER_GROUP:
        wanted.append((EntryKind.COMMAND, recovery.command))
    return tuple(
        Entry(Term(recovery.term), LogIndex(index), kind, data)
        for index, (kind, data) in enumerate(wanted, last_index + 1)
    )
