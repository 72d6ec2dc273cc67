"""Groups of Kafka beside those of Redis, on streams that are somebody else's (ADR 95), on a real Redis: they are shown
where the topic really is, by its own bits; no stream is made for them, no group of others is touched, and they go with
the topic, though the stream stays."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from muster_coordinator.ids import GroupNo
from muster_coordinator.redis_streams import limits
from muster_coordinator.redis_streams.entry_ids import EntryId, Offsets
from muster_coordinator.redis_streams.keys import keys_beside, keys_of
from muster_coordinator.redis_streams.mirror import Caller, mirror_arguments, mirrored, mirrored_arguments
from muster_coordinator.redis_streams.owned import Claim
from muster_coordinator.redis_streams.server import CLAIM, FORGET, MIRROR, MIRRORED, Script, Trouble
from muster_coordinator.replica.partitions.redis_mirror import NOT_SHOWN

from tests.api.store_contract import one
from tests.redis_streams.redis_server import NOT_ALLOWED, Connection, RedisError, RedisServer
from tests.redis_streams.test_group_mirror import A_ROUND_MS, Mirrored

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
MS = 1_700_000_000_000
_NUMBERS = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as started:
        yield started


def groups_of(cli: Any, stream: str) -> dict[str, str]:
    """Group -> last-delivered-id, by XINFO GROUPS."""
    if not cli("EXISTS", stream):
        return {}
    found = [dict(zip(flat[::2], flat[1::2], strict=True)) for flat in cli("XINFO", "GROUPS", stream)]
    return {each[b"name"].decode(): each[b"last-delivered-id"].decode() for each in found}


# -- the scripts


class Stream:
    """A stream of somebody else, which a topic has claimed."""

    def __init__(self, connection: Connection) -> None:
        self.cli = connection.ask
        # A name that no test of a whole replica gives: they leave theirs on the same server.
        self.keys = keys_beside("mirror", f"script:{next(_NUMBERS)}")
        self.stream, self.state = self.keys
        self.claim()

    def claim(self, incarnation: int = 7) -> None:
        assert self.run(CLAIM, Claim("c", incarnation, 1, keep=True).arguments())[0] == b"OK"

    def run(self, script: Script, asked: list[bytes]) -> Any:
        return self.cli("EVAL", script.text, 2, *self.keys, *asked)

    def show(self, committed: int | None, group: str = "g", *, incarnation: int = 7, number: int = 1) -> bytes:
        caller = Caller("c", incarnation, GroupNo(3), 1, number)
        asked = mirror_arguments(caller, group, committed, Offsets.of_bits(10), keep=True)
        word: bytes = self.run(MIRROR, asked)[0]
        return word

    def forget(self, incarnation: int = 7, at_once: int = limits.FORGOTTEN_AT_ONCE) -> int:
        """How many calls it takes."""
        cursor, calls = b"0", 0
        while True:
            asked = [b"c", b"%d" % incarnation, b"keep", cursor, b"%d" % at_once]
            word, cursor = self.run(FORGET, asked)
            calls += 1
            if word != b"MORE":
                assert word == b"OK"
                return calls

    def add(self, milliseconds: int) -> None:
        self.cli("XADD", self.stream, f"{milliseconds}-0", "v", "1")

    def groups(self) -> dict[str, str]:
        return groups_of(self.cli, self.stream)

    def notes(self) -> set[bytes]:
        return {name for name in self.cli("HKEYS", self.state) if name.startswith(b"g:")}


@pytest.fixture
def stream(server: RedisServer) -> Stream:
    return Stream(server.connect())


def test_no_stream_is_made_for_a_group(stream: Stream) -> None:
    assert stream.show(0) == b"NONE"
    assert (stream.cli("EXISTS", stream.stream), stream.notes()) == (0, set())
    assert stream.show(None) == b"OK"
    stream.add(5)
    assert stream.show(5 << 10 | 1) == b"OK"
    assert stream.groups() == {"g": "5-0"}


def test_after_their_stream_was_deleted_a_group_that_they_make_again_is_theirs(stream: Stream) -> None:
    stream.add(5)
    assert stream.show(5 << 10 | 1) == b"OK"
    stream.cli("DEL", stream.stream)
    assert stream.show(5 << 10 | 1, number=2) == b"NONE"
    stream.cli("XGROUP", "CREATE", stream.stream, "g", "0", "MKSTREAM")
    assert stream.show(5 << 10 | 1, number=3) == b"FOREIGN"
    assert stream.show(None, number=4) == b"OK"
    assert stream.groups() == {"g": "0-0"}


def test_what_was_made_goes_with_the_topic_and_nothing_of_others_does(stream: Stream) -> None:
    stream.add(5)
    stream.cli("XGROUP", "CREATE", stream.stream, "theirs", "0")
    assert stream.show(0, "theirs") == b"FOREIGN"
    for group in ("ours", "used", "gone", "été"):
        assert stream.show(0, group) == b"OK"
    stream.cli("XREADGROUP", "GROUP", "used", "c", "STREAMS", stream.stream, ">")
    stream.cli("XGROUP", "DESTROY", stream.stream, "gone")
    assert stream.forget() == 1
    assert stream.groups() == {"theirs": "0-0", "used": "5-0"}
    assert (stream.cli("EXISTS", stream.state), stream.cli("XLEN", stream.stream)) == (0, 1)
    assert stream.show(0, "ours") == b"UNCLAIMED", "a call that comes late makes none again"


def test_many_are_taken_away_page_by_page(stream: Stream) -> None:
    stream.add(5)
    for number in range(700):
        assert stream.show(0, f"g{number}") == b"OK"
    pages = stream.forget(at_once=100)
    assert 3 <= pages <= 20, "the hash is claimed until the last of them"
    assert (stream.groups(), stream.cli("EXISTS", stream.state)) == ({}, 0)


@pytest.mark.parametrize("made", ["nothing", "a string"])
def test_a_key_that_is_no_stream_any_more_is_left_as_it_is(stream: Stream, made: str) -> None:
    stream.add(5)
    assert stream.show(0) == b"OK"
    stream.cli("DEL", stream.stream)
    if made == "a string":
        stream.cli("SET", stream.stream, "x")
    assert stream.forget() == 1
    kept = [b"x", 0] if made == "a string" else [None, 0]
    assert [stream.cli("GET", stream.stream), stream.cli("EXISTS", stream.state)] == kept


def test_without_the_right_to_take_them_away_what_was_noted_stays(server: RedisServer, stream: Stream) -> None:
    stream.add(5)
    assert stream.show(0) == b"OK"
    for number, lacking in enumerate(["-xgroup", "-xinfo"]):
        server.connect().ask("ACL", "SETUSER", f"w{number}", "on", "nopass", "~*", "+@all", lacking)
        limited = server.connect()
        limited.ask("AUTH", f"w{number}", "x")
        whole, stream.cli = stream.cli, limited.ask
        with pytest.raises(RedisError, match=NOT_ALLOWED.pattern):
            stream.forget()
        stream.cli = whole
        assert (stream.groups(), stream.notes()) == ({"g": "0-0"}, {b"g:g"})


def test_a_later_topic_knows_what_an_earlier_one_has_made(stream: Stream) -> None:
    """Redis was away when that one was deleted. What it knew of its producers is not the later one's."""
    stream.add(5)
    for group in ("g", "h"):
        assert stream.show(0, group) == b"OK"
    stream.cli("HSET", stream.state, "p:5", "3 0 0 5-0;", "kept", "5-0")
    stream.claim(8)
    fields = {b"cluster", b"incarnation", b"epoch", b"g:g", b"g:h"}
    assert set(stream.cli("HKEYS", stream.state)) == fields
    assert stream.show(0, incarnation=7, number=2) == b"FENCED"
    assert stream.show(5 << 10 | 1, incarnation=8, number=2) == b"OK"
    _, _, listed = stream.run(MIRRORED, mirrored_arguments("c", 8, b"0"))
    assert sorted(group for group, _ in mirrored(listed)) == ["g", "h"], "a walk finds both"
    assert stream.groups() == {"g": "5-0", "h": "0-0"}
    assert stream.forget(8) == 1
    assert stream.groups() == {}


