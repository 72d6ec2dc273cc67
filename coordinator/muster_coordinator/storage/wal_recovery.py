"""Reading a WAL folder after a start: which batches count, what is a torn tail, what is corruption (docs/format.md).

Problem: an unsynced last batch may be torn and must be cut; anything else that does not fit once was promised, and
cutting it would take back a vote or an acknowledged entry. Mechanism: files in sequence, whole batches only, each
chained to the one before. At the first bad batch the decision is: last file and no sound later BATCH_END behind it:
torn, cut to zeros. Otherwise `Corruption`. A SEAL whose next file is absent is corruption too. It never repairs
anything but that tail. What it found it makes durable: the last batch may stand in a page cache only, left by a process
that died before its sync, or of it; after a failed sync those pages count as clean, so the batch is written once more.
"""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from muster_coordinator.errors import Corruption
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Disk, File
from muster_coordinator.raft.messages import EntryKind
from muster_coordinator.records.crc import crc32c
from muster_coordinator.storage.wal_format import (
    ALIGN,
    ANEW,
    BATCH_END,
    CHECKPOINT,
    COMPLETES,
    DROP,
    END_BYTES,
    ENTRY,
    FILE_HEADER_BYTES,
    HARD_STATE,
    MARK,
    RECORD,
    RECORD_HEADER_BYTES,
    SEAL,
    FileHeader,
    decode_end,
    decode_file_header,
    decode_hard_state,
    decode_mark,
    file_name,
    later_end,
)
from muster_coordinator.storage.wal_index import GroupLog, place_of

_NAME = re.compile(r"[0-9a-f]{16}\.wal")
_ZEROS = bytes(1 << 20)

Parsed = list[tuple[int, int, int, int, int, int, int]]
"""Records of a batch: type, kind, group, index, term, position, payload length."""


class LiveFile(NamedTuple):
    """A WAL file that exists."""

    sequence: int
    file: File
    end: int
    """Position behind its last good batch."""
    seed: int


class Recovered(NamedTuple):
    """All that a WAL needs to go on."""

    files: list[LiveFile]
    groups: dict[GroupNo, GroupLog]
    batch: int
    """Number of the last good batch."""
    chain: int
    whole: bool
    """The last file has the states of all groups, or is the first."""


class _Scan:
    """State of the walk over all files."""

    def __init__(self) -> None:
        self.groups: dict[GroupNo, GroupLog] = {}
        self.chain: int | None = None
        self.batch = 0
        self.last_start = 0
        """Where the last good batch of the present file begins."""
        self.sealed = False
        self.whole = False
        """The present file has the states of all groups; `any_whole`: one up to now."""
        self.any_whole = False


def sequences(disk: Disk, folder: str) -> list[int]:
    """Numbers of the WAL files present, ascending; Corruption when one in between is missing."""
    found = sorted(int(name[:16], 16) for name in disk.listdir(folder) if _NAME.fullmatch(name))
    if found and found != list(range(found[0], found[-1] + 1)):
        raise Corruption(f"WAL {folder}: files are missing between {found[0]:016x} and {found[-1]:016x}")
    return found


def recover(
    disk: Disk,
    folder: str,
    *,
    node_uuid: bytes,
    cluster_uuid: bytes,
    proven: int = 0,
    lost: Callable[[Iterable[GroupNo]], None] = lambda groups: None,
) -> Recovered:
    """Replay all files; the torn tail of the last one is cut and synced. The folder holds at least one file.

    `proven` is the number of a batch that was synced for certain (`wal_proof`). If the batches end before it, `lost` is
    told of the groups that are known, before anything is cut.
    """
    scan = _Scan()
    files: list[LiveFile] = []
    numbers = sequences(disk, folder)
    for sequence in numbers:
        name = file_name(sequence)
        file = disk.open(f"{folder}/{name}")
        data = _whole(file)
        header = decode_file_header(data, name)
        if header.node_uuid != node_uuid or header.cluster_uuid != cluster_uuid or header.sequence != sequence:
            raise Corruption(f"WAL file {name} belongs to another replica, cluster or place")
        if scan.chain is not None and (scan.chain, scan.batch + 1) != (header.chain, header.first_batch):
            raise Corruption(f"WAL file {name} does not continue the one before it: that one lost batches")
        scan.chain, scan.batch = header.chain, header.first_batch - 1
        scan.whole = not header.spread
        end = _replay(scan, data, header)
        if scan.batch < header.first_batch:
            raise Corruption(
                f"WAL file {name}: its first batch is damaged, and a file appears only after that is synced"
            )
        if sequence == numbers[-1]:
            if proven > scan.batch:
                lost(scan.groups)
            _cut_tail(file, data, end, header, scan)
            _make_durable(disk, folder, file, data[scan.last_start : end], scan.last_start)
        files.append(LiveFile(sequence, file, end, header.seed))
        scan.any_whole |= scan.whole
    assert scan.chain is not None
    if not scan.any_whole:
        raise Corruption(f"WAL {folder}: files before {numbers[0]:016x} are missing, and with them states of groups")
    for log in scan.groups.values():
        _settle(log)
    return Recovered(files, scan.groups, scan.batch, scan.chain, scan.whole)


def _whole(file: File) -> bytes:
    size = file.size()
    data = file.pread(0, size)
    if len(data) != size:
        raise Corruption(f"a WAL file gave {len(data)} of its {size} bytes")
    return data


