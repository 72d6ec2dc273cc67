"""One embedded topic partition's state machine: judges produced batches, keeps producers' state, moves the log start.

Problem: batches of many producers become one log that is equal on all replicas and has each batch of an idempotent
producer once, while up to `raft.limits.GROUP_UNCOMMITTED_ENTRIES_MAX` batches are in flight. Mechanism: `offer`
(leader) validates against applied *and* in-flight state and returns bytes to propose. `apply_batch` and
`apply_command` (every replica) are the only calls that change durable state. `dropped` and `resign` undo the in-flight
part. What it does not do: hold records, wait, answer, or know offsets before apply has assigned them (decision 1).
"""

import hashlib
from collections.abc import Iterable, Mapping

from muster_coordinator.errors import Code, Corruption
from muster_coordinator.groups.effects import AppliedBatch, CheckpointBody, CheckpointImage, Now
from muster_coordinator.records.batch import BatchHeader, iter_records, parse_header
from muster_coordinator.records.control import EndMarker, TransactionMarker, decode_control, marker_batch
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.producers import NO_OFFSET, ProducerState, ProducerTable, Standing
from muster_coordinator.topics import limits
from muster_coordinator.topics.checkpoint import PartitionCheckpoint, decode_checkpoint
from muster_coordinator.topics.cleaning.batches import LastOfProducer
from muster_coordinator.topics.in_flight import InFlight
from muster_coordinator.topics.log_commands import (
    ExpireProducers,
    MoveLogStart,
    SetRoll,
    decode_log_command,
    encode_log_command,
    moved_log_start,
)
from muster_coordinator.topics.machine import Accepted, ActiveProducer, Duplicate, Refused, RetentionView, Written
from muster_coordinator.topics.retention import retained_from
from muster_coordinator.topics.settings import topic_settings
from muster_coordinator.topics.transactions import MarkerStanding, Verifications, judge_marker
from muster_coordinator.topics.validation import at_append_time, validate


