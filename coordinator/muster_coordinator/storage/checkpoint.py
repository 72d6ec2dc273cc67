"""One group's state machine at an applied index, in one file: written whole, verified at open, blobs read on demand.

Problem: a start must not replay a log from its beginning, nor read a gigabyte of groups that no client asks for.
Mechanism: the file holds a head (read at start) and one blob per key (a group id), with an index of keys, positions
and CRCs in a footer. Opening reads header, head and footer; a blob is read and checked when it is asked for. The bytes
are a function of the state, so replicas can compare them. The file is written as `.tmp`, synced and renamed, then the
folder is synced; the two newest files are kept. What it deliberately does not do: it is never the only copy. A start
passes over a damaged checkpoint and uses the one before it, or the whole log; the WAL drops entries only when its
CHECKPOINT record, written after this file, is durable. Format: docs/format.md, "Checkpoint".
"""

import re
import struct
from collections.abc import Generator, Iterator
from typing import NamedTuple

from muster_coordinator.errors import Corruption, DiskFull, StorageFailed, UnsupportedFormat, no_space
from muster_coordinator.groups.effects import CheckpointBody, CheckpointImage, CheckpointParts
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Disk, File
from muster_coordinator.raft.members import decode_config, encode_config
from muster_coordinator.raft.quorum import Config
from muster_coordinator.records.crc import crc32c
from muster_coordinator.storage.limits import CHECKPOINT_STEP_BYTES, CHECKPOINT_WRITE_BYTES, CHECKPOINTS_KEPT

MAGIC = b"MCKP"
VERSION = 3
"""Version 1 has no roll, version 2 no configuration. Each is written as the lowest that will do, so that older releases
can read it. A configuration there is only where a CONF entry was, so not below feature level 3."""
_HEADER = struct.Struct(">4sHHIQIqqIIQI")
"""Magic, version, kind, group, index, term, next offset, log start offset, epochs, configuration bytes, head bytes, CRC
of all before."""
_EPOCH = struct.Struct(">iq")
_ROLL = struct.Struct(">qq")
_NO_ROLL = (0, 0)
"""In version 3, whose roll is always there."""
_SLOT = struct.Struct(">IIQII")
"""Key position in the key area, key bytes, blob position, blob bytes, blob CRC."""
_FOOTER = struct.Struct(">QIQIIQI4s")
"""Slots position, slot count, keys position, CRC of keys and slots, CRC of head and epochs, file bytes, CRC of the
bytes before it in the footer, magic."""
_END_MAGIC = b"MCKE"
_SUFFIX = ".ckpt"
_TEMPORARY = ".tmp"
_NAME = re.compile(r"[0-9]{20}-[0-9]{10}\.ckpt")


class CheckpointMeta(NamedTuple):
    """The position in the log that the state belongs to, and what the log looked like there."""

    group: GroupNo
    index: int  # type: ignore[assignment]  # shadows tuple.index, which nobody calls
    """Applied Raft index."""
    term: int
    """Term of the entry at `index`."""
    next_offset: int = 0
    log_start_offset: int = 0
    epochs: tuple[tuple[int, int], ...] = ()
    """(epoch, first offset), see `epochs.EpochTable`."""
    kind: int = 0
    """Which state machine wrote the body; its owner gives the numbers (docs/format.md)."""
    roll: tuple[int, int] | None = None
    """Segment size in bytes and milliseconds, as the log last set them; None: the log never set them."""
    config: Config | None = None
    """The configuration at `index`; None: the log held no CONF entry up to there."""


def checkpoint_name(index: int, term: int) -> str:
    return f"{index:020d}-{term:010d}{_SUFFIX}"


def write_checkpoint(
    disk: Disk, folder: str, meta: CheckpointMeta, image: CheckpointImage
) -> Generator[None, None, int]:
    """Steps for the checkpoint queue: encode and publish; then the WAL's CHECKPOINT record may be staged. Returns the
    size of the file in bytes. Raises StorageFailed; DiskFull when there is no space for the file: then no part of it
    stays, and the previous checkpoint remains in force.

    Preconditions: segments up to `meta.index` are flushed, their recovery point is durable in the WAL, and so is the
    CHECKPOINT record of the group's previous checkpoint (only CHECKPOINTS_KEPT files stay).
    """
    name = checkpoint_name(meta.index, meta.term)
    temporary = f"{folder}/{name}{_TEMPORARY}"
    try:
        size = yield from _write_temporary(disk, folder, temporary, encode_checkpoint(meta, image.parts()))
        publish(disk, folder, temporary, name)
    except OSError as error:
        raise StorageFailed(f"checkpoint {folder}: {error}") from error
    return size


