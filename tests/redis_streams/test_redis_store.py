"""Topics in a real Redis pass the contract of topic stores, over the whole of `api` on virtual time; and what is
Redis' own: faults of calls, entries by others, a stream that is deleted or belongs to another cluster."""

from collections.abc import Iterator
from itertools import count
from typing import Any, ClassVar

import pytest
from muster_coordinator.api.services import TopicsMode
from muster_coordinator.errors import Code
from muster_coordinator.records.batch import iter_records
from muster_coordinator.redis_streams.entry_ids import EntryId, Offsets
from muster_coordinator.redis_streams.keys import keys_of
from muster_coordinator.redis_streams.server import EXPIRE, Script, Trouble
from muster_coordinator.replica.partitions.redis_log import CANNOT_READ, NOT_RETAINED
from muster_coordinator.topics.stores import REDIS, STORE_CONFIG, TopicStore
from muster_coordinator.wire.versions import Api

from tests.api.kafka_client import code
from tests.api.store_contract import Served, TopicsContract, batches_of, one
from tests.redis_streams.redis_server import NOT_ALLOWED, RedisServer
from tests.redis_streams.world_server import WorldServer
from tests.topics.batch_bytes import T0, Rec, batch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
OFFSETS = Offsets.of_bits(10)
_NUMBERS = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as started:
        yield started


class RedisServed(Served):
    """A replica whose topics are in this Redis."""

    def __init__(self, server: RedisServer) -> None:
        self.redis: WorldServer

        def made(world: Any) -> WorldServer:
            self.redis = WorldServer(server, world)
            return self.redis

        super().__init__(TopicsMode.REDIS, streams=made, retention_check_ms=5_000)
        self.notices: list[tuple[str, dict[str, Any]]] = []
        self.cluster.notice = lambda what, details, _: self.notices.append((what, dict(details)))

    def stream(self, name: str, partition: int = 0) -> str:
        return keys_of("muster", name, partition)[0]

    def state(self, name: str, partition: int = 0) -> str:
        return keys_of("muster", name, partition)[1]

    def cli(self, *command: Any) -> Any:
        return self.redis.redis.ask(*command)

    def after_ms(self, milliseconds: int) -> None:
        """Until Redis' clock, which gives the ids, is past this millisecond."""
        while self.redis_ms() <= milliseconds:
            pass

    def redis_ms(self) -> int:
        seconds, microseconds = self.cli("TIME")
        return int(seconds) * 1_000 + int(microseconds) // 1_000

    def values(self, name: str) -> list[bytes | None]:
        return [record.value for record in self.read(name, self.list_offset(name, -2)[1])]


class TestRedis(TopicsContract):
    """Two of its tests know when a store keeps what, and are replaced below."""

    store: ClassVar[TopicStore] = REDIS

    @pytest.fixture(scope="class")
    @classmethod
    def served(cls, server: RedisServer) -> RedisServed:
        return RedisServed(server)

    def test_offsets_are_found_by_time(self, served: Served) -> None:
        """Times are those of ids: when Redis took a record, not what its producer says."""
        assert isinstance(served, RedisServed)
        name = served.topic()
        assert (served.list_offset(name, -2)[:2], served.list_offset(name, -1)[:2]) == ((0, 0), (0, 0))
        assert served.list_offset(name, T0) == (0, -1, -1), "an empty log has none"
        offsets = [served.stored(name, batch([Rec(delta_ms=-5_000), Rec(delta_ms=20)])) for _ in range(3)]
        later = OFFSETS.id_of(offsets[2]).milliseconds + 10
        served.cli("XADD", served.stream(name), f"{later}-3", "any", "field")
        assert served.list_offset(name, T0)[:2] == (0, offsets[0])
        first = OFFSETS.id_of(offsets[0]).milliseconds
        assert served.list_offset(name, first) == (0, offsets[0], first)
        foreign = OFFSETS.offset_of(EntryId(later, 3), "")
        assert served.list_offset(name, later - 1) == (0, foreign, later)
        assert served.list_offset(name, later) == (0, foreign, later)
        assert served.list_offset(name, later + 1) == (0, -1, -1)
        assert served.list_offset(name, -3) == (0, foreign, later)
        assert served.list_offset(name, -1)[:2] == (0, foreign + 1)
        assert served.list_offset(name, 2**63 - 1) == (0, -1, -1)

    def test_the_limit_of_bytes_holds_over_all_partitions_but_one_batch_always_comes(self, served: Served) -> None:
        """What is read is one batch, whose records are as many as there is room for."""
        name = served.topic(partitions=3)
        for partition in range(3):
            for _ in range(2):
                served.stored(name, one(b"x" * 1_000), partition)

        def counts(*offsets: int, max_bytes: int = 50 << 20) -> list[int]:
            parts = served.fetch_all(name, *offsets, max_bytes=max_bytes)
            assert sum(len(part.records) for part in parts) <= max(max_bytes, 1_200)
            return [len(list(iter_records(part.records))) if part.records else 0 for part in parts]

        assert counts(0, 0, 0) == [2, 2, 2]
        assert counts(0, 0, 0, max_bytes=1) == [1, 0, 0]
        assert counts(0, 0, 0, max_bytes=2_500) == [2, 0, 0]
        assert counts(0, 0, 0, max_bytes=3_600) == [2, 0, 0] or counts(0, 0, 0, max_bytes=3_600) == [2, 1, 0]
        end = served.list_offset(name, -1)[1]
        assert counts(end, 0, 0, max_bytes=1) == [0, 1, 0]


