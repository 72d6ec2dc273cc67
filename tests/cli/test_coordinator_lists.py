"""A list of what all brokers coordinate is whole, or says what it lacks."""

import json
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from muster_coordinator.cli import coordinator_lists, kafka_client
from muster_coordinator.cli.exits import Exit

TOPIC = "__consumer_offsets"


class Admin:
    """Brokers 1 and 2; `leaders`: partition -> (broker, epoch). Each partition has one group, `g-PARTITION`."""

    def __init__(self) -> None:
        self.leaders: dict[int, tuple[int, int]] = {0: (1, 4), 1: (2, 7)}
        self.error = 0
        self.asked: list[int] = []
        self.when_asked: Callable[[int], None] = lambda broker: None
        """Called before broker n answers."""

    def describe_cluster(self) -> dict[str, Any]:
        return {"brokers": [{"broker_id": 1, "is_fenced": False}, {"broker_id": 2, "is_fenced": False}]}

    def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        partitions = [
            {"partition_index": number, "leader_id": leader, "leader_epoch": epoch}
            for number, (leader, epoch) in self.leaders.items()
        ]
        return [{"name": names[0], "error_code": self.error, "partitions": [] if self.error else partitions}]

    def list_groups(self, broker_ids: list[int]) -> list[dict[str, Any]]:
        (broker,) = broker_ids
        self.when_asked(broker)
        self.asked.append(broker)
        return [
            {"group_id": f"g-{number}", "protocol_type": "consumer", "group_state": "Stable"}
            for number, (leader, _) in self.leaders.items()
            if leader == broker
        ]

    def close(self) -> None:
        pass


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    it = Admin()
    monkeypatch.setattr(kafka_client.KafkaSide, "_client", lambda self, deadline: it)
    seconds = count()
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)), sleep=lambda pause_s: None)
    monkeypatch.setattr(coordinator_lists, "time", clock)
    return it


def listed(muster: Any) -> tuple[list[str], int, str]:
    ran = muster("group", "list", "-o", "json")
    return [row["group"] for row in json.loads(ran.out)], ran.code, ran.err


def test_what_moves_to_a_broker_that_was_asked_already_is_found_by_asking_again(muster: Any, admin: Admin) -> None:
    def move(broker: int) -> None:
        if len(admin.asked) == 1:
            admin.leaders[1] = (1, 8)

    admin.when_asked = move
    assert listed(muster) == (["g-0", "g-1"], 0, "")
    assert admin.asked == [1, 2, 1, 2]


def test_a_leadership_that_came_back_is_noticed_by_its_epoch(muster: Any, admin: Admin) -> None:
    """To broker 1 and back to 2 between two questions: whether its list had the group is not known."""
    admin.when_asked = lambda broker: admin.leaders.update({1: (2, 9)})
    assert listed(muster) == (["g-0", "g-1"], 0, "")
    assert admin.asked == [1, 2, 1, 2]


def test_a_partition_without_a_leader_is_waited_for_and_then_named(muster: Any, admin: Admin) -> None:
    admin.leaders[1] = (-1, 7)
    groups, code, said = listed(muster)
    assert (groups, code) == (["g-0"], Exit.INCOMPLETE)
    assert "partition 1 of __consumer_offsets has no leader; groups of it are missing here" in said

    admin.leaders |= dict.fromkeys(range(2, 10), (-1, 0))
    _, _, said = listed(muster)
    assert "partitions 1, 2, 3, 4, 5 and 4 more of __consumer_offsets have no leader" in said


def test_when_coordinators_move_each_time_the_list_says_so(muster: Any, admin: Admin) -> None:
    admin.when_asked = lambda broker: admin.leaders.update({1: (2, admin.leaders[1][1] + 1)})
    groups, code, said = listed(muster)
    assert (groups, code) == (["g-0", "g-1"], Exit.INCOMPLETE)
    assert "coordinators moved each time that all brokers were asked" in said


@pytest.mark.parametrize("error", [3, 29], ids=["no such topic yet", "may not describe it"])
def test_where_leaders_are_not_told_the_list_is_shown_as_it_is(muster: Any, admin: Admin, error: int) -> None:
    admin.error = error
    assert listed(muster) == (["g-0", "g-1"], 0, "")
    assert admin.asked == [1, 2]
