"""The files of a snapshot install on disk: staged, verified, put in place; a crash at any point does no harm.

Order (docs/format.md, "Snapshot install"):
1. the files arrive under `incoming/<group>/`; after a crash the next start removes them;
2. all are verified and synced, then the manifest `complete` is written and synced (the install is *sealed*);
3. the group's own files are removed, the staged files are hard-linked in their place, and the folders synced. After a
   crash the next start finds `complete` and a WAL that does not name the checkpoint yet, and repeats this step. (A hard
   link needs no space, so a full disk does not stop it; and it keeps the staged name until step 4. A rename from one
   folder to another would be safe only if the changes of both folders reached the disk together.)
4. the WAL gets the checkpoint and the recovery point; when that is durable, the names under `incoming/` are removed.

An error in step 1 or 2 ends the install and harms nothing else: no promise rests on staged files. What this does not
do: fetch files, or write to the WAL.
"""

import errno
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from muster_coordinator.errors import Corruption, SegmentDamaged, WireError
from muster_coordinator.groups.effects import CheckpointBody
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Disk, FileIdentity
from muster_coordinator.records.batch import check
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.replica import limits
from muster_coordinator.replica.bootstrap import identity
from muster_coordinator.replica.folders import checkpoint_folder
from muster_coordinator.replica.snapshots.install_payload import (
    FileKind,
    Offer,
    OfferedFile,
    decode_offer,
    encode_offer,
)
from muster_coordinator.storage import cleaned
from muster_coordinator.storage.checkpoint import CheckpointMeta, open_checkpoint
from muster_coordinator.storage.segment_index import SegmentIndex, sidecar_name

INCOMING = "incoming"
COMPLETE = "complete"
_MAGIC = 0x4D55_5458
_PLACE_BYTES = 12
FILES_PER_STEP = 100
"""Files opened, linked or synced in one step of a job; between steps the loop's thread can run."""
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors of file systems without hard links."""


def staging_folder(number: int) -> str:
    return f"{INCOMING}/{number}"


class NoRoom(OSError):
    """The disk has not enough free space for a whole install, so it does not start."""


class Verified(NamedTuple):
    """A segment file in which every batch was verified."""

    identity: FileIdentity
    next_offset: int
    synced: bool
    """True: an install has synced the file here."""


class Prefix(NamedTuple):
    """The first bytes of a segment that this replica has written itself, and the leader epochs of their batches."""

    size: int
    epochs: tuple[tuple[int, int], ...]
    """(epoch, its first offset), in order."""


class Staged(NamedTuple):
    """An install whose files are in place."""

    offer: Offer
    meta: CheckpointMeta
    body: CheckpointBody


def begin(disk: Disk, number: int, keep: frozenset[str] = frozenset()) -> None:
    """Make the group's staging folder, and remove all files in it but those named in `keep`."""
    folder = staging_folder(number)
    disk.mkdir(folder)
    if disk.exists(f"{folder}/{COMPLETE}"):
        disk.unlink(f"{folder}/{COMPLETE}")
        disk.sync_dir(folder)
    for name in disk.listdir(folder):
        if name not in keep:
            disk.unlink(f"{folder}/{name}")


def sizes(disk: Disk, folder: str) -> dict[str, int]:
    """Name -> size of each segment in the partition's own folder."""
    found = {}
    for name in disk.listdir(folder):
        if name.endswith(".log"):
            file = disk.open(f"{folder}/{name}")
            found[name] = file.size()
            file.close()
    return found


def sealed(here: Mapping[str, int], item: OfferedFile) -> bool:
    """Is the own segment of this name as long as the offered one, and not the newest, which may still grow?"""
    return here.get(item.name) == item.size and item.name != max(here)


def adopt(
    disk: Disk, number: int, folder: str, usable: Sequence[tuple[OfferedFile, int]], needed_bytes: int, spare_bytes: int
) -> Generator[None, None, dict[str, int]]:
    """Job in steps: stage the own segments that are known to be equal to offered ones. `usable`: (file, its first bytes
    that are equal). Sealed files and their sidecars are hard-linked; the newest segment, which may still grow, and
    beginnings of others are copied. Returns name -> bytes staged.

    Raises `NoRoom` if `needed_bytes`, copies included, would leave less than `spare_bytes` free.
    """
    free = disk.free_bytes()
    if free < needed_bytes + spare_bytes:
        raise NoRoom(errno.ENOSPC, f"an install of {needed_bytes} bytes, {free} are free", staging_folder(number))
    found: dict[str, int] = {}
    here = sizes(disk, folder) if usable else {}
    staged_folder = staging_folder(number)
    for count, (item, equal) in enumerate(usable, 1):
        own, staged = f"{folder}/{item.name}", f"{staged_folder}/{item.name}"
        if sealed(here, item) and equal == item.size:
            try:
                disk.link(own, staged)
            except OSError:
                continue  # it will be fetched: the own file was removed, or the file system has no hard links
            sidecar = sidecar_name(int(item.name.removesuffix(".log")))
            with suppress(OSError):  # without a sidecar the segment is scanned when it is opened
                disk.link(f"{folder}/{sidecar}", f"{staged_folder}/{sidecar}")
        else:
            yield from _copy(disk, own, staged, equal)
        found[item.name] = equal
        if count % FILES_PER_STEP == 0:
            yield
    return found


