"""Answers of the admin API as views, where the numbers have a meaning of their own."""

from muster_operator.admin.decode import group_facts, replica_view
from muster_operator.world.cluster import ReplicaView
from muster_operator.world.views import Unknown


def test_a_group_that_nobody_ever_joined_has_no_generation() -> None:
    """-1, of a simple consumer that only commits: the definition refuses it, and with it the whole status."""
    assert group_facts({"generation": -1}) == (None, None, None)
    assert group_facts({"generation": 0}) == (0, None, None)
    assert group_facts({"generation": 3, "last_rebalance_ms": 7, "last_rebalance_reason": "x"}) == (3, 7, "x")


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
