"""Reading a WAL folder after a start: which batches count, what is a torn tail, what is corruption (docs/format.md).

Problem: an unsynced last batch may be torn and must be cut; any other damaged batch was synced, and cutting it would
take back a vote or an acknowledged entry. Mechanism: files are read in sequence, whole batches only, each chained to
the one before. A bad batch before batches that provably follow it is a hole (`wal_hole`) and is skipped. A bad batch at
the end of the last file is overwritten with zeros: it was torn if nothing proves that it was synced, else every group
has lost a promise. A damaged file header is rebuilt from the file's name, the identity and the previous file. A missing
file, also the one that a SEAL names, is `Corruption`. Recovery makes durable what it found: the last batch may be in
the page cache only, because the process died before or during its sync. After a failed sync the kernel calls such pages
clean and would not write them again, so the batch is written again before the sync.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from muster_coordinator.errors import Corruption, UnsupportedFormat
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Disk, File
from muster_coordinator.raft.messages import EntryKind
from muster_coordinator.records.crc import crc32c
from muster_coordinator.storage.wal_format import (
    ANEW,
    CHECKPOINT,
    COMPLETES,
    COMPLETES_AT_ONCE,
    CONFIG,
    DROP,
    END_BYTES,
    ENTRY,
    FILE_HEADER_BYTES,
    HARD_STATE,
    RECORD_HEADER_BYTES,
    RECOVERY_POINT,
    SEAL,
    BatchEnd,
    FileHeader,
    decode_end,
    decode_file_header,
    decode_hard_state,
    decode_recovery_point,
    encode_file_header,
    file_name,
    later_end,
)
from muster_coordinator.storage.wal_hole import Anchor, Holes, Parsed, Sound, batch_at, sound_behind
from muster_coordinator.storage.wal_index import NO_CONFIG, GroupLog, place_of

_NAME = re.compile(r"[0-9a-f]{16}\.wal")
_ZEROS = bytes(1 << 20)
_BLOCK_BYTES = 4096


class LiveFile(NamedTuple):
    """A WAL file that exists."""

    sequence: int
    file: File
    end: int
    """Position after its last good batch."""
    seed: int


class Recovered(NamedTuple):
    """What a WAL continues from after a start."""

    files: list[LiveFile]
    groups: dict[GroupNo, GroupLog]
    batch: int
    """Number of the last good batch."""
    chain: int
    whole: bool
    """The last file has the states of all groups, or is the first."""
    behind_hole: bool = False
    """There is a hole, and no complete pass over all groups after it: the WAL must write the states of all groups
    before anything else."""
    cut: frozenset[GroupNo] = frozenset()
    """Groups that continue from before a hole: the WAL must rewrite their entries after it."""
    damage: tuple[str, ...] = ()
    """Messages about damage that was found and not refused."""


class _Scan:
    """State of the walk over all files."""

    def __init__(self) -> None:
        self.groups: dict[GroupNo, GroupLog] = {}
        self.holes = Holes()
        self.chain = 0
        self.batch = 0
        self.last_start = 0
        self.end = 0
        """`last_start`: where the last good batch of the current file begins. `end`: where the last good batch ends,
        which may lie in the previous file."""
        self.sealed = False
        self.whole = False
        """The current file has the states of all groups, or must have them in its first batch."""
        self.any_whole = False
        """Some file has the states of all groups, whatever is missing before or after them."""
        self.unnumbered = False
        """The number of the current file's first batch is unknown: it is the oldest file, and its header is damaged."""
        self.broken = False
        """Batches of the current file are missing."""
        self.damage: list[str] = []

    def all_states(self) -> None:
        """The batches up to the one just applied hold the states of all groups."""
        self.whole = self.any_whole = True
        self.holes.passed(self.groups)

    def hole(self, name: str, position: int, through: int) -> None:
        self.broken, self.whole = True, False
        self.holes.met(self.groups)
        self.damage.append(f"WAL file {name}: from {position} on batches {self.batch + 1} to {through} are damaged")


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
    proven: tuple[int, int | None] = (0, None),
    lost: Callable[[Iterable[GroupNo], Iterable[GroupNo], bool], None] = lambda groups, found, unknown: None,
) -> Recovered:
    """Replay all files; cut the torn tail of the last one and sync. The folder holds at least one file.

    `proven`: number of a batch that was certainly synced, and the chain value after it if known (`wal_proof`). Before
    anything is cut, `lost` is called with the groups that may have lost a promise, all groups that were found, and
    whether groups that were not found may have lost one too.
    """
    scan = _Scan()
    files: list[LiveFile] = []
    numbers = sequences(disk, folder)
    opened = [disk.open(f"{folder}/{file_name(sequence)}") for sequence in numbers]
    headers = [
        _header(file.pread(0, FILE_HEADER_BYTES), sequence, node_uuid, cluster_uuid)
        for file, sequence in zip(opened, numbers, strict=True)
    ]
    cut: set[GroupNo] = set()
    for at, (sequence, file) in enumerate(zip(numbers, opened, strict=True)):
        data = _whole(file)
        header, write_again = _begin_file(scan, headers[at], data, sequence, (node_uuid, cluster_uuid), first=at == 0)
        last = at == len(numbers) - 1
        end = _replay(scan, data, header, _anchors(proven if last else None, headers[at + 1 : at + 2]))
        if last:
            everything = _is_lost(scan, data, end, header, proven[0])
            if everything:
                scan.damage.append(f"WAL file {file_name(sequence)}: from {end} on synced batches are damaged")
            if end == FILE_HEADER_BYTES:  # Its first batch is lost, and the next one need not repeat all states.
                header, write_again, scan.whole = header._replace(spread=True), True, False
            if not scan.any_whole:
                _states_missing(scan, folder, numbers[0])
                everything = True
            suspended, cut = scan.holes.settle(scan.groups) if scan.damage else (set(), set())
            if everything or suspended or scan.holes.unknown:
                lost(scan.groups if everything else suspended, scan.groups, everything or scan.holes.unknown)
            _cut_tail(file, data, end, scan, header)
            _make_durable(disk, folder, file, data[scan.last_start : end], scan.last_start)
        if write_again:
            file.pwrite(0, (encode_file_header(header),))
            file.sync()
        files.append(LiveFile(sequence, file, end, header.seed))
    for log in scan.groups.values():
        _settle(log)
    return Recovered(
        files,
        scan.groups,
        scan.batch,
        scan.chain,
        scan.whole,
        scan.holes.unknown,
        frozenset(cut),
        tuple(scan.damage),
    )


