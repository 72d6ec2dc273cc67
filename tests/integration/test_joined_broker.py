"""A fourth replica joins three real processes, and serves clients that know no other address (ADR 41); Kafka's tools
see that a partition is moved to it, cancel that, and let it go (ADR 43)."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaPythonPartition
from muster_coordinator.cli.exits import Exit

from tests import kafka_tools
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
from tests.live_files import live_paths

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

NEW = 3
FOUNDERS = [[0, 1, 2]]
"""Replicas of a partition that is not on the new broker."""
BROKER = (ConfigResource.Type.BROKER, str(NEW))
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
THROTTLE = "20000000"


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


def undisturbed(clients: Clients, bootstrap: str) -> None:
    assert clients.assignments == 1, "nobody rebalanced"
    assert clients.delivered == clients.sent
    assert records_of(bootstrap, TOPIC, 0) == clients.sent, "each record once, in order"


def test_clients_that_know_the_new_broker_only_are_served_whoever_dies(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "cluster", partitions=10, settings=SETTINGS, room_for=1) as cluster:
        cluster.add_replica(NEW)
        await_observer(cluster)
        bootstrap = f"127.0.0.1:{cluster.client_port(NEW)}"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, 2, replica_assignment=FOUNDERS * 2)], operation_timeout=20)[TOPIC].result(
            20
        )
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
        undisturbed(clients, bootstrap)
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


def says(cluster: MusterCluster, words: str) -> bool:
    try:
        return any(words in reason for reason in cluster.status(NEW)["not_ready"])
    except (OSError, AssertionError):
        return False


def unregister(cluster: MusterCluster, *, fails: bool = False) -> str:
    arguments = ["unregister", "--bootstrap-server", f"127.0.0.1:{cluster.client_port(0)}", "--id", str(NEW)]
    return kafka_tools.run(kafka_tools.CLUSTER, *arguments, fails=fails)


@pytest.mark.java
def test_kafkas_tool_sees_a_move_to_it_and_cancels_that(tmp_path: Path) -> None:
    """It is dead, so that the move is under way for as long as it takes to look. The tool itself would move nothing to
    a dead broker, kafka-python does; nor could it remove throttles from one."""
    plan = tmp_path / "plan.json"
    partitions = [{"topic": TOPIC, "partition": 0, "replicas": [NEW, 1, 2]}]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    with MusterCluster(tmp_path / "cluster", partitions=3, settings=SETTINGS, room_for=1) as cluster:
        cluster.add_replica(NEW)
        await_observer(cluster)
        bootstrap = f"127.0.0.1:{cluster.client_port(0)}"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=FOUNDERS)], operation_timeout=20)[TOPIC].result(20)
        cluster.kill(NEW)

        def reassign(*mode: str) -> str:
            return kafka_tools.run(kafka_tools.REASSIGN, "--bootstrap-server", bootstrap, *mode)

        def replicas() -> list[int]:
            return list(admin.list_topics(timeout=20).topics[TOPIC].partitions[0].replicas)

        of_plan = ["--reassignment-json-file", str(plan)]
        # kafka-python asks any broker that is listed, and gives up where it cannot connect.
        wait_until("it is listed no more", lambda: NEW not in admin.list_topics(timeout=20).brokers, 30, 0.5)
        asking = KafkaAdminClient(bootstrap_servers=bootstrap)
        one = KafkaPythonPartition(TOPIC, 0)
        assert asking.alter_partition_reassignments({one: [NEW, 1, 2]}) == {one: None}
        asking.close()
        listed = reassign("--list")
        assert f"{TOPIC}-0: replicas: 3,1,2,0. adding: 3. removing: 0." in listed
        assert f"Reassignment of partition {TOPIC}-0 is still in progress" in reassign("--verify", *of_plan)
        assert replicas() == [NEW, 1, 2, 0]
        assert f"has replicas: move {TOPIC}-0" in unregister(cluster, fails=True)
        assert "Successfully cancelled" in reassign("--cancel", "--preserve-throttles", *of_plan)
        assert set(replicas()[:3]) == {0, 1, 2}
        assert cluster.stop() == 0


@pytest.mark.java
def test_kafkas_tool_lets_it_go_for_good_and_its_id_to_an_empty_folder(tmp_path: Path) -> None:
    with MusterCluster(tmp_path / "cluster", partitions=3, settings=SETTINGS, room_for=1) as cluster:
        cluster.add_replica(NEW)
        await_observer(cluster)
        gone = folder_of(cluster, NEW)
        assert "Broker 3 is no longer registered" in unregister(cluster)
        assert "broker 3 is not registered" in unregister(cluster, fails=True)
        wait_until("the running process says so", lambda: says(cluster, "remove its folder"), 30)
        assert {broker["broker"] for broker in cluster.status(0)["brokers"]} == {0, 1, 2}
        cluster.kill(NEW)
        cluster.start_replica(NEW, wait_ready=False)
        wait_until("it says so after a restart", lambda: says(cluster, "remove its folder"), 30)
        assert {broker["broker"] for broker in cluster.status(0)["brokers"]} == {0, 1, 2}
        cluster.kill(NEW)
        shutil.rmtree(data_of(cluster, NEW))
        cluster.start_replica(NEW)
        await_observer(cluster)
        assert folder_of(cluster, NEW) != gone
        assert cluster.stop() == 0


@pytest.mark.java
def test_kafkas_tool_moves_a_partition_to_it_under_load_whoever_dies(tmp_path: Path) -> None:
    """From 0, 1, 2 to 3, 1, 2, to 3 alone and to 0, 1, 3; killed meanwhile: who leads it, who leaves, and who comes.
    Each time the tool sets throttles, and takes them away when the move is complete."""
    plan = tmp_path / "plan.json"
    with MusterCluster(tmp_path / "cluster", partitions=10, settings=SETTINGS, room_for=1) as cluster:
        cluster.add_replica(NEW)
        await_observer(cluster)
        bootstrap = ",".join(f"127.0.0.1:{cluster.client_port(replica)}" for replica in (0, 1, 2, NEW))
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, 2, replica_assignment=FOUNDERS * 2)], operation_timeout=20)[TOPIC].result(
            20
        )

        def reassign(mode: str, *replicas: int) -> str:
            partitions = [{"topic": TOPIC, "partition": 0, "replicas": replicas}]
            plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
            arguments = ("--bootstrap-server", bootstrap, mode, "--reassignment-json-file", str(plan))
            throttle = ("--throttle", THROTTLE) if mode == "--execute" else ()
            return kafka_tools.run(kafka_tools.REASSIGN, *arguments, *throttle)

        def throttles(kind: ConfigResource.Type, name: str) -> dict[str, str]:
            resource = ConfigResource(kind, name)
            found = admin.describe_configs([resource])[resource].result(20)
            return {key: entry.value for key, entry in found.items() if ".throttled." in key and entry.value}

        def folders(replica: int) -> list[str]:
            return [path.name for path in live_paths(data_of(cluster, replica) / "segments", f"*/{TOPIC}-0")]

        def is_on(*replicas: int) -> bool:
            found = admin.list_topics(timeout=20).topics[TOPIC].partitions[0]
            here = {replica for replica in (0, 1, 2, NEW) if folders(replica)}
            return found.leader in replicas and list(found.replicas) == list(replicas) and here == set(replicas)

        clients = Clients(bootstrap)
        try:
            clients.goes_on()
            for replicas, killed in (((NEW, 1, 2), 0), ((NEW,), 1), ((0, 1, NEW), NEW)):
                started = reassign("--execute", *replicas)
                assert "Successfully started" in started
                assert f"inter-broker throttle limit was set to {THROTTLE} B/s" in started
                wait_until(
                    "broker 3 shows both rates", lambda: throttles(*BROKER) == dict.fromkeys(RATES, THROTTLE), 10
                )
                assert throttles(ConfigResource.Type.TOPIC, TOPIC)
                clients.goes_on()
                cluster.kill(killed)
                cluster.start_replica(killed)
                wait_until(f"it is on {replicas}", lambda replicas=replicas: is_on(*replicas), 60)
                done = f"Reassignment of partition {TOPIC}-0 is completed"
                wait_until(
                    done, lambda replicas=replicas, done=done: done in reassign("--verify", *replicas), 60, every=0.5
                )
                wait_until("broker 3 shows no rate", lambda: throttles(*BROKER) == {}, 10)
                wait_until("the topic, too", lambda: throttles(ConfigResource.Type.TOPIC, TOPIC) == {}, 10)
                await_observer(cluster)
                clients.goes_on()
        finally:
            clients.stop()
        undisturbed(clients, bootstrap)
        assert cluster.stop() == 0
