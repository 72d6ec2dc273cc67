"""The durable state of a shard: the applied log, and nothing else.

Equal on every replica at the same applied index. Only `replay` changes it.
"""

from muster_coordinator.groups.state.offsets_store import OffsetsStore
from muster_coordinator.groups.state.pending_offsets import PendingOffsets
from muster_coordinator.groups.state.simple_group import SIMPLE_GROUP, Group
from muster_coordinator.groups.state.stored_group import StoredGroup
from muster_coordinator.records.producers import ProducerTable


class ShardState:
    """Groups, offsets, open transactions, producers, and raw records of types that this release does not interpret."""

    __slots__ = ("groups", "offsets", "pending_offsets", "producers", "raw")

    def __init__(self) -> None:
        self.groups: dict[str, StoredGroup] = {}
        self.offsets = OffsetsStore()
        self.pending_offsets = PendingOffsets()
        self.producers = ProducerTable()
        self.raw: dict[bytes, bytes] = {}
        """Kafka's record types that are not implemented: last value per key (decision 9)."""

    def has_group(self, group: str) -> bool:
        """Whether there is a classic group, or a simple one, which exists while it has offsets."""
        return group in self.groups or group in self.offsets or group in self.pending_offsets

    def group(self, group: str) -> Group | None:
        """The group, decoded. O(members)."""
        stored = self.groups.get(group)
        if stored is not None:
            return stored.decode()
        return SIMPLE_GROUP if group in self.offsets or group in self.pending_offsets else None

    def set_group(self, group: str, stored: StoredGroup | None) -> None:
        """None removes the group."""
        if stored is None:
            self.groups.pop(group, None)
        else:
            self.groups[group] = stored
