"""A cluster's life in its log: what a person would grep for is there, as often as the counters say.

Three real replicas: a group of librdkafka's forms, its coordinator is killed, a member is silent, another leaves, a
replica is drained.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from muster_coordinator.events import KINDS, Level
from muster_coordinator.replica.partitions.surface import partition_of

from tests.cluster import MusterCluster, wait_until
from tests.integration.test_many_raft_groups import create_topic
from tests.raw_group import NONE, RawMember, find_coordinator

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

PARTITIONS = 5
SESSION_MS = 6_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MusterCluster]:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with MusterCluster(tmp_path / "c", partitions=PARTITIONS, settings=settings) as it:
        yield it


def lines(cluster: MusterCluster) -> list[dict[str, Any]]:
    """Events of all replicas, as they stand in their logs; a restarted one writes to the test's."""
    files = [cluster.folder / f"replica-{replica}" / "server.log" for replica in range(3)]
    told = (line for file in [*files, cluster.output] for line in file.read_text().splitlines(keepends=True))
    whole = (json.loads(line) for line in told if line.startswith("{") and line.endswith("\n"))
    return [line for line in whole if line["logger"] in ("events", "muster.audit")]


def of_group(cluster: MusterCluster, group: str) -> list[dict[str, Any]]:
    return [line for line in lines(cluster) if line.get("consumer_group") == group]


def counted(cluster: MusterCluster, replica: int) -> dict[str, int]:
    found = {}
    for line in cluster.metrics(replica).splitlines():
        if line.startswith("muster_events_total{"):
            name, _, value = line.removeprefix('muster_events_total{event="').partition('"} ')
            found[name] = int(float(value))
    quiet = {kind.name for kind in KINDS if kind.level < Level.INFO}
    return {name: count for name, count in found.items() if count and name not in quiet}


def test_what_a_person_would_look_for_is_there_as_often_as_it_is_counted(cluster: MusterCluster) -> None:
    create_topic(cluster, "orders")
    first = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "billing",
            "client.id": "billing-1",
            "session.timeout.ms": SESSION_MS,
        }
    )
    first.subscribe(["orders"])
    wait_until("it has partitions", lambda: first.poll(0.1) is None and first.assignment(), 30)
    wait_until("it is written", lambda: len(of_group(cluster, "billing")) == 3, 5)
    formed = of_group(cluster, "billing")
    assert [line["message"] for line in formed] == [
        "preparing to rebalance",
        "stabilized group",
        "assignment received",
    ]
    partition = f"__consumer_offsets-{partition_of('billing', PARTITIONS)}"
    assert {line["partition"] for line in formed} == {partition}
    assert formed[1]["leader"].startswith("billing-1-")

    killed = find_coordinator(cluster.bootstrap, "billing")[0]
    won = _won(cluster, partition)
    assert won[-1]["broker"] == killed
    cluster.kill(killed)
    survivor = wait_until("another one coordinates", lambda: _other_coordinator(cluster, killed), 20)
    wait_until("it is written", lambda: _won(cluster, partition)[-1]["broker"] == survivor, 5)
    assert _won(cluster, partition)[-1]["term"] > won[-1]["term"]
    cluster.start_replica(killed)

    silent = RawMember(cluster.bootstrap, "quiet", session_ms=SESSION_MS)
    assert int(silent.join().error_code) == NONE
    silent.sync({silent.member: b""})
    silent.drop_connection()
    wait_until("it is expelled", lambda: _expelled(cluster, "quiet"), 20)
    (expelled,) = _expelled(cluster, "quiet")
    assert (expelled["member"], expelled["reason"], expelled["level"]) == (
        silent.member,
        "session expired",
        "warning",
    )
    assert expelled["client_host"] == "/127.0.0.1"

    first.close()
    left = wait_until("the group is empty", lambda: _left(cluster), 20)
    assert left["client_id"] == "billing-1"

    drained = find_coordinator(cluster.bootstrap, "billing")[0]
    assert cluster.admin(drained, "/v1/drain", post={})[0] in (200, 202)
    wait_until("it is drained", lambda: cluster.status(drained)["drain"]["phase"] == "drained", 30)
    wait_until("it is written", lambda: partition in {line["partition"] for line in _lost(cluster, drained)}, 5)
    handed = [line for line in _told(cluster, "leadership transfer started", drained) if line["partition"] == partition]
    assert handed[-1]["target"] != drained
    wait_until("its end is written", lambda: _told(cluster, "drained", drained), 5)
    assert len(_told(cluster, "drain started", drained)) == len(_told(cluster, "drained", drained)) == 1

    for replica in range(3):
        if replica != killed:  # whose first life took its counters along
            wait_until("each event is a line", lambda n=replica: _agrees(cluster, n), 10)


def _won(cluster: MusterCluster, partition: str) -> list[dict[str, Any]]:
    """Elections, in order of their terms."""
    won = [line for line in lines(cluster) if line["message"] == "became leader" and line["partition"] == partition]
    return sorted(won, key=lambda line: int(line["term"]))


def _told(cluster: MusterCluster, message: str, replica: int) -> list[dict[str, Any]]:
    return [line for line in lines(cluster) if line["message"] == message and line["broker"] == replica]


def _lost(cluster: MusterCluster, replica: int) -> list[dict[str, Any]]:
    return [line for line in lines(cluster) if line["message"] == "lost leadership" and line["broker"] == replica]


def _other_coordinator(cluster: MusterCluster, dead: int) -> int | None:
    broker = find_coordinator(cluster.bootstrap, "billing")[0]
    return None if broker == dead else broker


def _expelled(cluster: MusterCluster, group: str) -> list[dict[str, Any]]:
    return [line for line in of_group(cluster, group) if line["message"] == "member expelled"]


def _left(cluster: MusterCluster) -> dict[str, Any] | None:
    told = of_group(cluster, "billing")
    if not told or told[-1]["message"] != "group is empty":
        return None
    return next(line for line in reversed(told) if line["message"] == "member left")


def _agrees(cluster: MusterCluster, replica: int) -> bool:
    return counted(cluster, replica) == Counter(line["message"] for line in lines(cluster) if line["broker"] == replica)
