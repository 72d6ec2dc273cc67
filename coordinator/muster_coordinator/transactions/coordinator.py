"""The transaction coordinator of one partition of `__transaction_state`: a pure state machine.

Requests with tickets go in, effects come out (`effects`), and committed entries come back through `apply`, the only
call that changes what is durable. A transaction goes through its states (`states`) one record at a time:

    InitProducerId ─► Empty ─► Ongoing ─► PrepareCommit ─► CompleteCommit ─► Ongoing ─► ...
                                     └──► PrepareAbort  ─► CompleteAbort

The outcome is decided, and its client told, when a Prepare record is applied. From then on this leader, and each one
after it until the Complete record is applied, sends markers to all partitions of the transaction; the coordinator's
epoch in them is the Raft term, so that the partitions refuse those of a deposed one.

Deliberately absent: who leads, what is durable, how markers travel, and whether a principal is authorised.
"""

from collections import deque
from collections.abc import Iterator

from muster_coordinator.errors import Code
from muster_coordinator.groups.effects import AppliedBatch, CheckpointBody, CheckpointImage, Now
from muster_coordinator.records.errors import MalformedError
from muster_coordinator.records.transaction_log import (
    TopicPartition,
    encode_transaction_key,
    encode_transaction_value,
)
from muster_coordinator.transactions import limits
from muster_coordinator.transactions.adding import added, owner_code
from muster_coordinator.transactions.changes import Change, Judged, Known, NeedsProducerId
from muster_coordinator.transactions.checkpoint import CoordinatorImage, body_hash, restore_state
from muster_coordinator.transactions.config import TransactionConfig
from muster_coordinator.transactions.effects import Append, Effect, Reply, SendMarkers, WantProducerId
from muster_coordinator.transactions.ending import completed, ended, fenced, goes_on_with, marker_of
from muster_coordinator.transactions.expiry import Expiry
from muster_coordinator.transactions.flights import Flight
from muster_coordinator.transactions.initialising import initialised
from muster_coordinator.transactions.log_state import LogState
from muster_coordinator.transactions.metadata import NO_EPOCH, Transaction, value_of
from muster_coordinator.transactions.requests import (
    RETRIED,
    AddPartitions,
    Answer,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    Request,
    VerifyPartitions,
)
from muster_coordinator.transactions.states import PREPARED, State
from muster_coordinator.transactions.stats import TransactionStats
from muster_coordinator.transactions.timers import Timers


