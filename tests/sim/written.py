"""Logs of partitions as they were written, from the entries that replicas apply.

Each replica cleans its logs for itself, and what is left of them at the end is not all that was there; an entry is
applied before any cleaning. Whoever applies it first counts: all apply the same (R1).
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

from muster_coordinator.ids import GroupNo
from muster_coordinator.raft.messages import Entry, EntryKind
from muster_coordinator.records.batch import HEADER_BYTES, parse_header, stamp

from tests.sim.cluster import Replica
from tests.sim.history import Violation
from tests.sim.oracle import Oracle

_TRANSACTIONAL_BIT, _ATTRIBUTES_AT = 0x10, 22


class Written:
    """Attach it before the cluster starts. `wanted(replica, group, batch)`: is this one to be kept?"""

    def __init__(self, oracle: Oracle, wanted: Callable[[Replica, int, bytes], bool]) -> None:
        self._wanted = wanted
        self._batches: dict[int, dict[int, bytes]] = defaultdict(dict)
        """Raft group -> index in its log -> the batch, as segments hold it."""
        oracle.on_entry.append(self._entry)

    def _entry(self, replica: Replica, group: int, entry: Entry) -> None:
        if entry.kind != EntryKind.NORMAL or entry.index in self._batches.get(group, ()):
            return
        if self._wanted(replica, group, entry.data):
            manager = replica.node.group_manager
            assert manager is not None
            end = manager.states[GroupNo(group)].next_offset
            base = end - 1 - parse_header(entry.data).last_offset_delta
            self._batches[group][entry.index] = stamp(entry.data, base, entry.term)

    def log(self, group: int) -> list[bytes]:
        return [batch for _, batch in sorted(self._batches.get(group, {}).items())]


def in_transaction(batch: bytes) -> bool:
    """Records or a marker."""
    return len(batch) >= HEADER_BYTES and batch[_ATTRIBUTES_AT] & _TRANSACTIONAL_BIT != 0


def check_whole(group: int, written: Sequence[bytes], log: Sequence[bytes]) -> list[Violation]:
    """A log that nobody has cleaned: of transactions exactly what was applied is in it."""
    standing = [batch for batch in log if in_transaction(batch)]
    if standing == list(written):
        return []
    return [
        Violation("R1", f"group {group}: {len(written)} batches of transactions were applied, {len(standing)} stand")
    ]
