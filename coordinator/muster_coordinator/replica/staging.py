"""A transferred checkpoint on disk: staged aside, verified, swapped in so that a crash at any point is harmless.

Order (docs/format.md, "State transfer"):
1. the files arrive under `incoming/<group>/`; a crash throws them away;
2. all are verified and synced, then the manifest `complete` is written and synced;
3. the group's own files go, the staged ones get a second name in their place, and that is synced; a crash in here is
   finished by the next start, which finds `complete` and a WAL that does not name the checkpoint yet. (A second name
   takes no room, so a full disk does not stop it, and until step 4 the first one stays: a rename between two folders is
   safe only where both folders' changes reach the disk together.)
4. the WAL gets the checkpoint and the mark; once that is durable, the names under `incoming/` are removed.

What goes wrong in steps 1 and 2 costs the transfer and nothing else: no promise rests on it.
"""

import errno
from collections.abc import Generator, Mapping, Sequence
from typing import NamedTuple

from muster_coordinator import limits
from muster_coordinator.errors import Corruption, SegmentDamaged, WireError
from muster_coordinator.groups.effects import CheckpointBody
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Disk
from muster_coordinator.records.batch import check
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.replica import identity
from muster_coordinator.replica.folders import checkpoint_folder
from muster_coordinator.replica.transfer_payload import FileKind, Offer, OfferedFile, decode_offer, encode_offer
from muster_coordinator.storage.checkpoint import CheckpointMeta, open_checkpoint

INCOMING = "incoming"
COMPLETE = "complete"
_MAGIC = 0x4D55_5458
_PLACE_BYTES = 12
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What file systems without second names answer."""


def staging_folder(number: int) -> str:
    return f"{INCOMING}/{number}"


class NoRoom(OSError):
    """A transfer does not begin: the disk would be full before its end."""


class Staged(NamedTuple):
    """What a swapped-in transfer holds."""

    offer: Offer
    meta: CheckpointMeta
    body: CheckpointBody


def begin(disk: Disk, number: int, keep: frozenset[str] = frozenset()) -> None:
    """Make room; what was left there, but for `keep`, is of no use."""
    folder = staging_folder(number)
    disk.mkdir(folder)
    if disk.exists(f"{folder}/{COMPLETE}"):
        disk.unlink(f"{folder}/{COMPLETE}")
        disk.sync_dir(folder)
    for name in disk.listdir(folder):
        if name not in keep:
            disk.unlink(f"{folder}/{name}")


def sizes(disk: Disk, folder: str) -> dict[str, int]:
    """Bytes of the segments that lie in the partition's own folder."""
    found = {}
    for name in disk.listdir(folder):
        if name.endswith(".log"):
            file = disk.open(f"{folder}/{name}")
            found[name] = file.size()
            file.close()
    return found


def sealed(here: Mapping[str, int], item: OfferedFile) -> bool:
    """Is the own file of this name as long as the offered one, and not the one that grows?"""
    return here.get(item.name) == item.size and item.name != max(here)


def adopt(
    disk: Disk, number: int, folder: str, usable: Sequence[tuple[OfferedFile, int]], needed_bytes: int, spare_bytes: int
) -> Generator[None, None, dict[str, int]]:
    """Steps: take what lies in the partition's own folder and is known to be equal, (file, bytes of it). A sealed file
    gets a second name; the newest one, which may still grow, and the beginning of another are copied. Returns the bytes
    staged so, by name.

    Raises `NoRoom` when `needed_bytes`, copies included, would leave less than `spare_bytes`.
    """
    free = disk.free_bytes()
    if free < needed_bytes + spare_bytes:
        raise NoRoom(errno.ENOSPC, f"a transfer of {needed_bytes} bytes, {free} are free", staging_folder(number))
    found: dict[str, int] = {}
    here = sizes(disk, folder) if usable else {}
    for item, equal in usable:
        own, staged = f"{folder}/{item.name}", f"{staging_folder(number)}/{item.name}"
        if sealed(here, item) and equal == item.size:
            try:
                disk.link(own, staged)
            except OSError:
                continue  # it is fetched: gone meanwhile, or the file system knows no second names
        else:
            yield from _copy(disk, own, staged, equal)
        found[item.name] = equal
    return found


def _copy(disk: Disk, source: str, target: str, size: int) -> Generator[None, None, None]:
    read, written = disk.open(source), disk.open(target, create=True)
    try:
        for position in range(0, size, limits.TRANSFER_VERIFY_STEP_BYTES):
            length = min(limits.TRANSFER_VERIFY_STEP_BYTES, size - position)
            written.pwrite(position, [read.pread(position, length)])
            yield
    finally:
        read.close()
        written.close()


def write(disk: Disk, number: int, name: str, offset: int, data: bytes) -> None:
    """One chunk."""
    file = disk.open(f"{staging_folder(number)}/{name}", create=True)
    try:
        file.pwrite(offset, [data])
    finally:
        file.close()


