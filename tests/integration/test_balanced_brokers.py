"""Brokers that join get their share of the partitions by themselves, and one that is to leave is emptied, under load
(ADR 47)."""

import json
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from muster_coordinator.cli.exits import Exit

from tests.cluster import MusterCluster, wait_until
from tests.integration.test_joined_broker import undisturbed
from tests.integration.test_replaced_replica import SETTINGS, TOPIC, Clients, controller, data_of, muster
from tests.live_files import live_paths

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

NEW = (3, 4)
PARTITIONS = 8
EVERYONE = (0, 1, 2, *NEW)
OFFSETS_PARTITIONS = 3
QUIET = {"muster.balancer.quiet.ms": "2000", "muster.decommission.redirect.ms": "2000"}


def test_brokers_that_join_are_levelled_and_one_leaves_whoever_dies(tmp_path: Path) -> None:
    with MusterCluster(
        tmp_path / "cluster", partitions=OFFSETS_PARTITIONS, settings={**SETTINGS, **QUIET}, room_for=2
    ) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, -1)], operation_timeout=20)[TOPIC].result(20)

        def replicas() -> Counter[int]:
            """Of each broker, of the topic and of the offsets."""
            topics = admin.list_topics(timeout=20).topics
            partitions = (*topics[TOPIC].partitions.values(), *topics["__consumer_offsets"].partitions.values())
            return Counter(broker for partition in partitions for broker in partition.replicas)

        def folders(replica: int) -> int:
            return len(live_paths(data_of(cluster, replica) / "segments", "*/*-*"))

        def is_level(brokers: tuple[int, ...]) -> bool:
            held = replicas()
            shares = [held[broker] for broker in brokers]
            on_disk = sum(folders(broker) for broker in brokers)
            return (
                set(held) <= set(brokers)
                and max(shares) - min(shares) <= 1
                and on_disk == 3 * (PARTITIONS + OFFSETS_PARTITIONS)
            )

        clients = Clients(cluster.bootstrap)
        try:
            clients.goes_on()
            for broker in NEW:
                cluster.add_replica(broker)
            wait_until("the newcomers get something", lambda: any(folders(broker) for broker in NEW), 60)
            leader = controller(cluster)
            cluster.kill(leader)
            cluster.start_replica(leader)
            wait_until("brokers are level", lambda: is_level(EVERYONE), 120)
            clients.goes_on()

            def says_level() -> bool:
                shown = json.loads(muster(cluster, "balance", "-o", "json").stdout or "{}")
                return shown.get("state") == "level" and not shown["planned"]

            wait_until("the balancer says so", says_level, 30, every=0.5)
            assert muster(cluster, "balance", "--pause").returncode == 0
            asked = muster(cluster, "decommission", "4", "--wait", "6")
            assert (asked.returncode, "paused" in asked.stderr) == (Exit.UNREACHABLE, True), asked.stderr
            assert muster(cluster, "balance", "--resume").returncode == 0
            leader = controller(cluster)
            cluster.kill(leader)
            cluster.start_replica(leader)
            left = muster(cluster, "decommission", "4", "--wait", "50")
            # What was asked first goes on: if that replica started slowly, the broker is gone when it is asked again.
            gone = left.returncode == Exit.NOT_FOUND and "no replica of this cluster has the id 4" in left.stderr
            assert gone or (left.returncode, "has left" in left.stdout) == (Exit.OK, True), left.stdout + left.stderr
            cluster.kill(4)
            wait_until("the others are level", lambda: is_level((0, 1, 2, 3)), 120)
            clients.goes_on()
            founder = muster(cluster, "decommission", "0", "--wait", "50")
            assert (founder.returncode, "has left" in founder.stdout) == (Exit.OK, True), (
                founder.stdout + founder.stderr
            )
            cluster.kill(0)
            wait_until("the three are level", lambda: is_level((1, 2, 3)), 120)
            clients.goes_on()
            refused = muster(cluster, "decommission", "1")
            assert (refused.returncode, "2 brokers would be left" in refused.stderr) == (Exit.REFUSED, True)
        finally:
            clients.stop()
        undisturbed(clients, cluster.bootstrap)
        assert cluster.stop() == 0
