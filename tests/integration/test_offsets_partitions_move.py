"""Kafka's tool moves the offsets partitions of real processes to a broker that joined and back, under members that
commit, and a process is killed in each move (ADR 45)."""

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests import kafka_tools
from tests.cluster import MusterCluster, wait_until
from tests.integration.failover_load import CommitLoad
from tests.integration.test_joined_broker import NEW, await_observer, undisturbed
from tests.integration.test_replaced_replica import GROUP, SETTINGS, TOPIC, Clients, data_of
from tests.live_files import live_paths
from tests.raw_client import RawClient, request
from tests.raw_group import FIND, NONE, find_coordinator

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

OFFSETS = "__consumer_offsets"
PARTITIONS = 4
EVERYBODY = (0, 1, 2, NEW)


def reassign(bootstrap: str, plan: Path, mode: str, *replicas: int) -> str:
    partitions = [{"topic": OFFSETS, "partition": number, "replicas": replicas} for number in range(PARTITIONS)]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    arguments = ("--bootstrap-server", bootstrap, mode, "--reassignment-json-file", str(plan))
    return kafka_tools.run(kafka_tools.REASSIGN, *arguments)


def coordinators(cluster: MusterCluster, group: str) -> set[int]:
    """Who coordinates, as each broker says; -1: it does not know."""
    told = set()
    for replica in EVERYBODY:
        with RawClient("127.0.0.1", cluster.client_port(replica), timeout_s=5) as client:
            answer = client.call(request(FIND, 3, key=group, key_type=0))
        told.add(int(answer.node_id) if int(answer.error_code) == NONE else -1)
    return told


def are_on(cluster: MusterCluster, *replicas: int) -> bool:
    """These have all offsets partitions, by what is on the disks, and the others none of them."""
    for replica in EVERYBODY:
        folders = live_paths(data_of(cluster, replica) / "segments", f"*/{OFFSETS}-*")
        if {path.name for path in folders} != (
            {f"{OFFSETS}-{number}" for number in range(PARTITIONS)} if replica in replicas else set()
        ):
            return False
    return True


@pytest.mark.java
def test_kafkas_tool_moves_the_offsets_partitions_under_members_whoever_dies(tmp_path: Path) -> None:
    """From 0, 1, 2 to 3, 1, 2, to 3 alone, and back; killed meanwhile: the coordinator, who leaves, and who comes."""
    plan = tmp_path / "plan.json"
    with MusterCluster(tmp_path / "cluster", partitions=PARTITIONS, settings=SETTINGS, room_for=1) as cluster:
        cluster.add_replica(NEW)
        await_observer(cluster)
        bootstrap = ",".join(f"127.0.0.1:{cluster.client_port(replica)}" for replica in EVERYBODY)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(TOPIC, 2, -1)], operation_timeout=20)[TOPIC].result(20)
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
            steps = (((NEW, 1, 2), None), ((NEW,), 1), ((0, 1, 2), NEW))
            for replicas, killed in steps:
                assert "Successfully started" in reassign(bootstrap, plan, "--execute", *replicas)
                victim = find_coordinator(bootstrap, GROUP)[0] if killed is None else killed
                cluster.kill(victim)
                cluster.start_replica(victim)
                wait_until(f"all are on {replicas}", lambda to=replicas: are_on(cluster, *to), 90)
                await_observer(cluster)
                assert "is completed" in reassign(bootstrap, plan, "--verify", *replicas)
                go_on()
                for group in (GROUP, *(load.group for load in loads)):
                    (told,) = coordinators(cluster, group)
                    assert told in replicas
        finally:
            clients.stop()
            for load in loads:
                load.finish()
        undisturbed(clients, bootstrap)
        for load in loads:
            load.verify()
        assert cluster.stop() == 0
