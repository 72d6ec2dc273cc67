"""How far a WAL was certainly synced, in a file of its own: it tells a damaged last batch from a torn one.

Problem: the WAL alone proves that a batch followed by another was synced; the last batch may be torn, and is then cut.
If it was synced and then damaged, cutting it loses votes and acknowledged entries unnoticed. Mechanism: after the sync
of each batch its number is written to one of two slots of a small file, in turn. This file is synced only when there is
nothing else to write, at a start and at a clean stop, so no commit waits for it, and any number that reaches the disk
is true. When the process dies, the page cache keeps the number; a power loss may lose the newest numbers, and a last
batch of that moment that is damaged too is then cut as a torn one. Each number is stored with the chain value after
that batch: batches after a damaged one count if they lead to it (`wal_hole`).
What it does not do: promise anything. The file may be lost, damaged or refused by a full disk: then there is no proof.
"""

import struct
from contextlib import suppress

from muster_coordinator.ports import Disk, File
from muster_coordinator.records.crc import crc32c

PROOF_NAME = "synced"
_SLOT = struct.Struct(">4sHHQI")
_SLOT_1 = struct.Struct(">4sHHQ")
_MAGIC = b"MSYN"
_VERSION = 2
SLOT_BYTES = _SLOT.size + 4
SLOTS_AT = (0, 512)
"""Each slot lies in a disk sector of its own, so a torn write damages only one."""


class Proof:
    """`batch`: number of the last batch that was synced according to the file, 0 for none; `chain`: the chain value
    after it, None if unknown. `note` is called in the WAL's queue, one call at a time."""

    __slots__ = ("_file", "_next", "_seed", "batch", "chain")

    def __init__(self, disk: Disk, folder: str, node_uuid: bytes, cluster_uuid: bytes) -> None:
        self._seed = crc32c(cluster_uuid, crc32c(node_uuid))
        self._file: File | None = None
        self._next = 0
        self.batch = 0
        self.chain: int | None = None
        with suppress(OSError):
            path = f"{folder}/{PROOF_NAME}"
            self._file = disk.open(path, create=not disk.exists(path))
            found = [self._read(self._file.pread(at, SLOT_BYTES)) for at in SLOTS_AT]
            batches = [batch for batch, _ in found]
            self.batch = max(batches)
            self.chain = found[batches.index(self.batch)][1]
            self._next = batches.index(min(batches))

    def _read(self, slot: bytes) -> tuple[int, int | None]:
        if self._is_sound(slot, _SLOT, _VERSION):
            _, _, _, batch, chain = _SLOT.unpack_from(slot)
            return batch, chain
        if self._is_sound(slot, _SLOT_1, 1):  # An older release wrote no chain value.
            return _SLOT_1.unpack_from(slot)[3], None
        return 0, None

    def _is_sound(self, slot: bytes, form: struct.Struct, version: int) -> bool:
        size = form.size
        if len(slot) < size + 4 or crc32c(slot[:size], self._seed) != int.from_bytes(slot[size : size + 4], "big"):
            return False
        return form.unpack_from(slot)[:2] == (_MAGIC, version)

    def note(self, batch: int, chain: int) -> None:
        """The sync of this batch has returned; `chain` is the chain value after it."""
        if self._file is None:
            return
        slot = _SLOT.pack(_MAGIC, _VERSION, 0, batch, chain)
        with suppress(OSError):
            self._file.pwrite(SLOTS_AT[self._next], (slot + crc32c(slot, self._seed).to_bytes(4, "big"),))
            self._next = 1 - self._next

    def begin(self, batch: int, chain: int) -> None:
        """At a start: the WAL ends with this batch. Both slots are overwritten: numbers of batches that the start cut
        must not count as proof for new ones."""
        self.note(batch, chain)
        self.note(batch, chain)
        self.batch, self.chain = batch, chain
        self.sync()

    def sync(self) -> None:
        """Make the last number durable."""
        if self._file is not None:
            with suppress(OSError):
                self._file.sync()

    def close(self) -> None:
        """Sync and close, at a clean stop."""
        self.sync()
        if self._file is not None:
            self._file.close()
            self._file = None
