"""The script that counts the records behind an offset, on a real Redis 7.0, against a model over random streams: what
it calls exact is, an estimate keeps to what there is, and nothing that is unknown has a number."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from muster_coordinator.redis_streams import limits
from muster_coordinator.redis_streams.entry_ids import OFFSET_MAX, Offsets
from muster_coordinator.redis_streams.keys import keys_of
from muster_coordinator.redis_streams.lag import UNKNOWN, Quality, Records, behind_arguments, records_behind
from muster_coordinator.redis_streams.owned import Claim
from muster_coordinator.redis_streams.server import BEHIND, CLAIM, Failure, Trouble

from tests.redis_streams.lag_model import Id, lying_behind
from tests.redis_streams.redis_server import Connection, RedisServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
_NUMBERS = count()
MOST = limits.LAG_ENTRIES_COUNTED_MAX
ADD_MANY = """
for number = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  redis.call('XADD', KEYS[1], number * tonumber(ARGV[3]) .. '-0', 'v', ARGV[4])
end
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis"), keeps=False) as started:
        yield started


class Stream:
    """A partition's stream, claimed by incarnation 7 of cluster c."""

    def __init__(self, connection: Connection, bits: int = 10, *, claimed: bool = True) -> None:
        self.cli = connection.ask
        self.offsets = Offsets.of_bits(bits)
        self.keys = keys_of("lag", f"t{next(_NUMBERS)}", 0)
        self.stream = self.keys[0]
        if claimed:
            assert self.run(CLAIM, Claim("c", 7, 1, keep=True).arguments())[0] == b"OK"

    def run(self, script: Any, asked: list[bytes]) -> Any:
        return self.cli("EVAL", script.text, 2, *self.keys, *asked)

    def answer(
        self, committed: int, most: int | None = None, *, incarnation: int | None = 7, cluster: str = "c"
    ) -> Any:
        asked = behind_arguments(cluster, incarnation, committed, self.offsets)
        if most is not None:
            asked[3] = b"%d" % most
        return self.run(BEHIND, asked)

    def lag(self, committed: int, most: int | None = None, **who: Any) -> Records:
        return records_behind(self.answer(committed, most, **who), committed, self.offsets)

    def add(self, milliseconds: int, sequence: int = 0, value: str = "1") -> None:
        self.cli("XADD", self.stream, f"{milliseconds}-{sequence}", "v", value)

    def add_many(self, first: int, last: int, *, apart: int = 1, value: str = "1") -> None:
        self.cli("EVAL", ADD_MANY, 1, self.stream, first, last, apart, value)

    def at(self, milliseconds: int, sequence: int = 0) -> int:
        """By decision 80."""
        return milliseconds * 2**self.offsets.bits + sequence


@pytest.fixture
def stream(server: RedisServer) -> Stream:
    return Stream(server.connect())


steps = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 3), st.sampled_from([0, 0, 0, 1, 1, 2, 5, 2**20 + 1, 2**64 - 2])),
    st.tuples(st.just("del"), st.integers(0, 40), st.just(0)),
    st.tuples(st.just("trim"), st.integers(0, 40), st.just(0)),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    course=st.lists(steps, max_size=40),
    bits=st.sampled_from([1, 10, 20]),
    at_entry=st.integers(0, 40),
    beside=st.integers(-2, 2),
    most=st.sampled_from([1, 2, 3, 7, MOST]),
)
@example(course=[("add", 1, 0)] * 3, bits=10, at_entry=0, beside=0, most=2)
@example(course=[("add", 1, 0)] * 4, bits=10, at_entry=0, beside=0, most=2)
def test_over_random_streams_it_is_what_the_model_says(
    server: RedisServer, course: list[tuple[str, int, int]], bits: int, at_entry: int, beside: int, most: int
) -> None:
    """Entries that others have deleted, trimmed, or written with sequences that have no offset; positions at an entry,
    beside it, and beyond the end."""
    connection = server.connect()
    try:
        stream = Stream(connection, bits)
        there: list[Id] = []
        ever: list[Id] = []
        for what, number, sequence in course:
            if what == "add":
                milliseconds, before = (ever[-1][0] + number, ever[-1]) if ever else (number, (0, 0))
                if (milliseconds, sequence) <= before:
                    continue
                stream.add(milliseconds, sequence)
                ever.append((milliseconds, sequence))
                there.append(ever[-1])
            elif ever and what == "del":
                gone = ever[number % len(ever)]
                stream.cli("XDEL", stream.stream, f"{gone[0]}-{gone[1]}")
                there = [one for one in there if one != gone]
            elif ever:
                least = ever[number % len(ever)]
                stream.cli("XTRIM", stream.stream, "MINID", f"{least[0]}-{least[1]}")
                there = [one for one in there if one >= least]
        near = ever[at_entry % len(ever)] if ever else (0, 0)
        committed = max(0, stream.at(near[0], min(near[1], 2**bits - 1)) + beside)
        wanted = lying_behind(there, ever[-1] if ever else (0, 0), committed, bits)
        found = stream.lag(committed, most)
        if wanted is None:
            assert found == UNKNOWN
        elif wanted <= most or wanted == len(there):
            assert found[:2] == (wanted, Quality.EXACT)
        else:
            assert found.quality is Quality.ESTIMATED
            assert found.number is not None
            assert most < found.number < len(there)
        assert found.looked_at <= most
    finally:
        connection.close()


