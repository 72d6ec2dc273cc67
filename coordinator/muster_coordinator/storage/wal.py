"""The shared write-ahead log: entries and votes of all groups of one instance, made durable by one fdatasync a turn.

Problem: fifty and more Raft groups each need their entries on disk before they answer; one sync each would be fifty
times too slow. Mechanism: `stage` collects writes; `take_job` turns all of them into one batch: one write, one sync.
While that job runs the next batch accumulates (group commit without a timer). Nothing is overwritten: an entry
supersedes all entries at and above its index. Files are deleted oldest first, when checkpoints cover their entries
(`wal_leaving`); small tails that keep the oldest file are carried into the newest (`wal_carry`). Every file repeats the
hard state, recovery point, checkpoint and configuration of every group, so that these do not keep older files
(`wal_opening`). The work of one turn does not grow with the number of groups.
What it does not do: serve readers of topics (segments do), or retry a failed sync.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from muster_coordinator.errors import Corruption, StorageFailed
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import MIB
from muster_coordinator.ports import Disk
from muster_coordinator.raft.members import Placed, decode_config, encode_config
from muster_coordinator.raft.messages import Entry
from muster_coordinator.raft.quorum import Config
from muster_coordinator.storage.contract import GroupWrites, RecoveredGroup
from muster_coordinator.storage.limits import (
    LOG_CACHE_BYTES_MAX,
    WAL_CARRY_GAIN_SHARE,
    WAL_FILES_MIN,
    WAL_OPENING_SHARE,
    WAL_READ_AHEAD_BYTES,
    WAL_STATES_PER_BATCH,
    WAL_TRAILING_FILES,
)
from muster_coordinator.storage.wal_carry import Carrier, Tail
from muster_coordinator.storage.wal_file import Rotation, Spare, WriteJob, create_first
from muster_coordinator.storage.wal_format import (
    ANEW,
    CHECKPOINT,
    CONFIG,
    CONFIG_BYTES_MAX,
    DROP,
    ENTRY,
    FILE_HEADER_BYTES,
    KEEPS,
    NO_GROUP,
    RECORD,
    RECORD_HEADER_BYTES,
    SEAL,
    BatchWriter,
    FileHeader,
    encode_file_header,
    file_name,
    record_is_sound,
)
from muster_coordinator.storage.wal_index import (
    NO_CONFIG,
    NO_HARD_STATE,
    UNPLACED,
    EntryCache,
    GroupLog,
    place_of,
)
from muster_coordinator.storage.wal_leaving import Leaving
from muster_coordinator.storage.wal_losses import Losses, load, store
from muster_coordinator.storage.wal_opening import Opening, state_bytes
from muster_coordinator.storage.wal_proof import Proof
from muster_coordinator.storage.wal_recovery import LiveFile, recover, sequences

_LOOKS_PER_STATE = 2
"""Groups that are asked whether they need the oldest file, per group state that a batch may write: asking is cheaper.
"""

_Staged = GroupWrites | GroupNo
"""A group's writes, or the number of a deleted group."""
_Move = tuple[GroupLog, int, "array[int]", "array[int]"]
"""(log, first index, old places, new places) of entries that a batch carries."""


class _InFlightBatch(NamedTuple):
    """A batch whose job is not done: what of it becomes true when it is durable."""

    job: WriteJob
    begins: FileHeader | None
    """Of the file that the batch begins."""
    ranges: list[tuple[GroupLog, int, int]]
    """(log, first, stop) of entries that become durable."""
    moves: list[_Move]


