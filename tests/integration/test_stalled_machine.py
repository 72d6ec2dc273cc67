"""A machine that gets no processor for seconds: all replicas stand still, and nobody is elected when they go on."""

import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster import MusterCluster
from tests.integration.test_life_in_the_log import lines
from tests.raw_client import RawClient
from tests.raw_group import NONE, commit, find_coordinator

pytestmark = [pytest.mark.integration, pytest.mark.quiet, pytest.mark.timeout(60)]

STALL_S = 3
AFTER_S = 3
"""Longer than any election timeout."""
ELECTIONS = ("election started", "became leader", "lost leadership")


def test_a_stall_of_the_machine_moves_no_leader(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "stalled") as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("orders", 1, replication_factor=3)])["orders"].result(30)
        time.sleep(AFTER_S)
        before = elections(cluster)
        assert before > 50, "the first ones are written"
        for replica in range(3):
            cluster.freeze(replica)
        time.sleep(STALL_S)
        for replica in range(3):
            cluster.thaw(replica)
        _, host, port = find_coordinator(cluster.bootstrap, "billing")
        with RawClient(host, port) as client:
            assert commit(client, "billing", "orders", {0: 7}) == {0: NONE}
        time.sleep(AFTER_S)
        assert elections(cluster) == before


def elections(cluster: MusterCluster) -> int:
    return len([line for line in lines(cluster) if line["message"] in ELECTIONS])
