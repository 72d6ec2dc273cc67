"""Log-bearing partitions as `api` sees them (`surface.LocalLog`), and the machine of an embedded topic's partition.

Problem: clients must never read data that can still be lost, nor be told by a deposed leader that acknowledged data
does not exist. Mechanism: requests are answered from the applied state; the high watermark is the first offset that is
not applied. A deposed leader that does not know it yet lacks what the next leader has acknowledged, so answers that say
something is absent ("latest", "out of range", "out of order", "fenced") leave after a ReadIndex round (decision 36).
Reads below the high watermark, and an offset below the log start, need no round: applied state stays true. Look-ups by
time run in the lookup queue. What this does not do: judge batches (`topics.partition`) or assign offsets
(`partition`).
"""

import heapq
from collections.abc import Callable, Mapping
from typing import NamedTuple

from typing_extensions import override

from muster_coordinator.errors import Code, Corruption, DiskFull
from muster_coordinator.groups.effects import CheckpointBody, CheckpointImage, Now
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Loop
from muster_coordinator.raft.messages import Entry, EntryKind, Refused
from muster_coordinator.records.control import TransactionMarker
from muster_coordinator.replica.multiraft.deadlines import Deadlines, Due
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.multiraft.status import OpenTransactions
from muster_coordinator.replica.partitions.partition import PartitionState
from muster_coordinator.replica.partitions.rolls import Rolls
from muster_coordinator.replica.partitions.shards import ShardGroup
from muster_coordinator.replica.partitions.surface import EpochEnd, OffsetResult, ReadResult
from muster_coordinator.storage.aborted import Aborted, below
from muster_coordinator.storage.lookup import TimedOffset
from muster_coordinator.topics import log_commands as topics_commands
from muster_coordinator.topics import machine as topics
from muster_coordinator.topics.cleaning.batches import LastOfProducer
from muster_coordinator.topics.machine import ProduceResult, TopicMachine
from muster_coordinator.topics.stores import EMBEDDED, Capability, TopicStore

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
_BY_HISTORY = (
    Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
    Code.INVALID_PRODUCER_EPOCH,
    Code.INVALID_TXN_STATE,
    Code.TRANSACTION_COORDINATOR_FENCED,
)
Produced = Callable[[ProduceResult], None]
Damaged = Callable[[GroupNo, Corruption], None]
"""Called with the group and the error when stored bytes prove to be damaged; see `damage`."""