def _replay(scan: _Scan, data: bytes, header: FileHeader) -> int:
    """Apply the good batches of one file; returns the position behind the last one."""
    position = FILE_HEADER_BYTES
    seed = header.seed
    scan.sealed = False
    assert scan.chain is not None
    while True:
        parsed, stop = _batch_at(data, position)
        if stop < 0:
            return position
        end = decode_end(data, stop, seed)
        if end is None or (end.start, end.number, end.records, end.size) != (
            position,
            scan.batch + 1,
            len(parsed),
            stop - position,
        ):
            return position
        if crc32c(memoryview(data)[position:stop], scan.chain) != end.chain:
            return position
        if parsed and parsed[0][0] == SEAL:
            scan.sealed = True  # outside the chain: the next file continues from before it
            return position
        _apply(scan, parsed, data, header.sequence)
        scan.batch, scan.chain, scan.last_start = end.number, end.chain, position
        position = stop + END_BYTES


def _batch_at(data: bytes, position: int) -> tuple[Parsed, int]:
    """The records from `position` and the place of their BATCH_END, or -1 when they lead to none."""
    parsed: Parsed = []
    limit = len(data) - RECORD_HEADER_BYTES
    unpack = RECORD.unpack_from
    while position <= limit:
        length, _crc, kind_of_record, kind, _zero, group, index, term = unpack(data, position)
        if kind_of_record == BATCH_END:
            return parsed, position
        if not ENTRY <= kind_of_record <= DROP:
            break
        parsed.append((kind_of_record, kind, group, index, term, position, length))
        position += RECORD_HEADER_BYTES + length + (-length % ALIGN)
    return parsed, -1


def _apply(scan: _Scan, parsed: Parsed, data: bytes, sequence: int) -> None:
    groups = scan.groups
    for kind_of_record, kind, number, index, term, position, length in parsed:
        group = GroupNo(number)
        log = groups.get(group)
        if log is None:
            log = groups[group] = GroupLog(group)
        if kind_of_record == ENTRY:
            replay_entry(log, index, term, place_of(sequence, position), length)
            if kind == EntryKind.SKIP:
                log.skips.add(index)
            continue
        start = position + RECORD_HEADER_BYTES
        payload = data[start : start + length]
        if kind_of_record == HARD_STATE:
            log.written.hard_state = decode_hard_state(index, term, payload)
            if kind == COMPLETES:
                scan.whole = True
        elif kind_of_record == MARK:
            log.written.mark = decode_mark(index, payload)
        elif kind_of_record == CHECKPOINT:
            replay_checkpoint(log, index, term, kind)
        elif kind_of_record == DROP:
            del groups[group]


def replay_entry(log: GroupLog, index: int, term: int, place: int, length: int) -> None:
    """An entry supersedes all at and above its index. Below the first, or past the last, a new run begins: older
    files are gone, and `_settle` proves that the checkpoint covers what was in them."""
    if not log.first <= index <= log.last + 1:
        log.reset(index - 1, 0)
    elif index <= log.last:
        log.cut_from(index)
    log.append(term, place, length)


def replay_checkpoint(log: GroupLog, index: int, term: int, kind: int) -> None:
    """As when it was staged: a log that holds (index, term) keeps its entries, another one begins anew. What was there
    before the entries that are left is gone with older files, so the record says which; one of a release before does
    not, but entries of terms that are lower than the checkpoint's cannot follow it."""
    log.written.checkpoint = (index, term)
    if kind != ANEW and index < log.first and (log.term_at(log.first) or term) >= term:
        return
    if kind == ANEW or log.term_at(index) != term:
        log.reset(index, term)


def _settle(log: GroupLog) -> None:
    """The entries must follow the checkpoint without a gap, and the term before the first one must be known."""
    index, term = log.written.checkpoint
    if log.first > index + 1:
        raise Corruption(f"group {log.group}: entries {index + 1} to {log.first - 1} are missing in the WAL")
    if log.first == index + 1:
        log.compacted_term = term
    elif log.first > 1:
        # The term of first - 1 is gone with older files; entry `first` is covered by the checkpoint, so it can go as
        # well.
        log.compacted_term = log.terms[0]
        log.first += 1
        del log.terms[:1], log.places[:1], log.lengths[:1]


def _cut_tail(file: File, data: bytes, end: int, header: FileHeader, scan: _Scan) -> None:
    if scan.sealed:
        raise Corruption(f"WAL file {file_name(header.sequence)} is sealed and the file after it is missing")
    last = len(data.rstrip(b"\0"))
    if last <= end:
        return
    later = later_end(data, end, header.seed, scan.batch + 2)
    if later is not None:
        raise Corruption(
            f"WAL file {file_name(header.sequence)}: batch {scan.batch + 1} at {end} is damaged, "
            f"but batch {later.number} behind it is sound"
        )
    for position in range(end, last, len(_ZEROS)):
        file.pwrite(position, (_ZEROS[: last - position],))


def _make_durable(disk: Disk, folder: str, file: File, batch: bytes, position: int) -> None:
    """Only one batch was ever in flight, in the last file; that file's name may be as young."""
    file.pwrite(position, (batch,))
    file.sync()
    disk.sync_dir(folder)