def _copy(disk: Disk, source: str, target: str, size: int) -> Generator[None, None, None]:
    read, written = disk.open(source), disk.open(target, create=True)
    try:
        for position in range(0, size, limits.INSTALL_VERIFY_STEP_BYTES):
            length = min(limits.INSTALL_VERIFY_STEP_BYTES, size - position)
            written.pwrite(position, [read.pread(position, length)])
            yield
    finally:
        read.close()
        written.close()


def write(disk: Disk, number: int, name: str, offset: int, data: bytes) -> None:
    """Write one chunk to a staged file."""
    write_chunk(disk, f"{staging_folder(number)}/{name}", offset, data)


def write_chunk(disk: Disk, path: str, offset: int, data: bytes) -> None:
    """Write one chunk of a copy. It is synced now and then although nothing is promised before its end: a gigabyte that
    is synced at the end keeps the disk from everything else for as long as it takes."""
    file = disk.open(path, create=True)
    try:
        file.pwrite(offset, [data])
        if offset // limits.INSTALL_SYNC_BYTES != (offset + len(data)) // limits.INSTALL_SYNC_BYTES:
            file.sync()
    finally:
        file.close()


def seal(
    disk: Disk, offer: Offer, known: Mapping[str, Verified], prefixes: Mapping[str, Prefix]
) -> Generator[None, None, dict[str, Verified]]:
    """Job in steps: verify and sync all staged files, then write the manifest `complete`; returns the segments.

    `known`: segments verified before; those that are still the same file are not read again, nor synced again if they
    were. `prefixes`: the beginnings of segments that were copied from own ones. Raises `Corruption` if the files are
    not what was offered."""
    folder = staging_folder(offer.group)
    expected = 0
    found: dict[str, Verified] = {}
    for count, item in enumerate(sorted(offer.files, key=lambda item: item.name), 1):
        path = f"{folder}/{item.name}"
        before = _verified_before(disk, path, item, known)
        if before is None or not before.synced:
            _sync_whole(disk, path, item.size)
        if item.kind == FileKind.SEGMENT:
            base = int(item.name.removesuffix(".log"))
            if expected and base != expected:
                raise Corruption(f"{path}: a segment is missing before it")
            if before is None:
                index = yield from verify_segment(disk, path, base, item.size, prefixes.get(item.name))
                expected = index.next_offset
                if offer.recovery_point is not None and base != offer.recovery_point.segment:
                    _leave_sidecar(disk, folder, index)
            else:
                expected = before.next_offset
            found[item.name] = Verified(disk.identity(path), expected, True)
        if count % FILES_PER_STEP == 0:
            yield
    yield from _verify_checkpoint(disk, offer)
    if offer.recovery_point is not None and expected != offer.recovery_point.next_offset:
        raise Corruption(f"{folder}: the segments end at {expected}, the offer says {offer.recovery_point.next_offset}")
    disk.sync_dir(folder)
    identity.store(disk, f"{folder}/{COMPLETE}", _MAGIC, encode_offer(offer))
    return found


def _verified_before(disk: Disk, path: str, item: OfferedFile, known: Mapping[str, Verified]) -> Verified | None:
    before = known.get(item.name)
    if before is None or before.identity.size != item.size or not disk.exists(path):
        return None
    return before if disk.identity(path) == before.identity else None


def _sync_whole(disk: Disk, path: str, size: int) -> None:
    file = disk.open(path, create=True)
    try:
        if file.size() != size:
            raise Corruption(f"{path}: {file.size()} bytes of {size}")
        file.sync()
    finally:
        file.close()


def _leave_sidecar(disk: Disk, folder: str, index: SegmentIndex) -> None:
    """Write the segment's sidecar, so that the log need not scan the segment when it is opened. A full disk may prevent
    it, and a sidecar of which only a part is written is found by its CRC: both cost the scan and nothing else."""
    with suppress(OSError):
        file = disk.open(f"{folder}/{sidecar_name(index.base)}", create=True)
        try:
            file.pwrite(0, [index.encode()])
        finally:
            file.close()