def test_the_budget_at_its_edge(stream: Stream) -> None:
    stream.add_many(1, MOST + 2)
    assert stream.lag(stream.at(3)) == Records(MOST, Quality.EXACT, MOST)
    over = stream.lag(stream.at(2))
    assert over == Records(MOST + 1, Quality.ESTIMATED, MOST), "one entry more, one entry before: nothing else fits"
    assert stream.lag(stream.at(1)) == Records(MOST + 2, Quality.EXACT, 0), "all of the stream is no look at entries"
    assert stream.lag(stream.at(MOST + 2, 1)) == Records(0, Quality.EXACT, 0)


def test_large_entries_end_the_look_by_their_bytes(stream: Stream) -> None:
    """Also where small ones came before: a look of many large ones would hold the server."""
    stream.add_many(1, 100)
    stream.add_many(101, 160, value="x" * (limits.LAG_BYTES_COUNTED_MAX // 8))
    found = stream.lag(stream.at(2))
    assert found.quality is Quality.ESTIMATED
    assert 63 < found.looked_at <= 63 + 128
    again = stream.lag(stream.at(102))
    assert (again.quality, again.looked_at <= 8 + 1) == (Quality.ESTIMATED, True)
    assert stream.lag(stream.at(155)) == Records(6, Quality.EXACT, 6)


@pytest.mark.parametrize("bits", [1, 10, 20])
def test_an_estimate_of_a_steady_writer_is_close(server: RedisServer, bits: int) -> None:
    """Ids of a real time, 3 ms apart: numbers that Lua's would round."""
    stream = Stream(server.connect(), bits)
    begin = 1_700_000_000_000 // 3
    stream.add_many(begin, begin + 9_999, apart=3)
    for behind in (9_000, 5_000, MOST + 1):
        found = stream.lag(stream.at((begin + 10_000 - behind) * 3))
        assert found.quality is Quality.ESTIMATED
        assert found.number == pytest.approx(behind, rel=0.01)


def test_many_entries_of_one_millisecond_are_shared_by_their_sequence(server: RedisServer) -> None:
    stream = Stream(server.connect(), 20)
    for sequence in range(6_000):
        stream.add(5, sequence)
    assert stream.lag(stream.at(5, 1_000)).number == pytest.approx(5_000, rel=0.01)


def test_what_is_not_this_topics_stream_has_no_number(server: RedisServer) -> None:
    stream = Stream(server.connect(), claimed=False)
    stream.add(1)
    assert (stream.answer(0)[0], stream.lag(0)) == (b"UNCLAIMED", UNKNOWN)
    assert stream.lag(0, incarnation=None) == UNKNOWN
    stream.run(CLAIM, Claim("c", 7, 1, keep=True).arguments())
    assert stream.lag(0) == stream.lag(0, incarnation=None) == Records(1, Quality.EXACT)
    assert (stream.answer(0, cluster="d")[0], stream.lag(0, cluster="d")) == (b"UNCLAIMED", UNKNOWN)
    assert stream.answer(0, incarnation=6)[:1] == [b"FENCED"]
    assert stream.lag(0, incarnation=6) == stream.lag(0, incarnation=8) == UNKNOWN
    stream.cli("DEL", stream.stream)
    assert stream.lag(0) == stream.lag(1) == Records(0, Quality.EXACT), "no entry yet"
    assert stream.lag(stream.at(1, 1)) == UNKNOWN, "somebody removed the stream: what was behind is not known"
    stream.cli("SET", stream.stream, "text")
    assert (stream.answer(0)[0], stream.lag(0)) == (b"TYPE", UNKNOWN)


def test_an_emptied_stream_and_the_greatest_offset(stream: Stream) -> None:
    stream.add(9, 3)
    stream.cli("XDEL", stream.stream, "9-3")
    assert stream.lag(0) == stream.lag(stream.at(9, 4)) == Records(0, Quality.EXACT)
    assert stream.lag(stream.at(9, 5)) == stream.lag(OFFSET_MAX) == UNKNOWN
    stream.add(2**64 - 1, 2**64 - 1)
    assert stream.lag(OFFSET_MAX) == Records(1, Quality.EXACT), "an entry without an offset is an entry"


@pytest.mark.parametrize("trouble", list(Trouble))
def test_no_answer_is_no_number(trouble: Trouble) -> None:
    assert records_behind(Failure(trouble, ""), 5, Offsets.of_bits(10)) == UNKNOWN
