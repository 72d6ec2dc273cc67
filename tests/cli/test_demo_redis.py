"""The parts of `muster demo --redis` that need no Redis: its table, its course over a fake server, and what it says
where something is missing."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from muster_coordinator.cli.demo import command, redis_store
from muster_coordinator.cli.demo.clients import FinalOffsets, Loader, ReaderSight
from muster_coordinator.cli.demo.cluster import GroupSight
from muster_coordinator.cli.demo.flights import FLIGHTS, Flight
from muster_coordinator.cli.demo.redis_store import RedisStreams
from muster_coordinator.cli.demo.run import member_sights
from muster_coordinator.cli.demo.stores import Finding, Moment
from muster_coordinator.cli.demo.stream_table import (
    StreamRow,
    StreamSight,
    committed_until,
    lag_in_time,
    stream_table,
)
from muster_coordinator.cli.demo.view import View
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.group_view import PartitionLag
from muster_coordinator.cli.main import main
from muster_coordinator.cli.output import UNKNOWN
from muster_coordinator.groups.assignors.membership import TopicPartition
from muster_coordinator.redis_streams.entry_ids import EntryId

MS = 1_784_070_123_456


def offset(ms: int, sequence: int) -> int:
    """Document 004's arithmetic, written once more."""
    return ms * 1024 + sequence


def row(
    partition: int, length: int, last: EntryId, committed: int | None, end: Any, *, behind: int = 0, groups: int = 0
) -> StreamRow:
    lag = PartitionLag(TopicPartition("flights", partition), committed, end, None)
    return StreamRow(StreamSight(length, last, groups, behind), lag)


# -- the table -----------------------------------------------------------------------------------------------------


def test_streams_and_lag_stand_side_by_side_and_lag_is_told_in_offsets_and_records() -> None:
    rows = [
        row(0, 28_063, EntryId(MS, 1_023), offset(MS, 1_024), offset(MS, 1_024)),
        row(11, 7, EntryId(MS + 2_000, 3), offset(MS, 8), offset(MS + 2_000, 4), behind=5),
    ]
    assert stream_table(rows, "tower") == [
        "    redis-cli XINFO STREAM        muster group lag tower",
        " P  LENGTH   LAST-GENERATED-ID    CURRENT-OFFSET    LOG-END-OFFSET      LAG",
        " 0   28063  1784070123456-1023  1826887806419968  1826887806419968        0",
        "11       7     1784070125456-3  1826887806418952  1826887808466948  2047996",
        "lag in all: 2,047,996 offsets, 5 records",
        "(an offset is MILLISECONDS << 10 | SEQUENCE of an entry's id: they are sparse)",
        "XINFO GROUPS: 0 groups in 2 streams; committed offsets are in Muster's own log",
    ]


def test_the_table_fits_80_columns_with_the_longest_values_and_with_what_is_unknown() -> None:
    longest = row(11, 336_776, EntryId(MS, 1_023), offset(MS - 999_999, 0), offset(MS, 1_024), behind=336_776)
    lines = stream_table([longest, row(3, 5, EntryId(MS, 0), None, UNKNOWN)], "tower")
    assert max(map(len, lines)) <= 80, lines
    assert lines[3].split() == ["3", "5", f"{MS}-0", "-", "unknown", "-"]
    assert lines[4].startswith("lag in all: 1,024,000,000 offsets in 1 of 2 partitions, 336,776 records")


def test_consumer_groups_of_redis_are_counted() -> None:
    rows = [row(0, 1, EntryId(MS, 0), 0, 1, groups=2), row(1, 1, EntryId(MS, 0), 0, 1, groups=1)]
    assert stream_table(rows, "g")[-1].startswith("XINFO GROUPS: 3 groups in 2 streams")


def test_ends_agree_only_right_after_the_last_id() -> None:
    assert row(0, 1, EntryId(MS, 7), 0, offset(MS, 8)).ends_agree()
    assert row(0, 1, EntryId(MS, 1_023), 0, offset(MS + 1, 0)).ends_agree()
    assert row(0, 0, EntryId(0, 0), 0, 0).ends_agree()
    for wrong in (offset(MS, 7), offset(MS, 9), UNKNOWN):
        assert not row(0, 1, EntryId(MS, 7), 0, wrong).ends_agree()


def test_lag_of_a_member_is_a_sum_of_offsets_and_the_longest_time() -> None:
    half, two = (offset(MS + 500, 0), offset(MS, 0)), (offset(MS + 2_000, 0), offset(MS, 0))
    assert lag_in_time([half, two]) == "2,560,000 (2.0 s)"
    assert lag_in_time([(offset(MS, 0), offset(MS, 3))]) == "0 (0.0 s)", "a commit newer than the end that was seen"
    assert lag_in_time([half, (offset(MS, 0), None)]) is None, "from offset 0 would be 57 years"


