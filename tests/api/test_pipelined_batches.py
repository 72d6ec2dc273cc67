"""Produce: what an idempotent producer has pipelined behind a batch that was refused, or whose fate is unknown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.api import limits
from muster_coordinator.api.dispatch import Dispatcher
from muster_coordinator.api.refused_batches import SENT_AGAIN, Numbered, Place, RefusedBatches
from muster_coordinator.errors import Code
from muster_coordinator.limits import PRODUCER_BATCHES_KEPT
from muster_coordinator.topics.machine import ProduceResult

from tests.api.fake_surface import FakeSurface
from tests.api.judging_log import JudgingLog
from tests.api.kafka_client import KafkaClient
from tests.api.test_produce import codes, produce
from tests.made_settings import api_settings
from tests.topics.batch_bytes import batch, idempotent

LAST = 2**31 - 1
RETRIED = [Code.NOT_LEADER_OR_FOLLOWER, Code.NOT_ENOUGH_REPLICAS, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
           Code.REQUEST_TIMED_OUT]  # fmt: skip


class Line:
    """One connection, one partition that answers as it is told, and judges by itself where it is told nothing."""

    def __init__(self, surface: FakeSurface | None = None, dispatcher: Dispatcher | None = None) -> None:
        self.surface = surface or FakeSurface()
        self.client = KafkaClient(self.surface, dispatcher=dispatcher)
        self.log = JudgingLog.of(self.surface, "orders")

    def send(self, records: bytes, result: Code = Code.NONE) -> int:
        """What the batch is answered, when it comes to `result`; NONE: when the partition judges it."""
        self.log.produce_result = ProduceResult(result)
        ((_, _, error),) = codes(produce(self.client, 9, ("orders", 0, records)))
        return error


@pytest.mark.parametrize("code", RETRIED)
@pytest.mark.parametrize("first", [1, 40, LAST - 1])
@pytest.mark.parametrize("known", [True, False])
def test_what_follows_a_refused_batch_gets_its_answer_until_that_comes_again(
    code: Code, first: int, known: bool
) -> None:
    """Also from a producer that the partition does not know, which may begin anywhere."""
    line = Line()
    if known:
        line.log.apply(idempotent(first - 1))
    batches = [idempotent((first + n) % (LAST + 1)) for n in range(5)]
    assert line.send(batches[0], code) == code
    assert [line.send(one) for one in batches[1:]] == [code] * 4
    assert len(line.log.stored) == known
    assert [line.send(one) for one in batches] == [Code.NONE] * 5


def test_what_follows_a_refused_batch_is_stored_when_that_was_stored_elsewhere() -> None:
    """Through another broker, or by the next leader, which had it."""
    line = Line()
    line.send(idempotent(1), Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    line.log.apply(idempotent(1))
    assert [line.send(idempotent(sequence)) for sequence in (2, 3, 1)] == [Code.NONE] * 3
    assert len(line.log.stored) == 3


def test_of_two_without_their_predecessor_the_second_is_told_of_a_gap_only_if_the_first_is() -> None:
    """Both are judged before a round shows whether this broker leads; it does not for the first, and does for the
    second."""
    line = Line()
    line.log.produce_result = None
    for sequence in (1, 2):
        line.client.send(0, 9, **request(idempotent(sequence)))
    first, second = line.log.waiting
    first(ProduceResult(Code.NOT_LEADER_OR_FOLLOWER))
    second(ProduceResult(Code.OUT_OF_ORDER_SEQUENCE_NUMBER))
    assert [codes(answer)[0][2] for answer in line.client.receive()] == [Code.NOT_LEADER_OR_FOLLOWER] * 2


def test_a_batch_keeps_the_answer_of_its_predecessor_when_that_comes_again_before_it_is_judged() -> None:
    """A round takes its time."""
    line = Line()
    line.send(idempotent(1), Code.NOT_LEADER_OR_FOLLOWER)
    line.log.produce_result = None
    line.client.send(0, 9, **request(idempotent(2)))
    line.client.send(0, 9, **request(idempotent(1)))
    second, again = line.log.waiting
    again(ProduceResult(Code.NONE, 0))
    second(ProduceResult(Code.OUT_OF_ORDER_SEQUENCE_NUMBER))
    assert [codes(answer)[0][2] for answer in line.client.receive()] == [Code.NOT_LEADER_OR_FOLLOWER, Code.NONE]


def test_a_batch_that_the_next_was_stored_behind_is_stored() -> None:
    """librdkafka does not send it again then."""
    line = Line()
    line.log.produce_result = None
    for sequence in (1, 2):
        line.client.send(0, 9, **request(idempotent(sequence)))
    first, second = line.log.waiting
    first(ProduceResult(Code.REQUEST_TIMED_OUT))
    second(ProduceResult(Code.NONE, 2))
    assert [codes(answer)[0][2] for answer in line.client.receive()] == [Code.REQUEST_TIMED_OUT, Code.NONE]
    assert line.send(idempotent(3)) == Code.NONE


def request(records: bytes) -> dict[str, object]:
    data = [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]
    return {"acks": -1, "timeout_ms": 1_500, "topic_data": data}


def test_of_two_with_an_unknown_fate_the_first_has_to_come_again() -> None:
    line = Line()
    line.log.produce_result = None
    for sequence in (1, 2):
        line.client.send(0, 9, **request(idempotent(sequence)))
    for done in line.log.waiting:
        done(ProduceResult(Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
    line.client.receive()
    assert line.send(idempotent(3)) == Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert line.send(idempotent(2)) == Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert [line.send(idempotent(sequence)) for sequence in (1, 2, 3)] == [Code.NONE] * 3


def test_a_client_that_gives_the_batch_up_is_judged_again_soon() -> None:
    """Java's producer, whose delivery time-out is over, needs to be told of the gap before it begins a new epoch."""
    line = Line()
    line.send(idempotent(1), Code.NOT_LEADER_OR_FOLLOWER)
    for _ in range(PRODUCER_BATCHES_KEPT):
        assert line.send(idempotent(2), Code.OUT_OF_ORDER_SEQUENCE_NUMBER) == Code.NOT_LEADER_OR_FOLLOWER
    assert line.send(idempotent(2), Code.OUT_OF_ORDER_SEQUENCE_NUMBER) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_whole_flight_behind_a_batch_that_was_stored_elsewhere_comes_again() -> None:
    """The refused one was stored through another broker, and this one knows it as the oldest of the producer's five; so
    all five in flight are later ones, and none of them is out of order (found by seed 7055 with three observers)."""
    line = Line()
    line.send(idempotent(1), Code.NOT_LEADER_OR_FOLLOWER)
    flight = range(6, 6 + PRODUCER_BATCHES_KEPT)
    told = [line.send(idempotent(sequence), Code.OUT_OF_ORDER_SEQUENCE_NUMBER) for sequence in flight]
    assert told == [Code.NOT_LEADER_OR_FOLLOWER] * PRODUCER_BATCHES_KEPT
    assert [line.send(idempotent(sequence)) for sequence in flight] == [Code.NONE] * PRODUCER_BATCHES_KEPT


