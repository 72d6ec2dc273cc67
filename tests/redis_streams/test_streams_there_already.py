"""Topics over streams that are there already, on a real Redis and virtual time: their names, the bits of their offsets,
the field that is their value; and that nothing of them is removed that nobody has asked to be removed."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.records.batch import iter_records
from muster_coordinator.redis_streams.entry_ids import EntryId
from muster_coordinator.redis_streams.keys import keys_beside
from muster_coordinator.redis_streams.server import Script, Trouble

from tests.api.kafka_client import code
from tests.api.store_contract import one
from tests.redis_streams.redis_server import RedisServer
from tests.redis_streams.test_redis_store import RedisServed
from tests.topics.batch_bytes import Rec, batch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
_NUMBERS = count()
MS = 1_700_000_000_000
"""Of ids that were written before: in the past of every clock."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as started:
        yield started


@pytest.fixture(scope="module")
def shared(server: RedisServer) -> RedisServed:
    return RedisServed(server)


@pytest.fixture
def served(shared: RedisServed) -> RedisServed:
    shared.redis.fate = lambda _: None
    shared.notices.clear()
    return shared


def fresh() -> str:
    return f"orders-{next(_NUMBERS)}"


def made(served: RedisServed, name: str, partitions: int = 1, **configs: str) -> None:
    assert served.create(name, partitions, **configs) == 0
    served.when_led(name, partitions)


def written(served: RedisServed, stream: str, *values: bytes, field: str = "data") -> list[EntryId]:
    """As a program would that knows nothing of Kafka: ids of one millisecond each."""
    ids = [EntryId(MS + n, 0) for n in range(len(values))]
    for entry, value in zip(ids, values, strict=True):
        served.cli("XADD", stream, entry.text, field, value, "unit", "C")
    return ids


# -- the bits of an offset, on every path


@pytest.mark.parametrize("bits", [1, 10, 20])
def test_offsets_are_ids_by_the_topics_own_bits_wherever_they_are_told_or_asked(served: RedisServed, bits: int) -> None:
    name = fresh()
    made(served, name, redis_sequence_bits=str(bits))
    stream, most = served.stream(name), 2**bits - 1

    def offset(ms: int, sequence: int) -> int:
        return ms * 2**bits + sequence

    served.cli("XADD", stream, f"{MS}-0", "v", "a")
    served.cli("XADD", stream, f"{MS}-{most}", "v", "b")
    assert [record.offset for record in served.read(name, 0)] == [offset(MS, 0), offset(MS, most)]
    assert served.list_offset(name, -1)[:2] == (0, offset(MS + 1, 0)), "a full millisecond ends in the next"
    sent = [Rec(value=b"%d" % n) for n in range(5)]
    base = served.stored(name, batch(sent))
    found = served.read(name, base)
    assert [(record.offset, record.value) for record in found] == [(base + n, b"%d" % n) for n in range(5)]
    ids = [EntryId.parse(entry) for entry, _ in served.cli("XRANGE", stream, f"{MS + 1}-0", "+")]
    assert [offset(*entry) for entry in ids] == [base + n for n in range(5)]
    assert max(entry.sequence for entry in ids) <= most

    assert served.list_offset(name, MS) == (0, offset(MS, 0), MS)
    assert served.list_offset(name, MS + 1) == (0, base, ids[0].milliseconds)
    assert served.list_offset(name, -3) == (0, base + 4, ids[-1].milliseconds)
    assert served.list_offset(name, -1)[:2] == (0, base + 5)
    assert served.list_offset(name, (2**63 >> bits) - 1)[:2] == (0, -1)
    assert served.list_offset(name, 2**63 - 1)[:2] == (0, -1)

    assert served.delete_records(name, offset(MS, most)) == (0, offset(MS, most))
    assert served.read(name, offset(MS, most))[0].value == b"b"
    assert code(served.fetch(name, offset(MS, 0)).error_code) == Code.OFFSET_OUT_OF_RANGE
    assert served.delete_records(name, -1) == (0, base + 5)
    assert served.cli("XLEN", stream) == 0
    assert served.stored(name, one(b"next")) >= base + 5


@pytest.mark.parametrize("bits", [1, 10, 20])
def test_an_entry_beyond_the_topics_own_bits_is_told_with_the_number_of_bits(served: RedisServed, bits: int) -> None:
    name = fresh()
    made(served, name, redis_sequence_bits=str(bits))
    served.cli("XADD", served.stream(name), f"{MS}-{2**bits}", "v", "beyond")
    assert code(served.fetch(name, 0).error_code) == Code.KAFKA_STORAGE_ERROR
    assert f"{bits} bits" in served.notices[-1][1]["why"]
    after = served.stored(name, one(b"after"))
    assert [record.value for record in served.read(name, after)] == [b"after"], "writers go on"


