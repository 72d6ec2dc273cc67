"""A local cluster of one real process with data grows to three and to five by `muster dev add-broker` and
`muster cluster replication-factor`, under clients; then its founder is killed, and everything that was acknowledged is
at the others (ADR 45, ADR 48). One that is removed leaves nothing behind."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster import MusterCluster, wait_until
from tests.integration.failover_load import CommitLoad, records_of
from tests.integration.test_replaced_replica import (
    REPLACED_SECONDS_MAX,
    SETTINGS,
    TOPIC,
    Clients,
    data_of,
    folder_of,
    muster,
    replace,
)
from tests.live_files import live_paths

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

PARTITIONS = 4
EVERYBODY = range(5)


def dev(cluster: MusterCluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "muster_coordinator.cli.main", "dev", *words, "--data", str(cluster.folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)


def votes(cluster: MusterCluster, among: range) -> list[list[int]]:
    """Who votes in the controller's group, as each of them has it."""
    told = [cluster.admin(replica, "/v1/partitions")[1]["partitions"] for replica in among]
    return [sorted(one["voters"]) for rows in told for one in rows if one["group"] == 0]


def grow(cluster: MusterCluster, brokers: int, partitions: int) -> None:
    """All groups have as many replicas, on these brokers, when the commands end."""
    more = brokers - len(list(cluster.folder.glob("replica-*")))
    added = dev(cluster, "add-broker", "--count", str(more), "--wait", "150")
    assert added.returncode == 0, added.stderr
    assert f"broker {brokers - 1} has joined" in added.stdout
    planned = muster(cluster, "replication-factor", str(brokers), "--dry-run")
    assert planned.stdout.count(f"it is to have {brokers} replicas") == partitions, planned.stdout
    changed = muster(cluster, "replication-factor", str(brokers), "--wait", "55")
    assert changed.returncode == 0, changed.stderr
    assert changed.stdout.endswith("all groups have their replicas\n")
    assert votes(cluster, range(brokers)) == [list(range(brokers))] * brokers
    for replica in range(brokers):
        found = {path.name for path in live_paths(data_of(cluster, replica) / "segments", "*/*-*")}
        assert {f"__consumer_offsets-{number}" for number in range(PARTITIONS)} <= found
        assert {f"{TOPIC}-0", f"{TOPIC}-1"} <= found


def new_topic(admin: AdminClient, name: str) -> Any:
    """Made without a number of replicas; they are counted."""
    admin.create_topics([NewTopic(name, 1, -1)], operation_timeout=20)[name].result(20)
    return wait_until(f"{name} is known", lambda: admin.list_topics(name, 10).topics[name].partitions.get(0), 20)


def test_one_becomes_three_and_five_and_the_founder_is_lost(tmp_path: Path) -> None:
    with MusterCluster(
        tmp_path / "cluster", replicas=1, partitions=PARTITIONS, settings=SETTINGS, room_for=4
    ) as cluster:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{cluster.client_port(0)}"})
        assert len(new_topic(admin, "of-one").replicas) == 1
        admin.delete_topics(["of-one"])["of-one"].result(20)
        admin.create_topics([NewTopic(TOPIC, 2, 1)], operation_timeout=20)[TOPIC].result(20)
        bootstrap = ",".join(f"127.0.0.1:{cluster.client_port(replica)}" for replica in EVERYBODY)
        loads = [CommitLoad(bootstrap, f"simple-{number}", TOPIC) for number in range(3)]
        clients = Clients(bootstrap)
        for load in loads:
            load.start()

        def go_on() -> None:
            clients.goes_on()
            for load in loads:
                before = load.acknowledged
                wait_until(f"{load.group} goes on", lambda load=load, at=before: load.acknowledged > at, 30)

        try:
            go_on()
            refused = muster(cluster, "replication-factor", "3")
            assert refused.returncode != 0
            assert "3 replicas need as many brokers; 1 can take one" in refused.stderr
            grow(cluster, 3, PARTITIONS + 2)
            go_on()
            assert len(new_topic(admin, "of-three").replicas) == 3
            grow(cluster, 5, PARTITIONS + 3)
            go_on()
            lost = folder_of(cluster, 0)
            cluster.kill(0)
            data_of(cluster, 0).rename(tmp_path / "lost")
            go_on()
            cluster.kill(1)  # and what is left goes on
            go_on()
            cluster.start_replica(1, wait_ready=True)
        finally:
            clients.stop()
            for load in loads:
                load.finish()
        for load in loads:
            load.verify()
        assert clients.assignments == 1, "nobody rebalanced"
        assert clients.delivered == clients.sent
        rest = ",".join(f"127.0.0.1:{cluster.client_port(replica)}" for replica in EVERYBODY[1:])
        assert records_of(rest, TOPIC, 0) == clients.sent, "each record once, in order"
        founder_comes_back_empty(cluster, lost)
        own = f"127.0.0.1:{cluster.client_port(0)}"
        assert records_of(own, TOPIC, 0) == clients.sent, "whoever asks the founder is told of the same cluster"


def founder_comes_back_empty(cluster: MusterCluster, lost: str) -> None:
    """It formed the cluster alone, and forms no other one now: it waits for its place (ADR 103)."""
    cluster.start_replica(0, wait_ready=False)

    def said() -> list[str]:
        try:
            return [reason for reason in cluster.status(0)["not_ready"] if "was emptied and stays out" in reason]
        except (OSError, AssertionError):
            return []

    wait_until("it stays out", said, 30)
    assert cluster.probe(0, "/readyz") == 503
    replace(cluster, 0, lost)
    cluster.wait_ready(0, REPLACED_SECONDS_MAX)
    wait_until("it votes again", lambda: votes(cluster, EVERYBODY) == [list(EVERYBODY)] * 5, REPLACED_SECONDS_MAX)


def test_a_broker_that_was_added_is_removed_and_the_next_start_knows_who_is_left(tmp_path: Path) -> None:
    with MusterCluster(
        tmp_path / "cluster", replicas=1, partitions=1, settings=SETTINGS, room_for=2
    ) as cluster:  # fmt: skip
        assert dev(cluster, "add-broker", "--count", "2", "--wait", "150").returncode == 0
        assert muster(cluster, "controller-voters", "1").returncode == 0
        wait_until("another votes", lambda: votes(cluster, range(3)) == [[1]] * 3, 30)
        removed = dev(cluster, "remove-broker", "0")
        assert (removed.returncode, removed.stdout.splitlines()[-1]) == (
            0, "broker 0 has left, and its folder is removed",
        ), removed.stderr  # fmt: skip
        assert [path.name for path in (cluster.folder / "replica-0").iterdir()] == ["removed"]
        assert "has no broker 0" in dev(cluster, "remove-broker", "0").stderr
        cluster.stop()
        assert "no `muster dev` runs" in dev(cluster, "add-broker").stderr
        cluster.start(fresh=False)
        assert [one["broker"] for one in cluster.status(1)["brokers"]] == [1, 2]
        assert "replica 0 was removed" in cluster.output.read_text()