@pytest.fixture(scope="module")
def served(server: RedisServer) -> RedisServed:
    return RedisServed(server)


@pytest.fixture(autouse=True)
def quiet(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "served" in request.fixturenames:
        found = request.getfixturevalue("served")
        found.redis.fate = lambda _: None
        found.redis.instead = lambda _, answer: answer
        found.redis.why_unfit = ""
        found.notices.clear()


class Fates:
    """What happens to the next calls of a script, in turn."""

    def __init__(self, name: str, *fates: Trouble | None) -> None:
        self._name, self._fates = name, list(fates)

    def __call__(self, script: Script) -> Trouble | None:
        return self._fates.pop(0) if script.name == self._name and self._fates else None


@pytest.mark.parametrize("entries", [[b"x"], [5, 2, b"v", b"a"], [b"1-0", -2], [b"1-0", 2, b"v", 7], [[b"1-0", []]]])
def test_entries_that_are_none_are_a_store_that_cannot_be_read(served: RedisServed, entries: list[Any]) -> None:
    """As a proxy before Redis might tell them; what has their list's shape goes through to here."""
    name = served.topic()
    first = served.stored(name, one(b"a"))
    served.redis.instead = lambda script, answer: [*answer[:-1], entries] if script.name == "read" else answer
    assert code(served.fetch(name, 0).error_code) == Code.KAFKA_STORAGE_ERROR
    assert {what for what, _ in served.notices} == {CANNOT_READ}
    assert served.list_offset(name, 1)[0] in (0, Code.KAFKA_STORAGE_ERROR)
    served.redis.instead = lambda _, answer: answer
    assert served.values(name) == [b"a"]
    assert served.list_offset(name, -2)[1] <= first


def test_an_append_that_is_confirmed_with_an_id_that_has_no_offset_is_asked_for_again(served: RedisServed) -> None:
    """As a proxy before Redis might tell it: what was done is unknown, and the second answer says it."""
    name = served.topic()
    wrong = iter([[b"OK", b"1-5000"]])
    served.redis.instead = lambda script, answer: next(wrong, answer) if script.name == "append" else answer
    offset = served.stored(name, one(b"a"))
    assert served.redis.calls.count("append") >= 2
    assert [(record.offset, record.value) for record in served.read(name, 0)] == [(offset, b"a")]


@pytest.mark.parametrize("lost", [Trouble.UNKNOWN, Trouble.AWAY])
@pytest.mark.parametrize("producer", [-1, 900])
def test_a_batch_whose_answer_is_lost_is_there_once(served: RedisServed, lost: Trouble, producer: int) -> None:
    name = served.topic()
    served.stored(name, one(b"before"))
    served.redis.fate = Fates("append", lost, lost, lost)
    more = {} if producer < 0 else {"producer_id": producer, "producer_epoch": 0, "sequence": 0}
    offset = served.stored(name, batch([Rec(value=b"a"), Rec(value=b"b")], **more))
    assert served.values(name) == [b"before", b"a", b"b"]
    assert served.read(name, offset)[0].value == b"a"


def test_what_nobody_knows_at_the_deadline_is_told_so_and_comes_no_later(served: RedisServed) -> None:
    name = served.topic()
    served.redis.fate = lambda script: Trouble.UNKNOWN if script.name == "append" else None
    answer = served.produce(name, one(b"unknown"))
    assert code(answer.error_code) == Code.REQUEST_TIMED_OUT
    served.redis.fate = lambda script: Trouble.AWAY if script.name == "append" else None
    data = [{"name": name, "partition_data": [{"index": 0, "records": one(b"never sent")}]}]
    answer = served.ask(Api.PRODUCE, 9, transactional_id=None, acks=-1, timeout_ms=500, topic_data=data)
    assert code(answer.responses[0].partition_responses[0].error_code) == Code.NOT_ENOUGH_REPLICAS
    served.redis.fate = lambda _: None
    served.stored(name, one(b"next"))
    assert served.values(name) == [b"unknown", b"next"]


def test_redis_away_is_an_error_that_is_tried_again_and_never_empty(served: RedisServed) -> None:
    name = served.topic()
    offset = served.stored(name, one(b"v"))
    served.redis.fate = lambda _: Trouble.AWAY
    assert code(served.fetch(name, offset).error_code) == Code.KAFKA_STORAGE_ERROR
    for asked in (-1, -2, -3, T0):
        assert served.list_offset(name, asked) == (Code.KAFKA_STORAGE_ERROR, -1, -1)
    assert served.delete_records(name, -1)[0] == Code.KAFKA_STORAGE_ERROR
    assert served.commit(name, offset + 1) == 0, "offsets are not in Redis"
    served.redis.fate = lambda _: None
    assert served.values(name) == [b"v"]


def test_a_server_that_is_not_fit_takes_nothing_and_says_why(served: RedisServed) -> None:
    name = served.topic()
    served.redis.why_unfit = "it keeps nothing"
    data = [{"name": name, "partition_data": [{"index": 0, "records": one(b"v")}]}]
    answer = served.ask(Api.PRODUCE, 9, transactional_id=None, acks=-1, timeout_ms=500, topic_data=data)
    (part,) = answer.responses[0].partition_responses
    assert (code(part.error_code), part.error_message) == (Code.NOT_ENOUGH_REPLICAS, "it keeps nothing")
    assert served.values(name) == []


def test_entries_of_others_are_read_and_they_read_ours(served: RedisServed) -> None:
    name = served.topic()
    first = served.cli("XADD", served.stream(name), "*", "temperature", "21", "unit", "C")
    offset = OFFSETS.offset_of(EntryId.parse(first), "")
    assert [(r.offset, r.value) for r in served.read(name, 0)] == [(offset, b'[["temperature","21"],["unit","C"]]')]
    ours = served.stored(name, batch([Rec(key=b"k", value=b"v")]))
    ((_, fields),) = served.cli("XRANGE", served.stream(name), OFFSETS.id_of(ours).text, "+")
    assert fields == [b"t", b"%d" % T0, b"k", b"k", b"v", b"v"]


def test_an_entry_without_an_offset_is_told_and_not_skipped(served: RedisServed) -> None:
    name = served.topic()
    before = served.stored(name, one(b"before"))
    at = OFFSETS.id_of(before).milliseconds
    served.cli("XADD", served.stream(name), f"{at}-5000", "v", "beyond")
    # The offset behind the last of a millisecond is the first of the next one: who is there is told of it too.
    served.after_ms(at + 1)
    after = served.stored(name, one(b"after"))
    assert [record.value for record in iter_records(served.fetch(name, before).records)] == [b"before"]
    assert code(served.fetch(name, before + 1).error_code) == Code.KAFKA_STORAGE_ERROR
    what, details = served.notices[-1]
    assert what == "a partition in Redis cannot be read"
    assert f"XDEL {served.stream(name)} {at}-5000" in details["why"]
    assert [record.value for record in served.read(name, after)] == [b"after"]
    served.cli("XDEL", served.stream(name), f"{at}-5000")
    start = served.list_offset(name, -2)[1]
    assert start == before, "what was deleted lies behind the start"
    assert [record.value for record in served.read(name, before + 1)] == [b"after"]


def test_what_others_trim_moves_the_start_and_never_the_end(served: RedisServed) -> None:
    name = served.topic()
    offsets = [served.stored(name, one(b"%d" % n)) for n in range(4)]
    assert served.list_offset(name, -2)[1] == 0, "seek(0) is in range before anything is gone"
    served.cli("XTRIM", served.stream(name), "MINID", OFFSETS.id_of(offsets[2]).text)
    assert served.list_offset(name, -2)[1] == offsets[2]
    assert code(served.fetch(name, 0).error_code) == Code.OFFSET_OUT_OF_RANGE
    end = served.list_offset(name, -1)[1]
    served.cli("XTRIM", served.stream(name), "MAXLEN", 0)
    assert (served.list_offset(name, -2)[1], served.list_offset(name, -1)[1]) == (end, end)
    at_end = served.fetch(name, end)
    assert (code(at_end.error_code), at_end.records) == (0, b"")
    assert served.stored(name, one(b"next")) >= end


def test_a_stream_that_is_gone_with_its_claim_is_claimed_anew_and_old_offsets_are_out_of_range(
    served: RedisServed,
) -> None:
    name = served.topic()
    old = served.stored(name, one(b"lost"))
    served.cli("DEL", served.stream(name), served.state(name))
    assert code(served.fetch(name, old).error_code) == Code.OFFSET_OUT_OF_RANGE
    assert served.list_offset(name, -1)[:2] == (0, 0)
    assert served.stored(name, one(b"new")) >= old
    assert served.values(name) == [b"new"]


def test_a_deleted_topics_stream_is_removed_at_once_or_by_the_next_topic_of_its_name(served: RedisServed) -> None:
    name = served.topic()
    served.stored(name, one(b"old", producer_id=5, producer_epoch=3, sequence=0))
    assert served.delete(name) == 0
    served.world.run_for(100)
    assert served.cli("EXISTS", served.stream(name), served.state(name)) == 0

    assert served.create(name) == 0
    served.when_led(name, 1)
    served.stored(name, one(b"second"))
    served.redis.fate = lambda script: Trouble.AWAY if script.name == "forget" else None
    assert served.delete(name) == 0
    served.world.run_for(100)
    assert served.cli("EXISTS", served.stream(name)) == 1, "Redis was away"
    assert served.create(name) == 0
    served.when_led(name, 1)
    assert (served.list_offset(name, -1)[:2], served.values(name)) == ((0, 0), [])
    served.stored(name, one(b"third", producer_id=5, producer_epoch=0, sequence=0))
    served.redis.fate = lambda _: None
    served.world.run_for(30_000)
    assert served.values(name) == [b"third"], "the late removal of the topic before knows that this one is another"


def test_a_stream_of_another_cluster_is_not_touched(served: RedisServed) -> None:
    name = f"theirs-{next(_NUMBERS)}"
    served.cli("HSET", served.state(name), "cluster", "another", "incarnation", 1, "epoch", 1)
    served.cli("XADD", served.stream(name), "1-1", "v", "theirs")
    assert served.create(name) == 0
    while (got := served.list_offset(name, -1)[0]) in (Code.NOT_LEADER_OR_FOLLOWER, Code.OFFSET_NOT_AVAILABLE):
        served.world.run_for(20)
    assert got == Code.KAFKA_STORAGE_ERROR
    assert served.notices[-1] == (
        "a stream in Redis is not this cluster's",
        {"stream": served.stream(name), "is": "CLUSTER", "of": "another"},
    )
    data = [{"name": name, "partition_data": [{"index": 0, "records": one(b"v")}]}]
    # At the deadline no try may be under way, of which nobody knows anything yet: they are 50 ms apart.
    answer = served.ask(Api.PRODUCE, 9, transactional_id=None, acks=-1, timeout_ms=525, topic_data=data)
    assert code(answer.responses[0].partition_responses[0].error_code) == Code.NOT_ENOUGH_REPLICAS
    assert served.delete(name) == 0
    served.world.run_for(100)
    assert served.cli("XLEN", served.stream(name)) == 1


def test_who_has_read_all_that_was_deleted_is_in_range_when_more_comes(served: RedisServed) -> None:
    """Its offset comes long after the end of what is gone: there are gaps."""
    name = served.topic()
    served.stored(name, one(b"a"))
    middle = served.stored(name, one(b"b")) + 1
    served.after_ms(OFFSETS.id_of(middle).milliseconds)
    served.stored(name, one(b"c"))
    assert served.delete_records(name, middle) == (0, middle)
    assert (served.list_offset(name, -2)[1], served.values(name)) == (middle, [b"c"])
    end = served.list_offset(name, -1)[1]
    assert served.delete_records(name, -1) == (0, end)
    served.after_ms(OFFSETS.id_of(end).milliseconds)
    assert served.stored(name, one(b"next")) > end
    assert served.list_offset(name, -2)[1] == end
    assert [record.value for record in served.read(name, end)] == [b"next"]
    assert code(served.fetch(name, end - 1).error_code) == Code.OFFSET_OUT_OF_RANGE
    served.after_ms(served.redis_ms() + 1)
    last = served.stored(name, one(b"last"))
    served.cli("XTRIM", served.stream(name), "MAXLEN", 1)
    assert served.list_offset(name, -2)[1] == last, "what others have removed may be anything"
    assert code(served.fetch(name, end).error_code) == Code.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("sequence", [3, OFFSETS.sequence_max, 2**53 + 1, 2**64 - 1])
def test_who_has_read_all_is_in_range_when_retention_has_left_nothing(served: RedisServed, sequence: int) -> None:
    """The last three are of others: the offset after them is that of the next millisecond."""
    name = served.topic(retention_ms="1000")
    served.cli("XADD", served.stream(name), f"7-{sequence}", "v", "old")
    end = OFFSETS.first_of_next(EntryId(7, sequence), 0)
    served.world.run_for(6_000)
    assert served.cli("XLEN", served.stream(name)) == 0
    served.stored(name, one(b"new"))
    assert served.list_offset(name, -2)[1] == end
    assert [record.value for record in served.read(name, end)] == [b"new"]


def test_retention_trims_by_time(served: RedisServed) -> None:
    name = served.topic(retention_ms="1000")
    stream = served.stream(name)
    served.cli("EVAL", "for n = 1, 450 do redis.call('XADD', KEYS[1], n .. '-0', 'v', 'old') end", 1, stream)
    served.stored(name, one(b"new"))
    served.world.run_for(6_000)
    assert served.cli("XLEN", stream) <= 100, "whole nodes of a hundred entries"
    assert served.read(name, served.list_offset(name, -2)[1])[-1].value == b"new"


def test_retention_trims_by_bytes_and_not_below_them(served: RedisServed) -> None:
    """Entries of different sizes; what is kept is the newest, by Redis' own measure of all nodes."""
    kept = 200_000
    name = served.topic(retention_ms="-1", retention_bytes=str(kept))
    stream = served.stream(name)
    text = "for n = 1, 3000 do redis.call('XADD', KEYS[1], n .. '-0', 'v', string.rep('x', 200 + n % 100)) end"
    served.cli("EVAL", text, 1, stream)
    before = served.cli("MEMORY", "USAGE", stream, "SAMPLES", 0)
    assert before > 3 * kept
    served.world.run_for(6_000)
    after = served.cli("MEMORY", "USAGE", stream, "SAMPLES", 0)
    assert kept * 0.95 <= after <= kept * 1.2, "an estimate, and whole nodes"
    assert served.cli("XREVRANGE", stream, "+", "-", "COUNT", 1)[0][0] == b"3000-0"
    assert served.list_offset(name, -2)[1] > 1 << 10, "the log begins later"
    served.world.run_for(60_000)
    assert kept * 0.95 <= served.cli("MEMORY", "USAGE", stream, "SAMPLES", 0) <= after, "and that stays"


def test_silent_producers_are_forgotten_in_bounded_looks(served: RedisServed) -> None:
    """More than one look takes; who has appended since stays, with its sequences."""
    name = served.topic(retention_ms="-1")
    sent = batch([Rec()], producer_id=7, producer_epoch=0, sequence=0)
    offset = served.stored(name, sent)
    state = served.state(name)
    ancient = "for n = 1, 3000 do redis.call('HSET', KEYS[1], 'p:' .. (1000 + n), '0 0 4 1-0;5 9 1000-3;') end"
    served.cli("EVAL", ancient, 1, state)
    served.cli("HSET", state, "p:99", f"3 0 0 1-0;1 1 {served.redis_ms() - 3_600_000}-0;")
    owned = served.cli("HLEN", state) - 3_000
    served.world.run_for(6_000)
    assert owned < served.cli("HLEN", state) < owned + 3_000, "not all at once"
    served.world.run_for(10_000)
    assert served.cli("HLEN", state) - served.cli("HEXISTS", state, "looked") == owned
    assert served.cli("HEXISTS", state, "p:99") == 1, "an hour is not a day"
    assert served.stored(name, sent) == offset, "a batch that is known comes again"


def test_who_owns_a_stream_no_more_forgets_nobody(served: RedisServed) -> None:
    name = served.topic()
    state = served.state(name)
    served.cli("HSET", state, "p:5", "0 0 0 1-0;")
    incarnation, epoch = (int(served.cli("HGET", state, each)) for each in ("incarnation", "epoch"))

    def asked(of: int, by: int) -> Any:
        return served.cli("EVAL", EXPIRE.text, 2, served.stream(name), state, of, by, 1_000, 10)

    assert asked(incarnation, epoch - 1)[0] == asked(incarnation - 1, epoch)[0] == b"FENCED"
    assert asked(incarnation + 1, 1)[0] == b"UNCLAIMED"
    assert served.cli("HEXISTS", state, "p:5") == 1
    assert asked(incarnation, epoch) == [b"OK", b"1"]


def test_a_topic_without_limits_keeps_all_and_one_of_no_bytes_hardly_any(served: RedisServed) -> None:
    whole = served.topic(retention_ms="-1")
    none = served.topic(retention_ms="-1", retention_bytes="0")
    empty = served.topic(retention_bytes="0")
    for name in (whole, none):
        text = "for n = 1, 450 do redis.call('XADD', KEYS[1], n .. '-0', 'v', 'x') end"
        served.cli("EVAL", text, 1, served.stream(name))
    served.world.run_for(6_000)
    assert served.cli("XLEN", served.stream(whole)) == 450
    assert served.cli("XLEN", served.stream(none)) <= 100
    assert served.list_offset(none, -1)[1] == (450 << 10) + 1, "the end stays"
    assert served.cli("XLEN", served.stream(empty)) == 0


def test_a_retention_that_redis_refuses_is_told_and_time_still_counts(served: RedisServed) -> None:
    """As by a user of before, who may not ask for the memory that a stream takes."""
    name = served.topic(retention_ms="1000", retention_bytes="1")
    text = "for n = 1, 450 do redis.call('XADD', KEYS[1], n .. '-0', 'v', 'old') end"
    served.cli("EVAL", text, 1, served.stream(name))
    served.stored(name, one(b"v"))
    before = len(served.notices)
    served.cli("ACL", "SETUSER", "default", "-memory")
    try:
        served.world.run_for(6_000)
    finally:
        served.cli("ACL", "SETUSER", "default", "+memory")
    told = [details for what, details in served.notices[before:] if what == NOT_RETAINED]
    assert served.stream(name) in {details["stream"] for details in told}
    assert all(NOT_ALLOWED.search(str(details["why"])) for details in told), told
    assert served.cli("XLEN", served.stream(name)) <= 100


def test_a_topic_says_where_it_is_and_stays_there(served: RedisServed) -> None:
    name = f"here-{next(_NUMBERS)}"
    assert served.create(name, topic_store="embedded") == 0
    served.when_led(name, 1)
    assert served.stored(name, one(b"v")) == 0, "offsets of segments begin at 0"
    assert served.cli("EXISTS", served.stream(name)) == 0
    assert served.create("nowhere", topic_store="tape") == Code.INVALID_CONFIG
    in_redis = served.topic()

    def altered(topic: str, operation: int, value: str | None) -> int:
        change = {"name": STORE_CONFIG, "config_operation": operation, "value": value}
        resource = {"resource_type": 2, "resource_name": topic, "configs": [change]}
        answer = served.ask(Api.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
        return code(answer.responses[0].error_code)

    def told(topic: str) -> str | None:
        resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": None}
        answer = served.ask(Api.DESCRIBE_CONFIGS, 4, resources=[resource])
        return {each.name: each.value for each in answer.results[0].configs}.get(STORE_CONFIG)

    assert altered(in_redis, 0, "embedded") == altered(name, 0, "redis") == Code.INVALID_CONFIG
    assert altered(in_redis, 1, None) == 0
    assert (told(in_redis), told(name)) == ("redis", "embedded")


def test_many_records_come_in_batches_within_the_limits_of_a_fetch(served: RedisServed) -> None:
    name = served.topic()
    for n in range(4):
        served.stored(name, batch([Rec(value=b"%d.%d" % (n, m)) for m in range(500)]))
    got = served.read(name, 0)
    assert [record.value for record in got] == [b"%d.%d" % (n, m) for n in range(4) for m in range(500)]
    first = served.fetch(name, 0)
    assert len(batches_of(first.records)) == 1
