"""Events as log lines: one each while there are few, their number when there are many, and every one counted."""

import json
import logging

import pytest
from muster_coordinator import events
from muster_coordinator.events import EXPELLED, KINDS, PREPARING, Event, EventKind, Level, Room
from muster_coordinator.runtime import limits
from muster_coordinator.runtime.event_log import EventLog
from muster_coordinator.runtime.logs import JsonFormatter

from tests.sim.loop import SimLoop, World


def preparing(number: int, reason: str = "a member left") -> Event:
    return Event(PREPARING, {"consumer_group": f"g{number}", "generation": 3, "members": 2, "reason": reason})


def expelled(number: int) -> Event:
    fields = dict.fromkeys(EXPELLED.fields, "x") | {"member": f"m{number}"}
    return Event(EXPELLED, fields)


@pytest.fixture(autouse=True)
def at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "muster_coordinator.events")


def test_an_event_is_a_line_with_its_fields_and_level(caplog: pytest.LogCaptureFixture) -> None:
    tell = EventLog(SimLoop(World(1)))
    tell(preparing(1))
    tell(expelled(1))
    assert [(record.getMessage(), record.levelno) for record in caplog.records] == [
        ("preparing to rebalance", logging.INFO),
        ("member expelled", logging.WARNING),
    ]
    line = json.loads(JsonFormatter({"broker": 0}).format(caplog.records[0]))
    assert {name: line[name] for name in PREPARING.fields} == preparing(1).fields
    assert (line["level"], line["logger"], line["room"]) == ("info", "events", "groups")


def test_a_storm_of_one_kind_is_summed_up_when_its_window_ends_and_hides_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(1)
    tell = EventLog(SimLoop(world))
    for number in range(1_000):
        tell(preparing(number))
        tell(expelled(number))
    names = [record.getMessage() for record in caplog.records]
    assert names.count("preparing to rebalance") == limits.EVENTS_PER_WINDOW_MAX
    assert names.count("member expelled") == 1_000
    caplog.clear()
    world.run_for(limits.EVENT_WINDOW_MS)
    told = [(record.getMessage(), getattr(record, "times", None)) for record in caplog.records]
    assert told == [("preparing to rebalance: more of these were not logged", 1_000 - limits.EVENTS_PER_WINDOW_MAX)]
    caplog.clear()
    tell(preparing(1))
    assert [record.getMessage() for record in caplog.records] == ["preparing to rebalance"]
    assert (tell.counts["preparing to rebalance"], tell.counts["member expelled"]) == (1_001, 1_000)


def test_a_mass_expulsion_is_counted_beyond_its_bound(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1)
    tell = EventLog(SimLoop(world))
    for number in range(limits.RARE_EVENTS_PER_WINDOW_MAX + 7):
        tell(expelled(number))
    world.run_for(limits.EVENT_WINDOW_MS)
    assert (caplog.records[-1].getMessage(), getattr(caplog.records[-1], "times", None)) == (
        "member expelled: more of these were not logged",
        7,
    )


def test_what_a_client_chose_is_cut_and_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    tell = EventLog(SimLoop(World(1)))
    tell(preparing(1, reason='x\n{"message": "became leader"}' + "y" * 40_000))
    written = JsonFormatter({}).format(caplog.records[0])
    assert "\n" not in written
    assert len(json.loads(written)["reason"]) == limits.EVENT_TEXT_CHARS_MAX


def test_below_the_level_nothing_is_written_and_all_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "muster_coordinator.events")
    world = World(1)
    tell = EventLog(SimLoop(world))
    for number in range(1_000):
        tell(preparing(number))
    world.run_for(limits.EVENT_WINDOW_MS)
    assert caplog.records == []
    assert tell.counts["preparing to rebalance"] == 1_000


def test_every_kind_is_counted_from_the_start_and_no_field_collides_with_the_lines_own() -> None:
    tell = EventLog(SimLoop(World(1)))
    assert dict(tell.counts) == {kind.name: 0 for kind in KINDS}
    own = set(vars(logging.makeLogRecord({}))) | {
        "message",
        "asctime",
        "ts",
        "level",
        "logger",
        "broker",
        "error",
        "room",
        "times",
    }
    for kind in KINDS:
        assert not own & set(kind.fields), kind
        assert len(set(kind.fields)) == len(kind.fields)
        assert kind.level in Level
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_every_declared_kind_is_among_those_that_are_counted_and_documented() -> None:
    declared = {name: kind for name, kind in vars(events).items() if isinstance(kind, EventKind)}
    forgotten = {name for name, kind in declared.items() if kind not in KINDS}
    assert not forgotten, "declared in events.py: add them to KINDS there, then python -m tests.cli.events_doc"
    assert len(declared) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_no_event_can_be_made_in_a_test_with_other_fields_than_it_declares(kind: EventKind) -> None:
    """`tests/event_fields.py` holds this for every event that any test of this process meets."""
    whole: dict[str, object] = dict.fromkeys(kind.fields, "x")
    assert Event(kind, whole).fields == whole
    for name in kind.fields:
        with pytest.raises(AssertionError, match=name):
            Event(kind, {one: "x" for one in kind.fields if one != name})
    with pytest.raises(AssertionError, match="one_more"):
        Event(kind, whole | {"one_more": "x"})
    if kind.room is not Room.GROUPS:
        return
    assert Event(kind, whole | {"raft_group": 1, "partition": "__consumer_offsets-0"}).kind is kind
    with pytest.raises(AssertionError, match="raft_group"):
        Event(kind, whole | {"raft_group": 1})


def test_of_the_audit_each_line_is_written_whatever_the_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "muster_coordinator.events")
    caplog.handler.setLevel(logging.NOTSET)
    world = World(1)
    tell = EventLog(SimLoop(world))
    many = limits.RARE_EVENTS_PER_WINDOW_MAX + 7
    for number in range(many):
        tell(Event(events.AUDITED, dict.fromkeys(events.AUDITED.fields, f"n{number}")))
    world.run_for(limits.EVENT_WINDOW_MS)
    assert [record.getMessage() for record in caplog.records] == ["audit"] * many
    assert json.loads(JsonFormatter({}).format(caplog.records[-1]))["logger"] == "muster.audit"