def _states_missing(scan: _Scan, folder: str, first: int) -> None:
    """No file has the states of all groups: older files are missing, or damage hides these states. Raises Corruption
    when there is no damage."""
    if not scan.damage:
        raise Corruption(f"WAL {folder}: files before {first:016x} are missing, and with them states of groups")
    scan.damage.append(f"WAL {folder}: no file from {first:016x} on has the states of all groups")


def _header(data: bytes, sequence: int, node_uuid: bytes, cluster_uuid: bytes) -> FileHeader | None:
    """The file's header; None when it is damaged. Raises Corruption when it is sound and belongs to another file."""
    name = file_name(sequence)
    try:
        header = decode_file_header(data, name)
    except UnsupportedFormat:
        raise
    except Corruption:
        return None
    if header.node_uuid != node_uuid or header.cluster_uuid != cluster_uuid or header.sequence != sequence:
        raise Corruption(f"WAL file {name} belongs to another replica or cluster, or has another file's name")
    return header


def _anchors(proven: tuple[int, int | None] | None, following: Sequence[FileHeader | None]) -> set[Anchor]:
    """The anchors of a file: its last batch as the next file's header names it, or the proven one in the last file."""
    found = {(header.first_batch - 1, header.chain) for header in following if header is not None}
    if proven is not None and proven[1] is not None:
        found.add((proven[0], proven[1]))
    return found


