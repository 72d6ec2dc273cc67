"""Damage in the middle of a WAL, a *hole*: where reading continues after it, and which groups provably lost nothing.

Problem: one flipped byte makes a batch unreadable while all batches after it are intact. Refusing to start would cost
every group of the replica; skipping the batch in silence would take back votes and entries that were acknowledged. And
a client can store bytes that look like batches. Mechanism: batches after the hole count only if they lead, each chained
to the one before, to an *anchor*: the number and chain value that the next file's header or the file `synced` holds. No
client knows a chain value, so no client can store bytes that lead to an anchor. After a hole a group is whole if

* its entries begin again at or below its checkpoint, or with an entry whose predecessor has the same term and is there:
  an entry determines all entries before it (Raft's Log Matching), so nothing that counts was in the hole; and
* its hard state was written again.

Every other group may have lost a promise: it is suspended (raft/suspension.py). A group whose entries may be missing
continues from its entries, commit index and recovery point before the hole: entries in the hole may have superseded
older ones. A later hole may have the batch with which it did, so of what it said before that one only the term counts.
What it does not do: correct a flipped bit, or read single records of a damaged batch.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from muster_coordinator.ids import GroupNo
from muster_coordinator.raft.messages import NOBODY, HardState
from muster_coordinator.records.crc import crc32c
from muster_coordinator.storage.contract import NO_RECOVERY_POINT, RecoveryPoint
from muster_coordinator.storage.wal_format import (
    ALIGN,
    ANEW,
    BATCH_END,
    CONFIG,
    END_BYTES,
    ENTRY,
    HARD_STATE,
    KEEPS,
    RECORD,
    RECORD_HEADER_BYTES,
    RECOVERY_POINT,
    BatchEnd,
    decode_end,
    ends_behind,
    record_is_sound,
)
from muster_coordinator.storage.wal_index import NO_HARD_STATE, GroupLog

Parsed = list[tuple[int, int, int, int, int, int, int]]
"""Records of a batch: type, kind, group, index, term, position, payload length."""
Anchor = tuple[int, int]
"""Number of a batch and the chain value after it, from a source other than the batches of the file."""


class Sound(NamedTuple):
    """The batch at which reading continues after a hole."""

    end: BatchEnd
    position: int
    """Position of its BATCH_END."""
    parsed: Parsed | None
    """None: its records are damaged, only its BATCH_END is sound; the next batch is whole."""


def batch_at(data: bytes, position: int) -> tuple[Parsed, int]:
    """The records from `position`, and the position of their BATCH_END; -1 when they lead to none."""
    parsed: Parsed = []
    limit = len(data) - RECORD_HEADER_BYTES
    unpack = RECORD.unpack_from
    while position <= limit:
        length, _crc, kind_of_record, kind, _zero, group, index, term = unpack(data, position)
        if kind_of_record == BATCH_END:
            return parsed, position
        if not ENTRY <= kind_of_record <= CONFIG:
            break
        parsed.append((kind_of_record, kind, group, index, term, position, length))
        position += RECORD_HEADER_BYTES + length + (-length % ALIGN)
    return parsed, -1


def sound_behind(data: bytes, position: int, seed: int, above: int, anchors: Collection[Anchor]) -> Sound | None:
    """The first batch after `position`, numbered above `above`, from which sound batches lead to an anchor."""
    last = max((number for number, _ in anchors), default=0)
    if last <= above:
        return None
    tried: set[int] = set()
    for at, end in ends_behind(data, position, seed):
        if at in tried or not above < end.number <= last or end.start < position:
            continue
        if _leads_to_anchor(data, at, end, seed, anchors, tried):
            parsed = _whole(data, end, at, seed)
            return None if parsed is None and end.number == last else Sound(end, at, parsed)
    return None


def _leads_to_anchor(
    data: bytes, at: int, end: BatchEnd, seed: int, anchors: Collection[Anchor], tried: set[int]
) -> bool:
    """Do chained batches lead from `end` to an anchor? `tried` bounds the work: each position is walked once, however
    many imitations of a BATCH_END lead to it."""
    while at not in tried:
        tried.add(at)
        if (end.number, end.chain) in anchors:
            return True
        start = at + END_BYTES
        _, at = batch_at(data, start)
        following = None if at < 0 else decode_end(data, at, seed)
        if following is None or (following.start, following.number) != (start, end.number + 1):
            return False
        if crc32c(memoryview(data)[start:at], end.chain) != following.chain:
            return False
        end = following
    return False


def _whole(data: bytes, end: BatchEnd, at: int, seed: int) -> Parsed | None:
    """The records of a batch whose preceding chain value is not known, so each record must match its own CRC. None:
    one does not."""
    parsed, stop = batch_at(data, end.start)
    if stop != at or len(parsed) != end.records:
        return None
    for *_, position, length in parsed:
        if not record_is_sound(data[position : position + RECORD_HEADER_BYTES + length], seed):
            return None
    return parsed


class _Behind:
    """What is known of a group after a hole, until the group is proven whole."""

    __slots__ = ("before", "checkpoint", "commit", "flushed", "recovery_point", "seen", "silent", "term", "voted")

    def __init__(self, log: GroupLog) -> None:
        self.before: GroupLog | None = None
        """Its entries before the hole; None: the entries in its log are proven."""
        self.silent = self.seen = self.voted = self.flushed = False
        """What was met since the last hole. silent: no entry; seen: any record; voted: a hard state; flushed: a
        recovery point."""
        self.checkpoint, self.commit, self.recovery_point = (0, 0), 0, NO_RECOVERY_POINT
        self.term = 0
        """Largest term of an entry met since the hole, whether the entry counts or not."""
        self.note(log)

    def note(self, log: GroupLog) -> None:
        """Keep the group's state as it was before the hole."""
        written = log.written
        self.checkpoint, self.commit, self.recovery_point = (
            written.checkpoint,
            written.hard_state.commit,
            written.recovery_point,
        )