class Wal:
    """Implements `contract.WalStore`. Made by `open`."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        identity: tuple[bytes, bytes],
        sizes: tuple[int, int, int],
        spare: Spare,
        states_per_batch: int,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._node_uuid, self._cluster_uuid = identity
        self._file_bytes, self._bytes_max, cache_bytes_max = self._sizes = sizes
        self._spare = spare
        self._proof = Proof(disk, folder, *identity)
        self._losses = Losses(set(), False)
        self._cache = EntryCache(cache_bytes_max)
        self._carrier = Carrier(self._file_bytes, self._bytes_max)
        self._opening = Opening(states_per_batch)
        self._leaving = Leaving(_LOOKS_PER_STATE * states_per_batch)
        self._logs: dict[GroupNo, GroupLog] = {}
        self._recovered: dict[GroupNo, RecoveredGroup] = {}
        self._files: list[LiveFile] = []
        """Oldest first; `end` of the last one is `_position`."""
        self._bases: dict[int, int] = {}
        """File number -> bytes written before it, over all time."""
        self._position = 0
        self._batch = 0
        self._chain = 0
        self._staged: list[_Staged] = []
        self._staged_bytes = 0
        self._anew: set[int] = set()
        """Positions in `_staged` of writes whose checkpoint starts the log anew (CHECKPOINT of kind ANEW)."""
        self._in_flight: _InFlightBatch | None = None
        self._pinned: tuple[GroupNo, ...] = ()
        self._pinned_at = (-1, -1, -1, -1)
        self._checkpoints = 0
        self._deleted_files = 0
        self._held: dict[GroupNo, int] = {}
        self._damage: list[tuple[GroupNo, Corruption]] = []
        self._cut: frozenset[GroupNo] = frozenset()
        """Groups being rewritten from their entries before a hole; no file is deleted meanwhile."""
        self._behind_hole = False
        self.damage: tuple[str, ...] = ()
        """Messages about damage that the start found and did not refuse."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: str,
        *,
        node_uuid: bytes,
        cluster_uuid: bytes,
        file_bytes: int,
        bytes_max: int,
        cache_bytes_max: int = LOG_CACHE_BYTES_MAX,
        states_per_batch: int = WAL_STATES_PER_BATCH,
    ) -> "Wal":
        """Recover the WAL in `folder`, or create it. Blocking. Raises Corruption: the replica must not start;
        StorageFailed: the disk failed."""
        assert len(node_uuid) == len(cluster_uuid) == 16
        assert file_bytes * WAL_FILES_MIN <= bytes_max
        spare = Spare(disk, folder, file_bytes)
        identity = node_uuid, cluster_uuid
        try:
            disk.mkdir(folder)
            wal = cls(disk, folder, identity, (file_bytes, bytes_max, cache_bytes_max), spare, states_per_batch)
            spare.discard()
            if sequences(disk, folder):
                wal._adopt()
            else:
                wal._begin()
            wal._proof.begin(wal._batch, wal._chain)
            wal._go_on_behind_hole()
            wal._remember_groups()
        except OSError as error:
            raise StorageFailed(f"WAL {folder}: {error}") from error
        return wal

    def close(self) -> None:
        """Close all files; no job may be in flight. Writes staged since the last job are lost, as in a crash."""
        assert self._in_flight is None
        self._proof.close()
        for live in self._files:
            live.file.close()

    # What the WAL found at the start.

    def groups(self) -> dict[GroupNo, RecoveredGroup]:
        """As recovered by `open`; it does not change with later writes."""
        return self._recovered

    def is_suspended(self, group: GroupNo) -> bool:
        """Has the group lost a vote or an entry that it had acknowledged, or may it have?"""
        return self._losses.has(group)

    def suspend(self, group: GroupNo, suspended: bool) -> Callable[[], None]:
        """Record that the group is suspended (it may have lost a promise), or not; durable when the job returns."""
        if suspended:
            self._losses.groups.add(group)
        else:
            self._losses.made_whole(group)
        return self._remembered()

    def sync_proof(self) -> None:
        """A job: the number of the last synced batch becomes durable. No commit waits for it."""
        self._proof.sync()

    @property
    def may_lack_groups(self) -> bool:
        """May the WAL have lost all records of some groups, so that it does not know them?"""
        return self._losses.unknown

    def all_known(self) -> Callable[[], None]:
        """Record that every group that may have been lost with a part of this WAL exists again. Durable when the job
        returns."""
        self._losses.all_known()
        return self._remembered()

    # Writing.

    def stage(self, writes: GroupWrites) -> None:
        """Add to the batch of this turn; visible to `read` and `term_at` at once."""
        log = self._logs.get(writes.group)
        if log is None:
            log = self._logs[writes.group] = GroupLog(writes.group)
        if writes.checkpoint is not None:
            assert writes.config or log.written.config == NO_CONFIG, "a group's configuration is never forgotten"
            self._stage_checkpoint(log, *writes.checkpoint)
        assert writes.checkpoint or not writes.config, "a configuration belongs to a checkpoint"
        entries = writes.entries
        if entries:
            first = entries[0].index
            # Invariant: a log has no gap; entries only extend it or supersede its end.
            assert log.first <= first <= log.last + 1, f"group {log.group}: entry {first} after {log.last}"
            if first <= log.last:
                self._cache.forget_from(log, first)
                log.cut_from(first)
            for at, entry in enumerate(entries):
                assert entry.index == first + at
                log.append(entry.term, UNPLACED, len(entry.data))
                self._cache.put(log, entry)
                self._staged_bytes += len(entry.data) + RECORD_HEADER_BYTES
        self._staged.append(writes)

    def checkpoint_lost(self, group: GroupNo, index: int, term: int, config: Config | None) -> None:
        """The checkpoint that the WAL names is damaged; the older one at (index, term), which carries `config`, is
        used, so the entries after it stay."""
        written = self._logs[group].written
        written.checkpoint = (index, term)
        written.config = NO_CONFIG if config is None else (index, encode_config(config))

    def drop_group(self, group: GroupNo) -> bool:
        """Stage that the group is deleted. False: the WAL does not know it, and nothing is staged. The group may come
        back once this is durable, with a log that begins anew."""
        log = self._logs.pop(group, None)
        if log is None:
            return False
        self._cache.forget_group(log)
        self._carrier.forget(group)
        self._staged.append(group)
        return True

    def take_job(self, *, carry: bool = True) -> Callable[[], None] | None:
        """A job that writes and syncs all that is staged and, if `carry`, tails to carry. None when there is nothing to
        write or a job is in flight.

        When the job raises StorageFailed the process must end, and `job_done` is never called: after a failed fsync the
        page cache may call lost pages clean.
        """
        if self._in_flight is not None or not (self._staged or self.pressed()):
            return None
        carried = self._tails() if carry else []
        delete: list[str] = []
        if not self._staged and not carried:
            delete, going_on = self._take_deletable()
            if not delete and not going_on and not self._wants_states():
                return None
        staged, self._staged, self._staged_bytes = self._staged, [], 0
        active = self._files[-1]
        writer = BatchWriter(active.seed, self._position)
        header = None
        seal = None
        size = self._estimate(staged) + sum(tail.size for tail, _ in carried)
        states_bytes = self._opening.batch_bytes_max()
        if self._position + size + states_bytes > self._file_bytes and self._position > FILE_HEADER_BYTES:
            header = self._next_header(active, spread=not self._opening.begin(self._logs))
            seal = self._seal(active, header)
            writer = BatchWriter(header.seed, FILE_HEADER_BYTES)
        sequence = active.sequence if header is None else header.sequence
        all_states_bytes = self._opening.write(writer, self._logs, batch_bytes=size, file_bytes=self._file_bytes)
        if all_states_bytes:
            self._fit(all_states_bytes)
        moves = self._write_carried(writer, carried, sequence)
        ranges = self._write_staged(writer, staged, sequence)
        delete = delete or self._take_deletable()[0]
        self._batch += 1
        data, self._chain = writer.finish(self._batch, self._chain)
        job = WriteJob(
            self._disk,
            self._folder,
            self._spare,
            file=active.file,
            position=self._position,
            data=data if header is None else encode_file_header(header) + data,
            rotation=seal,
            delete=delete,
            proof=self._proof,
            batch=self._batch,
            chain=self._chain,
        )
        self._in_flight = _InFlightBatch(job, header, ranges, moves)
        if header is None:
            self._position += len(data)
        else:
            self._bases[header.sequence] = self._bases[active.sequence] + self._position
            self._position = FILE_HEADER_BYTES + len(data)
        return job

    def prepare(self) -> Callable[[], bool]:
        """A job of the same queue: zero a further MiB of the next file. It returns True once that file is complete, and
        raises StorageFailed."""
        spare, folder = self._spare, self._folder

        def job() -> bool:
            try:
                spare.step(MIB)
            except OSError as error:
                raise StorageFailed(f"WAL {folder}: {error}") from error
            return spare.whole

        return job

    def job_done(self) -> None:
        """The job of `take_job` returned: its batch is durable."""
        assert self._in_flight is not None, "each job is reported once"
        batch, self._in_flight = self._in_flight, None
        if batch.begins is not None:
            assert batch.job.opened is not None, "the job of a rotation opened the file"
            self._files.append(LiveFile(batch.begins.sequence, batch.job.opened, 0, batch.begins.seed))
        for log, low, high in batch.ranges:
            self._cache.durable(log, low, high)
        for log, first, old, new in batch.moves:
            log.move(first, old, new)

    # Reading.

    def read(self, group: GroupNo, low: int, high: int, max_bytes: int) -> list[Entry]:
        """Entries [low, high): at least one if there is any, then as many as fit `max_bytes` of data; [] when `low` is
        compacted."""
        log = self._logs.get(group)
        if log is None or low < log.first:
            return []
        found: list[Entry] = []
        size = 0
        index, stop = low, min(high, log.last + 1)
        while index < stop:
            entry = log.cached.get(index)
            if entry is None:
                size = self._read_disk(log, index, stop, found, size, max_bytes)
                if found[-1].index < index or size >= max_bytes:
                    break
                index = found[-1].index + 1
                continue
            size += len(entry.data)
            if found and size > max_bytes:
                break
            found.append(entry)
            index += 1
        return found

    def term_at(self, group: GroupNo, index: int) -> int | None:
        """None: compacted or above the last index."""
        log = self._logs.get(group)
        return None if log is None else log.term_at(index)

    def first_index(self, group: GroupNo) -> int:
        """First entry that can be read; last + 1 when there is none, 1 for an unknown group."""
        log = self._logs.get(group)
        return 1 if log is None else log.first

    # Bounds.

    @property
    def deleted_files(self) -> int:
        """Files deleted since the start."""
        return self._deleted_files

    def used_bytes(self) -> int:
        """Bytes of all files and of what is staged."""
        return self._end() - self._bases[self._files[0].sequence] + self._staged_bytes

    @property
    def written_bytes(self) -> int:
        """A counter of bytes written; only differences mean anything."""
        return self._end()

    @property
    def carried_bytes(self) -> int:
        """Bytes carried since the start: written again so that old files could be deleted."""
        return self._carrier.carried_bytes

    def pressed(self) -> bool:
        """Nearly at the bound: tails are carried without waiting for other writes."""
        return self.used_bytes() >= self._bytes_max - max(self._bytes_max // 8, self._file_bytes)

    def crowded(self) -> bool:
        """Half full or more: from here on writes are limited by how fast files are deleted."""
        return self.used_bytes() >= self._bytes_max // 2

    def room_bytes(self) -> int:
        """Bytes left below the bound."""
        return max(0, self._bytes_max - self.used_bytes())

    @property
    def reserve_bytes(self) -> int:
        """The part of `room_bytes` that is reserved for carrying."""
        return self._file_bytes // WAL_CARRY_GAIN_SHARE

    def full(self) -> bool:
        """At the bound."""
        return self.used_bytes() >= self._bytes_max

    def pinning(self, lead_bytes: int = 0) -> tuple[GroupNo, ...]:
        """Groups to flush and checkpoint: their oldest needed entry lies in the oldest quarter of the bound, or up to
        `lead_bytes` after it; under pressure also anywhere in the oldest file. Groups whose tail is so small that it is
        carried are left out."""
        horizon = self._end() - max(self._bytes_max // 8, self._bytes_max * 3 // 4 - lead_bytes)
        oldest, room_bytes = self._files[0].sequence, self._bytes_max - self.used_bytes()
        if horizon <= self._bases[oldest]:
            return ()
        if self.pressed():
            # Invariant: before only the reserve is left, every group that keeps the oldest file is asked: a file is
            # deleted whole.
            horizon = max(horizon, self._bases[oldest] + self._bytes_of(oldest))
        # Every group is looked at, so only when something has moved by a sixteenth of a file.
        moved = (horizon * 16 // self._file_bytes, room_bytes * 16 // self._file_bytes)
        state = (*moved, self._checkpoints, self._carrier.spent_bytes)
        if state != self._pinned_at:
            self._pinned_at = state
            last = max(sequence for sequence, base in self._bases.items() if base <= horizon)
            limit = place_of(last, horizon - self._bases[last])
            keepers = {}
            for log in self._logs.values():
                at = max(log.written.checkpoint[0] + 1 - log.first, 0)
                if at < len(log.places) and UNPLACED < log.places[at] < limit:
                    keepers[log] = log.places[at] >> 32
            carried = self._carrier.negligible(keepers, oldest, self._bytes_of, room_bytes)
            self._pinned = tuple(log.group for log in keepers if log.group not in carried)
        return self._pinned

    def files_before(self, group: GroupNo) -> int:
        """Number of files that can be deleted without a new checkpoint of the group; 0: the group keeps the oldest."""
        log = self._logs.get(group)
        if log is None or log.live_from > log.last or log.place_at(log.live_from) == UNPLACED:
            return len(self._files)
        return (log.place_at(log.live_from) >> 32) - self._files[0].sequence

    def take_shortened(self) -> list[GroupNo]:
        """Groups whose `first_index` has moved because the oldest file is about to be deleted; each move is reported
        once."""
        taken, self._leaving.shortened = self._leaving.shortened, []
        return taken

    def take_damage(self) -> list[tuple[GroupNo, Corruption]]:
        """Tails that cannot be carried because an entry cannot be read back; each is reported once. They keep their
        file until a checkpoint frees them."""
        taken, self._damage = self._damage, []
        return taken

    def hold(self, held: Mapping[GroupNo, int]) -> None:
        """Keep files with entries after these indexes, for followers of these groups during or after a snapshot
        install, while less than three quarters of the bound are used. Replaces what was held before."""
        self._held = dict(held)

    def carry(self, group: GroupNo) -> None:
        """Carry the group's live entries: no checkpoint can free them, because nothing of it commits."""
        self._carrier.must(group)

    # Within.

    def _end(self) -> int:
        begins = None if self._in_flight is None else self._in_flight.begins
        sequence = self._files[-1].sequence if begins is None else begins.sequence
        return self._bases[sequence] + self._position

    def _bytes_of(self, sequence: int) -> int:
        """Bytes of one file."""
        return self._bases.get(sequence + 1, self._end()) - self._bases[sequence]

    def _stage_checkpoint(self, log: GroupLog, index: int, term: int) -> None:
        """A log with the entry (index, term) keeps its entries after it; any other log is superseded, and begins anew
        after the checkpoint."""
        assert index >= log.written.checkpoint[0], "a checkpoint older than the published one"
        self._checkpoints += 1
        self._carrier.forget(log.group)
        if index >= log.first and log.term_at(index) != term:
            self._cache.forget_group(log)
            log.reset(index, term)
            self._anew.add(len(self._staged))

    def _estimate(self, staged: list[_Staged]) -> int:
        """An upper bound of the batch's bytes, the file's SEAL included."""
        size = 4 * RECORD_HEADER_BYTES + 64
        for writes in staged:
            size += 5 * RECORD_HEADER_BYTES
            if isinstance(writes, GroupWrites):
                size += CONFIG_BYTES_MAX * (writes.config is not None)
                for entry in writes.entries:
                    size += len(entry.data) + RECORD_HEADER_BYTES + 8
        return size

    def _fit(self, opening_bytes: int) -> None:
        """Grow the file size so that the group states a file repeats are at most 1/WAL_OPENING_SHARE of it. Else, with
        many groups in small files, a checkpoint's record could begin a file that is larger than the one it frees."""
        file_bytes, bytes_max, _ = self._sizes
        self._file_bytes = max(file_bytes, opening_bytes * WAL_OPENING_SHARE)
        self._bytes_max = max(bytes_max, self._file_bytes * WAL_FILES_MIN)

    def _tails(self) -> list[tuple[Tail, list[Entry]]]:
        """Tails for the next batch to carry; none while less than three quarters of the bound are used."""
        if self.used_bytes() < self._bytes_max * 3 // 4 or not self._spares_oldest():
            return []
        oldest = self._files[0].sequence
        chosen = self._carrier.choose(
            self._logs,
            oldest,
            gain_bytes=self._bytes_of(oldest),
            room_bytes=self._bytes_max - self.used_bytes(),
        )
        if not chosen:
            return []
        begins: dict[GroupNo, int] = {}
        for writes in self._staged:
            if isinstance(writes, GroupWrites) and writes.entries:
                begins.setdefault(writes.group, writes.entries[0].index)
        tails = []
        for tail in chosen:
            if begins.get(tail.log.group, tail.stop) != tail.stop:
                # This batch extends the tail and then supersedes part of it, so the tail now ends before the batch's
                # first entry: replay of a copy followed by that entry would see a gap.
                continue
            try:
                tails.append((tail, self._read_all(tail)))
            except Corruption as error:
                if self._carrier.unreadable(tail.log.group):
                    self._damage.append((tail.log.group, error))
        return tails

    def _read_all(self, tail: Tail) -> list[Entry]:
        found: list[Entry] = []
        while (index := tail.first + len(found)) < tail.stop:
            found += self.read(tail.log.group, index, tail.stop, WAL_READ_AHEAD_BYTES)
        return found

    def _write_carried(
        self, writer: BatchWriter, carried: list[tuple[Tail, list[Entry]]], sequence: int
    ) -> list[_Move]:
        """Write tails before the staged writes, which may supersede them. `job_done` gives the entries their new
        places."""
        moves: list[_Move] = []
        for tail, entries in carried:
            log, at = tail.log, tail.first - tail.log.first
            places = array("Q")
            for term, index, kind, data in entries:
                places.append(place_of(sequence, writer.add(ENTRY, log.group, index, term, data, kind)))
            moves.append((log, tail.first, log.places[at : at + len(entries)], places))
            self._carrier.carried(tail)
        return moves

    def _write_staged(
        self, writer: BatchWriter, staged: list[_Staged], sequence: int
    ) -> list[tuple[GroupLog, int, int]]:
        """Write records in the order they were staged, and note the entries' places. Returns (log, first, stop) of the
        entries that become durable."""
        ranges = []
        for at, writes in enumerate(staged):
            if not isinstance(writes, GroupWrites):
                # So that a DROP is never its group's first record in the files that are left.
                writer.add_hard_state(writes, NO_HARD_STATE)
                writer.add(DROP, writes, 0, 0)
                continue
            group, hard_state, entries, recovery_point, checkpoint, config = writes
            log = self._logs.get(group)
            if log is None:
                continue  # deleted in this turn
            written = log.written
            if hard_state is not None:
                writer.add_hard_state(group, hard_state)
                written.hard_state = hard_state
            if checkpoint is not None:
                writer.add(CHECKPOINT, group, *checkpoint, kind=ANEW if at in self._anew else KEEPS)
                written.checkpoint, written.config = checkpoint, NO_CONFIG
            if config is not None:
                index, data = written.config = config.at, encode_config(config.config)
                writer.add(CONFIG, group, index, 0, data)
            if recovery_point is not None:
                writer.add_recovery_point(group, recovery_point)
                written.recovery_point = recovery_point
            if entries:
                for term, index, kind, data in entries:
                    position = writer.add(ENTRY, group, index, term, data, kind)
                    slot = index - log.first
                    if 0 <= slot < len(log.places):  # else superseded again within this turn
                        log.places[slot] = place_of(sequence, position)
                        log.lengths[slot] = len(data)
                ranges.append((log, entries[0].index, entries[-1].index + 1))
        self._anew.clear()
        return ranges

    def _next_header(self, active: LiveFile, *, spread: bool) -> FileHeader:
        return FileHeader(
            active.sequence + 1, self._node_uuid, self._cluster_uuid, self._batch + 1, self._chain, spread
        )

    def _seal(self, active: LiveFile, header: FileHeader) -> Rotation:
        writer = BatchWriter(active.seed, self._position)
        writer.add(SEAL, NO_GROUP, header.sequence, 0)
        data, _chain = writer.finish(self._batch + 1, self._chain)
        return Rotation(f"{self._folder}/{file_name(header.sequence)}", data, self._position)

    def _take_deletable(self) -> tuple[list[str], bool]:
        """(paths to delete, whether asking further groups is of use now). The path is the oldest file's, once no group
        needs it; one a job, so that a batch never waits for many unlinks.

        The job unlinks after its sync, so checkpoints staged in its own batch are durable by then.
        """
        oldest = self._files[0]
        if not self._spares_oldest() or self._cut:
            return [], False
        gone, going_on = self._leaving.step(self._logs, oldest.sequence, held=self._is_held(oldest.sequence))
        if not gone:
            return [], going_on
        del self._files[0], self._bases[oldest.sequence]
        oldest.file.close()
        self._deleted_files += 1
        return [f"{self._folder}/{file_name(oldest.sequence)}"], False

    def _spares_oldest(self) -> bool:
        """Are there more files than are kept anyway? Near the bound only the newest one is, if it has the states of all
        groups: it may be the file before that is as large as the WAL, and holds one batch."""
        if len(self._files) > 1 + WAL_TRAILING_FILES:
            return True
        return len(self._files) > 1 and self.pressed() and self._opening.whole

    def _wants_states(self) -> bool:
        """Must the newest file have all states, although nobody writes, so that the file before can go?"""
        return 1 < len(self._files) <= 1 + WAL_TRAILING_FILES and not self._opening.whole and bool(self._logs)

    def _is_held(self, sequence: int) -> bool:
        """Does a follower need entries of the oldest file, and is there room to keep it?"""
        if not self._held or self.used_bytes() + self._file_bytes > self._bytes_max * 3 // 4:
            return False
        logs = ((self._logs.get(group), index) for group, index in self._held.items())
        return any(
            log is not None and log.first - 1 + log.entries_through_file(sequence) > index for log, index in logs
        )

    def _read_disk(self, log: GroupLog, index: int, stop: int, found: list[Entry], size: int, max_bytes: int) -> int:
        """Append to `found` entries from `index` on that one read of one file returns; at least one when `found` is
        empty. Returns `size` plus the bytes looked at."""
        place = log.place_at(index)
        assert place != UNPLACED
        live = self._files[(place >> 32) - self._files[0].sequence]
        assert live.sequence == place >> 32
        positions = log.near(index, stop, min(max_bytes, WAL_READ_AHEAD_BYTES))
        begin = positions[0]
        end = positions[-1] + RECORD_HEADER_BYTES + log.lengths[index + len(positions) - 1 - log.first]
        try:
            data = live.file.pread(begin, end - begin)
        except OSError as error:
            raise StorageFailed(f"WAL {self._folder}: {error}") from error
        for number, position in enumerate(positions, index):
            length = log.lengths[number - log.first]
            size += length
            if found and size > max_bytes:
                break
            at = position - begin
            found.append(self._entry_of(log, number, data[at : at + RECORD_HEADER_BYTES + length], live.seed, length))
        return size

    def _entry_of(self, log: GroupLog, index: int, record: bytes, seed: int, length: int) -> Entry:
        if len(record) == RECORD_HEADER_BYTES + length and record_is_sound(record, seed):
            stored, _crc, kind_of_record, kind, _zero, group, stored_index, term = RECORD.unpack_from(record)
            if (stored, kind_of_record, group, stored_index) == (length, ENTRY, log.group, index):
                return Entry(term, index, kind, record[RECORD_HEADER_BYTES:])
        raise Corruption(f"group {log.group}: entry {index} in the WAL is damaged")

    def _adopt(self) -> None:
        losses = load(self._disk, self._folder)
        self._losses = losses or Losses(set(), False)
        found = recover(
            self._disk,
            self._folder,
            node_uuid=self._node_uuid,
            cluster_uuid=self._cluster_uuid,
            proven=(self._proof.batch, self._proof.chain),
            lost=self._lost,
        )
        if losses is None:
            self._lost(found.groups, found.groups, True)
        elif losses.unknown and losses.whole is None:
            self._lost((), found.groups, True)
        self._behind_hole, self._cut, self.damage = found.behind_hole, found.cut, found.damage
        self._files = found.files
        self._logs = found.groups
        self._batch, self._chain = found.batch, found.chain
        base = 0
        for live in found.files:
            self._bases[live.sequence] = base
            base += live.end
        self._position = found.files[-1].end
        if not found.whole:
            self._opening.resume(self._logs)
        self._fit(sum(state_bytes(log.written) for log in found.groups.values()))

    def _go_on_behind_hole(self) -> None:
        """Rewrite the groups in `_cut` after the hole, so that the next start need not evaluate the hole again."""
        for group in sorted(self._cut):
            log = self._logs[group]
            written, low = log.written, log.live_from
            chunks = self._chunks(log, low)
            first = next(chunks, ())
            self.drop_group(group)
            state = written.hard_state, first, written.recovery_point, written.checkpoint, _placed(written.config)
            self.stage(GroupWrites(group, *state))
            self._logs[group].skips, self._logs[group].confs = log.skips, log.confs
            self._write_now()
            for entries in chunks:
                self.stage(GroupWrites(group, None, entries))
                self._write_now()
        self._cut = frozenset()
        first_log = next(iter(self._logs.values()), None)
        if self._behind_hole and first_log is not None:
            self._opening.begin_behind_hole()
            self.stage(GroupWrites(first_log.group, first_log.written.hard_state, ()))
            self._write_now()

    def _remember_groups(self) -> None:
        """Keep what the start found, for `groups`."""
        for group, log in self._logs.items():
            written = log.written
            self._recovered[group] = RecoveredGroup(
                written.hard_state,
                log.first,
                log.compacted_term,
                log.last,
                written.recovery_point,
                written.checkpoint,
                tuple(sorted(log.skips)),
                log.configs(),
            )
            log.confs.clear()

    def _chunks(self, log: GroupLog, low: int) -> Iterator[tuple[Entry, ...]]:
        """Entries from `low` on, read from the disk; ends before one that cannot be read back."""
        while low <= log.last:
            found: list[Entry] = []
            try:
                self._read_disk(log, low, log.last + 1, found, 0, WAL_READ_AHEAD_BYTES)
            except Corruption as error:
                self._damage.append((log.group, error))
                return
            yield tuple(found)
            low = found[-1].index + 1

    def _write_now(self) -> None:
        job = self.take_job(carry=False)
        assert job is not None, "something is staged"
        job()
        self.job_done()

    def _lost(self, groups: Iterable[GroupNo], found: Iterable[GroupNo], unknown: bool) -> None:
        """Store that these groups may have lost a promise, and, if `unknown`, so may groups that are not in `found`."""
        self._losses.lost(groups, found, unknown)
        store(self._disk, self._folder, self._losses.encoded())

    def _remembered(self) -> Callable[[], None]:
        content = self._losses.encoded()
        return lambda: store(self._disk, self._folder, content)

    def _begin(self) -> None:
        header = FileHeader(1, self._node_uuid, self._cluster_uuid, 1, 0)
        writer = BatchWriter(header.seed, FILE_HEADER_BYTES)
        data, self._chain = writer.finish(1, 0)
        path = f"{self._folder}/{file_name(1)}"
        file = create_first(self._disk, self._spare, self._folder, path, encode_file_header(header) + data)
        self._batch = 1
        self._files = [LiveFile(1, file, 0, header.seed)]
        self._bases = {1: 0}
        self._position = FILE_HEADER_BYTES + len(data)


def _placed(written: tuple[int, bytes]) -> Placed | None:
    """`GroupState.config` as it is staged. Raises Corruption if it cannot be read."""
    index, data = written
    return Placed(index, decode_config(data)) if data else None
