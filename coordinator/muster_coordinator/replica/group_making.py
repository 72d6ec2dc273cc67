"""A Raft group from what the disk knows of it: hard state and entries, checkpoint, mark (decision 2).

Replay begins at the checkpoint and is the ordinary apply path: the core is told that everything up to the mark is
committed (it was applied here before), the segments already hold it. What does not add up is `Corruption`: the replica
refuses to start, because it may have promised what is missing.
"""

from collections.abc import Callable
from typing import NamedTuple

from muster_coordinator.errors import Corruption
from muster_coordinator.groups.effects import CheckpointBody
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.ports import Disk, Rand
from muster_coordinator.raft.core import RaftCore
from muster_coordinator.raft.log import RaftLog
from muster_coordinator.raft.messages import NOBODY, Entry, HardState
from muster_coordinator.replica import staging
from muster_coordinator.replica.folders import CHECKPOINTS, SEGMENTS, checkpoint_folder
from muster_coordinator.replica.host import Host
from muster_coordinator.replica.raft_group import Machine, RaftGroup
from muster_coordinator.replica.settings import NodeSettings
from muster_coordinator.replica.wal_lane import WalLane
from muster_coordinator.storage.checkpoint import (
    CheckpointMeta,
    checkpoint_files,
    checkpoint_name,
    newest_checkpoint,
    remove_leftovers,
)
from muster_coordinator.storage.contract import NO_MARK, GroupWrites, Mark, RecoveredGroup, WalStore

NO_META = CheckpointMeta(GroupNo(0), 0, 0)


class Recovery(NamedTuple):
    """What a state machine starts from."""

    meta: CheckpointMeta
    body: CheckpointBody | None
    """None: from the beginning."""
    mark: Mark


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
        """Blocking: looks for transfers that a crash interrupted between sealing and the WAL record."""
        self._disk = disk
        self._rand = rand
        self._host = host
        self._settings = settings
        self._interrupted = {offer.group: offer for offer in staging.completed(disk)}

    def known_groups(self, lane: WalLane) -> list[GroupNo]:
        """Groups that the WAL knew at the start."""
        return sorted(lane.wal.groups())

    def begun(self, number: GroupNo, lane: WalLane) -> bool:
        """Did the start find anything of this group that was promised?"""
        return number in lane.wal.groups() or number in self._interrupted

    def groups_with_files(self) -> list[GroupNo]:
        """Groups that have a folder of segments or checkpoints."""
        names = {name for folder in (SEGMENTS, CHECKPOINTS) for name in self._disk.listdir(folder)}
        return sorted(GroupNo(int(name)) for name in names if name.isdecimal())

    def make(
        self,
        number: GroupNo,
        voters: tuple[BrokerId, ...],
        lane: WalLane,
        restore: Callable[[Recovery], Machine],
        segments: str = "",
        *,
        begins: bool = False,
    ) -> RaftGroup:
        """Recover or begin a group and take it into the host's turns. `segments`: its folder, if any. Blocking, unless
        `begins`: then nothing of it was `begun`, and its folders are there, empty."""
        known = lane.wal.groups().get(number)
        if known is None:
            known = RecoveredGroup(HardState(0, NOBODY, 0), 1, 0, 0, NO_MARK, (0, 0))
        recovery = Recovery(NO_META, None, NO_MARK)
        if not begins:
            known = self._finish_transfer(number, lane, _as_of_now(lane.wal, number, known), segments)
            recovery = self._recovery(number, known)
        meta, mark = recovery.meta, recovery.mark
        if meta.index < known.first_index - 1:
            raise Corruption(f"group {number}: the WAL begins at {known.first_index}, the checkpoint is {meta.index}")
        if not meta.index <= max(mark.applied, meta.index) <= known.last_index:
            raise Corruption(f"group {number}: the WAL ends at {known.last_index}, the mark is {mark.applied}")
        log = RaftLog(
            WalReader(lane.wal, number),
            compacted=(known.first_index - 1, known.compacted_term),
            last_index=known.last_index,
            checkpoint=(meta.index, meta.term),
        )
        term, vote, commit = _of_term(known.hard_state, known.checkpoint[1])
        core = RaftCore(
            node=self._settings.broker,
            voters=voters,
            log=log,
            hard_state=HardState(term, vote, max(commit, mark.applied, meta.index)),
            applied=meta.index,
            rand=self._rand,
            timing=self._settings.timing,
            own_heartbeats=False,
        )
        group = RaftGroup(self._host, number, voters, core, restore(recovery), lane)
        self._host.add(group)
        return group

    def _finish_transfer(self, number: GroupNo, lane: WalLane, known: RecoveredGroup, segments: str) -> RecoveredGroup:
        """Swap in what a crash left sealed, and tell the WAL, before anything of the group is read."""
        offer = self._interrupted.pop(number, None)
        if offer is None:
            return known
        at = (offer.index, offer.term)
        if known.checkpoint[0] < offer.index:
            staging.swap(self._disk, offer, segments)
            kept = lane.wal.term_at(number, offer.index) == offer.term
            known = known._replace(hard_state=_of_term(known.hard_state, offer.term))
            lane.wal.stage(GroupWrites(number, known.hard_state, (), mark=offer.mark, checkpoint=at))
            job = lane.wal.take_job()
            assert job is not None, "something is staged"
            job()
            lane.wal.job_done()
            first, before, last = offer.index + 1, offer.term, offer.index
            if kept:
                first, before, last = known.first_index, known.compacted_term, known.last_index
            mark = offer.mark if offer.mark is not None else known.mark
            known = RecoveredGroup(known.hard_state, first, before, last, mark, at)
        staging.finish(self._disk, number)
        return known

    def _recovery(self, number: GroupNo, known: RecoveredGroup) -> Recovery:
        folder = checkpoint_folder(number)
        remove_leftovers(self._disk, folder)
        checkpoint = newest_checkpoint(self._disk, folder, known.checkpoint, known.first_index)
        # A file that the WAL does not name was never published; left alone it would displace the named one.
        named = f"{folder}/{checkpoint_name(*known.checkpoint)}"
        strays = [path for path in checkpoint_files(self._disk, folder) if path > named or checkpoint is None]
        for path in strays:
            self._disk.unlink(path)
        if strays:
            self._disk.sync_dir(folder)
        if checkpoint is None:
            return Recovery(NO_META, None, known.mark)
        try:
            if checkpoint.meta.group != number:
                raise Corruption(f"{named} is of group {checkpoint.meta.group}")
            return Recovery(checkpoint.meta, checkpoint.body(), known.mark)
        finally:
            checkpoint.close()


def _as_of_now(wal: WalStore, number: GroupNo, known: RecoveredGroup) -> RecoveredGroup:
    """A topic's group is made when the controller log tells of it: the WAL may have let go of files since the start."""
    first = wal.first_index(number)
    if first <= known.first_index:
        return known
    term = wal.term_at(number, first - 1)
    assert term is not None, "the WAL knows the term before its first entry"
    return known._replace(first_index=first, compacted_term=term)


def _of_term(hard_state: HardState, term: int) -> HardState:
    """A transfer can be sealed, or named in the WAL, before the hard state of its term was synced. Then nothing was
    promised in that term: no vote, no acknowledgement leaves before it is durable. So this replica may be in it."""
    return hard_state if hard_state.term >= term else HardState(term, NOBODY, hard_state.commit)
