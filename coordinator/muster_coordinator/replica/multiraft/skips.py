"""Entries that are passed over because no replica could apply them (docs/adr/0022).

Problem: a committed entry that cannot be applied stops its group on every replica, and again after every start. It may
be passed over only if every replica does so, including those that are down now or run a release that could apply it.
Mechanism: a later entry of kind SKIP names the entry by index, term and hash. It commits like any other entry, so a
majority has it, and a replica that starts finds it in its log before it reaches the named entry: that entry is then
neither applied nor given an offset. While a SKIP in the log is neither committed nor removed, the entry that it names
is not applied. A replica that had applied the entry before it reaches the SKIP has lost its state. A snapshot taken
between the two entries would not show whether it includes the first, so none is taken there (`until`).

What it does not do: decide whether an entry should be passed over (`admin.stopped_entries`), or propose (`RaftGroup`).
"""

import hashlib
import struct
from typing import NamedTuple

from muster_coordinator.errors import Corruption
from muster_coordinator.raft.log import RaftLog
from muster_coordinator.raft.messages import Entry

_FORM = struct.Struct(">BQQ32s")
"""Version, index, term, digest."""
_VERSION = 1


class Skip(NamedTuple):
    """The entry that is passed over."""

    index: int  # type: ignore[assignment]  # shadows tuple.index, which nobody calls
    term: int
    digest: bytes


def skip_of(entry: Entry) -> Skip:
    """The `Skip` that names `entry` and no other."""
    return Skip(entry.index, entry.term, digest_of(entry))


def digest_of(entry: Entry) -> bytes:
    """SHA-256 of the kind and the bytes."""
    return hashlib.sha256(bytes((entry.kind,)) + entry.data).digest()


def encode_skip(skip: Skip) -> bytes:
    """The data of a SKIP entry."""
    return _FORM.pack(_VERSION, skip.index, skip.term, skip.digest)


def decode_skip(data: bytes) -> Skip:
    """Raises `Corruption` if the data is of a later release, or not a SKIP's."""
    if len(data) != _FORM.size or data[0] != _VERSION:
        raise Corruption("a SKIP entry that this release does not know")
    _, index, term, digest = _FORM.unpack(data)
    return Skip(index, term, digest)


class Skips:
    """The SKIP entries of one group's log."""

    __slots__ = ("_log", "_passed", "known", "until")

    def __init__(self, log: RaftLog) -> None:
        self._log = log
        self.known: dict[int, tuple[Skip, Entry]] = {}
        """index of the named entry -> (its name, the SKIP entry). Nearly always empty: look before each call, for there
        is one for every entry."""
        self._passed: set[int] = set()
        """Indexes of the entries passed over since this process started."""
        self.until = 0
        """Index of the last SKIP of a passed entry. Invariant: no snapshot is taken while less than this is applied."""

    def note(self, entry: Entry) -> None:
        """This SKIP was appended to the log, or was found there at the start."""
        try:
            skip = decode_skip(entry.data)
        except Corruption:
            return  # applying it will raise the same error and stop the group
        self.known[skip.index] = (skip, entry)

    def _standing(self, index: int) -> tuple[Skip, Entry] | None:
        found = self.known.get(index)
        if found is not None and self._log.term_at(found[1].index) != found[1].term:
            del self.known[index]  # the SKIP was truncated from the log
            return None
        return found

    def names(self, index: int) -> Entry | None:
        """The SKIP in the log, committed or not, that names this entry."""
        found = self._standing(index)
        return None if found is None else found[1]

    def undecided(self, index: int, commit: int) -> bool:
        """A SKIP in the log names this entry and is not committed: the entry waits until the SKIP is committed or
        truncated."""
        found = self._standing(index)
        return found is not None and found[1].index > commit

    def covers(self, entry: Entry) -> bool:
        """Whether a SKIP passes over this entry. Called once, when the entry is the next to apply and not undecided."""
        found = self._standing(entry.index)
        if found is None or found[0] != skip_of(entry):
            return False
        self._passed.add(entry.index)
        self.until = max(self.until, found[1].index)
        return True

    def reached(self, entry: Entry) -> None:
        """Apply a SKIP. Raises `Corruption` if the entry that it names was applied here."""
        skip = decode_skip(entry.data)
        if skip.index not in self._passed:
            raise Corruption(f"other replicas have passed over entry {skip.index}, which this replica has applied")
        self.known.pop(skip.index, None)
