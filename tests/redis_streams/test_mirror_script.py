"""The script that shows a group in Redis, on a real Redis 7.0: what it touches and what not, which call wins, and that
what Redis says of entries read and lag is either exact or not there."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from muster_coordinator.ids import GroupNo
from muster_coordinator.redis_streams import limits
from muster_coordinator.redis_streams.entry_ids import EntryId, Offsets
from muster_coordinator.redis_streams.keys import keys_of
from muster_coordinator.redis_streams.mirror import Caller, mirror_arguments, mirrored, mirrored_arguments
from muster_coordinator.redis_streams.owned import Claim
from muster_coordinator.redis_streams.server import CLAIM, FORGET, MIRROR, MIRRORED

from tests.redis_streams.redis_server import NOT_ALLOWED, Connection, RedisError, RedisServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
OFFSETS = Offsets.of_bits(10)
_NUMBERS = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as started:
        yield started


class Stream:
    """A partition's stream, claimed."""

    def __init__(self, connection: Connection, *, claimed: bool = True) -> None:
        self.cli = connection.ask
        self.keys = keys_of("mirror", f"t{next(_NUMBERS)}", 0)
        self.stream, self.state = self.keys
        if claimed:
            self.claim()

    def claim(self, incarnation: int = 7) -> None:
        assert self.run(CLAIM, Claim("c", incarnation, 1).arguments())[0] == b"OK"

    def run(self, script: Any, asked: list[bytes]) -> Any:
        return self.cli("EVAL", script.text, 2, *self.keys, *asked)

    def show(
        self, committed: int | None, group: str = "g", *, incarnation: int = 7, term: int = 1, number: int = 1
    ) -> bytes:
        caller = Caller("c", incarnation, GroupNo(3), term, number)
        word: bytes = self.run(MIRROR, mirror_arguments(caller, group, committed, OFFSETS))[0]
        return word

    def groups(self) -> dict[bytes, dict[bytes, Any]]:
        if not self.cli("EXISTS", self.stream):
            return {}
        found = [dict(zip(one[::2], one[1::2], strict=True)) for one in self.cli("XINFO", "GROUPS", self.stream)]
        return {one[b"name"]: one for one in found}

    def notes(self) -> set[bytes]:
        return {name for name in self.cli("HKEYS", self.state) if name.startswith(b"g:")}

    def add(self, milliseconds: int, sequence: int, value: str = "1") -> None:
        self.cli("XADD", self.stream, f"{milliseconds}-{sequence}", "v", value)


@pytest.fixture
def stream(server: RedisServer) -> Stream:
    return Stream(server.connect())


def at(milliseconds: int, sequence: int) -> int:
    """By decision 80."""
    return milliseconds * 1024 + sequence


@pytest.mark.parametrize(
    ("committed", "last_delivered"),
    [(0, b"0-0"), (1, b"0-0"), (at(5, 8), b"5-7"), (at(6, 0), b"5-1023"), (2**63 - 1, b"9007199254740991-1022")],
)
def test_the_last_delivered_is_the_entry_before_the_committed_offset(
    stream: Stream, committed: int, last_delivered: bytes
) -> None:
    """Also at a stream that has no entry yet, and once more at the same one."""
    for number in (1, 2):
        assert stream.show(committed, number=number) == b"OK"
        assert stream.groups()[b"g"][b"last-delivered-id"] == last_delivered
    assert (stream.notes(), stream.groups()[b"g"][b"consumers"]) == ({b"g:g"}, 0)


def test_a_group_of_others_is_left_alone(stream: Stream) -> None:
    stream.add(5, 0)
    stream.cli("XGROUP", "CREATE", stream.stream, "g", "0")
    assert stream.show(at(5, 1)) == b"FOREIGN"
    assert stream.show(None) == b"OK", "nothing of ours is there"
    assert (stream.groups()[b"g"][b"last-delivered-id"], stream.notes()) == (b"0-0", set())
    stream.cli("XGROUP", "DESTROY", stream.stream, "g")
    assert stream.show(at(5, 1)) == b"OK"
    assert stream.groups()[b"g"][b"last-delivered-id"] == b"5-0"


