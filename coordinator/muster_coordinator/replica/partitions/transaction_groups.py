"""The host of one partition of the transaction log: passes requests to its coordinator, and carries out its effects.

Problem: a coordinator is a pure state machine; only a leader may serve, and an answer must be true when it leaves.
Mechanism: whoever does not lead answers NOT_COORDINATOR (16), and a leader that does not serve yet, or hands its
leadership over, COORDINATOR_LOAD_IN_PROGRESS (14), on which every client asks again. A proposal is made in the turn of
the call that asked for it. Answers that claim that nothing has changed leave after a ReadIndex round, shared by all
reads of a turn, since a deposed coordinator does not know what its successor has decided. A change that is not applied
within the proposal timeout is answered COORDINATOR_NOT_AVAILABLE (15): its fate is unknown to the client; the
coordinator still learns it. What it does not do: decide anything about transactions, or know how markers travel.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from muster_coordinator.errors import Code
from muster_coordinator.groups.effects import CheckpointBody, CheckpointImage, Now
from muster_coordinator.ports import Loop
from muster_coordinator.raft.messages import Entry, EntryKind, Refused
from muster_coordinator.raft.timing import Timing
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.records.control import TransactionMarker
from muster_coordinator.records.transaction_log import NO_PRODUCER, TopicPartition
from muster_coordinator.replica.multiraft.deadlines import Deadlines, Due
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.partitions.partition import PartitionState
from muster_coordinator.replica.partitions.rolls import Rolls
from muster_coordinator.transactions.coordinator import TransactionCoordinator
from muster_coordinator.transactions.effects import Append, Effect, Reply, SendMarkers
from muster_coordinator.transactions.metadata import Transaction
from muster_coordinator.transactions.requests import Answer, EndTransaction, InitProducer, Request
from muster_coordinator.transactions.stats import TransactionStats

TIMER_RETRY_MS = 100
"""When a timer is retried that fired while the leader had not heard a quorum, or was transferring (decision 7)."""
REQUESTS_OPEN_MAX = 10_000
"""Requests of one partition that are not answered yet; more are answered COORDINATOR_LOAD_IN_PROGRESS."""
AnswerCall = Callable[[Answer], None]
MarkerWritten = Callable[[], None]


def _no_producer_id(done: Callable[[int], None]) -> None:
    done(NO_PRODUCER)


def _nothing_sent(
    _marker: TransactionMarker, _partition: TopicPartition, _wanted: Callable[[], bool], _done: MarkerWritten
) -> None:
    """Nobody carries markers; the transaction stays as it is, and the next leader asks again."""


@dataclass(slots=True)
class TransactionServices:
    """What all coordinators of a replica use, set when the parts that do it are made."""

    producer_id: Callable[[Callable[[int], None]], None] = _no_producer_id
    """Calls back with an unused producer id; -1: there is none now."""
    send_marker: Callable[[TransactionMarker, TopicPartition, Callable[[], bool], MarkerWritten], None] = _nothing_sent
    """Have the marker written into the partition, however often it takes, while `wanted()`; then call back."""
    stats: TransactionStats = field(default_factory=TransactionStats)


class TransactionGroup:
    """`raft_group.Machine` of one partition of the transaction log, and the entrance for its requests."""

    def __init__(
        self,
        group: RaftGroup,
        loop: Loop,
        deadlines: Deadlines,
        state: PartitionState,
        coordinator: TransactionCoordinator,
        *,
        timing: Timing,
        proposal_timeout_ms: int,
        roll: Callable[[], tuple[int, int] | None],
        services: TransactionServices,
    ) -> None:
        self.group = group
        self.rolls = Rolls(state, roll, self.propose_command)
        self._loop = loop
        self._deadlines = deadlines
        self.state = state
        self.coordinator = coordinator
        self._timing = timing
        self._proposal_timeout_ms = proposal_timeout_ms
        self._services = services
        self._due = Due(self._on_timer)
        self._ticket = 0
        self._open: dict[int, AnswerCall] = {}
        """Ticket of the coordinator's -> callback of a request that is not answered yet"""
        self._late: deque[tuple[int, int]] = deque()
        """(deadline, ticket), the oldest first"""
        self._late_due = Due(self._expire_answers)
        self._leaderships = 0
        """How often leadership began or ended here: what was asked for in another one is not wanted any more."""

    # -- requests --------------------------------------------------------------------------------------------------

    def request(self, request: Request, done: AnswerCall) -> None:
        """Answer a request; `done` is called once, now or later."""
        group = self.group
        if not group.leads:
            done(Answer(Code.NOT_COORDINATOR))
        elif not group.serves or group.transferring or len(self._open) >= REQUESTS_OPEN_MAX:
            done(Answer(Code.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            self._ticket += 1
            ticket = self._ticket
            self._open[ticket] = done
            self._run(self.coordinator.handle(self._now(), ticket, request))
            if ticket in self._open:
                self._late.append((self._loop.monotonic_ms() + self._proposal_timeout_ms, ticket))
                if len(self._late) == 1:
                    self._deadlines.set(self._late_due, self._late[0][0])
            self._arm()

    def _expire_answers(self, now_ms: int) -> None:
        late = self._late
        while late and (late[0][0] <= now_ms or late[0][1] not in self._open):
            done = self._open.pop(late.popleft()[1], None)
            if done is not None:
                done(Answer(Code.COORDINATOR_NOT_AVAILABLE))
        self._deadlines.set(self._late_due, late[0][0] if late else None)

    def views(self) -> Iterator[tuple[str, Transaction]]:
        """The ids of a coordinator that serves, lazily; the iterator ends when leadership is lost."""
        for view in self.coordinator.views():
            if not self.group.serves:
                return
            yield view

    # -- effects ---------------------------------------------------------------------------------------------------

    def _run(self, effects: list[Effect]) -> None:
        work = deque(effects)
        while work:
            effect = work.popleft()
            match effect:
                case Reply(ticket, answer, proven):
                    self._answer(ticket, answer, proven=proven)
                case Append():
                    work.extend(self._append(effect))
                case SendMarkers():
                    self._send(effect)
                case _:
                    self._fetch_producer_id(effect.ticket, effect.request)

    def _answer(self, ticket: int, answer: Answer, *, proven: bool) -> None:
        done = self._open.pop(ticket, None)
        if done is None:
            return  # answered COORDINATOR_NOT_AVAILABLE by `_expire_answers`
        if proven:
            done(answer)
            return
        gone = Answer(Code.NOT_COORDINATOR)
        self.group.read_index(lambda confirmed: done(answer if confirmed else gone))

    def _append(self, effect: Append) -> list[Effect]:
        batch = encode_batch(effect.records, timestamp_ms=effect.timestamp_ms)
        refused = None if self.rolls.said() else Refused.BUSY
        refused = refused or self.group.propose(EntryKind.NORMAL, batch, effect.token)
        if refused is None:
            return []
        gone = refused in (Refused.NOT_LEADER, Refused.TERM_CHANGED)
        code = Code.NOT_COORDINATOR if gone else Code.COORDINATOR_NOT_AVAILABLE
        return self.coordinator.dropped(self._now(), effect.token, code)

    def _send(self, effect: SendMarkers) -> None:
        leadership, marker = self._leaderships, effect.marker
        producer = (marker.producer_id, marker.producer_epoch)

        def wanted() -> bool:
            return self._leaderships == leadership

        for partition in effect.partitions:

            def written(partition: TopicPartition = partition) -> None:
                if wanted():
                    self._run(self.coordinator.marked(self._now(), effect.transactional_id, producer, partition))
                    self._arm()

            self._services.send_marker(marker, partition, wanted, written)

    def _fetch_producer_id(self, ticket: int, request: InitProducer | EndTransaction) -> None:
        leadership = self._leaderships

        def given(producer_id: int) -> None:
            if ticket not in self._open:
                return
            if leadership != self._leaderships:
                self._answer(ticket, Answer(Code.NOT_COORDINATOR), proven=True)
            elif producer_id < 0:
                self._answer(ticket, Answer(Code.COORDINATOR_LOAD_IN_PROGRESS), proven=True)
            else:
                renewed = request._replace(fresh_producer_id=producer_id)
                self._run(self.coordinator.handle(self._now(), ticket, renewed))
                self._arm()

        self._services.producer_id(given)

    # -- raft_group.Machine ----------------------------------------------------------------------------------------

    def apply(self, entry: Entry) -> object:
        if entry.kind == EntryKind.NORMAL:
            self.coordinator.apply(self.state.append(entry))
        else:
            self.state.command(entry)
        return None

    def proposal_applied(self, token: object, result: object) -> None:
        if isinstance(token, int):
            self._run(self.coordinator.applied(self._now(), token))
            self._arm()
        else:
            assert callable(token)
            token(True)

    def proposal_lost(self, token: object) -> None:
        if isinstance(token, int):
            self._run(self.coordinator.dropped(self._now(), token, Code.NOT_COORDINATOR))
        else:
            assert callable(token)
            token(False)

    def lead(self, term: int) -> None:
        self.rolls.said()  # if the proposal is refused, `retention` tries again
        self._leaderships += 1
        self._run(self.coordinator.lead(self._now(), term))
        self._arm()

    def resign(self) -> None:
        self.rolls.resign()
        self._leaderships += 1
        self._run(self.coordinator.resign(self._now()))
        for done in [*self._open.values()]:  # those that still had no producer id
            done(Answer(Code.NOT_COORDINATOR))
        self._open.clear()
        self._late.clear()
        self._deadlines.set(self._late_due, None)
        self._deadlines.set(self._due, None)

    def moved(self) -> None:
        self.state.moved()

    def propose_command(self, data: bytes, done: Callable[[bool], None]) -> bool:
        """Propose a COMMAND that no client asked for; `done(applied)` follows. False: it was refused, and `done` is not
        called."""
        return self.group.propose(EntryKind.COMMAND, data, done) is None

    # -- time ------------------------------------------------------------------------------------------------------

    def _now(self) -> Now:
        return Now(self._loop.monotonic_ms(), self._loop.wall_ms())

    def _arm(self) -> None:
        if self.group.serves:
            when_ms = self.coordinator.next_deadline_ms()
            if when_ms != self._due.due_ms:
                self._deadlines.set(self._due, when_ms)

    def _on_timer(self, now_ms: int) -> None:
        """Invariant: transactions and ids expire only on a leader that has heard a quorum within the election timeout
        (decision 7)."""
        group = self.group
        if not group.serves:
            return
        if group.transferring or not group.quorum_heard(now_ms - self._timing.election_min_ms):
            self._deadlines.set(self._due, now_ms + TIMER_RETRY_MS)
            return
        self._run(self.coordinator.on_timer(self._now()))
        self._arm()

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def image(self) -> CheckpointImage:
        return self.coordinator.image()

    def restore(self, body: CheckpointBody) -> None:
        self.coordinator.restore(body)

    def state_hash(self) -> str:
        return self.coordinator.state_hash()