class LogView:
    """`surface.LocalLog` of any log-bearing partition; it refuses to produce, which `TopicLog` overrides."""

    store: TopicStore = EMBEDDED
    reads_at_once: bool = EMBEDDED.can(Capability.READS_AT_ONCE)

    def __init__(self, loop: Loop, raft: RaftGroup, state: PartitionState, damaged: Damaged) -> None:
        self._damaged = damaged
        self.group: GroupNo = raft.number
        self.raft = raft
        self.state = state
        self.read_bytes = 0
        """Bytes that were read from this log since it is open here."""
        self._loop = loop

    def term(self) -> int:
        return self.raft.core.term

    def bounds(self) -> tuple[int, int] | None:
        """(log start, end), if their difference is a number of records."""
        return self.state.log_start, self.state.next_offset

    def size_bytes(self) -> int:
        return 0 if self.state.closed else self.state.log.size_bytes()

    def serving(self, current_leader_epoch: int) -> Code:
        """KIP-320: the epoch is checked before leadership, as in Kafka."""
        term = self.raft.core.term
        if current_leader_epoch >= 0 and current_leader_epoch != term:
            return Code.FENCED_LEADER_EPOCH if current_leader_epoch < term else Code.UNKNOWN_LEADER_EPOCH
        if not self.raft.leads:
            return Code.NOT_LEADER_OR_FOLLOWER
        return Code.NONE if self.raft.serves else Code.OFFSET_NOT_AVAILABLE

    def read(self, offset: int, max_bytes: int, *, whole_first_batch: bool, committed: bool = False) -> ReadResult:
        state = self.state
        if state.closed:
            return ReadResult(Code.NOT_LEADER_OR_FOLLOWER)
        end = state.next_offset
        if not state.log_start <= offset <= end:
            return ReadResult(Code.OFFSET_OUT_OF_RANGE, unproven=offset > end)
        records = b""
        stable = self.last_stable_offset()
        aborted: tuple[Aborted, ...] = ()
        try:
            if offset < (stable if committed else end):
                records = state.log.read(offset, max_bytes, whole_first_batch)
            if committed and records:
                records, aborted = self._committed(offset, records, stable)
        except Corruption as error:
            self._damaged(self.group, error)
            return ReadResult(Code.KAFKA_STORAGE_ERROR)
        self.read_bytes += len(records)
        return ReadResult(Code.NONE, records, end, stable, state.log_start, aborted=aborted)

    def _committed(self, offset: int, records: bytes, stable: int) -> tuple[bytes, tuple[Aborted, ...]]:
        """The batches below the last stable offset, and the aborted transactions that overlap with them."""
        state = self.state
        if stable >= state.next_offset and not state.log.has_aborted:
            return records, ()
        size, end = below(records, stable)
        return records[:size], tuple(state.log.aborted(offset, end)) if size else ()

    def read_following(
        self, offset: int, max_bytes: int, *, whole_first_batch: bool, committed: bool = False
    ) -> ReadResult:
        """What is applied is committed, so it stays true whoever leads."""
        state = self.state
        if not self.raft.follows or state.closed:
            return ReadResult(Code.NOT_LEADER_OR_FOLLOWER)
        if offset > state.next_offset:
            return ReadResult(Code.NONE, b"", state.next_offset, self.last_stable_offset(), state.log_start)
        return self.read(offset, max_bytes, whole_first_batch=whole_first_batch, committed=committed)

    def read_later(self, offset: int, max_bytes: int, *, committed: bool, done: Callable[[ReadResult], None]) -> None:
        """At once, unless an offset seems to lie beyond the end: then by what is applied once leadership is shown."""
        result = self.read(offset, max_bytes, whole_first_batch=True, committed=committed)
        if not result.unproven:
            done(result)
            return

        def shown(confirmed: bool) -> None:
            if not confirmed:
                done(ReadResult(Code.NOT_LEADER_OR_FOLLOWER))
                return
            again = self.read(offset, max_bytes, whole_first_batch=True, committed=committed)
            done(again._replace(unproven=False))

        self.confirm(shown)

    def confirm(self, done: Callable[[bool], None]) -> None:
        self.raft.read_index(done)

    def last_stable_offset(self) -> int:
        """The offset below which no transaction is open."""
        return self.state.next_offset

    def watch(self, notify: Callable[[], None]) -> Callable[[], None]:
        return self.state.watch(notify)

    def when_room(self, size_bytes: int, deadline_ms: int, go: Callable[[bool], None]) -> None:
        self.raft.wal_writer.admission.when_room(size_bytes, deadline_ms, go)

    def produce(
        self,
        batch: bytes,
        *,
        configs: Mapping[str, str],
        deadline_ms: int,
        done: Produced,
        behind: int | None = None,
        verification: int | None = None,
    ) -> bool:
        """Refused: only the group coordinator writes offsets partitions."""
        done(ProduceResult(Code.INVALID_TOPIC_EXCEPTION))
        return False

    def delete_records(self, offset: int, *, deadline_ms: int, done: Callable[[OffsetResult], None]) -> None:
        """Refused: offsets partitions have their own retention."""
        done(OffsetResult(Code.INVALID_TOPIC_EXCEPTION))

    def write_marker(self, marker: TransactionMarker, *, deadline_ms: int, done: Callable[[Code], None]) -> None:
        """Refused: no group commits in a transaction yet."""
        done(Code.INVALID_TOPIC_EXCEPTION)

    def open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        return False

    def verify(self, producer_id: int, epoch: int, sequence: int, *, implicit: bool) -> int | topics.Refused | None:
        """Refused, as `produce` is."""
        return topics.Refused(Code.INVALID_TOPIC_EXCEPTION)

    def producers(self) -> tuple[topics.ActiveProducer, ...]:
        return ()

    def last_of_producers(self) -> Mapping[int, LastOfProducer]:
        """What each known producer wrote last; cleaning keeps it."""
        return {}

    def list_offset(self, timestamp_ms: int, *, committed: bool = False, done: Callable[[OffsetResult], None]) -> None:
        raft, state = self.raft, self.state
        if not raft.leads:
            done(OffsetResult(Code.NOT_LEADER_OR_FOLLOWER))
        elif timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
            epoch = state.log.epoch_of(state.log_start) if state.log_start < state.next_offset else raft.core.term
            done(OffsetResult(Code.NONE, state.log_start, -1, epoch))
        elif not raft.serves:
            done(OffsetResult(Code.OFFSET_NOT_AVAILABLE))
        else:
            raft.read_index(lambda confirmed: self._listed(confirmed, timestamp_ms, committed, done))

    def _listed(
        self, confirmed: bool, timestamp_ms: int, committed: bool, done: Callable[[OffsetResult], None]
    ) -> None:
        if not confirmed:
            done(OffsetResult(Code.NOT_LEADER_OR_FOLLOWER))
            return
        state = self.state
        end = self.last_stable_offset() if committed else state.next_offset
        if timestamp_ms == LATEST:
            done(OffsetResult(Code.NONE, end, -1, self.raft.core.term))
            return
        log = state.log
        try:
            job = log.max_timestamp() if timestamp_ms == MAX_TIMESTAMP else log.offset_by_time(timestamp_ms)
        except DiskFull:
            done(OffsetResult(Code.KAFKA_STORAGE_ERROR))
            return
        generation = log.generation

        def found(result: TimedOffset | BaseException | None) -> None:
            if state.closed or state.log is not log or log.generation != generation:
                # The log was deleted, replaced or cleaned while the job read it: the result cannot be trusted.
                done(OffsetResult(Code.NOT_LEADER_OR_FOLLOWER))
            elif isinstance(result, OSError):
                done(OffsetResult(Code.KAFKA_STORAGE_ERROR))  # only a read has failed: a retry may succeed
            elif isinstance(result, Corruption):
                self._damaged(self.group, result)
                done(OffsetResult(Code.KAFKA_STORAGE_ERROR))
            elif isinstance(result, BaseException):
                raise result
            elif result is None or result.offset >= end:
                done(OffsetResult(Code.NONE))
            else:
                done(OffsetResult(Code.NONE, result.offset, result.timestamp_ms, result.leader_epoch))

        self._loop.submit("lookup", job, found)

    def epoch_end(self, epoch: int) -> EpochEnd:
        """The end offset of `epoch`. A term without batches ends at the log end, as an empty leader epoch does in
        Kafka.

        This holds for an empty log too: a client that starts at offset 0 would take (-1, -1) for a truncation.
        """
        log, term = self.state.log, self.raft.core.term
        if epoch == term:
            return EpochEnd(Code.NONE, epoch, self.state.next_offset)
        latest = log.latest_epoch()
        if 0 <= epoch < term and latest < epoch:
            return EpochEnd(Code.NONE, latest if latest >= 0 else epoch, self.state.next_offset)
        return EpochEnd(Code.NONE, *log.end_offset_for(epoch))