def test_one_that_somebody_uses_is_theirs_from_then_on(stream: Stream) -> None:
    stream.add(5, 0)
    assert stream.show(0) == b"OK"
    stream.cli("XREADGROUP", "GROUP", "g", "c", "STREAMS", stream.stream, ">")
    assert stream.show(0, number=2) == b"USED"
    assert stream.groups()[b"g"][b"last-delivered-id"] == b"5-0", "what they have read is not taken back"
    assert stream.show(None, number=3) == b"USED"
    assert stream.groups()[b"g"][b"pending"] == 1
    assert stream.notes() == set()
    assert stream.show(at(5, 1), number=4) == b"FOREIGN"


def test_it_is_made_again_when_it_is_gone_and_removed_when_its_offset_is(stream: Stream) -> None:
    stream.add(5, 0)
    assert stream.show(at(5, 1)) == b"OK"
    stream.cli("XGROUP", "DESTROY", stream.stream, "g")
    assert stream.show(at(5, 1), number=2) == b"OK"
    assert set(stream.groups()) == {b"g"}
    assert (stream.show(None, number=3), stream.show(None, number=4)) == (b"OK", b"OK")
    assert (stream.groups(), stream.notes()) == ({}, set())
    assert stream.cli("XLEN", stream.stream) == 1, "entries stay"


@pytest.mark.parametrize("late", [{"term": 1, "number": 9}, {"term": 2, "number": 4}])
def test_a_call_of_an_earlier_term_or_number_that_comes_late_changes_nothing(
    stream: Stream, late: dict[str, int]
) -> None:
    assert stream.show(at(9, 0), term=2, number=5) == b"OK"
    assert stream.show(at(5, 0), **late) == b"STALE"
    assert stream.show(None, **late) == b"STALE"
    assert stream.groups()[b"g"][b"last-delivered-id"] == b"8-1023"
    assert stream.show(at(5, 0), term=2, number=6) == b"OK", "an offset may go back"
    assert stream.show(at(4, 0), term=10, number=1) == b"OK", "terms are numbers"


def test_only_a_stream_that_this_topic_has_claimed(server: RedisServer) -> None:
    stream = Stream(server.connect(), claimed=False)
    assert stream.show(5) == b"UNCLAIMED"
    assert stream.cli("EXISTS", *stream.keys) == 0
    stream.claim(7)
    assert (stream.show(5, incarnation=6), stream.show(5, incarnation=8)) == (b"FENCED", b"UNCLAIMED")
    assert stream.show(5) == b"OK"
    stream.claim(8)
    assert (stream.groups(), stream.notes()) == ({}, set()), "of the topic before nothing is left"
    assert stream.show(5, incarnation=8) == b"OK"
    assert stream.run(FORGET, [b"c", b"8"])[0] == b"OK"
    assert stream.cli("EXISTS", *stream.keys) == 0
    other = Stream(server.connect())
    other.cli("HSET", other.state, "cluster", "another")
    assert other.show(5) == b"UNCLAIMED"
    plain = Stream(server.connect())
    plain.cli("SET", plain.stream, "x")
    assert plain.show(5) == b"TYPE"


def test_without_the_right_to_note_it_is_foreign_and_without_the_right_to_make_it_nothing_is_noted(
    server: RedisServer,
) -> None:
    stream = Stream(server.connect())
    everything = "+@all"
    for number, lacking in enumerate(["-xgroup", "-hset"]):
        user = f"u{number}"
        server.connect().ask("ACL", "SETUSER", user, "on", "nopass", "~*", everything, lacking)
        limited = server.connect()
        limited.ask("AUTH", user, "x")
        stream.cli = limited.ask
        with pytest.raises(RedisError, match=NOT_ALLOWED.pattern):
            stream.show(5)
        stream.cli = server.connect().ask
        assert stream.notes() == set()
        assert set(stream.groups()) == ({b"g"} if lacking == "-hset" else set())
    assert stream.show(5) == b"FOREIGN"


def test_names_are_any_bytes_and_as_long_as_kafka_takes_them(stream: Stream) -> None:
    names = ["", "g:g", "é\x00\r\n", "x" * 32_767]
    for name in names:
        assert stream.show(at(5, 0), name) == b"OK"
    assert set(stream.groups()) == {name.encode() for name in names}
    word, cursor, fields = stream.run(MIRRORED, mirrored_arguments("c", 7, b"0"))
    assert (word, cursor) == (b"OK", b"0")
    assert sorted(mirrored(fields)) == sorted((name, GroupNo(3)) for name in names)
    assert list(mirrored([b"g:\xff", b"3 1 1", b"g:x", b"", b"g:y", b"x 1 1", b"p:1", b"3 1 1"])) == []
    assert list(mirrored([b"g:x", b"9" * 5_000 + b" 1 1", b"g:y", b"9" * 11 + b" 1 1"])) == []


