"""What damage in the midst of a WAL costs: where reading goes on behind it, and which groups are provably whole.

Problem: one flipped byte makes a batch unreadable, and all behind it is whole. To refuse the start costs every group of
the replica; to go on as if nothing had been there gives away votes and entries that were promised. And a client can
store bytes that look like batches. Mechanism: the batches behind the hole count only if they lead, each chained to the
one before, to an *anchor*: the number and chain value that the next file's header or `synced` name. No client knows a
chain value, so none can store bytes that lead to one. Behind a hole a group is whole if

* its entries begin again at or below its checkpoint, or with one whose predecessor of the same term is there: an entry
  determines all before it, so nothing that counts was in the hole (Raft, Log Matching); and
* its hard state was written again.

Every other group may have lost a promise: it is suspended (raft/suspension.py). One whose entries may be missing goes
on from what it had before the hole, with the commit and the recovery point of then: its older entries may have been
superseded there.
What it does not do: correct a flipped bit, or read single records of a batch that is damaged.
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
    DROP,
    END_BYTES,
    ENTRY,
    KEEPS,
    RECORD,
    RECORD_HEADER_BYTES,
    BatchEnd,
    decode_end,
    ends_behind,
    record_is_sound,
)
from muster_coordinator.storage.wal_index import NO_HARD_STATE, GroupLog

Parsed = list[tuple[int, int, int, int, int, int, int]]
"""Records of a batch: type, kind, group, index, term, position, payload length."""
Anchor = tuple[int, int]
"""Number of a batch and the chain value after it, as told by something else than the batches."""


class Sound(NamedTuple):
    """A batch behind a hole from which reading goes on."""

    end: BatchEnd
    position: int
    """Of its BATCH_END."""
    parsed: Parsed | None
    """None: it is damaged itself, only the next one is whole."""


def batch_at(data: bytes, position: int) -> tuple[Parsed, int]:
    """The records from `position` and the place of their BATCH_END, or -1 when they lead to none."""
    parsed: Parsed = []
    limit = len(data) - RECORD_HEADER_BYTES
    unpack = RECORD.unpack_from
    while position <= limit:
        length, _crc, kind_of_record, kind, _zero, group, index, term = unpack(data, position)
        if kind_of_record == BATCH_END:
            return parsed, position
        if not ENTRY <= kind_of_record <= DROP:
            break
        parsed.append((kind_of_record, kind, group, index, term, position, length))
        position += RECORD_HEADER_BYTES + length + (-length % ALIGN)
    return parsed, -1


def sound_behind(data: bytes, position: int, seed: int, above: int, anchors: Collection[Anchor]) -> Sound | None:
    """The first batch behind `position`, numbered above `above`, from which sound ones lead to an anchor."""
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
    """Each batch is walked once, whatever imitations lead there."""
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
    """The records of a batch of which no chain value is known before it: each must fit its own CRC."""
    parsed, stop = batch_at(data, end.start)
    if stop != at or len(parsed) != end.records:
        return None
    for *_, position, length in parsed:
        if not record_is_sound(data[position : position + RECORD_HEADER_BYTES + length], seed):
            return None
    return parsed


class _Behind:
    """A group behind a hole, until it is proven whole."""

    __slots__ = ("before", "checkpoint", "commit", "recovery_point", "seen", "silent", "term", "voted")

    def __init__(self, log: GroupLog) -> None:
        self.before: GroupLog | None = None
        """Its entries before the hole; None: those that it has are proven."""
        self.silent = self.seen = self.voted = False
        """Since the last hole: no entry, any record, a hard state."""
        self.checkpoint, self.commit, self.recovery_point = (0, 0), 0, NO_RECOVERY_POINT
        self.term = 0
        """Of the newest entry that was met, whether it counts or not."""
        self.note(log)

    def note(self, log: GroupLog) -> None:
        """What was known before the hole."""
        written = log.written
        self.checkpoint, self.commit, self.recovery_point = (
            written.checkpoint,
            written.hard_state.commit,
            written.recovery_point,
        )


class Holes:
    """Met while a WAL is replayed. `met`, `made`, `entry`, `dropped`, `hard_state`, `passed` in log order."""

    def __init__(self) -> None:
        self.met_any = False
        self.unknown = False
        """There may be groups of which nothing was seen: no pass has been complete since."""
        self._behind: dict[GroupNo, _Behind] = {}
        self._anew: set[GroupNo] = set()
        """Dropped behind the last hole: what follows is all there is of them."""

    def met(self, groups: Mapping[GroupNo, GroupLog]) -> None:
        """Here batches are missing: records of any group."""
        self.met_any = self.unknown = True
        self._anew.clear()
        for group, log in groups.items():
            behind = self._behind.get(group)
            if behind is None:
                behind = self._behind[group] = _Behind(log)
            if behind.before is None:
                behind.before = log.copy()
                behind.note(log)
            behind.silent, behind.seen, behind.voted = True, False, False

    def made(self, log: GroupLog) -> None:
        """A group is met for the first time, or again after it was dropped."""
        if self.unknown and log.group not in self._anew:
            behind = self._behind[log.group] = _Behind(log)
            behind.before, behind.silent = log.copy(), True

    def seen(self, group: GroupNo, *, hard_state: bool) -> None:
        behind = self._behind.get(group)
        if behind is not None:
            behind.seen = True
            behind.voted |= hard_state

    def dropped(self, group: GroupNo) -> None:
        self._behind.pop(group, None)
        self._anew.add(group)

    def passed(self, groups: dict[GroupNo, GroupLog]) -> None:
        """The states of all groups were written behind the last hole: who is not among them was dropped in it. Who has
        none, as far as is known, stays: a pass does not write that."""
        self.unknown = False
        for group, behind in tuple(self._behind.items()):
            if not behind.seen and groups[group].written.hard_state != NO_HARD_STATE:
                del self._behind[group], groups[group]

    def entry(self, log: GroupLog, index: int, term: int) -> None:
        """Called before the entry is replayed: do those before it count?"""
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
        elif not (silent and _determines(log, index, term)):  # what lies between two holes may go on behind the second
            log.reset(index - 1, 0)

    def checkpoint(self, log: GroupLog, index: int, term: int, kind: int) -> None:
        """Called before it is replayed."""
        behind = self._behind.get(log.group)
        if behind is None:
            return
        if kind == ANEW:  # nothing from before it counts
            behind.before, behind.silent = None, False
        elif kind != KEEPS and index < log.first and (index, term) != log.written.checkpoint:
            # Of a release before: it may have superseded what is here, which then has to be written again.
            behind.before = behind.before or log.copy()
            behind.silent = True

    def settle(self, groups: Mapping[GroupNo, GroupLog]) -> tuple[set[GroupNo], set[GroupNo]]:
        """(Groups that may have lost a promise, those of them that lost entries and go on from before the hole).

        Called when something is damaged: a checkpoint may have been lost for which older files went."""
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
    """Is everything there that its own records say must be?"""
    written = log.written
    return (
        log.first <= written.checkpoint[0] + 1
        and max(written.hard_state.commit, written.recovery_point.applied) <= log.last
    )


def _determines(log: GroupLog, index: int, term: int) -> bool:
    """Does an entry (index, term) prove that the log is right up to the one before it? The leader of a term writes no
    index twice, and its entries follow its own: the log holds this one, or the one before it is of the same term."""
    return term in (log.term_at(index), log.term_at(index - 1))


def _go_back(log: GroupLog, behind: _Behind) -> None:
    """To what was there before the hole, or to the checkpoint if that lies behind it."""
    index, term = log.written.checkpoint
    if behind.before is not None:
        log.take(behind.before)
    if not _goes_on_from(log, index, term, behind.checkpoint):
        log.reset(index, term)
    log.written.recovery_point = _usable_recovery_point(log, behind)
    kept = log.written.hard_state
    log.written.hard_state = kept._replace(commit=max(min(behind.commit, log.last), index))


def _usable_recovery_point(log: GroupLog, behind: _Behind) -> RecoveryPoint:
    """The newest one up to which everything is in the log, or in the checkpoint, and committed. None: of the segments
    nothing counts, also when the log has grown again to where they ended."""
    index = log.written.checkpoint[0]
    proven = max(index, min(max(behind.commit, behind.recovery_point.applied), log.last))
    recovery_points = (log.written.recovery_point, behind.recovery_point)
    return next(
        (recovery_point for recovery_point in recovery_points if index <= recovery_point.applied <= proven),
        NO_RECOVERY_POINT,
    )


def _goes_on_from(log: GroupLog, index: int, term: int, known: tuple[int, int]) -> bool:
    """Do these entries follow the committed one at (index, term)? `known`: the checkpoint that they began from."""
    if index >= log.first:
        return log.term_at(index) == term
    return log.first == index + 1 and (known == (index, term) or log.term_at(log.first) == term)


def _enter_term(log: GroupLog, term: int) -> None:
    """The hard state of an entry's term may have been in the hole, and nobody may lead twice in a term."""
    state = log.written.hard_state
    least = max(term, log.term_at(log.last) or 0)
    if state.term < least:
        log.written.hard_state = HardState(least, NOBODY, state.commit)
