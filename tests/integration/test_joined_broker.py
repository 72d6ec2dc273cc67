"""A fourth replica joins three real processes, and serves clients that know no other address (ADR 41)."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from muster_coordinator.cli.exits import Exit

from tests.cluster import MusterCluster, wait_until
from tests.integration.failover_load import records_of
from tests.integration.test_replaced_replica import (
    SETTINGS,
    TOPIC,
    Clients,
    controller,
    data_of,
    folder_of,
    muster,
    replace,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

NEW = 3


def statuses(cluster: MusterCluster) -> list[dict[str, Any]]:
    return [cluster.status(replica) for replica in (*range(cluster.replicas), NEW)]


def await_observer(cluster: MusterCluster) -> None:
    """Every replica knows it, reaches it, and has nothing to change any more."""

    def known() -> bool:
        return all(
            one["observers"] == [NEW]
            and all(broker["alive"] for broker in one["brokers"])
            and len(one["brokers"]) == 4
            and one["groups_to_change"] == 0
            for one in statuses(cluster)
        )

    wait_until("it is one of them", known, 30)


def test_clients_that_know_the_new_broker_only_are_served_whoever_dies(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "cluster", partitions=10, settings=SETTINGS, room_for=1) as cluster:
        cluster.add_replica(NEW)
        await_observer(cluster)
        bootstrap = f"127.0.0.1:{cluster.client_port(NEW)}"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, 2, -1)], operation_timeout=20)[TOPIC].result(20)
        assert set(admin.list_topics(timeout=20).brokers) == {0, 1, 2, NEW}
        clients = Clients(bootstrap)
        try:
            clients.goes_on()
            for replica in (controller(cluster), NEW):
                cluster.kill(replica)
                clients.goes_on()
                cluster.start_replica(replica)
                await_observer(cluster)
                clients.goes_on()
        finally:
            clients.stop()
        assert clients.assignments == 1, "nobody rebalanced"
        assert clients.delivered == clients.sent
        assert records_of(bootstrap, TOPIC, 0) == clients.sent, "each record once, in order"
        quorum = admin.list_topics(timeout=20).topics[TOPIC].partitions[0]
        assert sorted(quorum.replicas) == [0, 1, 2], "it holds no partition"
        status = muster(cluster, "status")
        assert status.returncode == 0, status.stdout + status.stderr
        assert cluster.stop() == 0


def test_its_volume_is_lost_and_its_id_given_to_a_new_one(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "cluster", partitions=3, settings=SETTINGS, room_for=1) as cluster:
        cluster.add_replica(NEW)
        await_observer(cluster)
        gone = folder_of(cluster, NEW)
        cluster.kill(NEW)
        shutil.rmtree(data_of(cluster, NEW))
        cluster.start_replica(NEW, wait_ready=False)

        def says_so() -> bool:
            try:
                return any("was emptied and stays out" in reason for reason in cluster.status(NEW)["not_ready"])
            except (OSError, AssertionError):
                return False

        wait_until("it says that it was emptied", says_so, 30)
        replace(cluster, NEW, gone)
        cluster.wait_ready(NEW)
        await_observer(cluster)
        assert folder_of(cluster, NEW) != gone
        unknown = muster(cluster, "replace", "9", "--folder", gone)
        assert (unknown.returncode, "[0, 1, 2, 3]" in unknown.stderr) == (Exit.NOT_FOUND, True)