def _begin_file(
    scan: _Scan, header: FileHeader | None, data: bytes, sequence: int, identity: tuple[bytes, bytes], *, first: bool
) -> tuple[FileHeader, bool]:
    """The file's header, and whether to write it to disk: a damaged one is rebuilt from the previous file."""
    name = file_name(sequence)
    scan.broken = False
    scan.unnumbered = first and header is None
    scan.any_whole |= sequence == 1  # No file precedes the first one.
    scan.last_start = FILE_HEADER_BYTES
    if header is None:
        scan.damage.append(f"WAL file {name}: the header is damaged")
        made = [FileHeader(sequence, *identity, scan.batch + 1, scan.chain, spread) for spread in (False, True)]
        exact = [one for one in made if sequence == 1 or _is_all_but(encode_file_header(one), data)]
        header = exact[0] if exact else made[1]
        scan.whole = not header.spread
        return header, bool(exact) and not first
    if first:
        scan.chain, scan.batch = header.chain, header.first_batch - 1
    elif (scan.chain, scan.batch + 1) != (header.chain, header.first_batch):
        if header.first_batch <= scan.batch:
            raise Corruption(f"WAL file {name} does not continue the one before it")
        scan.hole(file_name(sequence - 1), scan.end, header.first_batch - 1)
        scan.chain, scan.batch, scan.broken = header.chain, header.first_batch - 1, False
    scan.whole = not header.spread
    return header, False


def _is_all_but(header: bytes, data: bytes) -> bool:
    """Do the fields, or else the CRC, of this rebuilt header equal those on the disk? Then only the rest is damaged."""
    crc_at = FILE_HEADER_BYTES - 4
    return data[:crc_at] == header[:crc_at] or data[crc_at:FILE_HEADER_BYTES] == header[crc_at:]


def _is_lost(scan: _Scan, data: bytes, end: int, header: FileHeader, proven: int) -> bool:
    """Was a batch after the last good one synced? A file gets its name only after its first batch was synced."""
    if proven > scan.batch or scan.batch < header.first_batch:
        return True
    return later_end(data, end, header.seed, scan.batch + 2) is not None


def _whole(file: File) -> bytes:
    size = file.size()
    data = file.pread(0, size)
    if len(data) != size:
        raise Corruption(f"reading a WAL file returned {len(data)} of its {size} bytes")
    return data


def _replay(scan: _Scan, data: bytes, header: FileHeader, anchors: Collection[Anchor]) -> int:
    """Apply the good batches of one file; returns the position after the last one. Batches after a damaged one count if
    they lead to an anchor."""
    position = FILE_HEADER_BYTES
    seed = header.seed
    scan.sealed = False
    while True:
        parsed, stop = batch_at(data, position)
        end = None if stop < 0 else decode_end(data, stop, seed)
        if end is None or not _is_next(scan, data, end, position, stop, len(parsed)):
            sound = sound_behind(data, position, seed, scan.batch, anchors)
            if sound is None:
                return position
            _pass_over(scan, sound, position, header)
            end, stop, parsed = sound.end, sound.position, sound.parsed or []
        elif parsed and parsed[0][0] == SEAL:
            scan.sealed = True  # A SEAL is not part of the chain: the next file continues the batch before it.
            return position
        _apply(scan, parsed, data, header.sequence)
        if scan.batch == header.first_batch - 1 and not scan.broken and not header.spread:
            scan.all_states()
        scan.batch, scan.chain, scan.last_start = end.number, end.chain, end.start
        position = scan.end = stop + END_BYTES


def _is_next(scan: _Scan, data: bytes, end: BatchEnd, position: int, stop: int, records: int) -> bool:
    """Is this the next batch, sound and chained to the last good one?"""
    if (end.start, end.number, end.records, end.size) != (position, scan.batch + 1, records, stop - position):
        return False
    return crc32c(memoryview(data)[position:stop], scan.chain) == end.chain


def _pass_over(scan: _Scan, sound: Sound, position: int, header: FileHeader) -> None:
    """Record a hole before the sound batch, unless no batch is missing there."""
    end = sound.end
    begins = scan.unnumbered and end.start == FILE_HEADER_BYTES
    if sound.parsed is not None and end.start == position and (begins or end.number == scan.batch + 1):
        return  # Only padding is damaged, or the chain value in the file's header.
    missing = end.number - (sound.parsed is not None)
    scan.hole(file_name(header.sequence), position, missing)


