"""Produce: an idempotent producer that goes from broker to broker and keeps its connections, as librdkafka does.

Two brokers judge by the real machine of a partition and lead in turn. Each is connected to once for the whole of a
test. The producer pipelines five batches; after an answer on which they come again it waits for all answers, looks for
the leader, and sends from the first one without an acknowledgement on. It never leaves a gap, so OUT_OF_ORDER is wrong
whenever it is answered: librdkafka begins a new epoch then, and stores twice what had an unknown fate (docs/adr/0018).
"""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.records.batch import parse_header
from muster_coordinator.topics.machine import Accepted, Duplicate, ProduceResult
from typing_extensions import override

from tests.api.fake_surface import FakeSurface
from tests.api.judging_log import JudgingLog
from tests.api.kafka_client import KafkaClient, code
from tests.api.test_produce import request
from tests.topics.batch_bytes import idempotent

IN_FLIGHT = 5
BATCHES = 40
CERTAIN = (Code.NOT_LEADER_OR_FOLLOWER, Code.NOT_ENOUGH_REPLICAS)


class Replicated:
    """The log of one partition, on two brokers that lead in turn; what is in flight is the leader's."""

    def __init__(self) -> None:
        self.brokers = [OneOfTwo(self, number) for number in range(2)]
        self.leader: int | None = 0
        self.pending: list[tuple[Accepted | Duplicate, Callable[[ProduceResult], None]]] = []
        self.stored: list[int] = []
        """First sequence of each batch, in the order of the log."""

    def commit(self) -> None:
        """The oldest batch in flight is committed and applied everywhere, and answered with all that wait for it."""
        assert self.leader is not None
        accepted, _ = self.pending[0]
        assert isinstance(accepted, Accepted)
        base = self._append(accepted)
        self.brokers[self.leader].machine.applied(accepted.token)
        self._answer(accepted.token, ProduceResult(Code.NONE, base))

    def lead(self, leader: int | None, kept: int = 0) -> None:
        """Leadership moves. Of what was in flight the first `kept` are in the next leader's log, and nobody is told."""
        if self.leader is not None:
            accepted = [one for one, _ in self.pending if isinstance(one, Accepted)]
            for one in accepted[:kept]:
                self._append(one)
            machine = self.brokers[self.leader].machine
            for one in accepted:
                machine.dropped(one.token)
                self._answer(one.token, ProduceResult(Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
            machine.resign()
        self.leader = leader

    def _append(self, accepted: Accepted) -> int:
        self.stored.append(parse_header(accepted.batch).base_sequence)
        bases = {broker.apply(accepted.batch) for broker in self.brokers}
        return bases.pop()

    def _answer(self, token: int, result: ProduceResult) -> None:
        ready = [done for one, done in self.pending if one.token == token]
        self.pending = [(one, done) for one, done in self.pending if one.token != token]
        for done in ready:
            done(result)


class OneOfTwo(JudgingLog):
    """One broker's log: it refuses unless that broker leads, and what it accepts stays in flight."""

    def __init__(self, replicated: Replicated, number: int) -> None:
        super().__init__(GroupNo(100))
        self.replicated = replicated
        self.number = number
        self.busy = False

    @override
    def serving(self, current_leader_epoch: int) -> Code:
        return Code.NONE if self.replicated.leader == self.number else Code.NOT_LEADER_OR_FOLLOWER

    @override
    def judge(self, batch: bytes, behind: int | None, done: Callable[[ProduceResult], None]) -> bool:
        if self.replicated.leader != self.number:
            done(ProduceResult(Code.NOT_LEADER_OR_FOLLOWER))
            return False
        if self.busy:
            done(ProduceResult(Code.NOT_ENOUGH_REPLICAS))
            return False
        return super().judge(batch, behind, done)

    @override
    def accepted(self, judged: Accepted | Duplicate, done: Callable[[ProduceResult], None]) -> None:
        self.replicated.pending.append((judged, done))


class Librdkafka:
    """The producer. It may be sent to either broker; both connections stay."""

    def __init__(self, replicated: Replicated) -> None:
        self.replicated = replicated
        self.clients: list[KafkaClient] = []
        for log in replicated.brokers:
            surface = FakeSurface()
            surface.logs[surface.log_of("orders", 0).group] = log
            self.clients.append(KafkaClient(surface))
        self.broker = 0
        self.queue = list(range(BATCHES))
        """The batches that are not acknowledged, in order."""
        self.flying: list[int] = []
        self.drain = False
        self.certain: set[int] = set()
        """Said not to be stored: a success behind them does not acknowledge them."""

    def send(self) -> None:
        """One batch more, if it may."""
        after = self.flying[-1] if self.flying else -1
        number = next((one for one in self.queue if one > after), None)
        if number is not None and not self.drain and len(self.flying) < IN_FLIGHT:
            self.flying.append(number)
            self.clients[self.broker].send(0, 9, **request(("orders", 0, idempotent(number))))

    def take_answers(self) -> None:
        for answer in self.clients[self.broker].receive():
            ((topic,), number) = answer.responses, self.flying.pop(0)
            (partition,) = topic.partition_responses
            told = code(partition.error_code)
            assert told != Code.OUT_OF_ORDER_SEQUENCE_NUMBER, f"batch {number} follows those before it"
            if told == Code.NONE:
                self.queue = [one for one in self.queue if one > number or (one < number and one in self.certain)]
            else:
                self.drain = True
                (self.certain.add if told in CERTAIN else self.certain.discard)(number)
        if not self.flying:
            self.drain = False

    def settle(self, broker: int) -> None:
        """All in flight is answered, and the next one goes to `broker`."""
        while self.replicated.pending:
            self.replicated.commit()
        self.take_answers()
        assert not self.flying
        self.broker = broker


def test_a_refusal_from_before_the_producer_was_elsewhere_refuses_nothing_any_more() -> None:
    """Batch 0 is refused here and stored elsewhere; its producer is back, with batches 4 to 8 on their way. The first
    was refused for the sake of batch 0, and the others were judged without it."""
    replicated = Replicated()
    client = Librdkafka(replicated)
    replicated.lead(None)
    client.send()
    replicated.lead(1)
    client.settle(1)
    for _ in range(4):
        client.send()
    client.settle(0)
    assert client.queue[0] == 4
    replicated.lead(0)
    for _ in range(5):
        client.send()
    client.settle(0)
    assert client.queue[0] == 9


def test_a_batch_that_was_refused_again_and_again_is_known_when_it_is_taken() -> None:
    """Batch 0 is stored, its producer was told that it is not, and those behind it are stored by fours: the partition
    knows the last five of a producer only (seed 15714 of the simulator)."""
    replicated = Replicated()
    client = Librdkafka(replicated)
    client.send()
    replicated.lead(None, kept=1)
    client.take_answers()
    for _ in range(3):
        replicated.lead(None)
        client.send()
        replicated.lead(0)
        for _ in range(4):
            client.send()
        client.settle(0)
        assert client.queue[0] == 0
    for _ in range(5):
        client.send()
    client.settle(0)
    assert client.queue[0] > 5
    assert replicated.stored == list(range(len(replicated.stored))), "each once, in order"


EVENTS = st.lists(st.sampled_from(["send", "send", "send", "lead", "lose", "commit", "answers", "busy"]), max_size=12)
ROUNDS = st.lists(st.tuples(st.integers(0, 1), st.booleans(), EVENTS, st.integers(0, 5)), max_size=12)
"""Where the producer goes, whether that broker leads then, what happens, and how much of what is in flight then the
next leader has."""


@given(ROUNDS)
@settings(max_examples=100)
def test_a_producer_that_leaves_no_gap_is_never_told_of_one(rounds: list[tuple[int, bool, list[str], int]]) -> None:
    replicated = Replicated()
    client = Librdkafka(replicated)
    for broker, leads, events, kept in rounds:
        client.broker = broker
        here = replicated.brokers[broker]
        replicated.lead(broker if leads else 1 - broker)
        for event in events:
            if event == "send":
                client.send()
            elif event == "lead":
                replicated.lead(broker, kept)
            elif event == "lose":
                replicated.lead(None, kept)
            elif event == "commit" and replicated.pending:
                replicated.commit()
            elif event == "answers":
                client.take_answers()
            elif event == "busy":
                here.busy = not here.busy
        here.busy = False
        replicated.lead(broker, kept)
        client.settle(broker)
    while client.queue:
        replicated.lead(client.broker)
        client.send()
        client.settle(client.broker)
    assert replicated.stored == list(range(BATCHES)), "each once, in order"