def test_all_that_is_shown_is_listed_page_by_page_between_producers(stream: Stream) -> None:
    for number in range(2_500):
        stream.cli("HSET", stream.state, f"p:{number}", "1 ")
        if number % 5 == 0:
            assert stream.show(5, f"g{number}") == b"OK"
    found: set[str] = set()
    cursor, pages = b"0", 0
    while pages == 0 or cursor != b"0":
        _, cursor, fields = stream.run(MIRRORED, mirrored_arguments("c", 7, cursor))
        found.update(group for group, _ in mirrored(fields))
        pages += 1
    assert found == {f"g{number}" for number in range(0, 2_500, 5)}
    assert pages > 1
    assert stream.run(MIRRORED, mirrored_arguments("c", 8, b"0")) == [b"UNCLAIMED", b"0", []]
    assert stream.run(MIRRORED, mirrored_arguments("c", 6, b"0")) == [b"FENCED", b"0", []]


steps = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 2)),
    st.tuples(st.just("delete"), st.integers(0, 30)),
    st.tuples(st.just("trim"), st.integers(0, 30)),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(course=st.lists(steps, max_size=30), at_entry=st.integers(0, 40), beside=st.integers(-1, 1))
def test_entries_read_and_lag_are_exact_or_not_there(
    server: RedisServer, course: list[tuple[str, int]], at_entry: int, beside: int
) -> None:
    """The oracle has every id that was ever added: entries read are those up to the last delivered id, the lag is what
    XRANGE finds behind it."""
    connection = server.connect()
    try:
        stream = Stream(connection)
        ever: list[EntryId] = []
        milliseconds = sequence = 1
        for what, number in course:
            if what == "add":
                milliseconds, sequence = (milliseconds + number, 0) if number else (milliseconds, sequence + 1)
                stream.add(milliseconds, sequence)
                ever.append(EntryId(milliseconds, sequence))
            elif ever and what == "delete":
                stream.cli("XDEL", stream.stream, ever[number % len(ever)].text)
            elif ever:
                stream.cli("XTRIM", stream.stream, "MINID", ever[number % len(ever)].text)
        last = ever[at_entry % len(ever)] if ever else EntryId(0, 0)
        committed = max(0, at(*last) + 1 + beside)
        assert stream.show(committed) == b"OK"
        shown = stream.groups()[b"g"]
        delivered = EntryId.parse(shown[b"last-delivered-id"])
        read = sum(one <= delivered for one in ever)
        behind = len(stream.cli("XRANGE", stream.stream, f"({delivered.text}", "+"))
        assert shown[b"entries-read"] in (None, read)
        assert shown[b"lag"] in (None, behind)
        if all(what == "add" for what, _ in course) and ever and delivered <= ever[-1]:
            assert (shown[b"entries-read"], shown[b"lag"]) == (read, behind), "nothing was removed: both are known"
    finally:
        connection.close()


def test_a_group_far_behind_has_no_number_of_entries(stream: Stream) -> None:
    """Nobody counts without end, in entries or bytes."""
    most = limits.MIRROR_ENTRIES_COUNTED_MAX
    for number in range(1, most + 3):
        stream.add(number, 0)
    assert stream.show(at(2, 1)) == b"OK"
    assert (stream.groups()[b"g"][b"entries-read"], stream.groups()[b"g"][b"lag"]) == (2, most)
    assert stream.show(at(1, 1), number=2) == b"OK"
    assert stream.groups()[b"g"][b"entries-read"] is None
    for number in range(3):
        stream.add(1_000 + number, 0, "x" * (limits.MIRROR_BYTES_COUNTED_MAX // 2))
    assert stream.show(at(1_001, 1), number=3) == b"OK"
    assert stream.groups()[b"g"][b"lag"] == 1
    assert stream.show(at(999, 0), number=4) == b"OK"
    assert stream.groups()[b"g"][b"entries-read"] is None
