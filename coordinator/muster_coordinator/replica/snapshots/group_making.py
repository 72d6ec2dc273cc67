"""Making a Raft group from the disk: hard state and entries, checkpoint, recovery point (decision 2).

Problem: after any crash or damage a group must keep its promises, and must not serve a state that may be wrong.
Mechanism: replay starts at the checkpoint and uses the ordinary apply path. The core is told that all entries up to the
recovery point are committed: they were applied here before, and the segments hold them.

The group's promises, its votes and acknowledged entries, are in the WAL alone. If WAL and checkpoint contradict each
other, `Corruption` is raised and the replica does not start. A suspended group without other voters is left as it is,
with all its files, until an operator accepts the loss (`accepted_losses`). Damage to the group's other files, or no
room to finish an install, stops this group only: it votes and stores entries as before, but has no state, so it does
not lead or apply anything (`RaftGroup.trouble` says why) until it gets an install. What this does not do: fetch that
install.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from muster_coordinator.errors import Corruption, StorageFailed
from muster_coordinator.groups.effects import CheckpointBody
from muster_coordinator.ids import GroupNo, MemberNo
from muster_coordinator.ports import Disk, Rand
from muster_coordinator.raft.core import RaftCore
from muster_coordinator.raft.log import RaftLog
from muster_coordinator.raft.members import Placed
from muster_coordinator.raft.messages import NOBODY, Entry, HardState
from muster_coordinator.raft.quorum import Config
from muster_coordinator.replica.folders import CHECKPOINTS, SEGMENTS, checkpoint_folder
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.multiraft.raft_group import Machine, RaftGroup
from muster_coordinator.replica.multiraft.wal_writer import WalWriter
from muster_coordinator.replica.settings import NodeSettings
from muster_coordinator.replica.snapshots import staging
from muster_coordinator.replica.snapshots.install_payload import Offer
from muster_coordinator.storage.checkpoint import (
    CheckpointMeta,
    checkpoint_files,
    checkpoint_name,
    newest_checkpoint,
    remove_leftovers,
)
from muster_coordinator.storage.contract import NO_RECOVERY_POINT, GroupWrites, RecoveredGroup, RecoveryPoint, WalStore

NO_META = CheckpointMeta(GroupNo(0), 0, 0)

ALONE = (
    "its WAL may lack entries that it has promised, and there is no other replica to restore them from; its files stay "
    "as they are: see `muster accept-losses`"
)
CONTROLLER_NAME = "controller"
"""Name of the controller group in events; the other groups have their partition's name."""


class Recovery(NamedTuple):
    """What a state machine is restored from."""

    meta: CheckpointMeta
    body: CheckpointBody | None
    """None: there is no checkpoint, and the machine starts empty."""
    recovery_point: RecoveryPoint
    whole: bool = True
    """False: the group's files are damaged, and none of them is read."""


MakeMachine = Callable[[RaftGroup], Machine]
"""Makes the machine of a group; its state was read before."""


class WalReader:
    """`raft.log.LogReader` of one group."""

    __slots__ = ("_group", "_wal")

    def __init__(self, wal: WalStore, group: GroupNo) -> None:
        self._wal = wal
        self._group = group

    def read(self, low: int, high: int, max_bytes: int) -> list[Entry]:
        return self._wal.read(self._group, low, high, max_bytes)

    def term_at(self, index: int) -> int | None:
        return self._wal.term_at(self._group, index)