def test_a_client_that_gives_the_batch_up_and_pipelines_is_judged_again_as_soon() -> None:
    """Five at once are judged before any of them is answered."""
    line = Line()
    line.send(idempotent(1), Code.NOT_LEADER_OR_FOLLOWER)
    line.log.produce_result = None
    for _ in range(PRODUCER_BATCHES_KEPT):
        line.client.send(0, 9, **request(idempotent(2)))
    for done in line.log.waiting:
        done(ProduceResult(Code.OUT_OF_ORDER_SEQUENCE_NUMBER))
    line.client.receive()
    assert line.send(idempotent(2), Code.OUT_OF_ORDER_SEQUENCE_NUMBER) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_is_a_new_beginning() -> None:
    line = Line()
    line.send(idempotent(7), Code.NOT_LEADER_OR_FOLLOWER)
    assert line.send(idempotent(0, epoch=1)) == Code.NONE
    assert line.send(idempotent(1, epoch=1)) == Code.NONE


def test_what_is_refused_for_good_is_not_waited_for() -> None:
    """Its producer begins a new epoch by itself; the next ones are as good as they are."""
    line = Line()
    assert line.send(idempotent(1), Code.MESSAGE_TOO_LARGE) == Code.MESSAGE_TOO_LARGE
    assert line.send(idempotent(2), Code.OUT_OF_ORDER_SEQUENCE_NUMBER) == Code.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_others_are_not_held_up() -> None:
    """Another producer, another partition, another connection, and whoever is not idempotent."""
    surface = FakeSurface()
    dispatcher = Dispatcher(surface, api_settings())
    line = Line(surface, dispatcher)
    line.send(idempotent(1), Code.NOT_LEADER_OR_FOLLOWER)
    assert line.send(idempotent(2, pid=8)) == Code.NONE
    assert line.send(batch(1)) == Code.NONE
    other = Line(surface, dispatcher)
    other.client.connection.connection_id = 2
    assert other.send(idempotent(2)) == Code.NONE


