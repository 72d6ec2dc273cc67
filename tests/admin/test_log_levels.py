"""The levels of a running replica's rooms, over the admin API and in what is logged after."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from muster_coordinator.events import CHECKPOINT_STARTED, EXPELLED, PREPARING, Event, Room
from muster_coordinator.runtime.event_log import EventLog
from muster_coordinator.runtime.log_levels import EVENTS

from tests.admin.test_admin_api import LEVELS, Harness, run
from tests.sim.loop import SimLoop, World

PATH = "/v1/log-levels"


@pytest.fixture(autouse=True)
def levels_as_before() -> Iterator[None]:
    before = LEVELS.levels()
    LEVELS.set("process", None)
    yield
    for room, level in before.items():
        LEVELS.set(room, level)


def event(kind: Any) -> Event:
    return Event(kind, dict.fromkeys(kind.fields, "x"))


def test_every_room_of_events_is_there_with_the_configured_level(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        status, document = await h.ask("GET", PATH)
        assert (status, document["configured"], document["levels"].pop("process")) == (200, "info", "info")
        assert document["levels"].keys() >= set(Room)
        assert set(document["levels"].values()) == {None}

    run(tmp_path, body)


def test_a_room_is_made_talkative_and_silent_and_the_others_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tell = EventLog(SimLoop(World(1)))

    def heard() -> list[str]:
        caplog.clear()
        for kind in (CHECKPOINT_STARTED, PREPARING, EXPELLED):
            tell(event(kind))
        return [record.getMessage() for record in caplog.records if record.name.startswith(EVENTS)]

    async def body(h: Harness) -> None:
        assert heard() == ["preparing to rebalance", "member expelled"]
        changed = {"snapshots": "debug", "groups": "warning"}
        status, document = await h.ask("PUT", PATH, {"levels": changed})
        assert status == 200
        assert document["levels"] == LEVELS.levels()
        assert {room: level for room, level in document["levels"].items() if level and room != "process"} == changed
        assert heard() == ["checkpoint started", "member expelled"]
        await h.ask("PUT", PATH, {"levels": {"process": "error", "snapshots": None}})
        assert heard() == ["member expelled"], "a room's own level holds, whatever the process's is"
        await h.ask("PUT", PATH, {"levels": {"process": None, "groups": None}})
        assert heard() == ["preparing to rebalance", "member expelled"]

    run(tmp_path, body)


def test_a_change_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def body(h: Harness) -> None:
        await h.ask("PUT", PATH, {"levels": {"raft": "debug"}})

    run(tmp_path, body)
    (record,) = [record for record in caplog.records if record.getMessage() == "log levels changed"]
    assert record.__dict__["levels"] == {"raft": "debug"}
    assert record.levelno == logging.WARNING


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"levels": []},
        {"levels": {"kitchen": "debug"}},
        {"levels": {"raft": "loud"}},
        {"levels": {"raft": 10}},
        {"levels": {"raft": ["debug"]}},
        {"levels": {"groups": "debug", "kitchen": "debug"}},
        {"levels": {"muster_coordinator.raft": "debug"}},
        {"levels": {"raft": "debug"}, "for_ms": 3},
    ],
)
def test_what_is_not_understood_whole_changes_nothing(tmp_path: Path, body: Any) -> None:
    before = LEVELS.levels()

    async def asks(h: Harness) -> None:
        status, document = await h.ask("PUT", PATH, body)
        assert (status, document["error"]) == (400, "bad_request")
        assert LEVELS.levels() == before

    run(tmp_path, asks)


def test_without_the_token_nothing_is_told_or_changed(tmp_path: Path) -> None:
    before = LEVELS.levels()

    async def body(h: Harness) -> None:
        for method, asked in (("GET", None), ("PUT", {"levels": {"raft": "debug"}})):
            async with h.client.request(method, PATH, json=asked) as answer:
                assert answer.status == 401
        assert LEVELS.levels() == before

    run(tmp_path, body)