def _write_temporary(disk: Disk, folder: str, path: str, pieces: Iterator[bytes]) -> Generator[None, None, int]:
    """A failed write or sync loses nothing: nothing names the temporary file, and the next attempt writes another."""
    try:
        disk.mkdir(folder)
        if disk.exists(path):
            disk.unlink(path)
        file = disk.open(path, create=True)
        try:
            return (yield from _write(file, pieces))
        finally:
            file.close()
    except OSError as error:
        if not no_space(error):
            raise
        if disk.exists(path):
            disk.unlink(path)
        raise DiskFull(f"checkpoint {folder}: {error}") from error


def _write(file: File, pieces: Iterator[bytes]) -> Generator[None, None, int]:
    """Join pieces into writes of CHECKPOINT_WRITE_BYTES, each synced; yield every CHECKPOINT_STEP_BYTES."""
    gathered: list[bytes] = []
    position = unwritten = made = 0
    for piece in pieces:
        gathered.append(piece)
        unwritten += len(piece)
        made += len(piece)
        if unwritten >= CHECKPOINT_WRITE_BYTES:
            file.pwrite(position, (b"".join(gathered),))
            file.sync()
            position, unwritten = position + unwritten, 0
            gathered.clear()
        if made >= CHECKPOINT_STEP_BYTES:
            made = 0
            yield
    if gathered:
        file.pwrite(position, (b"".join(gathered),))
        file.sync()
    return position + unwritten


def publish(disk: Disk, folder: str, temporary: str, name: str) -> None:
    """Make a synced file, our own or a peer's, the newest checkpoint; remove all but the CHECKPOINTS_KEPT newest."""
    disk.rename(temporary, f"{folder}/{name}")
    disk.sync_dir(folder)
    for old in _names(disk, folder)[CHECKPOINTS_KEPT:]:
        disk.unlink(f"{folder}/{old}")


def encode_checkpoint(meta: CheckpointMeta, body: CheckpointParts) -> Iterator[bytes]:
    """The file in pieces. Equal state gives equal bytes: blobs come ordered by key."""
    epochs = b"".join(_EPOCH.pack(epoch, start) for epoch, start in meta.epochs)
    config = b"" if meta.config is None else encode_config(meta.config)
    roll = b"" if meta.roll is None and not config else _ROLL.pack(*(meta.roll or _NO_ROLL))
    header = _HEADER.pack(
        MAGIC,
        VERSION if config else 2 if roll else 1,
        meta.kind,
        meta.group,
        meta.index,
        meta.term,
        meta.next_offset,
        meta.log_start_offset,
        len(meta.epochs),
        len(config),
        len(body.head),
        0,
    )[:-4]
    yield header + crc32c(header).to_bytes(4, "big")
    extra = epochs + roll + config
    yield extra
    yield body.head
    position = _HEADER.size + len(extra) + len(body.head)
    keys: list[bytes] = []
    slots: list[bytes] = []
    key_position = 0
    for key, blob in body.blobs:
        # Invariant: keys[i] < keys[i + 1].
        assert not keys or keys[-1] < key, "blobs ascend by key, and no key comes twice"
        yield blob
        slots.append(_SLOT.pack(key_position, len(key), position, len(blob), crc32c(blob)))
        keys.append(key)
        key_position += len(key)
        position += len(blob)
    key_area = b"".join(keys)
    slot_area = b"".join(slots)
    yield key_area
    yield slot_area
    footer = _FOOTER.pack(
        position + len(key_area),
        len(slots),
        position,
        crc32c(slot_area, crc32c(key_area)),
        crc32c(body.head, crc32c(extra)),
        position + len(key_area) + len(slot_area) + _FOOTER.size,
        0,
        _END_MAGIC,
    )[:-8]
    yield footer + crc32c(footer).to_bytes(4, "big") + _END_MAGIC


