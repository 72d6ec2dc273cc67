"""What a stopped replica's folder holds of every Raft group, and how much of it is known to be committed.

Problem: after a majority was lost, somebody has to know what the folder that is left has, before anything is changed.
Mechanism: both WALs are opened as at a start, and the controller's log is replayed to its end, since a recovery makes
all of it committed. Of a partition the offsets are counted: from its checkpoint on, each batch that is not passed over
takes as many as it says. What is committed for certain is what this replica knew to be: the commit index in its WAL,
its recovery point and its checkpoint, each a lower bound. What comes behind was accepted from a leader, and most of it
was acknowledged; nothing here can tell. What was committed and never arrived here leaves no trace.

Opening a WAL writes to it (torn tails are cut), so a look that must change nothing gives a disk that keeps its writes
to itself. What this does not do: judge segments and the states of the groups, which are read at the next start.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from muster_coordinator.controller.image import OFFSETS_TOPIC, ClusterImage
from muster_coordinator.controller.machine import ControllerMachine
from muster_coordinator.errors import Corruption, UnsupportedFormat
from muster_coordinator.groups.effects import CheckpointBody
from muster_coordinator.ids import CONTROLLER_GROUP, FIRST_OFFSETS_GROUP, BrokerId, GroupNo
from muster_coordinator.ports import Disk
from muster_coordinator.raft.messages import NOBODY, Entry, EntryKind, HardState
from muster_coordinator.records.batch import HEADER_BYTES
from muster_coordinator.replica.bootstrap.identity import (
    ClusterRecord,
    Identity,
    Phase,
    StartRefused,
    load_cluster,
    load_identity,
)
from muster_coordinator.replica.bootstrap.recovery_file import RecoveryFile, load_recovery
from muster_coordinator.replica.folders import CHECKPOINTS, SEGMENTS, checkpoint_folder
from muster_coordinator.replica.group_manager import OFFSETS_WAL, TOPICS_WAL
from muster_coordinator.replica.multiraft.skips import Skip, decode_skip, skip_of
from muster_coordinator.replica.recovery.limits import READ_BYTES
from muster_coordinator.replica.snapshots import staging
from muster_coordinator.storage.checkpoint import CheckpointMeta, newest_checkpoint
from muster_coordinator.storage.contract import NO_RECOVERY_POINT, RecoveredGroup
from muster_coordinator.storage.wal import Wal

_BATCH = struct.Struct(">qiibIhiqq")
"""The beginning of a batch, up to maxTimestamp."""
NOTHING = RecoveredGroup(HardState(0, NOBODY, 0), 1, 0, 0, NO_RECOVERY_POINT, (0, 0))
CONTROLLER_NAME = "controller"
ELSEWHERE = "its replicas are on other brokers"
"""`GroupHeld.trouble` of a partition that this broker has no part in, and nothing of."""


class WalSizes(NamedTuple):
    """Bytes of one file, and of all files of a WAL, as configured."""

    file_bytes: int
    bytes_max: int


class GroupHeld(NamedTuple):
    """What the folder holds of one Raft group."""

    number: GroupNo
    partition: str
    """TOPIC-PARTITION, or `CONTROLLER_NAME`."""
    last_index: int
    """Index of the last entry; 0: nothing of the group is here."""
    last_term: int
    commit: int
    """Every entry up to this index is known to be committed, and is here."""
    certain_end: int | None
    """Offset behind the last record that is known to be committed. None: of the controller's group, or in `trouble`."""
    log_end: int | None
    """Offset behind the last record that is here. None as above."""
    newest_ms: int | None
    """The newest timestamp of a record in the WAL; None: there is none."""
    term: int
    """The latest term that this replica was in."""
    suspended: bool
    """The WAL may have lost entries that this replica had acknowledged."""
    trouble: str = ""
    """Why the folder has no state of the group, or none that can be read; "": it has."""


class Survey(NamedTuple):
    """What the folder holds."""

    identity: Identity
    phase: Phase
    record: ClusterRecord
    begun: RecoveryFile | None
    """A recovery that has begun and is not complete."""
    image: ClusterImage | None
    """The cluster at the end of the controller's log. None: that log cannot be read (its row says why), or is empty."""
    groups: tuple[GroupHeld, ...]
    """Of the controller and of all partitions that the image names, ascending."""
    unnamed: tuple[GroupNo, ...]
    """Groups that have a log here and that no topic of the image names."""
    next_group: int
    """Above the number of any group of which there is a trace."""
    sealed: tuple[GroupNo, ...]
    """Groups with an install that was interrupted: the next start completes it."""