# -- the mirror of a replica


@pytest.fixture
def served(server: RedisServer) -> Mirrored:
    return Mirrored(server)


def made(served: Mirrored, name: str, partitions: int = 1, **configs: str) -> None:
    assert served.create(name, partitions, **configs) == 0
    served.when_led(name, partitions)


def shown(served: Mirrored, stream: str) -> dict[str, str]:
    return groups_of(served.redis.redis.ask, stream)


@pytest.mark.parametrize("bits", [1, 10, 20])
@pytest.mark.parametrize("mapped", [True, False])
def test_a_group_is_shown_on_the_topics_own_stream_by_its_own_bits(served: Mirrored, bits: int, mapped: bool) -> None:
    """At each entry, the last sequence of a millisecond and the first of the next; also when it is reset."""
    names = {"redis_stream": "korvet:{topic}:{partition}"} if mapped else {}
    cli, most = served.redis.redis.ask, 2**bits - 1
    stream = "korvet:t:1" if mapped else keys_of("muster", "t", 1)[0]
    ids = [EntryId(MS, 0), EntryId(MS, most), EntryId(MS + 1, 0)]
    if mapped:
        for entry in ids:
            cli("XADD", stream, entry.text, "v", "1")
    made(served, "t", 2, redis_sequence_bits=str(bits), **names)
    if not mapped:
        for entry in ids:
            cli("XADD", stream, entry.text, "v", "1")
    for number, entry in enumerate(ids):
        after = entry.milliseconds * 2**bits + entry.sequence + 1
        assert served.commit_of("g", "t", after, partition=1) == 0
        served.world.run_for(A_ROUND_MS)
        (row,) = [dict(zip(flat[::2], flat[1::2], strict=True)) for flat in cli("XINFO", "GROUPS", stream)]
        told = (row[b"last-delivered-id"].decode(), row[b"entries-read"], row[b"lag"])
        assert told == (entry.text, number + 1, 2 - number)
    assert served.commit_of("g", "t", MS * 2**bits, partition=1) == 0
    served.world.run_for(A_ROUND_MS)
    assert shown(served, stream) == {"g": EntryId(MS - 1, most).text}
    assert served.delete_group("g") == 0
    served.world.run_for(A_ROUND_MS)
    assert (shown(served, stream), cli("XLEN", stream), served.notices) == ({}, 3, [])
    if mapped:
        assert cli("EXISTS", *keys_of("muster", "t", 1)) == 0, "nothing under the name that it has not"