def seal(disk: Disk, offer: Offer) -> Generator[None, None, None]:
    """Steps: verify and sync everything, then say so. Raises `Corruption` when the bytes are not what was offered."""
    folder = staging_folder(offer.group)
    expected = 0
    for item in sorted(offer.files, key=lambda item: item.name):
        path = f"{folder}/{item.name}"
        file = disk.open(path, create=True)
        try:
            if file.size() != item.size:
                raise Corruption(f"{path}: {file.size()} bytes of {item.size}")
            file.sync()
        finally:
            file.close()
        if item.kind == FileKind.SEGMENT:
            base = int(item.name.removesuffix(".log"))
            if expected and base != expected:
                raise Corruption(f"{path}: a segment is missing before it")
            expected = yield from _verify_segment(disk, path, base)
    yield from _verify_checkpoint(disk, offer)
    if offer.mark is not None and expected != offer.mark.next_offset:
        raise Corruption(f"{folder}: the segments end at {expected}, the offer says {offer.mark.next_offset}")
    disk.sync_dir(folder)
    identity.store(disk, f"{folder}/{COMPLETE}", _MAGIC, encode_offer(offer))


def _verify_segment(disk: Disk, path: str, base: int) -> Generator[None, None, int]:
    """Steps: every batch's CRC and that offsets follow one another; returns the offset after the last."""
    file = disk.open(path)
    try:
        position, size, offset, pause_at = 0, file.size(), base, limits.TRANSFER_VERIFY_STEP_BYTES
        while position < size:
            if position >= pause_at:
                pause_at = position + limits.TRANSFER_VERIFY_STEP_BYTES
                yield
            place = file.pread(position, _PLACE_BYTES)
            length = int.from_bytes(place[8:12], "big") + _PLACE_BYTES
            if length > size - position:
                raise SegmentDamaged(base, f"{path}: a batch of {length} bytes at {position} of {size}")
            header = check(file.pread(position, length))
            if header.base_offset != offset:
                raise SegmentDamaged(base, f"{path}: a batch at offset {header.base_offset}, expected {offset}")
            offset = header.next_offset
            position += length
        return offset
    except MalformedError as error:
        raise SegmentDamaged(base, f"{path}: {error}") from error
    finally:
        file.close()


def _verify_checkpoint(disk: Disk, offer: Offer) -> Generator[None, None, None]:
    checkpoint = open_checkpoint(disk, f"{staging_folder(offer.group)}/{_checkpoint_of(offer)}")
    try:
        yield from checkpoint.verify()
        meta = checkpoint.meta
        if (meta.group, meta.index, meta.term) != (offer.group, offer.index, offer.term):
            raise Corruption(f"the checkpoint is {meta}, the offer says {offer.index} of term {offer.term}")
    finally:
        checkpoint.close()


def _checkpoint_of(offer: Offer) -> str:
    return next(item.name for item in offer.files if item.kind == FileKind.CHECKPOINT)


def swap(disk: Disk, offer: Offer, segments: str) -> Staged:
    """Put the staged files in place; may be called again after a crash. `segments`: the partition's folder."""
    staged = staging_folder(offer.group)
    folders = {FileKind.CHECKPOINT: checkpoint_folder(GroupNo(offer.group)), FileKind.SEGMENT: segments}
    kept = {item.name for item in offer.files}
    for kind, folder in folders.items():
        if kind is FileKind.SEGMENT and offer.mark is None:
            continue
        disk.mkdir(folder)
        for name in disk.listdir(folder):
            if name not in kept:
                disk.unlink(f"{folder}/{name}")
        for item in offer.files:
            if item.kind == kind:
                _place(disk, f"{staged}/{item.name}", f"{folder}/{item.name}")
        disk.sync_dir(folder)
        disk.sync_dir(folder.rpartition("/")[0])  # nothing may have been flushed there before
    checkpoint = open_checkpoint(disk, f"{folders[FileKind.CHECKPOINT]}/{_checkpoint_of(offer)}")
    try:
        return Staged(offer, checkpoint.meta, checkpoint.body())
    finally:
        checkpoint.close()


def _place(disk: Disk, source: str, target: str) -> None:
    """Give a staged file its place. It has it already where the file system knows no second names and a crash came."""
    if not disk.exists(source):
        if not disk.exists(target):
            raise Corruption(f"{target} is neither staged nor in place")
        return
    if disk.exists(target):
        disk.unlink(target)
    try:
        disk.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        disk.rename(source, target)


def finish(disk: Disk, number: int) -> None:
    """The WAL names the checkpoint: nothing staged is needed any more."""
    begin(disk, number)
    disk.sync_dir(staging_folder(number))


def completed(disk: Disk) -> list[Offer]:
    """After a start: transfers that were sealed; whatever else lies in `incoming` is removed."""
    found = []
    for name in disk.listdir(INCOMING):
        offer = _completed(disk, f"{INCOMING}/{name}/{COMPLETE}")
        if offer is None:
            begin(disk, int(name))
        else:
            found.append(offer)
    return found


def _completed(disk: Disk, path: str) -> Offer | None:
    """None too when the manifest is damaged: then the group's own files are whole, or found to be not."""
    try:
        body = identity.load(disk, path, _MAGIC)
        return None if body is None else decode_offer(body, 2)
    except (Corruption, WireError):
        return None
