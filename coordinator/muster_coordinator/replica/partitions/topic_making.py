"""Making the folders of new topics' groups, and removing those of deleted groups, by an I/O thread, a few at a time.

Problem: one request may make thousands of partitions, each with folders and a file. If they were made in the turn that
applies the request, the replica would send no heartbeats for so long that followers elect other leaders. Mechanism:
wanted groups wait in a queue. One job makes `MADE_AT_ONCE` of them with one folder sync; then `TAKEN_A_TURN` a turn
are added to the host; then the next job starts. A group that is not made yet behaves as on a replica that is down: it
does not lead, answers nothing, and Raft messages for it are lost, which Raft tolerates. Names within a group's folder
become durable with its first flush, before the recovery point that needs them; after a crash before that, the start
finds the group in the image and makes it again. Folders are removed in the same way, with two folder syncs a job. A
folder that cannot be made or removed is tried again after `RETRY_MS`, doubled each time up to `RETRY_MS_MAX`; other
groups do not wait for it. Groups that are in the WAL are opened without a job, `OPENED_A_TURN` a turn. What it does not
do: decide which groups are wanted (`group_manager` does, by the image).
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from muster_coordinator.errors import StorageFailed
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Disk, Loop, Notice
from muster_coordinator.replica.folders import CHECKPOINTS, SEGMENTS, checkpoint_folder, segments_folder
from muster_coordinator.storage.contract import NO_RECOVERY_POINT
from muster_coordinator.storage.partition_log import PartitionLog

T = TypeVar("T")
IO_QUEUE = "folders"
WHAT = "a partition's folder could not be made or removed"
MADE_AT_ONCE = 16
"""Partitions made by one job."""
TAKEN_A_TURN = 4
"""Groups added to the host in one turn: each takes 0.2 ms, and as much again in the same turn for its election."""
REMOVED_AT_ONCE = 16
OPENED_A_TURN = 4
RETRY_MS = 100
RETRY_MS_MAX = 10_000


class Wanted(NamedTuple):
    """A group to make."""

    folder: str
    """Folder of its segments."""
    known: bool
    """True: the group is in the WAL, so its files are opened; False: it is new."""


Made = list[tuple[GroupNo, PartitionLog | OSError]]


class TopicMaking:
    """See the module. `made(group, log)` adds the group to the host; `log` is None for a group that is in the WAL."""

    def __init__(
        self,
        loop: Loop,
        disk: Disk,
        *,
        made: Callable[[GroupNo, PartitionLog | None], None],
        fatal: Callable[[BaseException], None],
        notice: Notice,
    ) -> None:
        self._notice = notice
        self._loop = loop
        self._disk = disk
        self._made = made
        self._fatal = fatal
        self._wanted: dict[GroupNo, Wanted] = {}
        """Groups that are not made yet: queued, under way, or to be tried again."""
        self._queue: deque[GroupNo] = deque()
        """New groups whose folders are to be made."""
        self._known: deque[GroupNo] = deque()
        """Groups in the WAL that are to be opened."""
        self._unwanted: deque[GroupNo] = deque()
        """Groups whose folders are to be removed."""
        self._leaving: set[GroupNo] = set()
        """Groups whose folders will be removed, and that are made only after that if they are wanted again."""
        self._ready: deque[tuple[GroupNo, PartitionLog]] = deque()
        """Groups whose folders are made and that are not added to the host yet."""
        self._tries: dict[GroupNo, int] = {}
        self._errors: dict[GroupNo, str] = {}
        self._making = self._removing = self._opening = False
        self._under_removal: list[GroupNo] = []

    # -- wishes ----------------------------------------------------------------------------------------------------

    def want(self, number: GroupNo, folder: str, *, known: bool) -> None:
        """Make this group soon; no effect if it is wanted already."""
        if number in self._wanted:
            return
        self._wanted[number] = Wanted(folder, known)
        if number in self._leaving:
            return
        (self._known if known else self._queue).append(number)
        self._begin()

    def open_known(self) -> None:
        """Blocking, at a start: open all wanted groups that are in the WAL."""
        for number in self._next(self._known, len(self._known)):
            del self._wanted[number]
            self._made(number, None)

    def forget(self, number: GroupNo) -> None:
        """The group was deleted before it was made."""
        wanted = self._wanted.pop(number, None)
        self._done(number)
        if wanted is not None and not wanted.known and number not in self._leaving:
            self.remove(number)

    def leaves(self, number: GroupNo) -> None:
        """The group is not to be here any more: `remove` will be called for it. If it is wanted again before its
        folders are removed, it waits for that."""
        self._leaving.add(number)

    def remove(self, number: GroupNo) -> None:
        """Remove the folders of a deleted group. Invariant: called only when its removal from the WAL is durable."""
        self._unwanted.append(number)
        self._begin()

    def wanted(self) -> list[GroupNo]:
        """Groups that are still to be made."""
        return list(self._wanted)

    def wanted_count(self) -> int:
        """How many groups are still to be made."""
        return len(self._wanted)

    def failing(self) -> dict[GroupNo, str]:
        """Groups whose folders could not be made or removed at the last try -> why."""
        return dict(self._errors)

    # -- the queues ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._known and not self._opening:
            self._opening = True
            self._loop.call_soon(self._open_some)
        if self._queue and not self._making:
            batch = self._next(self._queue, MADE_AT_ONCE)
            wanted = [(number, self._wanted[number].folder) for number in batch if number in self._wanted]
            self._making = True
            self._loop.submit(IO_QUEUE, lambda: make_folders(self._disk, wanted), self._batch_made)
        if self._unwanted and not self._removing:
            gone = self._under_removal = self._next(self._unwanted, REMOVED_AT_ONCE)
            self._removing = True
            self._loop.submit(IO_QUEUE, lambda: remove_folders(self._disk, gone), self._batch_removed)

    @staticmethod
    def _next(queue: deque[T], most: int) -> list[T]:
        return [queue.popleft() for _ in range(min(most, len(queue)))]

    def _open_some(self) -> None:
        self._opening = False
        for number in self._next(self._known, OPENED_A_TURN):
            if self._wanted.pop(number, None) is not None:
                self._made(number, None)
        self._begin()

    def _batch_made(self, result: Made | BaseException) -> None:
        if isinstance(result, BaseException):
            self._fatal(result)
            return
        for number, made in result:
            if isinstance(made, PartitionLog):
                self._ready.append((number, made))
            elif number in self._wanted:
                self._again(number, made, self._queue)
        self._take_some()

    def _take_some(self) -> None:
        for number, log in self._next(self._ready, TAKEN_A_TURN):
            if number not in self._wanted:
                log.close()  # deleted in the meantime: the job that removes its folders runs after this one
                continue
            del self._wanted[number]
            self._done(number)
            self._made(number, log)
        if self._ready:
            self._loop.call_soon(self._take_some)
        else:
            self._making = False
            self._begin()

    def _batch_removed(self, result: list[tuple[GroupNo, OSError]] | BaseException) -> None:
        if isinstance(result, BaseException):
            self._fatal(result)
            return
        self._removing = False
        failed = dict(result)
        for number in self._under_removal:
            if number not in failed and number in self._leaving:
                self._leaving.discard(number)
                if number in self._wanted:
                    self._queue.append(number)
        for number in [number for number in self._errors if number not in failed and number not in self._wanted]:
            self._done(number)
        for number, error in failed.items():
            self._again(number, error, self._unwanted)
        self._begin()

    def _again(self, number: GroupNo, error: OSError, queue: deque[GroupNo]) -> None:
        tries = self._tries.get(number, 0)
        self._tries[number] = tries + 1
        self._errors[number] = str(error)
        self._notice(WHAT, {"group": number, "tries": tries + 1}, error)

        def again() -> None:
            if queue is self._unwanted or number in self._wanted:
                queue.append(number)
                self._begin()

        wait_ms = min(RETRY_MS << min(tries, 16), RETRY_MS_MAX)
        self._loop.call_at(self._loop.monotonic_ms() + wait_ms, again)

    def _done(self, number: GroupNo) -> None:
        self._tries.pop(number, None)
        self._errors.pop(number, None)


def make_folders(disk: Disk, wanted: list[tuple[GroupNo, str]]) -> Made:
    """Job: make the folders and empty logs of new groups. No promise rests on files that are in their folders."""
    made: Made = []
    for number, folder in wanted:
        try:
            made.append((number, _begin(disk, number, folder)))
        except OSError as error:
            made.append((number, error))
        except StorageFailed as error:
            cause = error.__cause__
            if not isinstance(cause, OSError):
                raise
            made.append((number, cause))
    if made:
        _sync(disk, SEGMENTS)
    return made


def _begin(disk: Disk, number: GroupNo, folder: str) -> PartitionLog:
    """Make one group's log with few system calls: at each the thread releases the interpreter lock and takes it back
    from the loop's thread, which on a busy machine then waits for a processor."""
    left_over = disk.exists(segments_folder(number)) or disk.exists(checkpoint_folder(number))
    disk.mkdir(folder, durable=False)
    if not left_over:
        return PartitionLog.begin(disk, folder)
    disk.rmtree(checkpoint_folder(number))
    return PartitionLog.open(disk, folder, NO_RECOVERY_POINT, 0)


def remove_folders(disk: Disk, numbers: list[GroupNo]) -> list[tuple[GroupNo, OSError]]:
    """Job: remove the folders of deleted groups; returns the groups for which it failed, and why."""
    failed: list[tuple[GroupNo, OSError]] = []
    for number in numbers:
        try:
            for folder in (segments_folder(number), checkpoint_folder(number)):
                disk.rmtree(folder)
        except OSError as error:
            failed.append((number, error))
    for folder in (SEGMENTS, CHECKPOINTS):
        _sync(disk, folder)
    return failed


def _sync(disk: Disk, folder: str) -> None:
    """Sync a folder. Raises StorageFailed: recovery points will need these names, and a failed sync must not be
    retried.
    """
    try:
        if disk.exists(folder):
            disk.sync_dir(folder)
    except OSError as error:
        raise StorageFailed(f"folder {folder}: {error}") from error


assert RETRY_MS < RETRY_MS_MAX