class GroupMaker:
    """See the module."""

    def __init__(self, disk: Disk, rand: Rand, host: Host, settings: NodeSettings) -> None:
        """Blocking: looks for installs that a crash interrupted between sealing and the WAL record."""
        self._disk = disk
        self._rand = rand
        self._host = host
        self._settings = settings
        self._fell_back: dict[GroupNo, str] = {}
        self._interrupted = {offer.group: offer for offer in staging.completed(disk)}
        self._with_files = frozenset(self.groups_with_files())
        self._forgotten: set[GroupNo] = set()
        """Groups that the start found, and that were removed since."""

    def known_groups(self, wal_writer: WalWriter) -> list[GroupNo]:
        """Groups that the start found in the WAL."""
        return sorted(wal_writer.wal.groups())

    def begun(self, number: GroupNo, wal_writer: WalWriter) -> bool:
        """Did the start find this group in the WAL or in a sealed install? If the WAL may have lost the group, having
        files counts too."""
        if number in self._forgotten:
            return False
        if number in wal_writer.wal.groups() or number in self._interrupted:
            return True
        return wal_writer.wal.is_suspended(number) and number in self._with_files

    def groups_with_files(self) -> list[GroupNo]:
        """Groups that have a folder of segments or checkpoints."""
        names = {name for folder in (SEGMENTS, CHECKPOINTS) for name in self._disk.listdir(folder)}
        return sorted(GroupNo(int(name)) for name in names if name.isdecimal())

    def forget(self, number: GroupNo) -> None:
        """The group is removed from this replica. If it is made again, it is a new one."""
        self._forgotten.add(number)
        self._interrupted.pop(number, None)
        self._fell_back.pop(number, None)

    def make(
        self,
        number: GroupNo,
        members: tuple[MemberNo, ...],
        wal_writer: WalWriter,
        restore: Callable[[Recovery], MakeMachine],
        segments: str = "",
        *,
        begins: bool = False,
    ) -> RaftGroup:
        """Recover a group, or begin a new one, and add it to the host.

        `restore` reads all files that may be damaged; if one is, it is called again to make an empty state. `segments`:
        the group's folder, "" for the controller. `begins`: the group is new (not `begun`), and its folders exist and
        are empty; otherwise the call blocks on the disk. `members`: the voters at the beginning of the group's log. If
        this replica is none of them, it came later and learns of the configurations by the log.
        """
        known = None if begins else wal_writer.wal.groups().get(number)
        if known is None:
            known = RecoveredGroup(HardState(0, NOBODY, 0), 1, 0, 0, NO_RECOVERY_POINT, (0, 0))
        beginning = Config(members if self._host.member in members else ())
        trouble = ""
        if begins:
            recovery = Recovery(NO_META, None, NO_RECOVERY_POINT)
            make_machine = restore(recovery)
        else:
            known = _as_of_now(wal_writer.wal, number, known)
            trouble = ALONE if wal_writer.wal.is_suspended(number) and _is_alone(known, beginning) else ""
            trouble = trouble or self._swap_interrupted(number, known, segments)
            if not trouble:
                known = self._name_interrupted(number, wal_writer.wal, known)
            recovery, make_machine, trouble = self._restored(number, wal_writer.wal, known, restore, trouble)
        meta = recovery.meta
        if not meta.index <= max(known.recovery_point.applied, meta.index) <= known.last_index:
            raise Corruption(
                f"group {number}: the WAL ends at {known.last_index}, the recovery point is "
                f"{known.recovery_point.applied}"
            )
        log = RaftLog(
            WalReader(wal_writer.wal, number),
            compacted=(known.first_index - 1, known.compacted_term),
            last_index=known.last_index,
            checkpoint=(meta.index, meta.term),
        )
        term, vote, commit = _of_term(known.hard_state, known.checkpoint[1])
        core = RaftCore(
            node=self._host.member,
            configs=_configs(number, known, recovery, beginning),
            log=log,
            hard_state=HardState(term, vote, max(commit, known.recovery_point.applied, meta.index)),
            applied=meta.index,
            rand=self._rand,
            timing=self._settings.timing,
            own_heartbeats=False,
        )
        if wal_writer.wal.is_suspended(number):
            core.suspend()
        name = segments.rpartition("/")[2] or CONTROLLER_NAME
        group = RaftGroup(self._host, number, core, make_machine, wal_writer, name)
        for index in known.skips:
            if meta.index < index <= known.last_index:
                group.skips.note(*wal_writer.wal.read(number, index, index + 1, 1))
        if trouble:
            group.lost_state(trouble)
        self._host.add(group)
        return group

    def _swap_interrupted(self, number: GroupNo, known: RecoveredGroup, segments: str) -> str:
        """Put an install in place that a crash left sealed, before any file of the group is read. Returns the error, if
        any; `snapshots.install` then tries again while the replica runs."""
        offer = self._interrupted.get(number)
        if offer is not None and known.checkpoint[0] < offer.index:
            try:
                staging.swap(self._disk, offer, segments)
            except (Corruption, OSError) as error:
                return str(error)
        return ""

    def _name_interrupted(self, number: GroupNo, wal: WalStore, known: RecoveredGroup) -> RecoveredGroup:
        """Write the record of that install to the WAL. An error is fatal to the replica, as any WAL error is."""
        offer = self._interrupted.pop(number, None)
        if offer is None:
            return known
        at = (offer.index, offer.term)
        if known.checkpoint[0] < offer.index:
            kept = wal.term_at(number, offer.index) == offer.term
            known = known._replace(hard_state=_of_term(known.hard_state, offer.term))
            config = None if offer.config is None else Placed(offer.index, offer.config)
            wal.stage(GroupWrites(number, known.hard_state, (), offer.recovery_point, at, config))
            job = wal.take_job()
            assert job is not None, "a write is staged"
            job()
            wal.job_done()
            first, before, last = offer.index + 1, offer.term, offer.index
            if kept:
                first, before, last = known.first_index, known.compacted_term, known.last_index
            recovery_point = offer.recovery_point if offer.recovery_point is not None else known.recovery_point
            configs = {one.at: one for one in (*(known.configs if kept else ()), *([config] if config else []))}
            placed = tuple(configs[index] for index in sorted(configs))
            known = RecoveredGroup(known.hard_state, first, before, last, recovery_point, at, known.skips, placed)
        with suppress(OSError):  # the WAL names the checkpoint: the next start or install removes the staged files
            staging.finish(self._disk, number)
        return known

    def _restored(
        self,
        number: GroupNo,
        wal: WalStore,
        known: RecoveredGroup,
        restore: Callable[[Recovery], MakeMachine],
        trouble: str,
    ) -> tuple[Recovery, MakeMachine, str]:
        """What the machine is restored from, how to make it, and why there is no valid state; "" when there is one."""
        if not trouble:
            try:
                recovery = self._recovery(number, wal, known)
                return recovery, restore(recovery), ""
            except (Corruption, StorageFailed, OSError) as error:
                trouble = str(error)
        at = max(known.checkpoint, (known.first_index - 1, known.compacted_term))
        recovery = Recovery(CheckpointMeta(number, *at), None, NO_RECOVERY_POINT, whole=False)
        return recovery, restore(recovery), trouble

    def interrupted(self, number: GroupNo) -> Offer | None:
        """The sealed install that the start could not put in place, if any: the group's own files may be removed."""
        return self._interrupted.get(number)

    def fell_back(self, number: GroupNo) -> str:
        """Why the group was restored from an older checkpoint, or from the log alone; "" when it was not."""
        return self._fell_back.get(number, "")

    def _recovery(self, number: GroupNo, wal: WalStore, known: RecoveredGroup) -> Recovery:
        folder = checkpoint_folder(number)
        remove_leftovers(self._disk, folder)
        found = newest_checkpoint(self._disk, folder, known.checkpoint, known.first_index)
        if found is not None and found[0].group != number:
            raise Corruption(f"{folder} holds a checkpoint of group {found[0].group}")
        meta, body = found if found is not None else (NO_META, None)
        if meta.index < known.first_index - 1:
            raise Corruption(f"the WAL begins at {known.first_index}, the checkpoint is {meta.index}")
        # Newer files than the one in use are damaged, or were never published because the WAL does not name them. They
        # are removed, since later checkpoints keep the newest files by name and would delete the one in use.
        used = f"{folder}/{checkpoint_name(meta.index, meta.term)}"
        strays = [path for path in checkpoint_files(self._disk, folder) if path > used or found is None]
        for path in strays:
            self._disk.unlink(path)
        if strays:
            self._disk.sync_dir(folder)
        if meta.index < known.checkpoint[0]:
            wal.checkpoint_lost(number, meta.index, meta.term, meta.config)
            self._fell_back[number] = f"{checkpoint_name(*known.checkpoint)} is damaged, {meta.index} is used"
        return Recovery(meta, body, known.recovery_point)


