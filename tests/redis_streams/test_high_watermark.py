"""What a consumer of a topic in Redis is shown is proved to be as durable as was asked for: over the whole of `api` and
a real Redis on virtual time, where each proof, and each fail-over to a state of before, is chosen."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from muster_coordinator.api.dispatch import Dispatcher
from muster_coordinator.api.services import TopicsMode
from muster_coordinator.errors import Code
from muster_coordinator.records.batch import iter_records, parse_header
from muster_coordinator.redis_streams.entry_ids import EntryId, Offsets
from muster_coordinator.redis_streams.server import Script, Trouble
from muster_coordinator.wire.versions import Api

from tests.api.kafka_client import KafkaClient, code
from tests.api.store_contract import Agreeing, batches_of, one
from tests.made_settings import api_settings
from tests.redis_streams.redis_server import RedisServer
from tests.redis_streams.test_redis_store import RedisServed

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
OFFSETS = Offsets.of_bits(10)
UNPROVED = Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as started:
        yield started


class Owned(RedisServed):
    """A replica, and the next one after it; proofs are as good as a test says."""

    def proofs(self, fate: Trouble | None) -> None:
        self.redis.fate = lambda script: fate if script.name in ("append", "prove") else None

    def another_owner(self) -> None:
        """The replica is gone, and leads in a later term when it is back."""
        self.cluster.kill(0)
        self.cluster.restart(0)
        self.cluster.wait_ready()
        node = self.cluster.nodes[0]
        settings = api_settings(topics_mode=TopicsMode.REDIS, replication_factor=1)
        self.client = KafkaClient(node, dispatcher=Dispatcher(node, settings, verifier=Agreeing()))

    def shown(self, name: str, offset: int = 0) -> tuple[list[bytes | None], int]:
        """The values from this offset on, and the high watermark."""
        got = self.fetch(name, offset)
        assert code(got.error_code) == 0, got
        records = [record for one_of in batches_of(got.records) for record in iter_records(one_of)]
        return [record.value for record in records if record.offset >= offset], got.high_watermark

    def unproved(self, name: str, value: bytes) -> None:
        assert code(self.produce(name, one(value)).error_code) == UNPROVED

    def produce_beside(self, name: str, records: bytes) -> None:
        """By another client, while this one is owed an answer."""
        producer = KafkaClient(self.cluster.nodes[0], dispatcher=self.client.dispatcher)
        data = [{"name": name, "partition_data": [{"index": 0, "records": records}]}]
        producer.send(Api.PRODUCE, 9, transactional_id=None, acks=-1, timeout_ms=5_000, topic_data=data)

    def fetched(self) -> list[bytes | None]:
        """The values of the answer to a Fetch that was sent."""
        (part,) = [part for topic in self.answer().responses for part in topic.partitions]
        assert code(part.error_code) == 0, part
        return [record.value for one_of in batches_of(part.records) for record in iter_records(one_of)]

    def last_id(self, name: str) -> EntryId:
        return EntryId.parse(self.cli("XREVRANGE", self.stream(name), "+", "-", "COUNT", 1)[0][0])


@pytest.fixture
def served(server: RedisServer) -> Owned:
    return Owned(server)


def test_what_is_not_proved_is_shown_to_nobody_and_its_offsets_are_not_out_of_range(served: Owned) -> None:
    name = served.topic()
    kept = served.stored(name, one(b"kept"))
    served.cli("XADD", served.stream(name), "*", "v", "theirs")
    theirs = OFFSETS.offset_of(served.last_id(name), "")
    served.proofs(Trouble.NOT_DURABLE)
    for value in (b"first", b"second"):
        served.unproved(name, value)
    behind = served.cli("XADD", served.stream(name), "*", "v", "behind")
    first = EntryId.parse(served.cli("XRANGE", served.stream(name), "-", "+")[2][0])
    end = theirs + 1  # and not where what is hidden begins, which is out of range if that is lost

    assert served.shown(name) == ([b"kept", b"theirs"], end)
    assert served.list_offset(name, -1)[:2] == (0, end)
    assert served.list_offset(name, -3)[:2] == (0, theirs)
    assert served.list_offset(name, first.milliseconds + 1) == (0, -1, -1)
    assert served.list_offset(name, OFFSETS.id_of(kept).milliseconds)[:2] == (0, kept)
    last = OFFSETS.offset_of(EntryId.parse(behind), "")
    for offset in (end, OFFSETS.offset_of(first, ""), last + 1):
        assert served.shown(name, offset) == ([], end)
    assert code(served.fetch(name, last + 2).error_code) == Code.OFFSET_OUT_OF_RANGE
    assert served.delete_records(name, end + 1)[0] == Code.OFFSET_OUT_OF_RANGE

    served.proofs(None)
    served.stored(name, one(b"third"))
    whole = [b"kept", b"theirs", b"first", b"second", b"behind", b"third"]
    assert served.shown(name)[0] == whole
    assert served.list_offset(name, -1)[1] == OFFSETS.offset_of(served.last_id(name), "") + 1
    assert served.shown(name, end)[0] == whole[2:]


def test_deleting_all_records_deletes_what_is_shown(served: Owned) -> None:
    name = served.topic()
    served.stored(name, one(b"shown"))
    served.proofs(Trouble.NOT_DURABLE)
    served.unproved(name, b"hidden")
    end = served.list_offset(name, -1)[1]
    assert served.delete_records(name, -1) == (0, end)
    start = served.list_offset(name, -2)[1]
    assert served.shown(name, start) == ([], start)
    served.proofs(None)
    served.world.run_for(2_000)
    assert served.shown(name, start)[0] == [b"hidden"]


def test_a_batch_that_was_given_up_is_hidden_until_a_later_one_is_proved(served: Owned) -> None:
    name = served.topic()
    served.proofs(Trouble.UNKNOWN)
    assert code(served.produce(name, one(b"unknown")).error_code) == Code.REQUEST_TIMED_OUT
    served.proofs(Trouble.NOT_DURABLE)
    served.unproved(name, b"unproved")
    assert served.shown(name)[0] == []
    served.proofs(None)
    served.stored(name, one(b"proved"))
    assert served.shown(name)[0] == [b"unknown", b"unproved", b"proved"]


def test_a_long_poll_is_answered_when_a_proof_comes_and_asks_at_a_pace_until_then(served: Owned) -> None:
    name = served.topic()
    offset = served.stored(name, one(b"before")) + 1
    served.proofs(Trouble.NOT_DURABLE)
    served.unproved(name, b"hidden")
    assert served.shown(name, offset)[0] == []
    served.redis.calls.clear()
    served.redis.entries_told = 0
    served.send_fetch(name, [offset], wait_ms=20_000, max_bytes=1 << 20, isolation=0)
    for _ in range(15):
        served.cli("XADD", served.stream(name), "*", "v", "theirs")
        served.world.run_for(1_000)
    assert 10 <= served.redis.calls.count("prove") <= 25, served.redis.calls
    assert served.redis.calls.count("read") <= 4, served.redis.calls
    assert served.redis.entries_told == 0, "Redis is asked for nothing that will be hidden"
    assert not served.client.receive()
    served.proofs(None)
    before_us = served.world.now_us
    assert served.fetched() == [b"hidden"] + 15 * [b"theirs"]
    assert served.world.now_us - before_us <= 1_100_000, "within one pause"
    assert served.list_offset(name, -1)[1] == OFFSETS.offset_of(served.last_id(name), "") + 1


def test_nobody_is_asked_while_nobody_reads(served: Owned) -> None:
    name = served.topic()
    served.proofs(Trouble.NOT_DURABLE)
    served.unproved(name, b"hidden")
    assert served.shown(name)[0] == []
    served.world.run_for(2_000)
    served.redis.calls.clear()
    served.world.run_for(20_000)
    assert "prove" not in served.redis.calls


def test_a_consumer_at_the_end_hears_of_a_batch_when_it_is_proved_by_one_read(served: Owned) -> None:
    """News of an entry comes before its proof: whoever read then would see nothing, and have to read again."""
    name = served.topic()
    offset = served.stored(name, one(b"before")) + 1
    served.send_fetch(name, [offset], wait_ms=20_000, max_bytes=1 << 20, isolation=0)
    served.world.run_for(100)
    served.redis.calls.clear()
    served.redis.delays_us["append"] = delay_us = 40_000
    begun_us = served.world.now_us
    served.produce_beside(name, one(b"new"))
    assert served.fetched() == [b"new"]
    assert served.redis.calls == ["append", "read"]
    assert served.world.now_us - begun_us < delay_us + 2_000


def test_a_read_that_a_proof_overtakes_shows_what_was_proved(served: Owned) -> None:
    name = served.topic()
    served.proofs(Trouble.NOT_DURABLE)
    served.unproved(name, b"hidden")
    end = served.shown(name)[1]
    served.proofs(None)
    served.redis.delays_us.update(append=10_000, read=40_000)
    served.produce_beside(name, one(b"proves it"))
    served.send_fetch(name, [end], wait_ms=0, max_bytes=1 << 20, isolation=0)
    assert served.fetched() == [b"hidden", b"proves it"]


def test_the_next_owner_shows_what_is_proved_to_it_and_hides_what_the_one_before_had_not_proved(served: Owned) -> None:
    name = served.topic()
    served.stored(name, one(b"proved"))
    end = served.list_offset(name, -1)[1]
    served.another_owner()
    assert served.shown(name)[0] == [b"proved"], "by a proof of its own, before its first answer"
    assert served.redis.calls.count("prove") == 1
    assert served.shown(name) == ([b"proved"], end)
    assert served.redis.calls.count("prove") == 1

    served.proofs(Trouble.NOT_DURABLE)
    for value in (b"first", b"second"):
        served.unproved(name, value)
    served.another_owner()
    served.unproved(name, b"third")
    assert served.shown(name)[0] == [b"proved"], "of the owner before the first append that nothing had proved"
    served.another_owner()
    assert served.shown(name)[0] == [b"proved"]
    served.proofs(None)
    served.world.run_for(2_000)
    assert served.shown(name)[0] == [b"proved", b"first", b"second", b"third"]


def test_a_server_that_is_not_fit_proves_nothing(served: Owned) -> None:
    """As one of which it is not known yet whether it has WAITAOF."""
    name = served.topic()
    served.stored(name, one(b"first"))
    served.stored(name, one(b"second"))
    served.another_owner()
    served.redis.why_unfit = "Redis was not reached yet"
    assert served.shown(name)[0] == [b"first"]
    served.redis.why_unfit = ""
    served.world.run_for(2_000)
    assert served.shown(name)[0] == [b"first", b"second"]


def test_what_an_owner_of_the_release_before_has_appended_is_hidden_from_its_last_append_on(served: Owned) -> None:
    """It writes `last`, and nothing of what is unproved."""
    name = served.topic()
    served.stored(name, one(b"proved"))
    served.proofs(Trouble.NOT_DURABLE)
    served.unproved(name, b"by it")
    state, stream = served.state(name), served.stream(name)
    at = served.cli("XADD", stream, "*", "v", "last").decode()
    served.cli("HSET", state, "last", f"{int(served.cli('HGET', state, 'epoch'))} 99 {at}")
    served.another_owner()
    assert served.shown(name)[0] == [b"proved", b"by it"]
    served.proofs(None)
    served.world.run_for(2_000)
    assert served.shown(name)[0] == [b"proved", b"by it", b"last"]


def test_nothing_is_hidden_where_nothing_is_promised(served: Owned) -> None:
    name = served.topic()
    served.redis.promises = False
    served.redis.fate = lambda script: Trouble.UNKNOWN if script.name == "append" else None
    assert code(served.produce(name, one(b"v")).error_code) == Code.REQUEST_TIMED_OUT
    assert served.shown(name)[0] == [b"v"]
    served.another_owner()
    assert served.shown(name)[0] == [b"v"]
    assert "prove" not in served.redis.calls
    assert served.cli("HEXISTS", served.state(name), "unproved") == 0


class Course:
    """A random course of appends, proofs, owners and primaries; and a consumer."""

    def __init__(self, served: Owned, seed: int) -> None:
        self.served = served
        self.rand = random.Random(seed)
        self.name = served.topic()
        self.keys = (served.stream(self.name), served.state(self.name))
        self.states: list[list[Any]] = [self.state()]
        """The last that is proved, and those after it: what a replica of Redis may have."""
        self.position = 0
        self.read: list[tuple[int, bytes | None]] = []
        self.ends: list[int] = []
        self.end = 0
        self.acknowledged: list[int] = []
        self.values = 0
        self.troubles: tuple[Trouble | None, ...] = ()
        served.redis.fate = self.fate
        served.redis.instead = self.executed

    def state(self) -> list[Any]:
        return [self.served.cli("DUMP", key) for key in self.keys]

    def fate(self, script: Script) -> Trouble | None:
        if script.name not in ("append", "prove") or not self.troubles:
            self.this = None
        else:
            self.this = self.rand.choice(self.troubles)
        return self.this

    def executed(self, script: Script, answer: Any) -> Any:
        if script.name in ("append", "prove", "claim"):
            if self.this is None and script.name != "claim" and answer[0] in (b"OK", b"DUPLICATE"):
                self.states.clear()
            self.states.append(self.state())
        return answer

    def produce(self) -> None:
        self.values += 1
        self.troubles = self.rand.choice(((), (None, Trouble.NOT_DURABLE), (Trouble.UNKNOWN,), (Trouble.NOT_DURABLE,)))
        answer = self.served.produce(self.name, one(b"%d" % self.values))
        if code(answer.error_code) == 0:
            self.acknowledged.append(self.values)

    def fail_over(self) -> None:
        """Its next primary has what was proved, and some of what came later."""
        chosen = self.rand.choice(self.states)
        self.states = [chosen]
        self.served.cli("DEL", *self.keys)
        for key, dumped in zip(self.keys, chosen, strict=True):
            if dumped is not None:
                self.served.cli("RESTORE", key, 0, dumped)

    def look(self) -> None:
        """Where the log ends, as somebody learns who begins to read there."""
        error, end, _ = self.served.list_offset(self.name, -1)
        assert error == 0
        self.ends.append(end)
        assert end >= self.end, "of one owner it never moves back"
        self.end = end
        for one_of in self.ends:
            assert code(self.served.fetch(self.name, one_of).error_code) == 0, (one_of, end)

    def consume(self) -> None:
        got = self.served.fetch(self.name, self.position)
        assert code(got.error_code) == 0, f"position {self.position}, read: {self.read}"
        for batch in batches_of(got.records):
            self.read += [(r.offset, r.value) for r in iter_records(batch) if r.offset >= self.position]
            self.position = parse_header(batch).next_offset

    def run(self, steps: int) -> None:
        for _ in range(steps):
            what = self.rand.choice("ppppcccclfo")
            if what == "p":
                self.produce()
            elif what == "f":
                self.fail_over()
            elif what == "o":
                self.served.another_owner()
                self.end = 0
            elif what == "l":
                self.look()
            else:
                self.consume()
        self.troubles = ()
        self.produce()
        self.consume()


@pytest.mark.parametrize("seed", range(12))
def test_what_was_read_is_there_for_good_whatever_fails_over(served: Owned, seed: int) -> None:
    course = Course(served, seed)
    course.run(40)
    kept = [(record.offset, record.value) for record in served.read(course.name, 0)]
    assert course.read == kept, "each that is there was read once, and none that is not"
    assert {int(value or b"") for _, value in kept} >= set(course.acknowledged)
