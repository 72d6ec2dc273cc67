"""Answers of the admin API as views, where the numbers have a meaning of their own."""

from typing import Any

import pytest
from muster_operator.admin.decode import group_facts, replica_view, replication_view
from muster_operator.world.cluster import ReplicationView, ReplicaView, Seat
from muster_operator.world.group import Counted
from muster_operator.world.views import Unknown


def test_a_group_that_nobody_ever_joined_has_no_generation() -> None:
    """-1, of a simple consumer that only commits: the definition refuses it, and with it the whole status."""
    assert group_facts({"generation": -1}) == (None, None, None, {})
    assert group_facts({"generation": 0}) == (0, None, None, {})
    assert group_facts({"generation": 3, "last_rebalance_ms": 7, "last_rebalance_reason": "x"}) == (3, 7, "x", {})


def offset(behind: Any, partition: int = 0) -> dict[str, Any]:
    return {"topic": "t", "partition": partition, "offset": 5, "leader_epoch": -1, "metadata": "", "behind": behind}


def test_records_that_the_coordinators_counted() -> None:
    told = [
        offset({"records": 3, "quality": "exact"}, 0),
        offset({"records": 4, "quality": "estimated"}, 1),
        offset({"records": None, "quality": "unknown"}, 2),
        offset(None, 3),
    ]
    facts = group_facts({"generation": 1, "offsets": told})
    assert not isinstance(facts, Unknown)
    assert facts.counted == {
        ("t", 0): Counted(records=3, exact=True),
        ("t", 1): Counted(records=4, exact=False),
        ("t", 2): Counted(records=None, exact=False),
    }


@pytest.mark.parametrize(
    "behind", [{}, {"records": 1}, {"records": "1", "quality": "exact"}, {"records": 1, "quality": "x"}, 5]
)
def test_a_count_of_another_shape_is_no_answer(behind: Any) -> None:
    assert isinstance(group_facts({"generation": 1, "offsets": [offset(behind)]}), Unknown)


def test_a_low_disk_is_seen_and_a_release_that_does_not_tell_of_disks_has_room() -> None:
    status = {
        "broker": 1,
        "ready": True,
        "not_ready": [],
        "cluster_id": "c",
        "drain": {"phase": "idle", "left": 0},
        "leaderships": 4,
    }
    partitions = {"broker": 1, "partitions": []}
    for disk, seen in (({}, False), ({"disk": {"low": False}}, False), ({"disk": {"low": True, "full": False}}, True)):
        view = replica_view("c-1", 1, status | disk, partitions)
        assert isinstance(view, ReplicaView)
        assert view.disk_low is seen
    assert isinstance(replica_view("c-1", 1, status | {"disk": {}}, partitions), Unknown)


STATUS: dict[str, Any] = {
    "broker": 1, "ready": True, "not_ready": [], "cluster_id": "c", "drain": {"phase": "idle", "left": 0},
    "leaderships": 4,
}  # fmt: skip
GROUP: dict[str, Any] = {
    "group": 3, "topic": None, "partition": None, "role": "leader", "term": 2, "leader": 1, "voters": [0, 1],
    "last_index": 9, "commit": 9, "applied": 9, "match": {"0": 9},
}  # fmt: skip
FOLDER = "0af3" * 8


def view_of(status: dict[str, Any], *groups: dict[str, Any]) -> Any:
    return replica_view("c-1", 1, STATUS | status, {"broker": 1, "partitions": list(groups)})


def test_folders_and_whose_place_waits_for_one() -> None:
    brokers = [
        {"broker": 0, "replica_uuid": FOLDER, "binding": 0}, {"broker": 1, "replica_uuid": None, "binding": 2},
        {"broker": 2},
    ]  # fmt: skip
    view = view_of({"replica_uuid": FOLDER, "brokers": brokers, "groups_to_change": 7})
    assert (view.folder, view.groups_to_change) == (FOLDER, 7)
    assert view.seats == {0: Seat(folder=FOLDER, binding=0), 1: Seat(folder=None, binding=2)}


def test_a_release_that_tells_no_folders_has_none() -> None:
    view = view_of({"brokers": [{"broker": 0, "alive": True}]}, GROUP)
    assert isinstance(view, ReplicaView)
    assert (view.folder, view.seats, view.groups_to_change, view.groups[0].bindings) == (None, {}, 0, {})


@pytest.mark.parametrize("folder", ["", "xyz", FOLDER.upper(), FOLDER + "0", "../../secrets", 7, ["a"]])
def test_what_is_no_uuid_of_a_folder_is_not_understood(folder: object) -> None:
    """It would go into a path, a status and a message."""
    assert isinstance(view_of({"replica_uuid": folder}), Unknown)
    assert isinstance(view_of({"brokers": [{"broker": 0, "replica_uuid": folder, "binding": 0}]}), Unknown)


def test_which_folder_votes_and_that_it_changes() -> None:
    view = view_of({}, GROUP | {"bindings": {"0": 1, "1": None}})
    assert view.groups[0].bindings == {0: 1, 1: None}
    assert isinstance(view_of({}, GROUP | {"bindings": {"0": "1"}}), Unknown)


RAISED = {
    "replication_factor": 3, "partitions_to_go": 4, "moving": 2, "controller_voters": [0], "controller_voters_to_be": 3,
    "done": False, "state": "moving", "reason": "x" * 500,
}  # fmt: skip


def test_how_far_more_replicas_are() -> None:
    found = replication_view(RAISED)
    assert found == ReplicationView(
        factor=3, partitions_to_go=4, moving=2, voters=1, voters_to_be=3, done=False, reason="x" * 200
    )


@pytest.mark.parametrize("field", ["replication_factor", "partitions_to_go", "moving", "controller_voters", "done"])
@pytest.mark.parametrize("value", [None, "3", True, ...])
def test_no_number_is_guessed_and_only_true_is_done(field: str, value: object) -> None:
    document = {key: one for key, one in {**RAISED, field: value}.items() if one is not ...}
    found = replication_view(document)
    if field == "done" and value is not ...:
        assert isinstance(found, ReplicationView)
        assert found.done == (value is True)
    else:
        assert isinstance(found, Unknown)