def test_the_members_of_the_table_have_no_sums_of_sparse_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")

    class StillReader:
        name, records, sight = "reader-0", 7, ReaderSight({0: offset(MS + 1_000, 0), 1: offset(MS, 0)})

    member = {"member": "reader-0-8a7b", "client_id": "reader-0", "assignment": [{"topic": "t", "partitions": [0, 1]}]}
    offsets = [{"topic": "t", "partition": n, "offset": offset(MS, 0)} for n in (0, 1)]
    sight = GroupSight(2, {"state": "Stable", "generation": 5, "members": [member], "offsets": offsets})
    (line,) = member_sights([StillReader()], sight, RedisStreams(FakeServer(), list, "flights", "tower", View()))  # type: ignore[list-item]
    assert (line.committed, line.lag) == (committed_until([offset(MS, 0)]), "1,024,000 (1.0 s)")
    assert str(line.committed).startswith("to ")


# -- the course ----------------------------------------------------------------------------------------------------


class FakeClient:
    """The streams of one topic."""

    def __init__(self, server: "FakeServer") -> None:
        self.server = server

    def xinfo_stream(self, name: str) -> dict[str, Any]:
        assert name == "muster:{flights:0}"
        return {"length": self.server.length, "last-generated-id": b"%d-7" % MS, "groups": 0}

    def eval(self, _script: str, _keys: int, name: str, first: str, last: str) -> int:
        self.server.counted.append((name, first, last))
        return 2

    def scan_iter(self, match: str) -> Iterator[str]:
        assert match == "muster:{flights:*}"
        return iter(["muster:{flights:0}"])

    def xlen(self, _name: str) -> int:
        return self.server.length


class FakeServer:
    """Of Redis only its life."""

    def __init__(self) -> None:
        self.client: Any = FakeClient(self)
        self.length = 0
        self.life: list[str] = []
        self.counted: list[tuple[str, str, str]] = []
        self.ready = True

    def kill(self) -> int:
        self.life.append("killed")
        self.ready = False
        return 4711

    def start(self) -> None:
        self.life.append("started")

    def is_ready(self) -> bool:
        return self.ready


Course = tuple[RedisStreams, FakeServer, Callable[..., None]]
HALF = FLIGHTS // 2


@pytest.fixture
def course(capsys: pytest.CaptureFixture[str]) -> Course:
    """A store, its server, and `act(elapsed_s, seen, moved)` that lets what a thread shows be shown."""
    server = FakeServer()
    lag = PartitionLag(TopicPartition("flights", 0), offset(MS, 8) - 3, offset(MS, 8), None)
    level = lag._replace(committed=offset(MS, 8))
    store = RedisStreams(server, lambda: [level if store.done else lag], "flights", "tower", View())

    def act(elapsed_s: float, seen: int, *, moved: bool = True, acknowledged: int = HALF) -> None:
        store.act(Moment(elapsed_s, seen, acknowledged, moved))
        if store._showing is not None:
            store._showing.join(10)

    return store, server, act