@pytest.mark.parametrize("bits", [1, 20])
def test_retention_by_time_goes_by_the_milliseconds_of_ids_whatever_the_bits(served: RedisServed, bits: int) -> None:
    name = fresh()
    made(served, name, redis_sequence_bits=str(bits), retention_ms="1000")
    stream = served.stream(name)
    served.cli("EVAL", "for n = 1, 450 do redis.call('XADD', KEYS[1], n .. '-1', 'v', 'old') end", 1, stream)
    served.stored(name, one(b"new"))
    served.world.run_for(6_000)
    assert served.cli("XLEN", stream) <= 100
    start = served.list_offset(name, -2)[1]
    assert start >= 350 << bits
    assert served.read(name, start)[-1].value == b"new"


# -- streams of other names


def test_streams_that_were_written_before_the_topic_are_its_partitions_from_the_earliest_on(
    served: RedisServed,
) -> None:
    name = fresh()
    values = [[b"%d.%d" % (partition, n) for n in range(3)] for partition in range(3)]
    ids = [written(served, f"korvet:{name}:{partition}", *values[partition]) for partition in range(3)]
    made(served, name, 3, redis_stream="korvet:{topic}:{partition}", redis_value_field="data")
    for partition, parts in enumerate(served.fetch_all(name, 0, 0, 0)):
        records = list(iter_records(parts.records))
        assert [record.value for record in records] == values[partition]
        assert [record.offset for record in records] == [entry.milliseconds << 10 for entry in ids[partition]]
        assert [record.timestamp_ms for record in records] == [entry.milliseconds for entry in ids[partition]]
    assert served.list_offset(name, -2, 1)[:2] == (0, 0)
    assert served.list_offset(name, MS + 1, 2) == (0, (MS + 1) << 10, MS + 1)
    assert served.commit(name, ((MS + 1) << 10) + 1) == 0
    assert [record.value for record in served.read(name, ((MS + 1) << 10) + 1)] == [values[0][2]]

    base = served.stored(name, one(b"ours"), 0)
    last = served.cli("XREVRANGE", f"korvet:{name}:0", "+", "-", "COUNT", 1)
    assert EntryId.parse(last[0][0]).milliseconds == base >> 10
    assert served.cli("EXISTS", served.stream(name), served.state(name)) == 0, "no stream of our own name"
    state = keys_beside("muster", f"korvet:{name}:0")[1]
    assert served.cli("HEXISTS", state, "cluster") == 1

    assert served.grow(name, 4) == 0
    written(served, f"korvet:{name}:3", b"later")
    served.when_led(name, 4)
    assert [record.value for record in iter_records(served.fetch_all(name, 0, 0, 0, 0)[3].records)] == [b"later"]


@pytest.mark.parametrize(
    ("pattern", "stream"),
    [("theirs {topic}", "theirs {0}"), ("{{{topic}}}:0", "{{{0}}}:0"), ("é:{topic}", "é:{0}")],
)
def test_a_topic_of_one_partition_is_one_stream_of_any_name_and_stays_one(
    served: RedisServed, pattern: str, stream: str
) -> None:
    name = fresh()
    written(served, stream.format(name), b"v")
    made(served, name, redis_stream=pattern, redis_value_field="data")
    assert served.values(name) == [b"v"]
    assert served.grow(name, 2) == Code.INVALID_PARTITIONS


def test_no_two_topics_are_one_stream(served: RedisServed) -> None:
    name = fresh()
    made(served, name, 2, redis_stream="x:{topic}:{partition}")
    assert served.create(fresh(), redis_stream=f"x:{name}:5") == Code.INVALID_CONFIG
    assert served.create(fresh(), redis_stream=served.stream(name).replace("{", "{{").replace("}", "}}")) == 40
    assert served.delete(name) == 0
    made(served, fresh(), redis_stream=f"x:{name}:5")


def test_a_key_that_is_no_stream_is_not_touched(served: RedisServed) -> None:
    name = fresh()
    served.cli("SET", f"theirs:{name}", "text")
    assert served.create(name, redis_stream="theirs:{topic}") == 0
    while (got := served.list_offset(name, -1)[0]) in (Code.NOT_LEADER_OR_FOLLOWER, Code.OFFSET_NOT_AVAILABLE):
        served.world.run_for(20)
    assert got == Code.KAFKA_STORAGE_ERROR
    assert served.delete(name) == 0
    served.world.run_for(100)
    assert served.cli("GET", f"theirs:{name}") == b"text"


# -- the declared field


def test_the_declared_field_is_the_value_of_others_entries_and_the_rest_is_as_before(served: RedisServed) -> None:
    name = fresh()
    made(served, name, redis_value_field="data")
    stream = served.stream(name)
    for fields in (
        ("data", b"\xff\0"), ("unit", "C", "data", "first", "data", "second"), ("unit", "C"), ("data", ""),
        ("v", "ours"), ("v", "theirs", "data", "it"),
    ):  # fmt: skip
        served.cli("XADD", stream, "*", *fields)
    assert served.values(name) == [b"\xff\0", b"first", b'[["unit","C"]]', b"", b"ours", b"it"]
    made(served, plain := fresh())
    served.cli("XADD", served.stream(plain), "*", "data", "it")
    assert served.values(plain) == [b'[["data","it"]]']