class Checkpoint:
    """An open checkpoint file. Blobs are read from disk at each `blob`."""

    def __init__(self, file: File, name: str) -> None:
        """Reads all but the blobs. Raises Corruption when a magic, size or CRC does not match."""
        self._file = file
        self._name = name
        size = file.size()
        if size < _HEADER.size + _FOOTER.size:
            raise Corruption(f"checkpoint {name}: {size} bytes are too few for a header and a footer")
        footer = file.pread(size - _FOOTER.size, _FOOTER.size)
        slots_at, count, keys_at, index_crc, head_crc, stored_size, footer_crc, magic = _FOOTER.unpack(footer)
        if magic != _END_MAGIC or crc32c(footer[:-8]) != footer_crc or stored_size != size:
            raise Corruption(f"checkpoint {name}: the footer is damaged")
        self.meta, self.head = self._read_head(head_crc)
        area = file.pread(keys_at, size - _FOOTER.size - keys_at)
        if crc32c(area) != index_crc or len(area) != slots_at - keys_at + count * _SLOT.size:
            raise Corruption(f"checkpoint {name}: the index is damaged")
        self._slots: dict[bytes, tuple[int, int, int]] = {}
        for at in range(slots_at - keys_at, len(area), _SLOT.size):
            key_at, key_bytes, position, length, crc = _SLOT.unpack_from(area, at)
            self._slots[area[key_at : key_at + key_bytes]] = (position, length, crc)

    def keys(self) -> tuple[bytes, ...]:
        """Of all blobs, ascending."""
        return tuple(self._slots)

    def blob(self, key: bytes) -> bytes:
        """KeyError for an unknown key; Corruption when the bytes do not match their CRC."""
        position, length, crc = self._slots[key]
        data = self._file.pread(position, length)
        if len(data) != length or crc32c(data) != crc:
            raise Corruption(f"checkpoint {self._name}: blob {key!r} is damaged")
        return data

    def body(self) -> CheckpointBody:
        """Head and all blobs, for state machines that load everything at once."""
        return CheckpointBody(self.head, tuple((key, self.blob(key)) for key in self._slots))

    def verify(self) -> Generator[None, None, None]:
        """Steps: read and check every blob. Done to a file that a peer sent, before it is published."""
        checked = 0
        for key in self._slots:
            checked += len(self.blob(key))
            if checked >= CHECKPOINT_WRITE_BYTES:
                checked = 0
                yield

    def close(self) -> None:
        self._file.close()

    def _read_head(self, head_crc: int) -> tuple[CheckpointMeta, bytes]:
        header = self._file.pread(0, _HEADER.size)
        fields = _HEADER.unpack(header)
        magic, version, kind, group, index, term = fields[:6]
        next_offset, start, count, config_bytes, head_bytes, crc = fields[6:]
        if magic != MAGIC or crc32c(header[:-4]) != crc:
            raise Corruption(f"checkpoint {self._name}: the header is damaged")
        if not 1 <= version <= VERSION:
            raise UnsupportedFormat(f"checkpoint {self._name}: version {version}, this release knows {VERSION}")
        roll_at = count * _EPOCH.size
        config_at = roll_at + (_ROLL.size if version > 1 else 0)
        head_at = config_at + config_bytes
        data = self._file.pread(_HEADER.size, head_at + head_bytes)
        if crc32c(data) != head_crc:
            raise Corruption(f"checkpoint {self._name}: the head is damaged")
        epochs = tuple(_EPOCH.iter_unpack(data[:roll_at]))
        roll = _ROLL.unpack_from(data, roll_at) if version > 1 else _NO_ROLL
        config = decode_config(data[config_at:head_at]) if config_bytes else None
        at = GroupNo(group), index, term, next_offset, start
        meta = CheckpointMeta(*at, epochs, kind, None if roll == _NO_ROLL else roll, config)
        return meta, data[head_at:]


def open_checkpoint(disk: Disk, path: str) -> Checkpoint:
    """Raises Corruption when header, head, index or footer is damaged, UnsupportedFormat for a newer version; the file
    is closed then."""
    file = disk.open(path)
    try:
        return Checkpoint(file, path)
    except (Corruption, UnsupportedFormat):
        file.close()
        raise


def newest_checkpoint(
    disk: Disk, folder: str, at: tuple[int, int], first_index: int
) -> tuple[CheckpointMeta, CheckpointBody] | None:
    """The checkpoint that the WAL names, `at` = (index, term), read whole. When it is damaged: an older one, if the WAL
    still has the entries after that (from `first_index` on). None: replay the whole log, which the WAL still has.

    Files of a later index were written but never named by the WAL, and are skipped. Raises Corruption when no
    checkpoint and entries together give the state; UnsupportedFormat when a newer release wrote the file.
    """
    damage = ""
    for name in _names(disk, folder):
        index, term = int(name[:20]), int(name[21:31])
        if index > at[0] or (index == at[0] and term != at[1]):
            continue
        if index + 1 < first_index:
            break
        try:
            return _whole(disk, f"{folder}/{name}")
        except Corruption as error:
            damage += f"; {error}"
    if first_index > 1:
        raise Corruption(
            f"{folder}: no sound checkpoint from index {first_index - 1}, where the WAL begins, to {at[0]}{damage}"
        )
    return None


def _whole(disk: Disk, path: str) -> tuple[CheckpointMeta, CheckpointBody]:
    checkpoint = open_checkpoint(disk, path)
    try:
        return checkpoint.meta, checkpoint.body()
    finally:
        checkpoint.close()


def checkpoint_files(disk: Disk, folder: str) -> tuple[str, ...]:
    """Paths, newest first."""
    return tuple(f"{folder}/{name}" for name in _names(disk, folder))


def remove_leftovers(disk: Disk, folder: str) -> None:
    """After a start: remove files that were still being written when the last process ended."""
    for name in disk.listdir(folder):
        if name.endswith(_TEMPORARY):
            disk.unlink(f"{folder}/{name}")


def _names(disk: Disk, folder: str) -> list[str]:
    return [name for name in reversed(disk.listdir(folder)) if _NAME.fullmatch(name)]