class OffsetsLog(LogView):
    """An offsets partition, which clients can read like a topic's."""

    def __init__(self, loop: Loop, raft: RaftGroup, groups: ShardGroup, damaged: Damaged) -> None:
        super().__init__(loop, raft, groups.state, damaged)
        self._groups = groups

    @override
    def last_stable_offset(self) -> int:
        first_open = self._groups.shard.first_open_offset()
        return self.state.next_offset if first_open < 0 else first_open

    @override
    def write_marker(self, marker: TransactionMarker, *, deadline_ms: int, done: Callable[[Code], None]) -> None:
        self._groups.write_marker(marker, deadline_ms, done)

    @override
    def open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        return self._groups.open_transaction(producer_id, producer_epoch)

    @override
    def producers(self) -> tuple[topics.ActiveProducer, ...]:
        return tuple(
            topics.ActiveProducer(
                producer_id,
                state.epoch,
                state.batches[-1].last_sequence if state.batches else -1,
                state.last_timestamp_ms,
                state.coordinator_epoch,
                state.transaction_first_offset,
            )
            for producer_id, state in self._groups.shard.producers()
        )

    @override
    def last_of_producers(self) -> Mapping[int, LastOfProducer]:
        return {
            producer_id: LastOfProducer(
                state.epoch,
                state.batches[-1].base_offset + state.batches[-1].last_offset_delta if state.batches else -1,
            )
            for producer_id, state in self._groups.shard.producers()
        }


_MARKER_BYTES = 78
_LATE_ANSWERED_MIN = 64
"""Heap size below which deadlines of answered batches are not removed."""