def test_a_stream_that_is_not_there_is_not_made_and_its_groups_come_with_it(served: Mirrored) -> None:
    cli = served.redis.redis.ask
    made(served, "t", redis_stream="korvet:{topic}")
    assert served.commit_of("g", "t", 0) == 0
    served.world.run_for(limits.MIRROR_WALK_MS)
    assert (cli("EXISTS", "korvet:t"), served.notices) == (0, [])
    cli("XADD", "korvet:t", f"{MS}-0", "v", "1")
    served.world.run_for(limits.MIRROR_WALK_MS + 1_000)
    assert shown(served, "korvet:t") == {"g": "0-0"}


def test_their_groups_are_left_alone_and_ours_go_with_the_topic(served: Mirrored) -> None:
    cli = served.redis.redis.ask
    cli("XADD", "korvet:t", f"{MS}-0", "v", "1")
    cli("XGROUP", "CREATE", "korvet:t", "theirs", "0")
    made(served, "t", redis_stream="korvet:{topic}")
    for group in ("theirs", "ours"):
        assert served.commit_of(group, "t", (MS << 10) + 1) == 0
    served.world.run_for(A_ROUND_MS)
    assert shown(served, "korvet:t") == {"theirs": "0-0", "ours": f"{MS}-0"}
    assert [(what, told["stream"], told["consumer_group"]) for what, told in served.notices] == [
        (NOT_SHOWN, "korvet:t", "theirs")
    ]
    assert served.delete("t") == 0
    served.world.run_for(limits.MIRROR_WALK_MS + 1_000)
    assert (shown(served, "korvet:t"), cli("XLEN", "korvet:t")) == ({"theirs": "0-0"}, 1)
    assert cli("EXISTS", keys_beside("muster", "korvet:t")[1]) == 0


