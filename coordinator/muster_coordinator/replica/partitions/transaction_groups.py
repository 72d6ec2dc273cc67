"""The host of one partition of the transaction log: passes requests to its coordinator, and carries out its effects.

Problem: an answer must be true when it leaves, and markers and producer ids come from other replicas. Mechanism:
`coordinator_group`, and: whoever does not lead answers NOT_COORDINATOR (16), and a leader that does not serve yet, or
hands its leadership over, COORDINATOR_LOAD_IN_PROGRESS (14), on which every client asks again. Answers that claim that
nothing has changed leave after a ReadIndex round, shared by all reads of a turn, since a deposed coordinator does not
know what its successor has decided. Other replicas are asked through `TransactionServices`; what they say holds for
this leadership only. What it does not do: decide anything about transactions, or know how markers travel.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from typing_extensions import override

from muster_coordinator.errors import Code
from muster_coordinator.ports import Loop
from muster_coordinator.raft.messages import Entry, EntryKind, Refused
from muster_coordinator.raft.timing import Timing
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.records.control import TransactionMarker
from muster_coordinator.records.transaction_log import NO_PRODUCER, TopicPartition
from muster_coordinator.replica.multiraft.deadlines import Deadlines
from muster_coordinator.replica.multiraft.raft_group import RaftGroup
from muster_coordinator.replica.partitions.coordinator_group import CoordinatorGroup, OpenRequests
from muster_coordinator.replica.partitions.partition import PartitionState
from muster_coordinator.transactions.coordinator import TransactionCoordinator
from muster_coordinator.transactions.effects import Append, Effect, Reply, SendMarkers
from muster_coordinator.transactions.metadata import Transaction
from muster_coordinator.transactions.requests import Answer, EndTransaction, InitProducer, Request
from muster_coordinator.transactions.stats import TransactionStats

REQUESTS_OPEN_MAX = 10_000
"""Requests of one partition that are not answered yet; more are answered COORDINATOR_LOAD_IN_PROGRESS."""
AnswerCall = Callable[[Answer], None]
MarkerWritten = Callable[[], None]


def _too_late(done: AnswerCall) -> None:
    done(Answer(Code.COORDINATOR_NOT_AVAILABLE))


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


class TransactionGroup(CoordinatorGroup[Effect]):
    """One partition of the transaction log, and the entrance for its requests."""

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
        super().__init__(
            group,
            loop,
            deadlines,
            state,
            coordinator,
            timing=timing,
            proposal_timeout_ms=proposal_timeout_ms,
            roll=roll,
        )
        self.coordinator = coordinator
        self._services = services
        self._open: OpenRequests[AnswerCall] = OpenRequests(deadlines, _too_late)
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
            ticket = self._open.open(done)
            now = self._now()
            self._run(self.coordinator.handle(now, ticket, request))
            if ticket in self._open:
                self._open.limit(ticket, now.monotonic_ms + self._proposal_timeout_ms)
            self._arm()

    def views(self) -> Iterator[tuple[str, Transaction]]:
        """The ids of a coordinator that serves, lazily; the iterator ends when leadership is lost."""
        for view in self.coordinator.views():
            if not self.group.serves:
                return
            yield view

    # -- effects ---------------------------------------------------------------------------------------------------

    @override
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
        done = self._open.take(ticket)
        if done is None:
            return  # answered by `_too_late`
        if proven:
            done(answer)
            return
        gone = Answer(Code.NOT_COORDINATOR)
        self.group.read_index(lambda confirmed: done(answer if confirmed else gone))

    def _append(self, effect: Append) -> list[Effect]:
        batch = encode_batch(effect.records, timestamp_ms=effect.timestamp_ms)
        return self._propose(batch, effect.token) if self.rolls.said() else self._refused(Refused.BUSY, effect.token)

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

    @override
    def lead(self, term: int) -> None:
        self._leaderships += 1
        super().lead(term)

    @override
    def resign(self) -> None:
        self._leaderships += 1
        super().resign()
        for done in self._open.take_all():  # those that still had no producer id
            done(Answer(Code.NOT_COORDINATOR))
