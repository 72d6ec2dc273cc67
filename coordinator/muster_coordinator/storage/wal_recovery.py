"""Reading a WAL folder after a start: which batches count, what is a torn tail, what is corruption (docs/format.md).

Problem: an unsynced last batch may be torn and must be cut; anything else that does not fit once was promised, and
cutting it would take back a vote or an acknowledged entry. Mechanism: files in sequence, whole batches only, each
chained to the one before. A bad batch before ones that provably follow is a hole (`wal_hole`): it is passed over. A bad
batch at the end of the last file is cut to zeros: a torn one if nothing says that it was synced, else a loss of every
group. A damaged file header is made anew from its name, the identity and the file before. A missing file, also the one
that a SEAL names, is `Corruption`. What it found it makes durable: the last batch may stand in a page cache only, left
by a process that died before its sync, or of it; after a failed sync those pages count as clean, so the batch is
written once more.
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
from muster_coordinator.storage.wal_index import GroupLog, place_of

_NAME = re.compile(r"[0-9a-f]{16}\.wal")
_ZEROS = bytes(1 << 20)


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
    behind_hole: bool = False
    """Batches are missing, and nothing behind them says yet what of it is known: the states of all groups are to be
    written before anything else is."""
    cut: frozenset[GroupNo] = frozenset()
    """Groups that go on from before a hole: what they have is to be written anew behind it."""
    damage: tuple[str, ...] = ()
    """What was found and is not refused, in words."""


class _Scan:
    """State of the walk over all files."""

    def __init__(self) -> None:
        self.groups: dict[GroupNo, GroupLog] = {}
        self.holes = Holes()
        self.chain = 0
        self.batch = 0
        self.last_start = 0
        self.end = 0
        """Where the last good batch of the present file begins; `end`: ends, of the file before as well."""
        self.sealed = False
        self.whole = False
        """The present file has the states of all groups, or is to have them in its first batch."""
        self.any_whole = False
        """The states of all groups have been met in one file, whatever is missing before or behind."""
        self.unnumbered = False
        """Nothing says which batch the present file begins with: it is the first, and its header is damaged."""
        self.broken = False
        """Batches of the present file are missing."""
        self.damage: list[str] = []

    def all_states(self) -> None:
        """They were written in what was just applied, or up to it."""
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
    """Replay all files; the torn tail of the last one is cut and synced. The folder holds at least one file.

    `proven` names a batch that was synced for certain, and the chain value after it if it is known (`wal_proof`).
    Before anything is cut, `lost` is told of the groups that may have lost a promise, of all that were found, and
    whether there may be more of the former.
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
            if end == FILE_HEADER_BYTES:  # what its first batch had is lost: the next one will not have it
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
    """Nowhere are the states of all groups: files before are gone, or damage hides that they are not."""
    if not scan.damage:
        raise Corruption(f"WAL {folder}: files before {first:016x} are missing, and with them states of groups")
    scan.damage.append(f"WAL {folder}: no file from {first:016x} on has the states of all groups")


def _header(data: bytes, sequence: int, node_uuid: bytes, cluster_uuid: bytes) -> FileHeader | None:
    """None: damaged. Corruption when it is whole, and another file's."""
    name = file_name(sequence)
    try:
        header = decode_file_header(data, name)
    except UnsupportedFormat:
        raise
    except Corruption:
        return None
    if header.node_uuid != node_uuid or header.cluster_uuid != cluster_uuid or header.sequence != sequence:
        raise Corruption(f"WAL file {name} belongs to another replica, cluster or place")
    return header


def _anchors(proven: tuple[int, int | None] | None, following: Sequence[FileHeader | None]) -> set[Anchor]:
    """Where the good batches of a file lead: to the next file, or to what was synced of the last one."""
    found = {(header.first_batch - 1, header.chain) for header in following if header is not None}
    if proven is not None and proven[1] is not None:
        found.add((proven[0], proven[1]))
    return found


def _begin_file(
    scan: _Scan, header: FileHeader | None, data: bytes, sequence: int, identity: tuple[bytes, bytes], *, first: bool
) -> tuple[FileHeader, bool]:
    """The file's header, and whether to write it: a damaged one is made anew from what leads to it."""
    name = file_name(sequence)
    scan.broken = False
    scan.unnumbered = first and header is None
    scan.any_whole |= sequence == 1  # there was nothing before
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
    """Are the fields, or their CRC, those on the disk?"""
    crc_at = FILE_HEADER_BYTES - 4
    return data[:crc_at] == header[:crc_at] or data[crc_at:FILE_HEADER_BYTES] == header[crc_at:]


def _is_lost(scan: _Scan, data: bytes, end: int, header: FileHeader, proven: int) -> bool:
    """Was a batch behind the last good one synced?"""
    if proven > scan.batch or scan.batch < header.first_batch:  # a file appears only after its first batch is synced
        return True
    return later_end(data, end, header.seed, scan.batch + 2) is not None


def _whole(file: File) -> bytes:
    size = file.size()
    data = file.pread(0, size)
    if len(data) != size:
        raise Corruption(f"a WAL file gave {len(data)} of its {size} bytes")
    return data


def _replay(scan: _Scan, data: bytes, header: FileHeader, anchors: Collection[Anchor]) -> int:
    """Apply the good batches of one file; returns the position behind the last one. What is behind a damaged batch
    counts if it leads to an anchor."""
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
            scan.sealed = True  # outside the chain: the next file continues from before it
            return position
        _apply(scan, parsed, data, header.sequence)
        if scan.batch == header.first_batch - 1 and not scan.broken and not header.spread:
            scan.all_states()
        scan.batch, scan.chain, scan.last_start = end.number, end.chain, end.start
        position = scan.end = stop + END_BYTES


def _is_next(scan: _Scan, data: bytes, end: BatchEnd, position: int, stop: int, records: int) -> bool:
    """Is this the batch that follows, whole?"""
    if (end.start, end.number, end.records, end.size) != (position, scan.batch + 1, records, stop - position):
        return False
    return crc32c(memoryview(data)[position:stop], scan.chain) == end.chain


def _pass_over(scan: _Scan, sound: Sound, position: int, header: FileHeader) -> None:
    """Is anything missing before the sound batch?"""
    end = sound.end
    begins = scan.unnumbered and end.start == FILE_HEADER_BYTES
    if sound.parsed is not None and end.start == position and (begins or end.number == scan.batch + 1):
        return  # its padding is damaged, or its header's chain value
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
            scan.holes.seen(group, hard_state=kind_of_record == HARD_STATE)
        if kind_of_record == ENTRY:
            if holed:
                scan.holes.entry(log, index, term)
            replay_entry(log, index, term, place_of(sequence, position), length)
            if kind == EntryKind.SKIP:
                log.skips.add(index)
            continue
        start = position + RECORD_HEADER_BYTES
        payload = data[start : start + length]
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
        elif kind_of_record == DROP:
            del groups[group]
            scan.holes.dropped(group)


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


def _cut_tail(file: File, data: bytes, end: int, scan: _Scan, header: FileHeader) -> None:
    if scan.sealed:
        raise Corruption(f"WAL file {file_name(header.sequence)} is sealed and the file after it is missing")
    last = len(data.rstrip(b"\0"))
    for position in range(end, last, len(_ZEROS)):
        file.pwrite(position, (_ZEROS[: last - position],))


def _make_durable(disk: Disk, folder: str, file: File, batch: bytes, position: int) -> None:
    """Only one batch was ever in flight, in the last file; that file's directory entry may be unsynced too."""
    if batch:
        file.pwrite(position, (batch,))
    file.sync()
    disk.sync_dir(folder)
