"""Who is to vote in the controller's group, over the admin API: asked for at its leader, judged, and answered when it
is committed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from muster_coordinator.controller.commands import CommandResult, SetControllerVoters
from muster_coordinator.controller.image import EMPTY_ID
from muster_coordinator.errors import Code
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId

from tests.admin.test_admin_api import Harness, run
from tests.admin.test_replacement import at_level

PATH = "/v1/controller/voters"


def grown(h: Harness, level: int = 3, **changes: Any) -> None:
    """Brokers 3 and 4 have joined."""
    image = at_level(level, **changes)
    like = image.brokers[BrokerId(1)]
    joined = {BrokerId(n): replace(like, broker=BrokerId(n), replica_uuid=bytes([90 + n]) * 16) for n in (3, 4)}
    h.replica.known_image = replace(image, brokers={**image.brokers, **joined})


async def ask(h: Harness, body: object) -> tuple[int, Any]:
    return await h.ask("POST", PATH, body)


def test_the_leader_proposes_them(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        grown(h)
        assert await ask(h, {"voters": [0, 3, 4]}) == (200, {"voters": [0, 3, 4]})
        assert h.replica.commands == [SetControllerVoters(voters=(BrokerId(0), BrokerId(3), BrokerId(4)))]

    run(tmp_path, body)


@pytest.mark.parametrize(
    "asked", [None, [], "text", 3, {}, {"voters": 3}, {"voters": ["0"]}, {"voters": [True]}, {"voters": [0], "more": 1}]
)
def test_what_names_no_brokers_is_not_understood(tmp_path: Path, asked: object) -> None:
    async def body(h: Harness) -> None:
        grown(h)
        status, document = await ask(h, asked)
        assert (status, document["error"]) == (400, "bad_request")
        assert h.replica.commands == []

    run(tmp_path, body)


@pytest.mark.parametrize(
    ("voters", "words"),
    [
        ([], "1, 3 or 5 voters, not 0"),
        ([0, 3], "1, 3 or 5 voters, not 2"),
        ([0, 3, 3], "named twice"),
        ([0, 3, 9], "broker 9 is not registered"),
        ([-1], "broker -1 is not registered"),
        ([0, 1, 3], "broker 1 waits for a new data folder"),
    ],
)
def test_who_cannot_vote_is_refused_in_words(tmp_path: Path, voters: list[int], words: str) -> None:
    async def body(h: Harness) -> None:
        grown(h, of_1={"replica_uuid": EMPTY_ID})
        status, document = await ask(h, {"voters": voters})
        assert (status, document["error"], words in document["message"]) == (409, "refused", True), document
        assert h.replica.commands == []

    run(tmp_path, body)


def test_without_a_connected_majority_of_them_nothing_is_proposed(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        grown(h)
        h.replica.down = {BrokerId(3), BrokerId(4)}
        status, document = await ask(h, {"voters": [0, 3, 4]})
        assert (status, document["error"]) == (409, "no_majority")
        assert "only [0] are connected; 2 are needed" in document["message"]
        h.replica.down = {BrokerId(4)}
        assert (await ask(h, {"voters": [0, 3, 4]}))[0] == 200

    run(tmp_path, body)


def test_below_its_level_it_is_refused(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        grown(h, 2)
        status, document = await ask(h, {"voters": [0]})
        assert (status, document["error"]) == (409, "feature_level")
        assert h.replica.commands == []

    run(tmp_path, body)


def test_another_replica_leads(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        grown(h)
        h.replica.leaders[CONTROLLER_GROUP] = BrokerId(1)
        status, document = await ask(h, {"voters": [0, 3, 4]})
        assert (status, document["error"], document["coordinator"]) == (421, "misdirected", 1)
        assert h.replica.commands == []

    run(tmp_path, body)


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        (Code.NOT_CONTROLLER, 503, "no_leader"),
        (Code.REQUEST_TIMED_OUT, 503, "not_known"),
        (Code.INVALID_REQUEST, 409, "refused"),
    ],
)
def test_what_becomes_of_the_proposal_is_told(tmp_path: Path, code: Code, status: int, error: str) -> None:
    async def body(h: Harness) -> None:
        grown(h)
        h.replica.submit = lambda command, *, deadline_ms, done: done(  # type: ignore[method-assign]
            CommandResult(code, "why")
        )
        answered, document = await ask(h, {"voters": [0, 3, 4]})
        assert (answered, document["error"]) == (status, error)

    run(tmp_path, body)
