"""A host for transaction coordinators without Raft: one log, one leader, and partitions that take markers.

A proposed batch stays in flight until `commit` or `drop`; `run_all` commits everything and delivers every marker.
`partitions` is what the markers and the records of the data partitions say, by which tests judge what readers would
see. After each commit the state of a follower, which sees only the log, is compared with the leader's.
"""

from collections import deque

from muster_coordinator.errors import Code
from muster_coordinator.groups.effects import AppliedBatch, Now
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.records.transaction_log import TopicPartition
from muster_coordinator.transactions.config import TransactionConfig
from muster_coordinator.transactions.coordinator import TransactionCoordinator
from muster_coordinator.transactions.effects import Append, Effect, Reply, SendMarkers, WantProducerId
from muster_coordinator.transactions.metadata import Transaction
from muster_coordinator.transactions.requests import (
    AddPartitions,
    Answer,
    EndTransaction,
    Expected,
    InitProducer,
    Request,
    VerifyPartitions,
)

WALL = 1_700_000_000_000
CONFIG = TransactionConfig(timeout_max_ms=900_000, id_expiration_ms=7 * 86_400_000, expiry_check_ms=3_600_000)
A0: TopicPartition = ("a", 0)
A1: TopicPartition = ("a", 1)
B0: TopicPartition = ("b", 0)


class TransactionHost:
    """See the module."""

    def __init__(self, config: TransactionConfig = CONFIG) -> None:
        self.config = config
        self.mono = 1_000_000
        self.wall = WALL
        self.term = 1
        self.log: list[AppliedBatch] = []
        self.leader = TransactionCoordinator(config)
        self.follower = TransactionCoordinator(config)
        self.in_flight: deque[Append] = deque()
        self.markers: deque[SendMarkers] = deque()
        self.written: list[tuple[TopicPartition, SendMarkers]] = []
        """Every marker that reached a partition, in order."""
        self.answers: dict[int, Answer] = {}
        self.proven: dict[int, bool] = {}
        self.fresh = 1_000
        self._ticket = 0
        self._next_offset = 0
        self.run(self.leader.lead(self.now, self.term))

    @property
    def now(self) -> Now:
        return Now(self.mono, self.wall)

    def run(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply(ticket, answer, proven):
                    assert ticket not in self.answers, "a ticket is answered once"
                    self.answers[ticket] = answer
                    self.proven[ticket] = proven
                case Append():
                    self.in_flight.append(effect)
                case SendMarkers():
                    self.markers.append(effect)
                case WantProducerId(ticket, request):
                    self.fresh += 1
                    renewed = request._replace(fresh_producer_id=self.fresh)
                    self.run(self.leader.handle(self.now, ticket, renewed))

    def ask(self, request: Request) -> int:
        """Hand in a request; returns its ticket."""
        self._ticket += 1
        self.run(self.leader.handle(self.now, self._ticket, request))
        return self._ticket

    def commit(self) -> None:
        """The oldest proposal is applied, here and on the follower."""
        append = self.in_flight.popleft()
        batch = encode_batch(append.records, timestamp_ms=append.timestamp_ms)
        entry = AppliedBatch(self.term, self._next_offset, batch)
        self._next_offset += len(append.records)
        self.log.append(entry)
        self.leader.apply(entry)
        self.follower.apply(entry)
        self.run(self.leader.applied(self.now, append.token))
        assert self.leader.state_hash() == self.follower.state_hash()

    def drop(self, code: Code = Code.COORDINATOR_NOT_AVAILABLE) -> None:
        """The oldest proposal is refused."""
        self.run(self.leader.dropped(self.now, self.in_flight.popleft().token, code))

    def deliver(self) -> None:
        """The oldest markers reach all of their partitions."""
        sent = self.markers.popleft()
        for partition in sent.partitions:
            self.deliver_one(sent, partition)

    def deliver_one(self, sent: SendMarkers, partition: TopicPartition) -> None:
        """One partition has the marker."""
        self.written.append((partition, sent))
        producer = (sent.marker.producer_id, sent.marker.producer_epoch)
        self.run(self.leader.marked(self.now, sent.transactional_id, producer, partition))

    def run_all(self) -> None:
        """Until nothing is in flight."""
        while self.in_flight or self.markers:
            if self.in_flight:
                self.commit()
            else:
                self.deliver()

    def fail_over(self, *, lost: int = 0) -> None:
        """The leader dies; the next one has the log, and of the proposals in flight all but the last `lost`."""
        for _ in range(max(0, len(self.in_flight) - lost)):
            append = self.in_flight.popleft()
            entry = AppliedBatch(
                self.term, self._next_offset, encode_batch(append.records, timestamp_ms=append.timestamp_ms)
            )
            self._next_offset += len(append.records)
            self.log.append(entry)
            self.follower.apply(entry)
        self.in_flight.clear()
        self.markers.clear()
        self.run(self.leader.resign(self.now))
        self.term += 1
        self.leader, self.follower = self.follower, TransactionCoordinator(self.config)
        for entry in self.log:
            self.follower.apply(entry)
        assert self.leader.state_hash() == self.follower.state_hash()
        self.run(self.leader.lead(self.now, self.term))

    def pass_time(self, ms: int) -> None:
        """Time goes on, and all timers that are due fire."""
        self.mono += ms
        self.wall += ms
        for _ in range(1_000):
            due_ms = self.leader.next_deadline_ms()
            if due_ms is None or due_ms > self.mono:
                return
            before = len(self.in_flight)
            self.run(self.leader.on_timer(self.now))
            if len(self.in_flight) > before:
                self.run_all()
        raise AssertionError("timers do not come to an end")

    def of(self, transactional_id: str) -> Transaction:
        """What is known of an id that exists."""
        return dict(self.leader.views())[transactional_id]

    # -- whole requests, answered ------------------------------------------------------------------------------------

    def answered(self, request: Request) -> Answer:
        """The answer once all is applied and every marker delivered."""
        ticket = self.ask(request)
        self.run_all()
        return self.answers[ticket]

    def init(self, name: str = "t", *, timeout_ms: int = 60_000, expected: tuple[int, int] | None = None) -> Answer:
        given = None if expected is None else Expected(*expected)
        return self.answered(InitProducer(name, timeout_ms, given))

    def add(self, producer: Answer, *partitions: TopicPartition, name: str = "t") -> Answer:
        return self.answered(AddPartitions(name, producer.producer_id, producer.producer_epoch, frozenset(partitions)))

    def end(self, producer: Answer, *, commit: bool = True, version: int = 0, name: str = "t") -> Answer:
        return self.answered(EndTransaction(name, producer.producer_id, producer.producer_epoch, commit, version))

    def verify(self, producer: Answer, *partitions: TopicPartition, name: str = "t") -> Answer:
        return self.answered(
            VerifyPartitions(name, producer.producer_id, producer.producer_epoch, frozenset(partitions))
        )