class Wals(NamedTuple):
    """Both WALs, open."""

    offsets: Wal
    topics: Wal

    def of(self, number: int, record: ClusterRecord) -> Wal:
        return self.offsets if number < FIRST_OFFSETS_GROUP + record.offsets_partitions else self.topics

    def close(self) -> None:
        self.offsets.close()
        self.topics.close()


def open_wals(disk: Disk, identity: Identity, record: ClusterRecord, sizes: WalSizes) -> Wals:
    """Blocking. Raises Corruption if one is gone, and what `Wal.open` raises."""
    wals = []
    for name in (OFFSETS_WAL, TOPICS_WAL):
        if not any(file.endswith(".wal") for file in disk.listdir(name)):
            raise Corruption(f"{name} is gone: nothing can be recovered from this folder")
        wals.append(
            Wal.open(
                disk,
                name,
                node_uuid=identity.replica_uuid,
                cluster_uuid=record.wal_uuid(),
                file_bytes=sizes.file_bytes,
                bytes_max=sizes.bytes_max,
            )
        )
    return Wals(*wals)


def survey(disk: Disk, broker: BrokerId, sizes: WalSizes) -> Survey:
    """Blocking. Raises StartRefused if the folder is another broker's or of no cluster, Corruption if identity, record
    or a WAL cannot be read, UnsupportedFormat, StorageFailed."""
    identity = load_identity(disk, broker)
    phase, record = load_cluster(disk)
    if identity is None or record is None or phase is Phase.PREPARED:
        raise StartRefused("this data folder belongs to no cluster yet")
    begun = load_recovery(disk)
    wals = open_wals(disk, identity, record, sizes)
    try:
        return _survey(disk, identity, phase, record, begun, wals)
    finally:
        wals.close()


def _survey(
    disk: Disk, identity: Identity, phase: Phase, record: ClusterRecord, begun: RecoveryFile | None, wals: Wals
) -> Survey:
    machine = ControllerMachine()
    controller = _Reader(disk, wals.offsets, CONTROLLER_GROUP, CONTROLLER_NAME)
    groups = [controller.held_controller(machine)]
    image = None if groups[0].trouble else machine.cluster
    named = {number: (partition, here) for number, partition, here in _partitions(identity.broker, record, image)}
    for number, (partition, here) in sorted(named.items()):
        held = _Reader(disk, wals.of(number, record), number, partition).held()
        nothing = not here and not held.last_index  # what was moved away and is still here is better than nothing
        groups.append(held._replace(certain_end=None, log_end=None, trouble=ELSEWHERE) if nothing else held)
    traces = {int(name) for folder in (SEGMENTS, CHECKPOINTS) for name in disk.listdir(folder) if name.isdecimal()}
    in_wals = {*wals.offsets.groups(), *wals.topics.groups()}
    return Survey(
        identity,
        phase,
        record,
        begun,
        image,
        tuple(groups),
        tuple(sorted(number for number in in_wals if number != CONTROLLER_GROUP and number not in named)),
        1 + max({0, *named, *in_wals, *traces}),
        _sealed(disk, wals, record),
    )


def _sealed(disk: Disk, wals: Wals, record: ClusterRecord) -> tuple[GroupNo, ...]:
    found = []
    for offer in staging.completed(disk):
        known = wals.of(offer.group, record).groups().get(GroupNo(offer.group), NOTHING)
        if known.checkpoint[0] < offer.index:
            found.append(GroupNo(offer.group))
    return tuple(sorted(found))


def _partitions(
    broker: BrokerId, record: ClusterRecord, image: ClusterImage | None
) -> Iterator[tuple[GroupNo, str, bool]]:
    """Raft group and name of each, and whether this broker has a replica of it, or is to have one."""
    for partition in range(record.offsets_partitions):
        yield GroupNo(FIRST_OFFSETS_GROUP + partition), f"{OFFSETS_TOPIC}-{partition}", True
    for topic in () if image is None else image.topics.values():
        for index, one in enumerate(topic.partitions):
            yield one.group, f"{topic.name}-{index}", broker in one.holders