def test_redis_dies_after_the_coordinator_and_comes_back_before_it(
    course: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    store, server, act = course
    act(10, HALF, moved=False)
    act(11, HALF, moved=False)
    assert server.life == [], "the coordinator lives, or nobody has its group"
    shown = capsys.readouterr().out
    assert shown.count("redis-cli XINFO STREAM") == 1, "once"
    assert "lag in all: 3 offsets, 2 records" in shown
    assert server.counted == [("muster:{flights:0}", f"{MS}-5", f"{MS}-7")], "from the commit to the end, both included"
    act(12, HALF - 1)
    assert server.life == []
    act(13, HALF)
    assert server.life == ["killed"]
    assert store.loaded_max < FLIGHTS, "some are loaded later"
    act(14, HALF)
    assert server.life == ["killed"]
    act(16.5, HALF)
    assert server.life == ["killed", "started"]
    act(17, HALF)
    assert not store.done, "it reads its files"
    server.ready, server.length = True, HALF + 5
    act(18, HALF)
    assert store.done
    assert store.loaded_max == FLIGHTS
    assert server.life == ["killed", "started"]
    told = capsys.readouterr().out
    assert f"killed Redis (SIGKILL, pid 4711): {HALF:,} flights are acknowledged" in told
    assert f"Redis is back 5.0 s after the kill, with {HALF + 5:,} flights" in told


def findings(course: Course, *, length_back: int = HALF, length: int = FLIGHTS, read_after: int = 9) -> list[Finding]:
    store, server, act = course
    for at, elapsed_s in enumerate((1, 2, 6)):
        act(elapsed_s, HALF, moved=at > 0)
    server.ready, server.length = True, length_back
    act(7, HALF)
    act(8, HALF + read_after)
    server.length = length
    store.end()
    return store.findings(FinalOffsets({0: 1}, {0: 1}))


def test_a_good_run_has_only_good_findings(course: Course) -> None:
    found = findings(course)
    assert [one.holds for one in found] == [True] * 4
    assert [one.sentence for one in found] == [
        "the streams hold 336,776 entries (XINFO STREAM): every flight once",
        "lag 0 and log end = last-generated-id + 1 in 1 of 1 partitions",
        "Redis came back with 168,388 flights; 168,388 had been acknowledged",
        "9 flights were read after Redis came back",
    ]
    assert course[0].closing()[2].split() == ["0", "336776", f"{MS}-7", str(offset(MS, 8)), str(offset(MS, 8)), "0"]


@pytest.mark.parametrize(
    ("broken", "at"),
    [
        ({"length": FLIGHTS - 1}, 0),
        ({"length": FLIGHTS + 1}, 0),
        ({"length_back": HALF - 1}, 2),
        ({"read_after": 0}, 3),
    ],
)
def test_each_loss_is_found(course: Course, broken: dict[str, int], at: int) -> None:
    assert [n for n, one in enumerate(findings(course, **broken)) if not one.holds] == [at]


def test_a_lag_that_is_left_or_an_end_that_is_not_the_streams_is_found(course: Course) -> None:
    findings(course)
    store = course[0]
    for wrong in ({"committed": offset(MS, 7)}, {"end": offset(MS, 9), "committed": offset(MS, 9)}):
        level = PartitionLag(TopicPartition("flights", 0), offset(MS, 8), offset(MS, 8), None)
        store._lags = lambda level=level, wrong=wrong: [level._replace(**wrong)]  # type: ignore[misc]
        store.end()
        assert [one.holds for one in store.findings(FinalOffsets({0: 1}, {0: 1}))] == [True, False, True, True]


def test_a_coordinator_that_does_not_answer_at_the_end_is_a_finding(course: Course) -> None:
    findings(course)
    store = course[0]

    def silent() -> list[PartitionLag]:
        raise CliError(Exit.UNREACHABLE, "no usable answer")

    store._lags = silent
    store.end()
    assert store.findings(FinalOffsets({0: 1}, {0: 1}))[0] == Finding(
        False, "streams and lag are unknown at the end: no usable answer"
    )


def test_a_redis_that_was_never_killed_is_a_finding() -> None:
    store = RedisStreams(FakeServer(), list, "flights", "tower", View())
    store.end()
    assert Finding(False, "Redis was not killed, or did not come back") in store.findings(FinalOffsets({}, {}))


def test_the_loader_stops_at_what_may_be_loaded_and_goes_on_when_more_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a broker: what matters is how many flights it takes from its source."""
    taken: list[int] = []

    def source() -> Iterator[Flight]:
        for number in range(5_000):
            taken.append(number)
            yield Flight(None, b"%d," % number)

    loader = Loader("127.0.0.1:1", "flights", source(), 1_000_000)
    loader._producer = FakeProducer()
    loader.loaded_max = 2_000
    monkeypatch.setattr(loader, "_stop_asked", Stopped(loader, after=3))
    loader._run()
    assert len(taken) == 5_000
    assert loader._stop_asked.held_at == [2_000] * 3  # type: ignore[attr-defined]


class FakeProducer:
    """Takes everything."""

    count = 0

    def poll(self, _seconds: float) -> int:
        return 0

    def produce(self, *_arguments: object, on_delivery: object) -> None:
        self.count += 1

    def flush(self, _seconds: float) -> int:
        return 0


class Stopped:
    """An event that nobody sets; after so many pauses of a loader that may load no more, it may."""

    def __init__(self, loader: Loader, after: int) -> None:
        self.loader, self.after = loader, after
        self.held_at: list[int] = []

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> bool:
        if seconds == 0.1:
            self.held_at.append(self.loader._producer.count)
            if len(self.held_at) == self.after:
                self.loader.loaded_max = FLIGHTS
        return False


# -- what is missing -----------------------------------------------------------------------------------------------


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0), capsys.readouterr().err


def test_without_redis_server_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = tmp_path / "not-made"
    code, said = run(["demo", "--redis", "--dir", str(folder)], capsys)
    assert code == Exit.USAGE
    assert said == (
        "muster: `muster demo --redis` needs redis-server, 7.0 or newer, on PATH: "
        "apt install redis-server (Debian, Ubuntu), brew install redis (macOS)\n"
    )
    assert not folder.exists()


@pytest.mark.parametrize("package", ["redis", "kafka"])
def test_without_a_package_one_sentence_names_it(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == package else real(name, *rest))
    code, said = run(["demo", "--redis"], capsys)
    assert code == Exit.USAGE
    assert said == (
        f"muster: `muster demo --redis` needs the package {package}: pip install 'muster[coordinator,cli,demo,redis]'\n"
    )


def test_the_demo_alone_asks_for_nothing_of_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(command, "require", lambda *extras: asked.append(extras))
    monkeypatch.setattr(command, "program", lambda: asked.append(("program",)))
    monkeypatch.setattr(command, "_run", lambda *_arguments, **_named: True)
    command.demo()
    assert asked == []
    command.demo(redis=True)
    assert asked == [("`muster demo --redis`", "coordinator", "cli", "demo", "redis"), ("program",)]


def test_shares_of_the_run_leave_flights_for_each_step() -> None:
    assert 0 < redis_store.SHOW_AT < redis_store.KILL_AT < redis_store.LOADED_MAX < 1
