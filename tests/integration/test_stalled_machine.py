"""A machine that gets no processor for seconds: all replicas stand still, and nobody is elected when they go on."""

import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster import MusterCluster, wait_until
from tests.integration.test_life_in_the_log import lines
from tests.raw_client import RawClient
from tests.raw_group import NONE, commit, find_coordinator

pytestmark = [pytest.mark.integration, pytest.mark.quiet, pytest.mark.timeout(60)]

GROUPS = 50 + 1 + 1
"""Of the offsets topic, of `orders`, and the controller's."""
STALL_S = 3
AFTER_S = 3
"""Longer than any election timeout."""
WON = "became leader"
ELECTIONS = ("election started", WON, "lost leadership")


def test_a_stall_of_the_machine_moves_no_leader(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "stalled") as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("orders", 1, replication_factor=3)])["orders"].result(30)
        wait_until("all groups are led", lambda: len(led(cluster)) >= GROUPS, 30)
        _, host, port = find_coordinator(cluster.bootstrap, "billing")
        before = elections(cluster)
        for replica in range(3):
            cluster.freeze(replica)
        time.sleep(STALL_S)  # the fault itself: nobody runs who could be asked
        for replica in range(3):
            cluster.thaw(replica)
        until_s, offset = time.monotonic() + AFTER_S, 0
        with RawClient(host, port) as client:
            while time.monotonic() < until_s:
                offset += 1
                assert commit(client, "billing", "orders", {0: offset}) == {0: NONE}
        assert elections(cluster) == before


def elections(cluster: MusterCluster) -> int:
    return len([line for line in lines(cluster) if line["message"] in ELECTIONS])


def led(cluster: MusterCluster) -> set[int]:
    """Raft groups that have had a leader."""
    return {line["raft_group"] for line in lines(cluster) if line["message"] == WON}