# -- what is removed, and what is not


def test_a_deleted_topics_streams_stay_and_what_is_beside_them_goes(served: RedisServed) -> None:
    name = fresh()
    stream = f"korvet:{name}:0"
    state = keys_beside("muster", stream)[1]
    written(served, stream, b"a", b"b")
    made(served, name, redis_stream="korvet:{topic}:{partition}", redis_value_field="data")
    base = served.stored(name, one(b"ours", producer_id=5, producer_epoch=3, sequence=0))
    assert served.delete_records(name, (MS + 1) << 10)[0] == 0, "who asks for it gets it"
    assert served.delete(name) == 0
    served.world.run_for(100)
    assert (served.cli("XLEN", stream), served.cli("EXISTS", state)) == (2, 0)

    made(served, name, redis_stream="korvet:{topic}:{partition}", redis_value_field="data")
    assert served.values(name) == [b"b", b"ours"], "another topic over the same stream begins with what is there"
    assert served.stored(name, one(b"again", producer_id=5, producer_epoch=0, sequence=0)) > base


def test_a_topic_that_is_made_again_keeps_the_stream_though_redis_was_away_when_the_first_was_deleted(
    served: RedisServed,
) -> None:
    name, again = fresh(), fresh()
    stream = f"one:{name}"
    state = keys_beside("muster", stream)[1]
    written(served, stream, b"a")
    made(served, name, redis_stream=stream, redis_value_field="data")
    served.stored(name, one(b"ours", producer_id=6, producer_epoch=3, sequence=0))

    def away(script: Script) -> Trouble | None:
        return Trouble.AWAY if script.name == "forget" else None

    served.redis.fate = away
    assert served.delete(name) == 0
    served.world.run_for(100)
    assert served.cli("EXISTS", state) == 1
    made(served, again, redis_stream=stream, redis_value_field="data")
    assert served.values(again) == [b"a", b"ours"], "the claim of the later one has removed no entry"
    served.stored(again, one(b"third", producer_id=6, producer_epoch=0, sequence=0))
    served.redis.fate = lambda _: None
    served.world.run_for(30_000)
    assert served.values(again) == [b"a", b"ours", b"third"]
    assert served.cli("EXISTS", state) == 1, "the late removal knows that another topic has it"


def test_what_could_not_be_removed_is_named(served: RedisServed) -> None:
    name = fresh()
    made(served, name, redis_stream="left:{topic}")
    served.redis.fate = lambda script: Trouble.AWAY if script.name == "forget" else None
    assert served.delete(name) == 0
    served.world.run_for(300_000)
    told = [
        details
        for what, details in served.notices
        if what == "a key of a deleted topic is still in Redis: remove it by hand"
    ]
    assert [details["key"] for details in told] == [keys_beside("muster", f"left:{name}")[1]]


def test_nothing_of_a_mapped_stream_is_cut_unless_the_topic_itself_says_so(served: RedisServed) -> None:
    kept, cut, ours = fresh(), fresh(), fresh()
    text = "for n = 1, 450 do redis.call('XADD', KEYS[1], n .. '-0', 'data', 'old') end"
    for name in (kept, cut):
        served.cli("EVAL", text, 1, f"k:{name}")
    made(served, kept, redis_stream="k:{topic}")
    made(served, cut, redis_stream="k:{topic}", retention_ms="1000")
    made(served, ours)
    served.cli("EVAL", text, 1, served.stream(ours))
    served.world.run_for(6_000)
    assert served.cli("XLEN", f"k:{kept}") == 450, "not the seven days of a topic that says nothing"
    assert served.cli("XLEN", f"k:{cut}") <= 100
    assert served.cli("XLEN", served.stream(ours)) <= 100


def test_others_write_on_beside_our_producers_and_all_is_read_in_order(served: RedisServed) -> None:
    name = fresh()
    stream = f"korvet:{name}"
    made(served, name, redis_stream=stream, redis_value_field="data")
    for n in range(20):
        if n % 2:
            served.cli("XADD", stream, "*", "data", b"%d" % n)
        else:
            served.stored(name, one(b"%d" % n))
    assert served.values(name) == [b"%d" % n for n in range(20)]


def test_tools_are_told_all_three(served: RedisServed) -> None:
    name = fresh()
    made(served, name, redis_stream="k2:{topic}", redis_value_field="data", redis_sequence_bits="12")
    resource = {"resource_type": 2, "resource_name": name, "configuration_keys": None}
    answer: Any = served.ask(32, 4, resources=[resource])
    told = {each.name: each.value for each in answer.results[0].configs}
    own = ("redis.stream", "redis.value.field", "redis.sequence.bits", "topic.store", "retention.ms")
    assert [told[each] for each in own] == ["k2:{topic}", "data", "12", "redis", "-1"]