def test_more_groups_than_one_page_go_with_the_topic(served: Mirrored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FORGOTTEN_AT_ONCE", 50)
    cli = served.redis.redis.ask
    cli("CONFIG", "SET", "hash-max-listpack-entries", "16")  # a small hash is one page, whatever its size
    cli("XADD", "korvet:t", f"{MS}-0", "v", "1")
    made(served, "t", redis_stream="korvet:{topic}")
    for number in range(120):
        assert served.commit_of(f"g{number}", "t", MS << 10) == 0
    served.world.run_for(5_000)
    assert len(shown(served, "korvet:t")) == 120
    served.redis.calls.clear()
    lost = [Trouble.UNKNOWN, Trouble.AWAY]
    served.redis.fate = lambda script: lost.pop() if script.name == "forget" and lost else None
    assert served.delete("t") == 0
    served.world.run_for(10_000)
    assert (shown(served, "korvet:t"), cli("XLEN", "korvet:t")) == ({}, 1)
    assert cli("EXISTS", keys_beside("muster", "korvet:t")[1]) == 0
    assert 4 <= served.calls_of("forget") <= 10


def test_a_topic_that_is_made_again_with_other_names_and_bits(served: Mirrored) -> None:
    """The name is the same: the group of each is where its stream is."""
    cli = served.redis.redis.ask
    for stream in ("old:t", "new:t"):
        cli("XADD", stream, f"{MS}-0", "v", "1")
    made(served, "t", redis_stream="old:{topic}")
    assert served.commit_of("g", "t", (MS << 10) + 1) == 0
    served.world.run_for(A_ROUND_MS)
    assert served.delete("t") == 0
    made(served, "t", redis_stream="new:{topic}", redis_sequence_bits="20")
    assert served.commit_of("g", "t", (MS << 20) + 1) == 0
    served.world.run_for(A_ROUND_MS)
    assert (shown(served, "old:t"), shown(served, "new:t")) == ({}, {"g": f"{MS}-0"})
    assert served.delete("t") == 0
    made(served, "t")
    offset = served.stored("t", one(b"v"))
    assert served.commit_of("g", "t", offset + 1) == 0
    served.world.run_for(A_ROUND_MS)
    assert (shown(served, "new:t"), set(served.shown("t"))) == ({}, {"g"})


def test_two_topics_one_after_the_other_over_one_stream_though_redis_was_away_between(served: Mirrored) -> None:
    cli = served.redis.redis.ask
    cli("XADD", "korvet:0", f"{MS}-0", "v", "1")
    made(served, "first", redis_stream="korvet:0")
    for group in ("both", "first"):
        assert served.commit_of(group, "first", (MS << 10) + 1) == 0
    served.world.run_for(A_ROUND_MS)
    served.redis.fate = lambda script: Trouble.AWAY if script.name == "forget" else None
    assert served.delete("first") == 0
    made(served, "second", redis_stream="korvet:0", redis_sequence_bits="20")
    assert served.commit_of("both", "second", MS << 20) == 0
    served.redis.fate = lambda _: None
    served.world.run_for(limits.MIRROR_WALK_MS + 1_000)
    assert shown(served, "korvet:0") == {"both": EntryId(MS - 1, 2**20 - 1).text}
    assert served.notices == []
