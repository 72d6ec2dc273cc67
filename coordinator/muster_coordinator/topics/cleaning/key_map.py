"""The last offset of each key in the range that a round of cleaning looks at, within a bound of memory.

Problem: as Kafka's `SkimpyOffsetMap` does it, the memory of a round must not depend on the log. Mechanism: a dict from
the key, or from a digest of 16 bytes where the key is as long or longer, to its last offset; a full map ends the range
of the round, which then cleans up to there. Two keys with one digest would lose a record: of 2^64 keys, two may.
Invariant: no key itself has 16 bytes in the map, so a digest is never taken for a key. What it does not do: forget.
"""

from collections.abc import Iterable
from hashlib import blake2b

from muster_coordinator.topics.cleaning.limits import KEY_BYTES

DIGEST_BYTES = 16


class KeyMap:
    """See the module. `memory_bytes`: log.cleaner.dedupe.buffer.size."""

    def __init__(self, memory_bytes: int) -> None:
        self._room = max(1, memory_bytes // KEY_BYTES)
        self._last: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._last)

    def put(self, keys: Iterable[tuple[bytes, int]]) -> bool:
        """The keys of one batch with their offsets, which ascend from call to call. False: there is no room for all of
        them, and nothing has changed."""
        some = {
            blake2b(key, digest_size=DIGEST_BYTES).digest() if len(key) >= DIGEST_BYTES else key: offset
            for key, offset in keys
        }
        last = self._last
        if len(last) + len(some) > self._room and len(last) + sum(key not in last for key in some) > self._room:
            return False
        last.update(some)
        return True

    def last(self, key: bytes) -> int:
        """-1: the range does not have the key."""
        if len(key) >= DIGEST_BYTES:
            key = blake2b(key, digest_size=DIGEST_BYTES).digest()
        return self._last.get(key, -1)
