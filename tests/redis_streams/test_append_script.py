"""The append script on a real Redis: against its model, and under each fault, each batch once, in order, or refused."""

import random
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from muster_coordinator.errors import Code
from muster_coordinator.limits import MIB
from muster_coordinator.records.batch import iter_records
from muster_coordinator.redis_streams.append_ids import NO_APPEND, AppendId
from muster_coordinator.redis_streams.append_script import (
    SCRIPT,
    Appended,
    AppendRefused,
    arguments,
    outcome,
)
from muster_coordinator.redis_streams.batches import batches
from muster_coordinator.redis_streams.entries import record_of
from muster_coordinator.redis_streams.entry_ids import EntryId, Offsets
from muster_coordinator.redis_streams.keys import keys_of
from muster_coordinator.redis_streams.limits import HEADERS_MAX
from muster_coordinator.redis_streams.owned import read_arguments, seen
from muster_coordinator.redis_streams.produced import Produced, produced
from muster_coordinator.redis_streams.server import PROVE, READ

from tests.redis_streams.append_model import Model
from tests.redis_streams.redis_server import NOT_ALLOWED, Connection, RedisError, RedisServer
from tests.topics.batch_bytes import T0, Rec, batch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
OFFSETS = Offsets.of_bits(10)
FUTURE_MS = 10**14
"""Ids from here on are ahead of every clock, so that what the script chooses can be foretold."""
_NUMBERS = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as started:
        yield started


class Partition:
    """A stream of a test's own, with the hash beside it."""

    def __init__(self, server: RedisServer, connection: Connection | None = None) -> None:
        self.server = server
        self.redis = connection or server.connect()
        self.stream, self.state = keys_of("muster", f"t{next(_NUMBERS)}", 0)

    def call(self, batch: Produced, epoch: int = 1, offsets: Offsets = OFFSETS) -> list[bytes | int | str]:
        return ["EVAL", SCRIPT, 2, self.stream, self.state, *arguments(epoch, offsets, batch)]

    def append(self, batch: Produced, epoch: int = 1, offsets: Offsets = OFFSETS) -> Appended | AppendRefused:
        return outcome(self.redis.ask(*self.call(batch, epoch, offsets)), offsets, self.stream)

    def numbered(self, batch: Produced, epoch: int, number: int, proved: AppendId = NO_APPEND) -> Any:
        asked = arguments(epoch, OFFSETS, batch, number=number, proved=proved)
        return self.redis.ask("EVAL", SCRIPT, 2, self.stream, self.state, *asked)

    def entries(self) -> list[tuple[EntryId, list[bytes]]]:
        found = self.redis.ask("XRANGE", self.stream, "-", "+")
        return [(EntryId.parse(entry), fields) for entry, fields in found]

    def values(self) -> list[bytes]:
        return [fields[fields.index(b"v") + 1] for _, fields in self.entries()]

    def at_future(self) -> "Partition":
        """Its last id is ahead of the clock, as after a clock that stepped back."""
        self.redis.ask("XADD", self.stream, f"{FUTURE_MS}-0", "v", "first")
        return self


def of(*values: bytes, producer: int = -1, epoch: int = -1, sequence: int = -1) -> Produced:
    return Produced(producer, epoch, sequence, [(None, [b"v", value]) for value in values])


def test_a_batch_goes_in_by_the_script_and_comes_out_as_kafkas_records(server: RedisServer) -> None:
    partition = Partition(server)
    headers = [(b"twice", b"1"), (b"twice", None), (b"empty", b"")]
    sent = [Rec(None, None, 3), Rec(b"", b"", 1), Rec(b"k", bytes(range(256)), 2, headers=headers)]
    before_ms = time.time_ns() // 10**6
    result = partition.append(produced(batch(sent)))
    after_ms = time.time_ns() // 10**6
    assert isinstance(result, Appended)
    assert before_ms <= OFFSETS.id_of(result.base_offset).milliseconds <= after_ms

    entries = [
        (OFFSETS.offset_of(entry, partition.stream), record_of(entry, fields)) for entry, fields in partition.entries()
    ]
    (one,) = batches(entries, leader_epoch=4)
    got = list(iter_records(one))
    assert [record.offset for record in got] == [result.base_offset + index for index in range(3)]
    assert [(r.timestamp_ms, r.key, r.value) for r in got] == [
        (T0 + 3, None, None), (T0 + 1, b"", b""), (T0 + 2, b"k", bytes(range(256)))
    ]  # fmt: skip
    assert got[2].headers == (("twice", b"1"), ("twice", None), ("empty", b""))