def verify_segment(
    disk: Disk, path: str, base: int, size: int, prefix: Prefix | None
) -> Generator[None, None, SegmentIndex]:
    """Job in steps: verify the first `size` bytes of a segment: the CRC of each batch, consecutive offsets, and the
    leader epochs within `prefix`, which no CRC covers. Returns their index. Raises `SegmentDamaged`, or OSError."""
    file = disk.open(path)
    try:
        index, pause_at = SegmentIndex(base), limits.INSTALL_VERIFY_STEP_BYTES
        while index.size < size:
            position = index.size
            if position >= pause_at:
                pause_at = position + limits.INSTALL_VERIFY_STEP_BYTES
                yield
            place = file.pread(position, _PLACE_BYTES)
            length = int.from_bytes(place[8:12], "big") + _PLACE_BYTES
            if length > size - position:
                raise SegmentDamaged(base, f"{path}: a batch of {length} bytes at {position} of {size}")
            header = check(file.pread(position, length))
            if header.base_offset != index.next_offset:
                why = f"{path}: a batch at offset {header.base_offset}, expected {index.next_offset}"
                raise SegmentDamaged(base, why)
            at = header.next_offset, header.leader_epoch, header.max_timestamp_ms
            index.note(length, *at, header.attributes)
            if prefix is not None and position < prefix.size <= index.size:
                _compare_epochs(path, index, prefix)
        return index
    except MalformedError as error:
        raise SegmentDamaged(base, f"{path}: {error}") from error
    finally:
        file.close()


def _compare_epochs(path: str, index: SegmentIndex, prefix: Prefix) -> None:
    """`index` has reached the end of the copied batches: compare their epochs with those that were applied."""
    written = [(epoch, start) for epoch, start in prefix.epochs if start < index.next_offset]
    if written != index.epochs:
        raise SegmentDamaged(index.base, f"{path}: leader epochs {index.epochs[:20]}, expected {written[:20]}")


def _verify_checkpoint(disk: Disk, offer: Offer) -> Generator[None, None, None]:
    checkpoint = open_checkpoint(disk, f"{staging_folder(offer.group)}/{_checkpoint_of(offer)}")
    try:
        yield from checkpoint.verify()
        meta = checkpoint.meta
        if (meta.group, meta.index, meta.term, meta.config) != (offer.group, offer.index, offer.term, offer.config):
            offered = f"{offer.index} of term {offer.term} with {offer.config}"
            raise Corruption(f"the checkpoint is {meta}, the offer says {offered}")
    finally:
        checkpoint.close()


def _checkpoint_of(offer: Offer) -> str:
    return next(item.name for item in offer.files if item.kind == FileKind.CHECKPOINT)


def swap(disk: Disk, offer: Offer, segments: str) -> Staged:
    """Put the staged files in place; may be repeated after a crash. `segments`: the partition's folder."""
    staged = staging_folder(offer.group)
    folders = {FileKind.CHECKPOINT: checkpoint_folder(GroupNo(offer.group)), FileKind.SEGMENT: segments}
    kept = {item.name for item in offer.files}
    for kind, folder in folders.items():
        if kind is FileKind.SEGMENT and offer.recovery_point is None:
            continue
        disk.mkdir(folder)
        for name in disk.listdir(folder):
            if name not in kept:
                disk.unlink(f"{folder}/{name}")
        if kind is FileKind.SEGMENT and offer.cleaned and offer.recovery_point is not None:
            cleaned.write(disk, folder, cleaned.Cleaned(0, offer.recovery_point.segment, ()))
        for item in offer.files:
            if item.kind == kind:
                _place(disk, f"{staged}/{item.name}", f"{folder}/{item.name}")
                if kind is FileKind.SEGMENT:
                    sidecar = sidecar_name(int(item.name.removesuffix(".log")))
                    if disk.exists(f"{staged}/{sidecar}"):
                        _place(disk, f"{staged}/{sidecar}", f"{folder}/{sidecar}")
        disk.sync_dir(folder)
        disk.sync_dir(folder.rpartition("/")[0])  # the folder itself may be new and not synced yet
    checkpoint = open_checkpoint(disk, f"{folders[FileKind.CHECKPOINT]}/{_checkpoint_of(offer)}")
    try:
        return Staged(offer, checkpoint.meta, checkpoint.body())
    finally:
        checkpoint.close()


def _place(disk: Disk, source: str, target: str) -> None:
    """Link a staged file to its place. Without a staged file it is in place already: an attempt before a crash has
    renamed it, on a file system without hard links."""
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
    """Remove all staged files: the WAL names the checkpoint, or the install is not needed any more."""
    begin(disk, number)
    disk.sync_dir(staging_folder(number))


def completed(disk: Disk) -> list[Offer]:
    """For a start: the installs that are sealed; other files under `incoming` are removed."""
    found = []
    for name in disk.listdir(INCOMING):
        offer = _completed(disk, f"{INCOMING}/{name}/{COMPLETE}")
        if offer is None:
            begin(disk, int(name))
        else:
            found.append(offer)
    return found


def _completed(disk: Disk, path: str) -> Offer | None:
    """The sealed offer; None without a manifest, or if it is damaged: the group is then recovered from its own files,
    and damage to these is found there."""
    try:
        body = identity.load(disk, path, _MAGIC)
        return None if body is None else decode_offer(body, 2, limits.INSTALL_FILES_MAX)
    except (Corruption, WireError):
        return None
