"""The entry that a Raft group stopped at on this replica, as plain values for operators."""

from typing import NamedTuple

from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.raft.messages import kind_name
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.multiraft.skips import digest_of


class StoppedEntry(NamedTuple):
    """A committed entry that could not be applied here."""

    group: GroupNo
    index: int  # type: ignore[assignment]  # shadows tuple.index, which nobody calls
    term: int
    kind: str
    sha256: str
    """SHA-256 in hex of the kind (one byte) and the data."""
    data: bytes
    trouble: str
    voters: tuple[BrokerId, ...]
    skipped: bool
    """This replica knows that a SKIP of the entry is committed. It and the others act on it at their next start."""


def stopped_entry(group: RaftGroup) -> StoppedEntry | None:
    """The entry that `group` has stopped at, or None."""
    entry = group.stopped_at
    if entry is None:
        return None
    digest = digest_of(entry).hex()
    kind = kind_name(entry.kind)
    skip = group.skips.names(entry.index)
    skipped = skip is not None and skip.index <= group.core.commit
    return StoppedEntry(
        group.number, entry.index, entry.term, kind, digest, entry.data, group.trouble, group.voters, skipped
    )
