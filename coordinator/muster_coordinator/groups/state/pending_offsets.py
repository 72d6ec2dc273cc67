"""Offsets committed in transactions that are still open (protocol notes 4.4).

An offset in a batch with a producer id is kept here until that producer's COMMIT or ABORT marker. Only open
transactions are here, so it is small. Order never matters; the checkpoint writes it sorted.
"""

from collections.abc import Iterator
from typing import NamedTuple


class Partition(NamedTuple):
    """A topic partition of one group."""

    group: str
    topic: str
    partition: int


class PendingOffsets:
    """Producer id → partition → row, and an index by group."""

    __slots__ = ("_by_group", "_by_producer")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[Partition, bytes]] = {}
        self._by_group: dict[str, dict[tuple[str, int], set[int]]] = {}
        # Invariant: both hold the same (producer, partition) pairs, and no empty inner dict or set.

    def __contains__(self, group: str) -> bool:
        """Whether the group has an open transaction."""
        return group in self._by_group

    def groups(self) -> Iterator[str]:
        return iter(self._by_group)

    def holds(self, group: str, topic: str, partition: int) -> bool:
        """Whether a transaction is open for this partition; a fetch of stable offsets is then answered 88."""
        held = self._by_group.get(group)
        return held is not None and (topic, partition) in held

    def partitions(self, group: str) -> list[tuple[str, int]]:
        """Partitions of the group with an open transaction."""
        return list(self._by_group.get(group, ()))

    def rows(self) -> list[tuple[int, Partition, bytes]]:
        """(producer id, partition, row) of all pending offsets, sorted."""
        return sorted((pid, key, row) for pid, held in self._by_producer.items() for key, row in held.items())

    def rows_of(self, group: str) -> Iterator[tuple[str, int, bytes]]:
        """(topic, partition, row) of all pending offsets of one group."""
        for (topic, partition), producers in self._by_group.get(group, {}).items():
            for producer in producers:
                yield topic, partition, self._by_producer[producer][Partition(group, topic, partition)]

    def put(self, producer: int, key: Partition, row: bytes) -> None:
        """Add an offset, or replace an earlier one of the same producer."""
        self._by_producer.setdefault(producer, {})[key] = row
        self._by_group.setdefault(key.group, {}).setdefault((key.topic, key.partition), set()).add(producer)

    def take(self, producer: int) -> dict[Partition, bytes]:
        """Remove and return all offsets of one producer, whose transaction has ended."""
        held = self._by_producer.pop(producer, {})
        for key in held:
            self._unlink(producer, key)
        return held

    def remove(self, key: Partition) -> None:
        """Drop the offsets of all producers for this partition, because of a tombstone."""
        producers = self._by_group.get(key.group, {}).get((key.topic, key.partition))
        for producer in list(producers or ()):
            held = self._by_producer[producer]
            del held[key]
            if not held:
                del self._by_producer[producer]
            self._unlink(producer, key)

    def _unlink(self, producer: int, key: Partition) -> None:
        in_group = self._by_group[key.group]
        producers = in_group[key.topic, key.partition]
        producers.discard(producer)
        if not producers:
            del in_group[key.topic, key.partition]
            if not in_group:
                del self._by_group[key.group]