class TransactionCoordinator:
    """See the module. Single-threaded."""

    def __init__(self, config: TransactionConfig, stats: TransactionStats | None = None) -> None:
        """`stats`: those of all coordinators of the replica."""
        self._config = config
        self._stats = stats or TransactionStats()
        self._state = LogState()
        self._effects: list[Effect] = []
        self._last_token = 0
        self._now_ms = 0
        self._term: int | None = None
        """The term in which this replica leads; None: it does not. What follows is volatile."""
        self._forget()

    def _forget(self) -> None:
        self._in_flight: dict[str, Flight] = {}
        self._flights: dict[int, Flight] = {}
        self._last_epochs: dict[str, int] = {}
        """Id -> `Change.last_epoch` of its last change, where there is one."""
        self._unmarked: dict[str, set[TopicPartition]] = {}
        """Id whose markers are on their way -> partitions that may lack theirs."""
        self._timers = Timers()
        self._expiry: Expiry | None = None
        self._resuming: deque[str] = deque()
        """Ids whose transactions a leader before has left open or undone."""

    # -- the log ---------------------------------------------------------------------------------------------------

    def apply(self, entry: AppliedBatch) -> None:
        """Apply one committed batch, in log order."""
        self._state.replay(entry)

    def applied(self, now: Now, token: int) -> list[Effect]:
        """A batch that this leader proposed was just applied."""
        self._now_ms = now.monotonic_ms
        flight = self._landed(token)
        change = flight.change
        self._count(flight)
        for transactional_id in flight.ids:
            if change is None:
                self._last_epochs.pop(transactional_id, None)
                self._timers.disarm(transactional_id)
            else:
                self._follow_up(now, transactional_id, change)
        if flight.answer is not None:
            for ticket in flight.tickets:
                self._effects.append(Reply(ticket, flight.answer, proven=True))
        if flight.joined:
            self._add_all(now, flight.joined)
        return self._take()

    def dropped(self, now: Now, token: int, code: Code) -> list[Effect]:
        """A batch was not appended, or its fate is unknown because leadership was lost."""
        self._now_ms = now.monotonic_ms
        flight = self._landed(token)
        for ticket in flight.everyone():
            self._effects.append(Reply(ticket, Answer(code), proven=True))
        if flight.answer is None and flight.change is not None and self._term is not None:
            for transactional_id in flight.ids:
                self._timers.arm(transactional_id, now.monotonic_ms + limits.RETRY_MS)
        return self._take()

    def _landed(self, token: int) -> Flight:
        flight = self._flights.pop(token)
        for transactional_id in flight.ids:
            self._in_flight.pop(transactional_id, None)
        return flight

    def image(self) -> CheckpointImage:
        """A snapshot. O(ids) pointer copies."""
        return CoordinatorImage(self._state)

    def restore(self, body: CheckpointBody) -> None:
        """Replace all state by a checkpoint. Not while leading."""
        assert self._term is None, "a leader is never restored"
        self._state = restore_state(body)

    def state_hash(self) -> str:
        """SHA-256 of the checkpoint body; O(ids)."""
        return body_hash(self.image().encode())

    # -- leadership ------------------------------------------------------------------------------------------------

    def lead(self, now: Now, term: int) -> list[Effect]:
        """Start serving: open transactions get their time anew, and decided ones their markers, some in each turn."""
        assert self._term is None, "leads already"
        self._now_ms = now.monotonic_ms
        self._term = term
        self._expiry = Expiry(self._config, now)
        self._resuming.extend((*self._state.ongoing, *self._state.prepared))
        self._resume(now)
        return self._take()

    def resign(self, now: Now) -> list[Effect]:
        """Leadership is lost: every open ticket is answered NOT_COORDINATOR, and what the leader alone knew is gone."""
        self._now_ms = now.monotonic_ms
        for flight in self._flights.values():
            for ticket in flight.everyone():
                self._effects.append(Reply(ticket, Answer(Code.NOT_COORDINATOR), proven=True))
        self._term = None
        self._forget()
        return self._take()

    def _resume(self, now: Now) -> None:
        for _ in range(min(limits.TIMERS_PER_TURN, len(self._resuming))):
            transactional_id = self._resuming.popleft()
            known = self._state.transactions.get(transactional_id)
            if known is None or transactional_id in self._in_flight:
                continue
            if known.state is State.ONGOING and not self._timers.armed(transactional_id):
                self._timers.arm(transactional_id, now.monotonic_ms + known.timeout_ms)
            elif known.state in PREPARED and transactional_id not in self._unmarked:
                self._send_markers(now, transactional_id, known)

    # -- requests --------------------------------------------------------------------------------------------------

    def handle(self, now: Now, ticket: int, request: Request) -> list[Effect]:
        """Judge a request: answer it, propose a change, or ask for an unused producer id."""
        self._now_ms = now.monotonic_ms
        if self._term is None:
            self._reply(ticket, Answer(Code.NOT_COORDINATOR))
        elif not request.transactional_id:
            self._reply(ticket, Answer(Code.INVALID_REQUEST))
        else:
            self._judge(now, ticket, request)
        return self._take()

    def _judge(self, now: Now, ticket: int, request: Request) -> None:
        known = self._state.transactions.get(request.transactional_id)
        match request:
            case DescribeTransaction():
                code = Code.NONE if known is not None else Code.TRANSACTIONAL_ID_NOT_FOUND
                self._reply(ticket, Answer(code, transaction=known))
            case VerifyPartitions():
                self._reply(ticket, _verified(known, request))
            case AddPartitions():
                flight = self._in_flight.get(request.transactional_id)
                if flight is not None and flight.joins(request):
                    flight.joined.append((ticket, request))
                else:
                    self._add_all(now, [(ticket, request)])
            case InitProducer():
                self._initialise(now, ticket, known, request)
            case EndTransaction():
                self._end(now, ticket, known, request)

    def _initialise(self, now: Now, ticket: int, known: Transaction | None, request: InitProducer) -> None:
        if not 0 < request.timeout_ms <= self._config.timeout_max_ms:
            self._reply(ticket, Answer(Code.INVALID_TRANSACTION_TIMEOUT))
            return
        if request.transactional_id in self._in_flight:
            self._reply(ticket, Answer(Code.CONCURRENT_TRANSACTIONS))
            return
        if known is None and len(self._state.transactions) + len(self._flights) >= limits.TRANSACTIONAL_IDS_MAX:
            self._reply(ticket, Answer(Code.POLICY_VIOLATION))
            return
        last_epoch = self._last_epochs.get(request.transactional_id, NO_EPOCH)
        judged = initialised(known, last_epoch, request, now.wall_ms)
        if not isinstance(judged, Change):
            self._unchanged(ticket, request, judged)
            return
        made = judged.transaction
        if made.state is State.EMPTY:
            answer = Answer(Code.NONE, made.producer_id, made.producer_epoch)
        else:
            answer = Answer(Code.CONCURRENT_TRANSACTIONS)
        self._propose(now, request.transactional_id, judged, [ticket], answer)

    def _end(self, now: Now, ticket: int, known: Transaction | None, request: EndTransaction) -> None:
        judged = ended(known, request, now.wall_ms)
        flying = request.transactional_id in self._in_flight
        if flying and (isinstance(judged, Change | Known | NeedsProducerId) or judged is Code.INVALID_TXN_STATE):
            self._reply(ticket, Answer(Code.CONCURRENT_TRANSACTIONS))
        elif isinstance(judged, Change):
            next_one = goes_on_with(judged.transaction)
            answer = Answer(Code.NONE, next_one.producer_id, next_one.producer_epoch)
            self._propose(now, request.transactional_id, judged, [ticket], answer)
        else:
            self._unchanged(ticket, request, judged)

    def _unchanged(
        self, ticket: int, request: InitProducer | EndTransaction, judged: Code | Known | NeedsProducerId
    ) -> None:
        if isinstance(judged, NeedsProducerId):
            self._effects.append(WantProducerId(ticket, request))
        elif isinstance(judged, Known):
            self._reply(ticket, Answer(Code.NONE, judged.producer_id, judged.producer_epoch))
        else:
            self._reply(ticket, Answer(judged))

    def _add_all(self, now: Now, requests: list[tuple[int, AddPartitions]]) -> None:
        """Add the partitions of several requests of one producer by one record."""
        first = requests[0][1]
        merged = first._replace(partitions=frozenset().union(*(request.partitions for _, request in requests)))
        transactional_id = first.transactional_id
        judged: Judged = added(self._state.transactions.get(transactional_id), merged, now.wall_ms)
        owned = judged in (Code.INVALID_PRODUCER_ID_MAPPING, Code.PRODUCER_FENCED)
        if transactional_id in self._in_flight and not owned:
            judged = Code.CONCURRENT_TRANSACTIONS
        tickets = [ticket for ticket, _ in requests]
        if isinstance(judged, Change):
            adds = (first.producer_id, first.producer_epoch)
            kept = judged._replace(last_epoch=self._last_epochs.get(transactional_id, NO_EPOCH))
            self._propose(now, transactional_id, kept, tickets, Answer(Code.NONE), adds)
            return
        assert isinstance(judged, Code)
        for ticket in tickets:
            self._reply(ticket, Answer(judged))

    # -- proposals -------------------------------------------------------------------------------------------------

    def _propose(
        self,
        now: Now,
        transactional_id: str,
        change: Change,
        tickets: list[int],
        answer: Answer | None,
        adds: tuple[int, int] | None = None,
    ) -> None:
        """Propose one id's change. What the log cannot hold is refused."""
        assert transactional_id not in self._in_flight, "an id has one proposal in flight"
        try:
            key = encode_transaction_key(transactional_id)
            value = encode_transaction_value(value_of(change.transaction))
        except MalformedError:
            key = value = b""
        if not key or len(key) + len(value) > limits.TRANSACTION_RECORD_BYTES_MAX:
            for ticket in tickets:
                self._reply(ticket, Answer(Code.POLICY_VIOLATION))
            return
        flight = Flight(ids=(transactional_id,), change=change, tickets=tickets, answer=answer, adds=adds)
        self._append(now, flight, ((key, value),))

    def _append(self, now: Now, flight: Flight, records: tuple[tuple[bytes, bytes | None], ...]) -> None:
        self._last_token += 1
        self._flights[self._last_token] = flight
        for transactional_id in flight.ids:
            self._in_flight[transactional_id] = flight
        self._effects.append(Append(self._last_token, records, now.wall_ms))

    def _follow_up(self, now: Now, transactional_id: str, change: Change) -> None:
        """What an applied change makes necessary."""
        known = change.transaction
        if change.last_epoch == NO_EPOCH:
            self._last_epochs.pop(transactional_id, None)
        else:
            self._last_epochs[transactional_id] = change.last_epoch
        if known.state is State.ONGOING:
            if not self._timers.armed(transactional_id):
                self._timers.arm(transactional_id, now.monotonic_ms + known.timeout_ms)
            return
        self._timers.disarm(transactional_id)
        if known.state in PREPARED:
            self._send_markers(now, transactional_id, known)

    # -- markers ---------------------------------------------------------------------------------------------------

    def _send_markers(self, now: Now, transactional_id: str, known: Transaction) -> None:
        if self._term is None:
            return  # the next leader sends them
        self._unmarked[transactional_id] = set(known.partitions)
        if known.partitions:
            marker = marker_of(known, self._term)
            self._effects.append(SendMarkers(transactional_id, marker, tuple(sorted(known.partitions))))
        else:
            self._complete(now, transactional_id)

    def marked(
        self, now: Now, transactional_id: str, producer: tuple[int, int], partition: TopicPartition
    ) -> list[Effect]:
        """The marker of this producer id and epoch, asked for in this term, is durable in the partition, or the
        partition is gone."""
        self._now_ms = now.monotonic_ms
        left = self._unmarked.get(transactional_id)
        known = self._state.transactions.get(transactional_id)
        if left is not None and known is not None and producer == (known.producer_id, known.producer_epoch):
            left.discard(partition)
            if not left:
                self._complete(now, transactional_id)
        return self._take()

    def _complete(self, now: Now, transactional_id: str) -> None:
        """Every partition has its marker: say so in the log. Until then a new leader sends them all again."""
        known = self._state.transactions.get(transactional_id)
        if known is None or known.state not in PREPARED or transactional_id in self._in_flight:
            return
        self._unmarked.pop(transactional_id, None)
        last_epoch = self._last_epochs.get(transactional_id, NO_EPOCH)
        self._propose(now, transactional_id, Change(completed(known, now.wall_ms), last_epoch), [], None)

    # -- time ------------------------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When to call `on_timer`; a time that is past means as soon as there is time."""
        if self._term is None or self._expiry is None:
            return None
        if self._resuming:
            return self._now_ms
        timer_ms, expiry_ms = self._timers.next_ms(), self._expiry.next_ms()
        return expiry_ms if timer_ms is None else min(timer_ms, expiry_ms)

    def on_timer(self, now: Now) -> list[Effect]:
        """Abort transactions whose time is over, try again what was not appended, and let old ids expire."""
        self._now_ms = now.monotonic_ms
        if self._term is None or self._expiry is None:
            return []
        self._resume(now)
        for transactional_id in self._timers.due(now.monotonic_ms, limits.TIMERS_PER_TURN):
            known = self._state.transactions.get(transactional_id)
            if known is None:
                continue
            if transactional_id in self._in_flight:
                self._timers.arm(transactional_id, now.monotonic_ms + limits.RETRY_MS)
            elif known.state is State.ONGOING:
                self._propose(now, transactional_id, fenced(known, now.wall_ms), [], None)
            elif known.state in PREPARED and not self._unmarked.get(transactional_id):
                self._complete(now, transactional_id)
        expired = [name for name in self._expiry.step(now, self._state) if name not in self._in_flight]
        if expired:
            records = tuple((encode_transaction_key(name), None) for name in expired)
            self._append(now, Flight(ids=tuple(expired), change=None), records)
        return self._take()

    # -- views -----------------------------------------------------------------------------------------------------

    def views(self) -> Iterator[tuple[str, Transaction]]:
        """All ids, lazily; the names are fixed at the first step. One whose tombstone is in flight
        is still among them: it is there until that is applied."""
        for transactional_id in list(self._state.transactions):
            known = self._state.transactions.get(transactional_id)
            if known is not None:
                yield transactional_id, known

    def open_counts(self) -> tuple[int, int, int]:
        """(ids, those with an open transaction, those whose markers are on their way) of a leader; else none."""
        state = self._state
        return (0, 0, 0) if self._term is None else (len(state.transactions), len(state.ongoing), len(state.prepared))

    # -- small parts -----------------------------------------------------------------------------------------------

    def _count(self, flight: Flight) -> None:
        stats, change = self._stats, flight.change
        if change is None:
            stats.ids_expired += len(flight.ids)
            return
        state = change.transaction.state
        stats.committed += state is State.COMPLETE_COMMIT
        stats.aborted += state is State.COMPLETE_ABORT
        stats.timed_out += state is State.PREPARE_ABORT and flight.answer is None  # nobody has asked for it

    def _reply(self, ticket: int, answer: Answer) -> None:
        """An answer that changes nothing."""
        self._stats.fenced += answer.code is Code.PRODUCER_FENCED
        self._effects.append(Reply(ticket, answer, proven=answer.code in RETRIED))

    def _take(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects


def _verified(known: Transaction | None, request: VerifyPartitions) -> Answer:
    code = owner_code(known, request)
    if code is not Code.NONE or known is None:
        return Answer(code)
    held = known.partitions if known.state is State.ONGOING else frozenset()
    return Answer(Code.NONE, missing=request.partitions - held)