class _Reader:
    """Reads one group: its checkpoint, and its entries in the WAL."""

    def __init__(self, disk: Disk, wal: Wal, number: GroupNo, partition: str) -> None:
        self._disk = disk
        self._wal = wal
        self._number = number
        self._partition = partition
        self._known = wal.groups().get(number, NOTHING)

    def held(self) -> GroupHeld:
        """Of a partition."""
        try:
            meta, _ = self._checkpoint()
            return self._counted(meta)
        except (Corruption, UnsupportedFormat) as error:
            return self._without_state(str(error))

    def held_controller(self, machine: ControllerMachine) -> GroupHeld:
        """Of the controller's group; `machine` gets the state at the end of its log."""
        try:
            meta, body = self._checkpoint()
            if body is not None:
                machine.restore(body)
            for entry in self._passed_on(meta.index + 1):
                if entry.kind == EntryKind.COMMAND:
                    machine.apply_command(entry.index, entry.data)
        except (Corruption, UnsupportedFormat) as error:
            return self._without_state(str(error))
        return self._held(self._commit(meta), None, None, None)

    def _checkpoint(self) -> tuple[CheckpointMeta, CheckpointBody | None]:
        known, folder = self._known, checkpoint_folder(self._number)
        found = newest_checkpoint(self._disk, folder, known.checkpoint, known.first_index)
        if found is None:
            return CheckpointMeta(self._number, 0, 0), None
        if found[0].group != self._number:
            raise Corruption(f"{folder} holds a checkpoint of group {found[0].group}")
        if known.recovery_point.applied < found[0].index and self._number != CONTROLLER_GROUP:
            raise Corruption(f"the recovery point of the segments is {known.recovery_point.applied}")
        return found

    def _commit(self, meta: CheckpointMeta) -> int:
        """All three are lower bounds, and what they cover is here."""
        known = self._known
        return max(min(known.hard_state.commit, known.last_index), known.recovery_point.applied, meta.index)

    def _counted(self, meta: CheckpointMeta) -> GroupHeld:
        commit = self._commit(meta)
        certain = end = meta.next_offset
        newest: int | None = None
        for entry in self._passed_on(self._known.first_index):
            if entry.kind != EntryKind.NORMAL:
                continue
            if len(entry.data) < HEADER_BYTES:
                raise Corruption(f"entry {entry.index} is no batch of records")
            *_, delta, _base_ms, max_ms = _BATCH.unpack_from(entry.data)
            newest = max_ms if newest is None else max(newest, max_ms)
            if entry.index > meta.index:
                end += delta + 1
                certain = end if entry.index <= commit else certain
        return self._held(commit, certain, end, newest)

    def _passed_on(self, first: int) -> Iterator[Entry]:
        """The entries from `first` on that no SKIP passes over."""
        passed_over = self._skipped()
        while first <= self._known.last_index:
            entries = self._wal.read(self._number, first, self._known.last_index + 1, READ_BYTES)
            if not entries:
                raise Corruption(f"entry {first} is not in the WAL any more")
            for entry in entries:
                if entry.index not in passed_over or skip_of(entry) not in passed_over[entry.index]:
                    yield entry
            first = entries[-1].index + 1

    def _skipped(self) -> dict[int, list[Skip]]:
        found: dict[int, list[Skip]] = {}
        for index in self._known.skips:
            for entry in self._wal.read(self._number, index, index + 1, 1):
                if entry.kind == EntryKind.SKIP:
                    skip = decode_skip(entry.data)
                    found.setdefault(skip.index, []).append(skip)
        return found

    def _held(self, commit: int, certain: int | None, end: int | None, newest: int | None) -> GroupHeld:
        known = self._known
        return GroupHeld(
            self._number,
            self._partition,
            known.last_index,
            self._wal.term_at(self._number, known.last_index) or 0,
            commit,
            certain,
            end,
            newest,
            known.hard_state.term,
            self._wal.is_suspended(self._number),
        )

    def _without_state(self, trouble: str) -> GroupHeld:
        return self._held(0, None, None, None)._replace(trouble=trouble)