class Holes:
    """All holes of one replay. Replay calls `met`, `made`, `seen`, `entry`, `checkpoint`, `dropped` and `passed` in log
    order, then `settle`."""

    def __init__(self) -> None:
        self.met_any = False
        self.unknown = False
        """There may be groups with no record outside the hole: no pass over all states has completed since."""
        self._behind: dict[GroupNo, _Behind] = {}
        self._anew: set[GroupNo] = set()
        """Deleted after the last hole: if their records go on, these are complete."""

    def met(self, groups: Mapping[GroupNo, GroupLog]) -> None:
        """Batches are missing here; they may have held records of any group."""
        self.met_any = self.unknown = True
        self._anew.clear()
        for group, log in groups.items():
            behind = self._behind.get(group)
            if behind is None:
                behind = self._behind[group] = _Behind(log)
            if behind.before is None:
                behind.before = log.copy()
                behind.note(log)
            behind.silent, behind.seen, behind.voted, behind.flushed = True, False, False, False

    def made(self, log: GroupLog) -> None:
        """A group's first record, or its first one after a DROP."""
        if self.unknown and log.group not in self._anew:
            behind = self._behind[log.group] = _Behind(log)
            behind.before, behind.silent = log.copy(), True

    def seen(self, group: GroupNo, kind_of_record: int) -> None:
        behind = self._behind.get(group)
        if behind is not None:
            behind.seen = True
            behind.voted |= kind_of_record == HARD_STATE
            behind.flushed |= kind_of_record == RECOVERY_POINT

    def dropped(self, group: GroupNo) -> None:
        self._behind.pop(group, None)
        self._anew.add(group)

    def passed(self, groups: dict[GroupNo, GroupLog]) -> None:
        """A pass has written the states of all groups after the last hole: a group that is not among them was deleted
        in the hole. A group without a hard state stays, because a pass writes nothing for it."""
        self.unknown = False
        for group, behind in tuple(self._behind.items()):
            if not behind.seen and groups[group].written.hard_state != NO_HARD_STATE:
                del self._behind[group], groups[group]

    def entry(self, log: GroupLog, index: int, term: int) -> None:
        """Called before the entry is replayed: decides whether the group's entries before it count."""
        behind = self._behind.get(log.group)
        if behind is None:
            return
        behind.term = max(behind.term, term)
        if behind.before is None:
            return
        if not behind.silent and log.first <= index <= log.last + 1:
            return
        silent, behind.silent = behind.silent, False
        if _determines(behind.before, index, term):
            log.take(behind.before)
            behind.before = None
            _take_back(log, behind)
        elif not (silent and _determines(log, index, term)):  # Entries between two holes may continue after the second.
            log.reset(index - 1, 0)

    def checkpoint(self, log: GroupLog, index: int, term: int, kind: int) -> None:
        """Called before the CHECKPOINT is replayed."""
        behind = self._behind.get(log.group)
        if behind is None:
            return
        if kind == ANEW:  # No earlier entry counts.
            behind.before, behind.silent = None, False
        elif kind != KEEPS and index < log.first and (index, term) != log.written.checkpoint:
            # An older release wrote it: it may have superseded these entries, which then must appear again.
            behind.before = behind.before or log.copy()
            behind.silent = True

    def settle(self, groups: Mapping[GroupNo, GroupLog]) -> tuple[set[GroupNo], set[GroupNo]]:
        """(groups that may have lost a promise, those of them that may have lost entries and continue from before the
        hole).

        Called after any damage, not only holes: a lost CHECKPOINT record may be the one for which older files were
        deleted."""
        suspended, cut = set(), set()
        for group, log in groups.items():
            behind = self._behind.get(group)
            if behind is None:
                if _is_complete(log):
                    continue
                behind = _Behind(log)
            if not (_is_complete(log) and (behind.before is None or not behind.silent)):
                cut.add(group)
                _go_back(log, behind)
            if group in cut or not behind.voted:
                suspended.add(group)
            _enter_term(log, behind.term)
        return suspended, cut