def test_a_full_millisecond_moves_on_and_a_clock_behind_goes_on_from_the_last_id(server: RedisServer) -> None:
    partition = Partition(server).at_future()
    result = partition.append(of(*(b"%d" % n for n in range(2_500))))
    first = OFFSETS.offset_of(EntryId(FUTURE_MS, 0), "") + 1
    assert result == Appended(first, duplicate=False)
    entries = partition.entries()
    assert [OFFSETS.offset_of(entry, "") for entry, _ in entries] == list(range(first - 1, first + 2_500))
    assert entries[-1][0] == EntryId(FUTURE_MS + 2, 2_500 - 2_048)


def test_a_time_that_is_the_ids_is_not_written_twice(server: RedisServer) -> None:
    partition = Partition(server).at_future()
    records = [(FUTURE_MS, [b"v", b"a"]), (FUTURE_MS - 1, [b"v", b"b"]), (-1, [b"v", b"c"])]
    partition.append(Produced(-1, -1, -1, records))
    assert [fields for _, fields in partition.entries()[1:]] == [
        [b"v", b"a"], [b"t", b"%d" % (FUTURE_MS - 1), b"v", b"b"], [b"t", b"-1", b"v", b"c"]
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_any_course_of_owners_and_producers_is_as_the_model_says(server: RedisServer, seed: int) -> None:
    rand = random.Random(seed)
    offsets = Offsets.of_bits(rand.choice((1, 3, 10)))
    partition = Partition(server).at_future()
    model = Model(offsets.sequence_max, last=EntryId(FUTURE_MS, 0))
    model.entries.append((EntryId(FUTURE_MS, 0), b"first"))
    sent: list[tuple[int, int, int, list[bytes]]] = []
    seen: set[str] = set()
    for step in range(400):
        producer = rand.choice((-1, 5, 2**62, 7))
        known_epoch, known = model.producers.get(producer, (0, []))
        wanted = (known[-1][1] + 1) % 2**31 if known else rand.choice((0, 2**31 - 2))
        one = (
            producer,
            max(0, known_epoch + rand.choice((0, 0, 0, 0, 1, -1))),
            rand.choice((wanted, wanted, wanted, wanted + 1, 0)) % 2**31,
            [b"%d.%d" % (step, n) for n in range(rand.randint(1, 9))],
        )
        if sent and rand.random() < 0.2:
            one = sent[-rand.randint(1, min(8, len(sent)))]
        epoch = max(1, model.owner + rand.choice((0, 0, 0, 0, 0, 0, 1, -1)))
        if rand.random() < 0.05:  # somebody else's entry, or a trim: ids go on from the last that ever was
            model.last = EntryId(model.last.milliseconds + rand.choice((0, 1)), model.last.sequence + 1)
            partition.redis.ask("XADD", partition.stream, model.last.text, "v", "other")
            model.entries.append((model.last, b"other"))
        if rand.random() < 0.02:
            partition.redis.ask("XTRIM", partition.stream, "MAXLEN", 0)
            model.entries.clear()
        sent.append(one)
        expected = model.append(epoch, *one, now_ms=0)
        call = partition.call(of(*one[3], producer=one[0], epoch=one[1], sequence=one[2]), epoch, offsets)
        word, detail = partition.redis.ask(*call)
        assert (word.decode(), detail.decode()) == expected, (seed, step, one, epoch)
        seen.add(expected[0])
    assert seen == {"OK", "DUPLICATE", "FENCED", "EPOCH", "SEQUENCE"}
    assert list(zip((entry for entry, _ in partition.entries()), partition.values(), strict=True)) == model.entries


def test_a_deposed_owner_is_refused_by_redis_itself(server: RedisServer) -> None:
    partition = Partition(server)
    assert isinstance(partition.append(of(b"old"), epoch=4), Appended)
    assert isinstance(partition.append(of(b"new"), epoch=5), Appended)
    refused = partition.append(of(b"late"), epoch=4)
    assert isinstance(refused, AppendRefused)
    assert (refused.code, partition.values()) == (Code.NOT_LEADER_OR_FOLLOWER, [b"old", b"new"])


@pytest.mark.parametrize("known", [b"batch", b"number", b"proof"])
def test_what_is_proved_of_an_owner_is_proved_of_those_before_it_for_good(server: RedisServer, known: bytes) -> None:
    """A proof covers what was appended before it; so behind one nothing of an earlier owner may come."""
    partition = Partition(server)
    one = of(b"v", producer=1, epoch=0, sequence=0)
    assert isinstance(partition.append(one, epoch=4), Appended)
    if known == b"proof":
        asked = [PROVE.text, 2, partition.stream, partition.state, 0, 5]
        assert partition.redis.ask("EVAL", *asked) == [b"OK", b""]
    elif known == b"batch":
        assert isinstance(partition.append(one, epoch=5), Appended)
    else:
        assert partition.numbered(of(b"w"), 5, 1)[0] == b"OK"
        assert partition.numbered(of(b"w"), 5, 1)[0] == b"DUPLICATE"
    refused = partition.append(of(b"late"), epoch=4)
    assert isinstance(refused, AppendRefused)
    assert refused.code is Code.NOT_LEADER_OR_FOLLOWER


def test_each_append_says_from_where_on_nothing_was_proved_when_it_came(server: RedisServer) -> None:
    partition = Partition(server)

    def noted() -> tuple[AppendId, int]:
        """The last append, and how many entries are before those of which nothing is proved if that one is not."""
        asked = [READ.text, 2, partition.stream, partition.state, *read_arguments(0, b"-", 0, 0, NO_APPEND)]
        found = seen(partition.redis.ask("EVAL", *asked), OFFSETS, "s")
        ids = [entry for entry, _ in partition.entries()]
        return found.appended, sum(OFFSETS.offset_of(entry, "s") < found.proved_end for entry in ids)

    steps = [
        (AppendId(4, 1), NO_APPEND, 0),
        (AppendId(4, 2), NO_APPEND, 0),
        (AppendId(4, 3), AppendId(4, 2), 2),
        (AppendId(4, 4), AppendId(4, 2), 2),
        (AppendId(6, 1), NO_APPEND, 2),
        (AppendId(6, 2), AppendId(6, 1), 5),
        (AppendId(7, 1), AppendId(6, 2), 6),
    ]
    for this, proved, first in steps:
        assert partition.numbered(of(b"v"), *this, proved)[0] == b"OK"
        assert noted() == (this, first)


def test_an_answer_that_was_lost_is_found_by_the_same_call(server: RedisServer) -> None:
    rand = random.Random(4)
    partition = Partition(server)
    outcomes = []
    for number in range(60):
        one = of(b"%d" % number, producer=3, epoch=0, sequence=number)
        cut = server.connect()
        cut.send(*partition.call(one))
        if rand.random() < 0.5:
            cut.socket.recv(rand.randint(1, 12))  # in the middle of the answer
        cut.close()
        result = partition.append(one)
        assert isinstance(result, Appended)
        outcomes.append(result.duplicate)
    assert partition.values() == [b"%d" % number for number in range(60)]
    assert any(outcomes), "half of the calls were cut in their answer, so they had been carried out"


def test_a_server_without_memory_appends_nothing_and_goes_on_when_it_has_some(server: RedisServer) -> None:
    partition = Partition(server)
    first = of(b"1", producer=1, epoch=0, sequence=0)
    partition.append(first)
    partition.redis.ask("CONFIG", "SET", "maxmemory", 1)
    try:
        with pytest.raises(RedisError, match="OOM"):
            partition.append(of(*[b"x" * 1_000] * 50, producer=1, epoch=0, sequence=1), epoch=2)
    finally:
        partition.redis.ask("CONFIG", "SET", "maxmemory", 0)
    assert partition.redis.ask("HGET", partition.state, "epoch") == b"1"
    assert partition.append(of(b"2", producer=1, epoch=0, sequence=1)) == partition.append(
        of(b"2", producer=1, epoch=0, sequence=1)
    )._replace(duplicate=False)
    assert partition.values() == [b"1", b"2"]


@pytest.mark.parametrize("rights", ["+@all -xadd", "+@all -hset", "+@all -xinfo", "+@all -eval"])
def test_a_user_without_a_right_appends_nothing(server: RedisServer, rights: str) -> None:
    admin = server.connect()
    admin.ask("ACL", "SETUSER", "narrow", "reset", "on", ">secret", "~*", "&*", *rights.split())
    partition = Partition(server)
    partition.append(of(b"1", producer=1, epoch=0, sequence=0))
    partition.redis.ask("AUTH", "narrow", "secret")
    with pytest.raises(RedisError, match=NOT_ALLOWED.pattern):
        partition.append(of(b"2", b"3", producer=1, epoch=0, sequence=1))
    allowed = Partition(server, admin)
    allowed.stream, allowed.state = partition.stream, partition.state
    assert allowed.values() == [b"1"]
    assert isinstance(allowed.append(of(b"2", producer=1, epoch=0, sequence=1)), Appended)


def test_producers_and_the_fence_survive_a_sigkill_of_redis(server: RedisServer) -> None:
    partition = Partition(server)
    batches_sent = [of(b"%d" % n, producer=9, epoch=1, sequence=n) for n in range(8)]
    told = [partition.append(one, epoch=6) for one in batches_sent]
    server.kill()
    server.start()
    partition.redis = server.connect()
    assert [partition.append(one, epoch=6) for one in batches_sent[-5:]] == [
        one._replace(duplicate=True) for one in told[-5:] if isinstance(one, Appended)
    ]
    forgotten = partition.append(batches_sent[2], epoch=6)
    assert isinstance(forgotten, AppendRefused)
    assert forgotten.code is Code.OUT_OF_ORDER_SEQUENCE_NUMBER, "as Kafka tells one that is older than five batches"
    deposed = partition.append(of(b"late"), epoch=5)
    assert isinstance(deposed, AppendRefused)
    assert partition.values() == [b"%d" % n for n in range(8)]


def test_the_largest_records_come_through(server: RedisServer) -> None:
    partition = Partition(server)
    many = [b"v", b"x", *(part for n in range(HEADERS_MAX) for part in (b"h:%d" % n, b"y"))]
    records: list[tuple[int | None, list[bytes]]] = [(7, many), (None, [b"v", b"z" * MIB])]
    assert isinstance(partition.append(Produced(-1, -1, -1, records)), Appended)
    (_, first), (_, second) = partition.entries()
    assert (first[2:], second) == (many, [b"v", b"z" * MIB])


def foreign(partition: Partition, *command: Any) -> AppendRefused:
    partition.redis.ask(*command)
    refused = partition.append(of(b"1"))
    assert isinstance(refused, AppendRefused)
    return refused


def test_a_key_of_another_type_and_an_id_at_the_end_of_time_are_refused_in_words(server: RedisServer) -> None:
    partition = Partition(server)
    told = foreign(partition, "SET", partition.stream, "text")
    assert (told.code, "is a string, not a stream" in told.message) == (Code.KAFKA_STORAGE_ERROR, True)
    for last in (f"{10**15}-0", f"{2**64 - 1}-{2**64 - 1}", f"{10**15 - 1}-1023"):
        partition = Partition(server)
        told = foreign(partition, "XADD", partition.stream, last, "v", "x")
        assert told.code is Code.KAFKA_STORAGE_ERROR
        assert last in told.message


def test_an_entry_beyond_the_bits_does_not_stop_writers(server: RedisServer) -> None:
    partition = Partition(server)
    partition.redis.ask("XADD", partition.stream, f"{FUTURE_MS}-5000", "v", "x")
    assert partition.append(of(b"1")) == Appended((FUTURE_MS + 1) << 10, duplicate=False)