def _apply(scan: _Scan, parsed: Parsed, data: bytes, sequence: int) -> None:
    groups, holed = scan.groups, scan.holes.met_any
    for kind_of_record, kind, number, index, term, position, length in parsed:
        group = GroupNo(number)
        log = groups.get(group)
        if log is None:
            log = groups[group] = GroupLog(group)
            scan.holes.made(log)
        if holed:
            scan.holes.seen(group, kind_of_record)
        if kind_of_record == ENTRY:
            if holed:
                scan.holes.entry(log, index, term)
            replay_entry(log, index, term, place_of(sequence, position), length)
            if kind >= EntryKind.CONF:
                _note(log, kind, index, term, _payload(data, position, length))
            continue
        payload = _payload(data, position, length)
        if kind_of_record == HARD_STATE:
            log.written.hard_state = decode_hard_state(index, term, payload)
            if kind == COMPLETES_AT_ONCE or (kind == COMPLETES and not scan.broken):
                scan.all_states()
        elif kind_of_record == RECOVERY_POINT:
            log.written.recovery_point = decode_recovery_point(index, payload)
        elif kind_of_record == CHECKPOINT:
            if holed:
                scan.holes.checkpoint(log, index, term, kind)
            replay_checkpoint(log, index, term, kind)
        elif kind_of_record == CONFIG:
            log.written.config = (index, payload)
        elif kind_of_record == DROP:
            del groups[group]
            scan.holes.dropped(group)


def _note(log: GroupLog, kind: int, index: int, term: int, payload: bytes) -> None:
    if kind == EntryKind.SKIP:
        log.skips.add(index)
    elif kind == EntryKind.CONF:
        log.confs[index, term] = payload


def _payload(data: bytes, position: int, length: int) -> bytes:
    start = position + RECORD_HEADER_BYTES
    return data[start : start + length]


def replay_entry(log: GroupLog, index: int, term: int, place: int, length: int) -> None:
    """An entry supersedes all entries at and above its index. One below the first, or above last + 1, begins the log
    anew: entries in between were in deleted files, and `_settle` checks that the checkpoint covers them."""
    if not log.first <= index <= log.last + 1:
        log.reset(index - 1, 0)
    elif index <= log.last:
        log.cut_from(index)
    log.append(term, place, length)


def replay_checkpoint(log: GroupLog, index: int, term: int, kind: int) -> None:
    """As when it was staged: a log that holds (index, term) keeps its entries, any other begins anew. Whether it held
    that entry cannot be seen once older files are deleted, so the record's kind says it. Records of older releases do
    not: there, entries of a lower term than the checkpoint's cannot follow it. The configuration there, if any, is the
    next record."""
    log.written.checkpoint, log.written.config = (index, term), NO_CONFIG
    if kind != ANEW and index < log.first and (log.term_at(log.first) or term) >= term:
        return
    if kind == ANEW or log.term_at(index) != term:
        log.reset(index, term)


def _settle(log: GroupLog) -> None:
    """Invariant: the entries follow the checkpoint without a gap, and the term of first - 1 is known."""
    index, term = log.written.checkpoint
    if log.first > index + 1:
        raise Corruption(f"group {log.group}: entries {index + 1} to {log.first - 1} are missing in the WAL")
    if log.first == index + 1:
        log.compacted_term = term
    elif log.first > 1:
        # The term of first - 1 was in a deleted file. The checkpoint covers entry `first`, so that is dropped, and its
        # own term is the one that is known.
        log.compacted_term = log.terms[0]
        log.first += 1
        del log.terms[:1], log.places[:1], log.lengths[:1]


def _cut_tail(file: File, data: bytes, end: int, scan: _Scan, header: FileHeader) -> None:
    if scan.sealed:
        raise Corruption(f"WAL file {file_name(header.sequence)} is sealed and the file after it is missing")
    last = _written_bytes(data, end)
    for position in range(end, last, len(_ZEROS)):
        file.pwrite(position, (_ZEROS[: last - position],))


def _written_bytes(data: bytes, end: int) -> int:
    """Where the zeros at the end of `data` begin, at `end` or later. Whole blocks are compared: `rstrip` looks at each
    byte, and a file is mostly zeros that were written ahead."""
    last = len(data)
    while last > end:
        start = max(end, last - _BLOCK_BYTES)
        block = data[start:last]
        if block != _ZEROS[: last - start]:
            return start + len(block.rstrip(b"\0"))
        last = start
    return end


def _make_durable(disk: Disk, folder: str, file: File, batch: bytes, position: int) -> None:
    """Write the last batch again and sync it and the folder: only the last batch was in flight, and the directory entry
    of its file may be unsynced too."""
    if batch:
        file.pwrite(position, (batch,))
    file.sync()
    disk.sync_dir(folder)