def _is_complete(log: GroupLog) -> bool:
    """Does the log hold every entry that the group's own records say exists?"""
    written = log.written
    return (
        log.first <= written.checkpoint[0] + 1
        and max(written.hard_state.commit, written.recovery_point.applied) <= log.last
    )


def _determines(log: GroupLog, index: int, term: int) -> bool:
    """Does an entry (index, term) prove that the log is right up to index - 1? By Log Matching it does if the log holds
    this very entry, or if its entry at index - 1 has the same term: a term has one leader, which writes no index twice.
    """
    return term in (log.term_at(index), log.term_at(index - 1))


def _go_back(log: GroupLog, behind: _Behind) -> None:
    """Restore the group's entries from before the hole, or begin after the checkpoint if those do not reach it."""
    index, term = log.written.checkpoint
    if behind.before is not None:
        log.take(behind.before)
    if not _goes_on_from(log, index, term, behind.checkpoint):
        log.reset(index, term)
    log.written.recovery_point = _usable_recovery_point(log, behind)
    kept = log.written.hard_state
    log.written.hard_state = kept._replace(commit=max(min(behind.commit, log.last), index))


def _take_back(log: GroupLog, behind: _Behind) -> None:
    """The group has gone on from before its first hole. What it said between two holes, and not again since, may be of
    entries that a start has let go of since: the second hole may have the batch that took it back."""
    written = log.written
    if not behind.voted:
        commit = max(min(written.hard_state.commit, behind.commit), written.checkpoint[0])
        written.hard_state = written.hard_state._replace(commit=commit)
    if not behind.flushed and written.recovery_point != behind.recovery_point:
        written.recovery_point = _usable_recovery_point(log, behind)


def _usable_recovery_point(log: GroupLog, behind: _Behind) -> RecoveryPoint:
    """The newest recovery point up to which every entry is committed, and in the log or the checkpoint. If there is
    none, NO_RECOVERY_POINT: the segments are rebuilt, even if the log has grown again to where they ended."""
    index = log.written.checkpoint[0]
    proven = max(index, min(max(behind.commit, behind.recovery_point.applied), log.last))
    recovery_points = (log.written.recovery_point, behind.recovery_point)
    return next(
        (recovery_point for recovery_point in recovery_points if index <= recovery_point.applied <= proven),
        NO_RECOVERY_POINT,
    )


def _goes_on_from(log: GroupLog, index: int, term: int, known: tuple[int, int]) -> bool:
    """Do the log's entries follow the committed entry (index, term)? `known`: the checkpoint that the log began at."""
    if index >= log.first:
        return log.term_at(index) == term
    return log.first == index + 1 and (known == (index, term) or log.term_at(log.first) == term)


def _enter_term(log: GroupLog, term: int) -> None:
    """Raise the hard state to the newest term that an entry shows: its own record of that term may have been in the
    hole. Invariant: a voter's term is never below the term of an entry it holds (else it could vote twice in a term).
    """
    state = log.written.hard_state
    least = max(term, log.term_at(log.last) or 0)
    if state.term < least:
        log.written.hard_state = HardState(least, NOBODY, state.commit)
