"""How far a WAL was synced for certain, kept apart from it: what tells a damaged last batch from a torn one.

Problem: a batch that is followed by another was synced, that is known from the WAL alone; the last one may be torn, and
is then cut. If it was synced and is damaged, votes and acknowledged entries go with it, and nothing says so.
Mechanism: behind the sync of each batch its number is written to one of two slots of a small file, in turn. That is not
synced with the batch, but when there is nothing else to write, at a start and at a clean stop: so no commit waits for
it, and whatever of it reaches the disk is true. A process that dies leaves it in the page cache; a power loss may take
the newest numbers away, and a last batch of that second that is damaged as well is cut as a torn one. The chain value
after that batch goes with its number: what lies behind a damaged batch is believed if it leads there (`wal_hole`).
What it does not do: promise anything. It may be lost, damaged or refused by a full disk: then there is no proof.
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
"""In sectors of their own: a torn write damages one."""


class Proof:
    """`batch` is the number of the last batch that the file says was synced, 0 for none; `chain` the chain value after
    it, None if it is not told. `note` is called in the WAL's queue, one at a time."""

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
        if self._is_sound(slot, _SLOT_1, 1):  # of a release that told no chain value
            return _SLOT_1.unpack_from(slot)[3], None
        return 0, None

    def _is_sound(self, slot: bytes, form: struct.Struct, version: int) -> bool:
        size = form.size
        if len(slot) < size + 4 or crc32c(slot[:size], self._seed) != int.from_bytes(slot[size : size + 4], "big"):
            return False
        return form.unpack_from(slot)[:2] == (_MAGIC, version)

    def note(self, batch: int, chain: int) -> None:
        """The sync of this batch, after which the chain value is `chain`, has returned."""
        if self._file is None:
            return
        slot = _SLOT.pack(_MAGIC, _VERSION, 0, batch, chain)
        with suppress(OSError):
            self._file.pwrite(SLOTS_AT[self._next], (slot + crc32c(slot, self._seed).to_bytes(4, "big"),))
            self._next = 1 - self._next

    def begin(self, batch: int, chain: int) -> None:
        """At a start: the WAL ends with this batch, and what was said before says nothing of what comes."""
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
        """At a clean stop."""
        self.sync()
        if self._file is not None:
            self._file.close()
            self._file = None