def _is_alone(known: RecoveredGroup, beginning: Config) -> bool:
    """Has the group no other member, by the newest configuration in its log?"""
    newest = known.configs[-1].config if known.configs else beginning
    return len(newest.everyone()) == 1


def _configs(number: GroupNo, known: RecoveredGroup, recovery: Recovery, beginning: Config) -> tuple[Placed, ...]:
    """What `RaftCore` is given: the configuration where the state is restored, then those of the entries behind. Raises
    Corruption if WAL and checkpoint contradict each other."""
    meta = recovery.meta
    covered = [one.config for one in known.configs if one.at <= meta.index]
    if covered and recovery.whole and covered[-1] != meta.config:
        raise Corruption(f"group {number}: members at {meta.index}: WAL {covered[-1]}, checkpoint {meta.config}")
    # A checkpoint older than the one that the WAL names carries its own, and the entries behind it are in the WAL.
    config = meta.config or (covered[-1] if covered else None)
    first = Placed(0, beginning) if config is None else Placed(meta.index, config)
    return (first, *(one for one in known.configs if one.at > meta.index))


def _as_of_now(wal: WalStore, number: GroupNo, known: RecoveredGroup) -> RecoveredGroup:
    """`known`, taken at the start, with the WAL's current first index. A topic's group is made when the controller's
    image names it; the WAL may have deleted files since the start."""
    first = wal.first_index(number)
    if first <= known.first_index:
        return known
    term = wal.term_at(number, first - 1)
    assert term is not None, "the WAL knows the term before its first entry"
    return known._replace(first_index=first, compacted_term=term)


def _of_term(hard_state: HardState, term: int) -> HardState:
    """`hard_state`, raised to `term` if it is older. An install can be sealed, or recorded in the WAL, before the hard
    state of its term is durable. This replica has promised nothing in that term then, because no vote or
    acknowledgement leaves before its hard state is durable; so it may enter the term without a vote."""
    return hard_state if hard_state.term >= term else HardState(term, NOBODY, hard_state.commit)
