"""A cluster of one real process with data grows to three, by Kafka's tool and `muster cluster`, under clients; then its
founder is killed, and everything that was acknowledged is at the other two (ADR 45)."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests import kafka_tools
from tests.cluster import MusterCluster, wait_until
from tests.integration.failover_load import CommitLoad, records_of
from tests.integration.test_replaced_replica import SETTINGS, TOPIC, Clients, data_of, muster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300), pytest.mark.java]

PARTITIONS = 4
NEW = (1, 2)
EVERYBODY = (0, *NEW)


def statuses(cluster: MusterCluster) -> list[dict[str, Any]]:
    return [cluster.status(replica) for replica in EVERYBODY]


def move_all(bootstrap: str, plan: Path, topics: dict[str, int]) -> None:
    """Every partition to all three, each with another one first; the tool says when that is complete."""
    partitions = [
        {"topic": topic, "partition": number, "replicas": [(number + n) % 3 for n in range(3)]}
        for topic, count in topics.items()
        for number in range(count)
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))

    def reassign(mode: str) -> str:
        arguments = ("--bootstrap-server", bootstrap, mode, "--reassignment-json-file", str(plan))
        return kafka_tools.run(kafka_tools.REASSIGN, *arguments)

    assert "Successfully started" in reassign("--execute")
    wait_until("all moves are complete", lambda: "in progress" not in reassign("--verify"), 90, every=1)


def test_one_becomes_three_and_the_founder_is_lost(tmp_path: Path) -> None:
    with MusterCluster(
        tmp_path / "cluster", replicas=1, partitions=PARTITIONS, settings=SETTINGS, room_for=2
    ) as cluster:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{cluster.client_port(0)}"})
        admin.create_topics([NewTopic(TOPIC, 2, -1)], operation_timeout=20)[TOPIC].result(20)
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
            for replica in NEW:
                cluster.add_replica(replica)
            changed = muster(cluster, "controller-voters", "0,1,2")
            assert changed.returncode == 0, changed.stderr
            assert changed.stdout == "0,1,2 are to vote in the controller's group, instead of 0\n"

            def three_vote() -> bool:
                told = [cluster.admin(replica, "/v1/partitions")[1]["partitions"] for replica in EVERYBODY]
                votes = [one["voters"] for rows in told for one in rows if one["group"] == 0]
                return all(sorted(voters) == [0, 1, 2] for voters in votes) and len(votes) == 3

            wait_until("three vote in the controller's group", three_vote, 30)
            move_all(bootstrap, tmp_path / "plan.json", {TOPIC: 2, "__consumer_offsets": PARTITIONS})
            wait_until("nothing changes", lambda: not any(one["groups_to_change"] for one in statuses(cluster)), 30)
            go_on()
            for replica in EVERYBODY:
                found = {path.name for path in (data_of(cluster, replica) / "segments").glob("*/*-*")}
                assert {f"__consumer_offsets-{number}" for number in range(PARTITIONS)} <= found
                assert {f"{TOPIC}-0", f"{TOPIC}-1"} <= found
            cluster.kill(0)
            data_of(cluster, 0).rename(tmp_path / "lost")
            go_on()
            cluster.kill(1)  # and what is left starts again, with a configuration of before
            cluster.start_replica(1, wait_ready=False)
            go_on()
        finally:
            clients.stop()
            for load in loads:
                load.finish()
        for load in loads:
            load.verify()
        assert clients.assignments == 1, "nobody rebalanced"
        assert clients.delivered == clients.sent
        rest = ",".join(f"127.0.0.1:{cluster.client_port(replica)}" for replica in NEW)
        assert records_of(rest, TOPIC, 0) == clients.sent, "each record once, in order"
