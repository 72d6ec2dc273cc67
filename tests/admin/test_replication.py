"""How many replicas every Raft group has, over the admin API: asked for at the controller's leader, judged, shown."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from muster_coordinator.controller.commands import CommandResult, SetReplicationFactor
from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.errors import Code
from muster_coordinator.ids import CONTROLLER_GROUP, BrokerId
from muster_coordinator.limits import RAFT_GROUPS_MAX

from tests.admin.test_admin_api import Harness, run
from tests.admin.test_balancing import answering, uneven

PATH = "/v1/replication-factor"


def grown(partitions: int = 2, **changes: Any) -> ClusterImage:
    """Five brokers; the controller's group, the offsets topic and `orders` have three replicas."""
    image = uneven(partitions)
    return replace(image, names_by_id={topic.topic_id: name for name, topic in image.topics.items()}, **changes)


async def ask(h: Harness, body: object) -> tuple[int, Any]:
    return await h.ask("POST", PATH, body)


def test_the_leader_proposes_it(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.known_image = grown()
        assert await ask(h, {"factor": 5}) == (200, {"factor": 5, "kept": [], "kept_more": False})
        assert await ask(h, {"factor": 1}) == (200, {"factor": 1, "kept": ["orders"], "kept_more": False})
        assert (await ask(h, {"factor": 1, "all": True}))[1]["kept"] == []
        assert (await ask(h, {"factor": 5, "topics": ["orders", "orders"]}))[0] == 200
        assert h.replica.commands == [
            SetReplicationFactor(factor=5),
            SetReplicationFactor(factor=1),
            SetReplicationFactor(factor=1, every_topic=True),
            SetReplicationFactor(factor=5, topics=(b"t" * 16,)),
        ]

    run(tmp_path, body)


def test_a_dry_run_shows_the_moves_and_changes_nothing(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.known_image = grown()
        status, document = await ask(h, {"factor": 5, "dry_run": True})
        assert (status, document["controller_voters_to_be"], document["more"]) == (200, 5, False)
        resized = document["planned"]
        assert {one["reason"] for one in resized} == {"it is to have 5 replicas, and has 3"}
        assert [(one["topic"], one["partition"]) for one in resized] == [
            *(("__consumer_offsets", number) for number in range(4)),
            ("orders", 0),
            ("orders", 1),
        ]
        assert all(sorted(one["replicas"]) == [0, 1, 2, 3, 4] for one in resized)
        assert h.replica.commands == []

    run(tmp_path, body)


@pytest.mark.parametrize(
    "asked",
    [
        None, [], "3", 3, {}, {"factor": "3"}, {"factor": True}, {"factor": 2**31}, {"factor": 3, "more": 1},
        {"factor": 3, "topics": "orders"}, {"factor": 3, "topics": [3]}, {"factor": 3, "all": 1},
        {"factor": 3, "dry_run": "no"}, {"factor": 3, "all": True, "topics": ["orders"]},
        {"factor": 3, "topics": ["x"] * (RAFT_GROUPS_MAX + 1)},
    ],
)  # fmt: skip
def test_what_is_no_such_request_is_not_understood(tmp_path: Path, asked: object) -> None:
    async def body(h: Harness) -> None:
        h.replica.known_image = grown()
        status, document = await ask(h, asked)
        assert (status, document["error"]) == (400, "bad_request")
        assert h.replica.commands == []

    run(tmp_path, body)


def test_what_cannot_be_is_refused_before_it_is_proposed(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.known_image = grown()
        assert (await ask(h, {"factor": 2}))[1]["message"] == "a Raft group has 1, 3 or 5 replicas, not 2"
        status, document = await ask(h, {"factor": 3, "topics": ["orders", "gone"]})
        assert (status, document["error"], document["message"]) == (404, "no_such_topic", "there is no topic 'gone'")
        few = grown()
        few = replace(few, brokers={number: few.brokers[number] for number in map(BrokerId, range(3))})
        h.replica.known_image = few
        status, document = await ask(h, {"factor": 5})
        assert (status, document["error"]) == (409, "refused")
        assert document["message"] == "5 replicas need as many brokers; 3 can take one"
        h.replica.known_image = grown(feature_level=2)
        assert (await ask(h, {"factor": 3}))[1]["error"] == "feature_level"
        h.replica.known_image = grown()
        h.replica.current = False
        assert (await ask(h, {"factor": 3}))[1]["error"] == "not_known"
        h.replica.leaders[CONTROLLER_GROUP] = BrokerId(2)
        assert (await ask(h, {"factor": 3}))[0] == 421
        assert (await h.ask("GET", PATH))[0] == 421
        h.replica.known_image = None
        assert (await ask(h, {"factor": 3}))[1]["error"] == "not_formed"
        assert h.replica.commands == []

    run(tmp_path, body)


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (Code.NOT_CONTROLLER, (503, "no_leader")),
        (Code.REQUEST_TIMED_OUT, (503, "not_known")),
        (Code.UNKNOWN_TOPIC_ID, (409, "refused")),
    ],
)
def test_what_was_not_committed_or_is_not_known_is_told(tmp_path: Path, code: Code, answer: tuple[int, str]) -> None:
    async def body(h: Harness) -> None:
        h.replica.known_image = grown()
        answering(h, CommandResult(code, "so"))
        status, document = await ask(h, {"factor": 3})
        assert (status, document["error"]) == answer

    run(tmp_path, body)


def test_it_is_shown_what_is_left(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        image = grown()
        h.replica.known_image = image
        status, document = await h.ask("GET", PATH)
        assert status == 200
        assert document == {
            "replication_factor": 3,
            "partitions_to_go": 0,
            "moving": 0,
            "controller_voters": [0, 1, 2],
            "controller_voters_to_be": 3,
            "done": True,
            "state": "quiet",
            "reason": "broker 2 is not connected",
        }
        topics = {name: replace(topic, replication_wanted=5) for name, topic in image.topics.items()}
        h.replica.known_image = replace(image, topics=topics, controller_voters_wanted=5, replication_factor=5)
        document = (await h.ask("GET", PATH))[1]
        assert (document["partitions_to_go"], document["done"], document["replication_factor"]) == (6, False, 5)
        assert (document["controller_voters"], document["controller_voters_to_be"]) == ([0, 1, 2], 5)
        h.replica.known_image = replace(image, voters=(BrokerId(0), BrokerId(1), BrokerId(3)))
        assert not (await h.ask("GET", PATH))[1]["done"], "its own log has others still"

    run(tmp_path, body)
