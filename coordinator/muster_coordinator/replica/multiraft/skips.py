"""Entries that are passed over because no replica could apply them (docs/adr/0022).

Problem: a committed entry that cannot be applied stops its group on every replica, and on every start again. It can
be left out, but only if every replica leaves it out, those too that are away now, or run a release that could apply it.
Mechanism: the log itself says so. A later entry of kind SKIP names the one before by index, term and hash. It commits
like any other, so a majority has it, and every replica finds it in its log before it comes to the named entry again:
that one is then neither applied nor given an offset. Until a SKIP that stands in the log is known to be committed, or
gone, its entry is not touched. A replica that had applied the entry meets the SKIP later, and has lost its state. For
a snapshot between the two entries would not tell which of both it holds, none is taken there (`until`).

What it does not do: judge whether an entry should be passed over (`admin.stopped_entries`), or propose (`RaftGroup`).
"""

import hashlib
import struct
from typing import NamedTuple

from muster_coordinator.errors import Corruption
from muster_coordinator.raft.log import RaftLog
from muster_coordinator.raft.messages import Entry, EntryKind

_FORM = struct.Struct(">BQQ32s")
"""Version, index, term, digest."""
_VERSION = 1


class Skip(NamedTuple):
    """The entry that is passed over."""

    index: int  # type: ignore[assignment]  # shadows tuple.index, which nobody calls
    term: int
    digest: bytes


def skip_of(entry: Entry) -> Skip:
    """Names `entry` so that no other one can be meant."""
    return Skip(entry.index, entry.term, digest_of(entry))


def digest_of(entry: Entry) -> bytes:
    """SHA-256 of the kind and the bytes."""
    return hashlib.sha256(bytes((entry.kind,)) + entry.data).digest()


def encode_skip(skip: Skip) -> bytes:
    """The data of a SKIP entry."""
    return _FORM.pack(_VERSION, skip.index, skip.term, skip.digest)


def decode_skip(data: bytes) -> Skip:
    """Raises `Corruption`: of a later release, or no SKIP at all."""
    if len(data) != _FORM.size or data[0] != _VERSION:
        raise Corruption("a SKIP entry that this release does not know")
    _, index, term, digest = _FORM.unpack(data)
    return Skip(index, term, digest)


class Skips:
    """What one group's log says of entries to pass over."""

    __slots__ = ("_known", "_log", "_passed", "until")

    def __init__(self, log: RaftLog) -> None:
        self._log = log
        self._known: dict[int, tuple[Skip, Entry]] = {}
        """index of the entry that is named -> (what is said of it, the SKIP)"""
        self._passed: set[int] = set()
        """Passed over in this life of the replica."""
        self.until = 0
        """While less than this is applied, the state is that of no index that another replica could tell."""

    def __bool__(self) -> bool:
        return bool(self._known)

    def note(self, entry: Entry) -> None:
        """An entry came into the log, or stands there since before the start."""
        if entry.kind != EntryKind.SKIP:
            return
        try:
            skip = decode_skip(entry.data)
        except Corruption:
            return  # it stops the group when it is to be applied
        self._known[skip.index] = (skip, entry)

    def _standing(self, index: int) -> tuple[Skip, Entry] | None:
        found = self._known.get(index)
        if found is not None and self._log.term_at(found[1].index) != found[1].term:
            del self._known[index]  # the log was cut
            return None
        return found

    def names(self, index: int) -> Entry | None:
        """The SKIP in the log, committed or not, that names this entry."""
        found = self._standing(index)
        return None if found is None else found[1]

    def undecided(self, index: int, commit: int) -> bool:
        """The log may say that this entry is passed over: wait until that is committed, or cut off."""
        found = self._standing(index)
        return found is not None and found[1].index > commit

    def covers(self, entry: Entry) -> bool:
        """Whether this entry is passed over; called once, in its place, when nothing is undecided."""
        found = self._standing(entry.index)
        if found is None or found[0] != skip_of(entry):
            return False
        self._passed.add(entry.index)
        self.until = max(self.until, found[1].index)
        return True

    def reached(self, entry: Entry) -> None:
        """The SKIP itself is applied. Raises `Corruption` when what it names was applied here before."""
        skip = decode_skip(entry.data)
        if skip.index not in self._passed:
            raise Corruption(f"the others have passed over entry {skip.index}, which was applied here")
        self._known.pop(skip.index, None)