class _Unanswered(NamedTuple):
    """An in-flight batch."""

    log_append_time_ms: int
    calls: dict[int, Produced]
    """Caller's number -> its callback; `_late` has the same number with the deadline."""


class TopicGroup:
    """`raft_group.Machine` of one topic partition, and its produce path."""

    def __init__(
        self,
        group: RaftGroup,
        loop: Loop,
        deadlines: Deadlines,
        state: PartitionState,
        machine: TopicMachine,
        *,
        roll: Callable[[], tuple[int, int] | None],
    ) -> None:
        """`roll()`: the configured (segment.bytes, segment.ms), or None; see `rolls.Rolls`."""
        self.group = group
        self.rolls = Rolls(state, roll, self.propose_command)
        self._loop = loop
        self._deadlines = deadlines
        self.state = state
        self.machine = machine
        self._unanswered: dict[int, _Unanswered] = {}
        """token -> the in-flight batch and its callers: its request, and requests that sent the same batch again"""
        self._late: list[tuple[int, int, int]] = []
        """Heap of (deadline, the caller's number, token). Answered callers stay in it for a while; it holds only
        numbers, so that it does not keep the bytes of their requests alive."""
        self._late_count = 0
        self._unanswered_calls = 0
        self._due = Due(self._expire)
        self._open_from = -1
        """First offset of the oldest open transaction, as applied; -1: none."""
        self._open_since_ms = 0

    # -- producing -------------------------------------------------------------------------------------------------

    def produce(
        self,
        batch: bytes,
        configs: Mapping[str, str],
        deadline_ms: int,
        done: Produced,
        *,
        behind: int | None = None,
        verification: int | None = None,
    ) -> bool:
        """See `surface.LocalLog.produce`."""
        group = self.group
        if not group.serves or group.transferring:
            done(ProduceResult(Code.NOT_LEADER_OR_FOLLOWER))
            return False
        if not self.rolls.said():
            done(ProduceResult(Code.NOT_ENOUGH_REPLICAS))  # certainly not appended; producers retry this code
            return False
        judged = self.machine.offer(self._now(), batch, configs=configs, behind=behind, verification=verification)
        if isinstance(judged, topics.Refused):
            self._refuse(group, topics.refusal(judged, self.state.log_start), done)
            return False
        if isinstance(judged, topics.Duplicate):
            self._duplicate(judged, deadline_ms, done)
            return True
        return self._propose(group, judged, deadline_ms, done)

    def write_marker(
        self, marker: TransactionMarker, configs: Mapping[str, str], deadline_ms: int, done: Produced
    ) -> None:
        """See `surface.LocalLog.write_marker`."""
        group = self.group
        if not group.serves or group.transferring:
            done(ProduceResult(Code.NOT_LEADER_OR_FOLLOWER))
            return
        if not self.rolls.said():
            done(ProduceResult(Code.NOT_ENOUGH_REPLICAS))
            return
        judged = self.machine.offer_marker(self._now(), marker, configs=configs)
        if isinstance(judged, topics.Refused):
            self._refuse(group, topics.refusal(judged, self.state.log_start), done)
        elif isinstance(judged, topics.Accepted):
            self._propose(group, judged, deadline_ms, done)
        elif judged.token < 0:
            done(ProduceResult(Code.NONE))
        elif judged.token in self._unanswered:
            self._answer_later(judged.token, deadline_ms, done)
        else:
            done(ProduceResult(Code.REQUEST_TIMED_OUT))

    def verify(self, producer_id: int, epoch: int, sequence: int, *, implicit: bool) -> int | topics.Refused | None:
        return self.machine.verify(self._now(), producer_id, epoch, sequence, implicit=implicit)

    @staticmethod
    def _refuse(group: RaftGroup, refusal: ProduceResult, done: Produced) -> None:
        """Refuse a batch. A refusal that depends on the producer's earlier batches waits for a ReadIndex round, since a
        deposed leader may not know all of them."""
        if refusal.code in _BY_HISTORY:
            unproven = ProduceResult(Code.NOT_LEADER_OR_FOLLOWER)
            group.read_index(lambda confirmed: done(refusal if confirmed else unproven))
        else:
            done(refusal)

    def _duplicate(self, judged: topics.Duplicate, deadline_ms: int, done: Produced) -> None:
        if judged.base_offset >= 0:
            done(ProduceResult(Code.NONE, judged.base_offset, judged.timestamp_ms, self.state.log_start))
        elif judged.token in self._unanswered:
            self._answer_later(judged.token, deadline_ms, done)
        else:
            done(ProduceResult(Code.REQUEST_TIMED_OUT))

    def _propose(self, group: RaftGroup, accepted: topics.Accepted, deadline_ms: int, done: Produced) -> bool:
        refused = group.propose(EntryKind.NORMAL, accepted.batch, accepted.token)
        if refused is not None:
            self.machine.dropped(accepted.token)
            # Certainly not appended; producers retry both codes.
            busy = refused is Refused.BUSY
            done(ProduceResult(Code.NOT_ENOUGH_REPLICAS if busy else Code.NOT_LEADER_OR_FOLLOWER))
            return False
        self._unanswered[accepted.token] = _Unanswered(accepted.log_append_time_ms, {})
        self._answer_later(accepted.token, deadline_ms, done)
        return True

    def _answer_later(self, token: int, deadline_ms: int, done: Produced) -> None:
        self._late_count += 1
        number = self._late_count
        self._unanswered[token].calls[number] = done
        self._unanswered_calls += 1
        late = self._late
        if len(late) > _LATE_ANSWERED_MIN and len(late) > 2 * self._unanswered_calls:
            late[:] = [entry for entry in late if self._is_unanswered(entry[2], entry[1])]
            heapq.heapify(late)
        heapq.heappush(late, (deadline_ms, number, token))
        if late[0][1] == number:
            self._deadlines.set(self._due, deadline_ms)

    def _is_unanswered(self, token: int, number: int) -> bool:
        unanswered = self._unanswered.get(token)
        return unanswered is not None and number in unanswered.calls

    def _answered(self, token: int) -> _Unanswered:
        unanswered = self._unanswered.pop(token)
        self._unanswered_calls -= len(unanswered.calls)
        return unanswered

    def _expire(self, now_ms: int) -> None:
        """Answer REQUEST_TIMED_OUT (7) to waiters whose deadline has passed; the batch may still be committed."""
        late = self._late
        while late and (late[0][0] <= now_ms or not self._is_unanswered(late[0][2], late[0][1])):
            _, number, token = heapq.heappop(late)
            if self._is_unanswered(token, number):
                done = self._unanswered[token].calls.pop(number)
                self._unanswered_calls -= 1
                done(ProduceResult(Code.REQUEST_TIMED_OUT))
        self._deadlines.set(self._due, late[0][0] if late else None)

    def propose_command(self, data: bytes, done: Callable[[bool], None]) -> bool:
        """Propose a COMMAND; `done(applied)` follows. False: it was refused, and `done` is not called."""
        return self.group.propose(EntryKind.COMMAND, data, done) is None

    # -- raft_group.Machine ----------------------------------------------------------------------------------------

    def apply(self, entry: Entry) -> object:
        if entry.kind == EntryKind.NORMAL:
            applied = self.state.append(entry)
            self.machine.apply_batch(applied)
            open_from = self.machine.first_open_offset()
            if open_from != self._open_from:
                self._open_from, self._open_since_ms = open_from, self._loop.monotonic_ms()
            return applied.base_offset
        command = topics_commands.decode_log_command(entry.data)
        if isinstance(command, topics_commands.SetRoll):
            self.state.set_roll(command)
            return None
        self.machine.apply_command(entry.data)
        self.state.move_start(self.machine.log_start_offset())
        return None

    def proposal_applied(self, token: object, result: object) -> None:
        if isinstance(token, int):
            assert isinstance(result, int)
            self.machine.applied(token)
            unanswered = self._answered(token)
            answer = ProduceResult(Code.NONE, result, unanswered.log_append_time_ms, self.state.log_start)
            for done in unanswered.calls.values():
                done(answer)
        else:
            assert callable(token)
            token(True)

    def proposal_lost(self, token: object) -> None:
        if isinstance(token, int):
            self.machine.dropped(token)
            for done in self._answered(token).calls.values():
                # The next leader may have the batch, so the code must not tell the producer that it was not stored.
                done(ProduceResult(Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        else:
            assert callable(token)
            token(False)

    def lead(self, term: int) -> None:
        """Nothing to do: no requests are parked, since producers retry until the leader serves."""

    def resign(self) -> None:
        self.rolls.resign()
        self.machine.resign()
        self._late.clear()
        self._deadlines.set(self._due, None)

    def moved(self) -> None:
        self.state.moved()

    def open_transactions(self) -> OpenTransactions | None:
        """What keeps back the last stable offset, on a leader."""
        if self._open_from < 0 or not self.group.serves:
            return None
        open_ms = self._loop.monotonic_ms() - self._open_since_ms
        return OpenTransactions(self.group.number, open_ms, self.state.next_offset - self.machine.last_stable_offset())

    def image(self) -> CheckpointImage:
        return self.machine.image()

    def restore(self, body: CheckpointBody) -> None:
        self.machine.restore(body)
        self._open_from, self._open_since_ms = self.machine.first_open_offset(), self._loop.monotonic_ms()

    def state_hash(self) -> str:
        return self.machine.state_hash()

    def _now(self) -> Now:
        return Now(self._loop.monotonic_ms(), self._loop.wall_ms())


class TopicLog(LogView):
    """A topic's partition. `configs()` returns the topic's effective configs."""

    def __init__(
        self,
        loop: Loop,
        raft: RaftGroup,
        topic: TopicGroup,
        configs: Callable[[], Mapping[str, str]],
        damaged: Damaged,
    ) -> None:
        super().__init__(loop, raft, topic.state, damaged)
        self.topic = topic
        self.configs = configs

    @override
    def last_stable_offset(self) -> int:
        return self.topic.machine.last_stable_offset()

    @override
    def produce(
        self,
        batch: bytes,
        *,
        configs: Mapping[str, str],
        deadline_ms: int,
        done: Produced,
        behind: int | None = None,
        verification: int | None = None,
    ) -> bool:
        effective = {**self.configs(), **configs}
        return self.topic.produce(batch, effective, deadline_ms, done, behind=behind, verification=verification)

    @override
    def write_marker(self, marker: TransactionMarker, *, deadline_ms: int, done: Callable[[Code], None]) -> None:
        def go(admitted: bool) -> None:
            if admitted:
                self.topic.write_marker(marker, self.configs(), deadline_ms, lambda result: done(result.code))
            else:
                done(Code.NOT_ENOUGH_REPLICAS)

        if self.serving(-1) is Code.NONE:
            self.when_room(_MARKER_BYTES, deadline_ms, go)
        else:
            done(Code.NOT_LEADER_OR_FOLLOWER)

    @override
    def open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        return self.topic.machine.open_transaction(producer_id, producer_epoch)

    @override
    def verify(self, producer_id: int, epoch: int, sequence: int, *, implicit: bool) -> int | topics.Refused | None:
        return self.topic.verify(producer_id, epoch, sequence, implicit=implicit)

    @override
    def producers(self) -> tuple[topics.ActiveProducer, ...]:
        return self.topic.machine.producers()

    @override
    def last_of_producers(self) -> Mapping[int, LastOfProducer]:
        return self.topic.machine.last_of_producers()

    @override
    def delete_records(self, offset: int, *, deadline_ms: int, done: Callable[[OffsetResult], None]) -> None:
        if not self.raft.serves:
            done(OffsetResult(Code.NOT_LEADER_OR_FOLLOWER))
            return
        wanted = self.topic.machine.delete_records(offset, configs=self.configs())
        if isinstance(wanted, topics.Refused):
            refused, unproven = OffsetResult(wanted.code), OffsetResult(Code.NOT_LEADER_OR_FOLLOWER)
            self.confirm(lambda confirmed: done(refused if confirmed else unproven))
            return
        if wanted is None:
            done(OffsetResult(Code.NONE, self.state.log_start))
            return
        answered = False

        def once(result: OffsetResult) -> None:
            nonlocal answered
            if not answered:
                answered = True
                done(result)

        def applied(moved: bool) -> None:
            code = Code.NONE if moved else Code.NOT_LEADER_OR_FOLLOWER
            once(OffsetResult(code, self.state.log_start if moved else -1))

        if not self.topic.propose_command(wanted, applied):
            once(OffsetResult(Code.NOT_LEADER_OR_FOLLOWER))
            return
        self._loop.call_at(deadline_ms, lambda: once(OffsetResult(Code.REQUEST_TIMED_OUT)))
