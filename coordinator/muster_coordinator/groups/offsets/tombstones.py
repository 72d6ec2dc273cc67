"""Tombstones of offsets and groups."""

from muster_coordinator.groups.core import Core, Record
from muster_coordinator.records.keys import (
    encode_candidate_key,
    encode_group_key,
    encode_offset_key,
    encode_rebalance_key,
)


def offset_tombstone(group: str, topic: str, partition: int) -> Record:
    """Removes the committed offset and all pending ones."""
    return encode_offset_key(group, topic, partition), None


def group_tombstones(core: Core, group: str) -> tuple[Record, ...]:
    """Remove a classic group; a simple one has no record.

    Replay needs only the tombstone of Kafka's type. Those of the own types are for log cleaning: once it has dropped
    Kafka's tombstone, an own record that is left would restore the group.
    """
    if group not in core.state.groups:
        return ()
    return ((encode_candidate_key(group), None), (encode_rebalance_key(group), None), (encode_group_key(group), None))


def stored_partitions(core: Core, group: str) -> list[tuple[str, int]]:
    """All partitions with a committed or a pending offset."""
    table = core.state.offsets.table(group)
    found = [] if table is None else [(topic, partition) for topic, partition, _ in table.rows()]
    known = set(found)
    return found + [key for key in core.state.pending_offsets.partitions(group) if key not in known]