def test_a_topic_that_is_not_known_here_yet_refuses_in_order_too() -> None:
    surface = FakeSurface()
    line = Line(surface)
    topic = surface.topics.pop("orders")
    assert line.send(idempotent(0)) == Code.UNKNOWN_TOPIC_OR_PARTITION
    surface.topics["orders"] = topic
    assert line.send(idempotent(1)) == Code.NOT_LEADER_OR_FOLLOWER
    assert not line.log.stored
    assert [line.send(idempotent(0)), line.send(idempotent(1))] == [Code.NONE] * 2


def test_no_more_is_remembered_than_its_limit() -> None:
    refused = RefusedBatches()
    for producer in range(limits.REFUSED_BATCHES_KEPT + 3):
        refused.answered(Numbered(Place(1, "t", 0, producer), 0, 5), Code.NOT_LEADER_OR_FOLLOWER, None)
    assert len(refused) == limits.REFUSED_BATCHES_KEPT
    assert refused.before(Numbered(Place(1, "t", 0, 2), 0, 6)) is None
    assert refused.before(Numbered(Place(1, "t", 0, 3), 0, 6)) == (Code.NOT_LEADER_OR_FOLLOWER, 5)


@given(
    st.sampled_from([0, 3, LAST - 2]),
    st.lists(st.sampled_from([Code.NONE, *sorted(SENT_AGAIN)]), min_size=1, max_size=40),
)
def test_a_producer_that_pipelines_five_and_sends_again_never_leaves_a_gap(first: int, fates: list[Code]) -> None:
    """Whatever each batch that is judged comes to: those that are stored are stored in order, each once."""
    refused, stored, fate = RefusedBatches(), [], iter(fates)
    place = Place(1, "t", 0, 7)
    sent = done = 0
    while done < 12:
        flight = range(done, min(done + 5, 12))
        answers = []
        for number in flight:
            one = Numbered(place, 0, (first + number) % (LAST + 1))
            before = refused.before(one)
            judged = next(fate, Code.NONE)
            if judged is Code.NONE and number > len(stored):
                assert stored or before, "a producer that nobody knows began without its predecessor"
                judged = Code.OUT_OF_ORDER_SEQUENCE_NUMBER
            code = refused.answered(one, judged, before)
            assert code is not Code.OUT_OF_ORDER_SEQUENCE_NUMBER
            if judged is Code.NONE and number == len(stored):
                stored.append(number)
            answers.append(code)
        done += next((at for at, code in enumerate(answers) if code is not Code.NONE), len(answers))
        sent += 1
        assert sent < 100


def test_batches_that_wait_for_room_in_the_wal_are_judged_in_their_order_when_it_is_there() -> None:
    line = Line()
    line.log.room = None
    for sequence in range(3):
        line.client.send(0, 9, **request(idempotent(sequence)))
    assert (len(line.log.stored), len(line.log.parked)) == (0, 3)
    for go in line.log.parked:
        go(True)
    assert [codes(answer)[0][2] for answer in line.client.receive()] == [Code.NONE] * 3
    assert line.log.stored == [idempotent(n) for n in range(3)]


def test_what_follows_a_batch_that_got_no_room_is_not_judged_without_it() -> None:
    line = Line()
    line.log.room = None
    for sequence in range(3):
        line.client.send(0, 9, **request(idempotent(sequence)))
    first, second, third = line.log.parked
    first(False)
    second(True)
    third(True)
    assert [codes(answer)[0][2] for answer in line.client.receive()] == [Code.NOT_ENOUGH_REPLICAS] * 3
    assert not line.log.stored
    line.log.room = True
    assert [line.send(idempotent(n)) for n in range(3)] == [Code.NONE] * 3


def test_a_partition_that_is_not_led_here_answers_at_once_however_full_the_wal_is() -> None:
    line = Line()
    line.log.room, line.log.code = None, Code.NOT_LEADER_OR_FOLLOWER
    assert line.send(idempotent(0), Code.NOT_LEADER_OR_FOLLOWER) == Code.NOT_LEADER_OR_FOLLOWER