class TopicPartition:
    """Implements `topics.machine.TopicMachine`. All calls are made on the loop."""

    __slots__ = (
        "_heard_ms", "_in_flight", "_last_token", "_leading_since_ms", "_log_start", "_next", "_table",
        "_verifications",
    )  # fmt: skip

    def __init__(self) -> None:
        self._next = 0
        self._log_start = 0
        self._table = ProducerTable()
        # Leader only, volatile.
        self._in_flight = InFlight(self._table)
        self._verifications = Verifications()
        self._last_token = 0
        self._heard_ms: dict[int, int] = {}
        self._leading_since_ms: int | None = None

    # Leader.

    def offer(
        self,
        now: Now,
        batch: bytes,
        *,
        configs: Mapping[str, str],
        behind: int | None = None,
        verification: int | None = None,
    ) -> Refused | Duplicate | Accepted:
        """Validate the records field of one partition (protocol notes 12.2 rows 5, 11-20, 22-25)."""
        checked = validate(now.wall_ms, batch, topic_settings(configs))
        if isinstance(checked, Refused):
            return checked
        header = checked.header
        if header.producer_id >= 0:
            verdict = self._judge(header, behind, verification)
            if isinstance(verdict, Refused):
                return verdict
            self._heard_ms[header.producer_id] = now.monotonic_ms
            if verdict is not None:
                return verdict
            self._in_flight.add(self._last_token + 1, header)
        elif header.is_transactional:
            return Refused(Code.INVALID_TXN_STATE, "a transactional batch needs a producer id")
        self._last_token += 1
        return Accepted(checked.batch, self._last_token, checked.log_append_time_ms)

    def _judge(self, header: BatchHeader, behind: int | None, verification: int | None) -> Refused | Duplicate | None:
        """Rows 23 to 25, in Kafka's order. None: the batch is the producer's next."""
        producer_id = header.producer_id
        state = self._in_flight.state(producer_id)
        standing, original = self._in_flight.judge(header)
        if original is not None:
            return self._in_flight.duplicate(producer_id, original)
        begins = header.is_transactional and not self.open_transaction(producer_id, header.producer_epoch)
        if begins and not self._verifications.allows(producer_id, verification):
            return Refused(Code.INVALID_TXN_STATE, f"the partition is in no open transaction of producer {producer_id}")
        if standing == Standing.FENCED:
            return Refused(
                Code.INVALID_PRODUCER_EPOCH, f"producer {producer_id}: epoch {header.producer_epoch} is fenced"
            )
        early = behind is not None and not self._in_flight.keeps(header, behind)
        if begins:
            known = state is not None and bool(state.batches)
            early = early or not self._verifications.in_order(producer_id, header.base_sequence, known=known)
        if standing == Standing.OUT_OF_ORDER or early:
            return Refused(
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id}: sequence {header.base_sequence} is not the next",
            )
        if state is not None and state.in_transaction and not header.is_transactional:
            return Refused(Code.INVALID_TXN_STATE, f"producer {producer_id} has an open transaction here")
        if begins and self._table.open_count() + len(self._in_flight) >= limits.OPEN_TRANSACTIONS_MAX:
            return Refused(Code.NOT_ENOUGH_REPLICAS, "too many transactions are open here", log_start_shown=False)
        return None

    def verify(self, now: Now, producer_id: int, epoch: int, sequence: int, *, implicit: bool) -> int | Refused | None:
        """See `topics.machine.TopicMachine.verify`."""
        if self.open_transaction(producer_id, epoch):
            return None
        number = self._verifications.begin(now.monotonic_ms, producer_id, epoch, sequence, implicit=implicit)
        if number is None:
            return Refused(Code.NOT_ENOUGH_REPLICAS, "too many transactions begin here", log_start_shown=False)
        return number

    def open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer's transaction is open here. A newer epoch says that the one of before may have ended."""
        state = self._in_flight.state(producer_id)
        return state is not None and state.in_transaction and state.epoch == epoch

    def offer_marker(
        self, now: Now, marker: TransactionMarker, *, configs: Mapping[str, str]
    ) -> Refused | Written | Accepted:
        """Judge a marker by what is appended, in-flight appends included. It is written for a producer without an open
        transaction too, as by Kafka: it raises the producer's epoch, and so keeps late batches out."""
        producer_id, epoch = marker.producer_id, marker.producer_epoch
        standing = judge_marker(self._in_flight.state(producer_id), marker)
        if standing is MarkerStanding.WRITTEN:
            return Written(self._in_flight.last_token(producer_id))
        if standing is MarkerStanding.FENCED:
            return Refused(Code.INVALID_PRODUCER_EPOCH, f"a marker of producer {producer_id}: epoch {epoch} is fenced")
        if standing is MarkerStanding.COORDINATOR_FENCED:
            why = f"a marker of producer {producer_id}: coordinator epoch {marker.end.coordinator_epoch} is fenced"
            return Refused(Code.TRANSACTION_COORDINATOR_FENCED, why)
        batch = marker_batch(marker, now.wall_ms)
        if topic_settings(configs).log_append_time:
            batch = at_append_time(batch, now.wall_ms)
        self._last_token += 1
        self._in_flight.add(self._last_token, parse_header(batch), marker.end.coordinator_epoch)
        self._verifications.end(producer_id)
        return Accepted(batch, self._last_token, now.wall_ms)

    def applied(self, token: int) -> None:
        """The batch of `token` was just applied by `apply_batch`."""
        owner = self._in_flight.applied(token)
        state = None if owner is None else self._in_flight.state(owner)
        if owner is not None and state is not None and state.in_transaction:
            self._verifications.end(owner)

    def dropped(self, token: int) -> None:
        """The batch of `token` was not appended, or its fate is unknown: its sequences no longer count."""
        producer_id = self._in_flight.dropped(token)
        if producer_id is not None and self._in_flight.state(producer_id) is None:
            self._heard_ms.pop(producer_id, None)

    def resign(self) -> None:
        """Leadership is lost: drop the in-flight appends and the times of producers' batches. Tokens are not reused."""
        self._in_flight.clear()
        self._verifications.clear()
        self._heard_ms.clear()
        self._leading_since_ms = None

    def retention(self, now: Now, segments: tuple[RetentionView, ...], *, configs: Mapping[str, str]) -> bytes | None:
        """The `MoveLogStart` to propose if whole segments exceed their retention time or size, else None."""
        start = retained_from(now.wall_ms, segments, topic_settings(configs), self._log_start)
        return None if start is None else encode_log_command(MoveLogStart(min(start, self._next)))

    def delete_records(self, offset: int, *, configs: Mapping[str, str]) -> bytes | Refused | None:
        """The `MoveLogStart` for DeleteRecords; offset -1 is the high watermark. None: it would change nothing."""
        if not topic_settings(configs).deletes:
            return Refused(Code.POLICY_VIOLATION, "cleanup.policy does not include delete")
        if offset == -1:
            offset = self._next
        if not 0 <= offset <= self._next:
            return Refused(Code.OFFSET_OUT_OF_RANGE, f"offset {offset} is not between 0 and {self._next}")
        return encode_log_command(MoveLogStart(offset)) if offset > self._log_start else None

    def expire_producers(self, now: Now) -> bytes | None:
        """The `ExpireProducers` to propose if producers were silent for `limits.PRODUCER_ID_EXPIRATION_MS`, else None.

        Silence is measured by the newest record timestamp, as in Kafka. But clients choose timestamps: a producer that
        sends old records would be dropped while it writes, and lose its protection from duplicates. So it must also
        not have written to this leader for `limits.PRODUCER_UNSEEN_MS_MIN`. O(producers), every ten minutes.
        """
        if self._leading_since_ms is None:
            self._leading_since_ms = now.monotonic_ms
        leading_since_ms = self._leading_since_ms
        silent_since = now.monotonic_ms - limits.PRODUCER_UNSEEN_MS_MIN
        gone: list[tuple[int, int]] = []
        for producer_id, state in self._table.expired(now.wall_ms, limits.PRODUCER_ID_EXPIRATION_MS):
            unheard = self._heard_ms.get(producer_id, leading_since_ms) <= silent_since
            if unheard and producer_id not in self._in_flight:
                gone.append((producer_id, _last_offset(state)))
                if len(gone) == limits.PRODUCERS_EXPIRED_PER_COMMAND_MAX:
                    break
        return encode_log_command(ExpireProducers(tuple(gone))) if gone else None

    # Every replica.

    def apply_batch(self, entry: AppliedBatch) -> None:
        """Apply one NORMAL entry, with offset and epoch stamped. Invariant: its base offset is the next offset."""
        header = parse_header(entry.batch)
        base = entry.base_offset
        assert base == self._next, (base, self._next)
        self._next = base + header.last_offset_delta + 1
        if not header.is_control:
            self._table.apply(header, base)
        elif (marker := _marker(entry.batch)) is not None:
            self._table.apply(header, base, marker.coordinator_epoch)
        if len(self._table) > limits.TOPIC_PRODUCERS_MAX:
            self._forget_silent()

    def _forget_silent(self) -> None:
        """Drop the twentieth that is silent longest. This depends on the log alone, so every replica drops the same."""
        idle = sorted(
            (_last_offset(state), producer_id) for producer_id, state in self._table.items() if not state.in_transaction
        )
        self._forget(producer_id for _, producer_id in idle[: max(1, limits.TOPIC_PRODUCERS_MAX // 20)])

    def _forget(self, producer_ids: Iterable[int]) -> None:
        for producer_id in producer_ids:
            self._table.expire((producer_id,))
            self._heard_ms.pop(producer_id, None)

    def apply_command(self, data: bytes) -> None:
        """Apply one COMMAND entry. Raises `UnsupportedFormat` and `Corruption` as `log_commands.decode_log_command`."""
        command = decode_log_command(data)
        if isinstance(command, MoveLogStart):
            self._log_start = moved_log_start(self._log_start, self._next, command)
            return
        if isinstance(command, SetRoll):
            return  # It concerns only the segments, which the host has.
        self._forget(
            producer_id
            for producer_id, last_offset in command.producers
            if (state := self._table.get(producer_id)) is not None
            and not state.in_transaction
            and _last_offset(state) == last_offset
        )

    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self._log_start

    def next_offset(self) -> int:
        """Offset of the next applied record: the high watermark that this replica may answer."""
        return self._next

    def last_stable_offset(self) -> int:
        """Offset at which the oldest open transaction began, or the log start if that is later, else the high
        watermark. Only what is applied counts, so a marker moves it once it is durable on a quorum."""
        first_open = self._table.first_open_offset()
        return self._next if first_open == NO_OFFSET else max(first_open, self._log_start)

    def producers(self) -> tuple[ActiveProducer, ...]:
        """All producers that are known, as applied."""
        return tuple(_active(producer_id, state) for producer_id, state in self._table.items())

    def first_open_offset(self) -> int:
        """First offset of the oldest open transaction; NO_OFFSET for none."""
        return self._table.first_open_offset()

    def last_of_producers(self) -> dict[int, LastOfProducer]:
        """What each producer of the table wrote last; cleaning keeps it."""
        return {
            producer_id: LastOfProducer(state.epoch, _last_offset(state)) for producer_id, state in self._table.items()
        }

    def image(self) -> CheckpointImage:
        """An immutable snapshot for the checkpoint; one dict copy."""
        return PartitionCheckpoint(self._next, self._log_start, self._table.copy())

    def restore(self, body: CheckpointBody) -> None:
        """Replace the durable state by a checkpoint's and drop the volatile one."""
        state = decode_checkpoint(body)
        self._next, self._log_start, self._table = state.next_offset, state.log_start_offset, state.producers
        self._in_flight = InFlight(self._table)
        self.resign()

    def state_hash(self) -> str:
        """Hex digest of the durable state; equal on all replicas at the same applied index."""
        return hashlib.blake2b(self.image().encode().head, digest_size=16).hexdigest()


def _last_offset(state: ProducerState) -> int:
    """Last offset of the producer's newest batch; NO_OFFSET when only a marker of this epoch is known."""
    return state.batches[-1].base_offset + state.batches[-1].last_offset_delta if state.batches else NO_OFFSET


def _active(producer_id: int, state: ProducerState) -> ActiveProducer:
    last = state.batches[-1].last_sequence if state.batches else -1
    return ActiveProducer(
        producer_id, state.epoch, last, state.last_timestamp_ms, state.coordinator_epoch, state.transaction_first_offset
    )


def _marker(batch: bytes) -> EndMarker | None:
    try:
        return decode_control(next(iter_records(batch)))
    except (MalformedError, StopIteration) as error:
        raise Corruption(f"a control batch that is no marker: {error}") from error
