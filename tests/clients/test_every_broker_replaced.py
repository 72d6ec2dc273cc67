"""Clients whose every known broker is decommissioned for new ids and addresses (ADR 49): who finds the new ones.

All bootstrap from one address that is not a broker's, as a Kubernetes Service's: a relay, which goes to a broker that
lives. *Idle* clients poll and find nothing to read; they look for news once in their `metadata.max.age`, here a second,
and an empty broker redirects them for three. *Stopped* ones are frozen (SIGSTOP) before the first broker is told to
leave and go on after the last one has ended. For them it matters that what they know is gone, not for how long: when a
client of ten minutes later wakes, its connections are closed and its metadata is older than its age, as here.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.slow_link import Budget, SlowLink
from tests.clients.member import Member
from tests.cluster import MusterCluster, wait_until
from tests.faults.changes import command

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.timeout(400)]

OLD, NEW = (0, 1, 2), (3, 4, 5)
TOPIC = "kept"
CLIENTS = ("librdkafka", "java", "kafka-python", "aiokafka")
ASK_BOOTSTRAP_AGAIN = ("librdkafka", "java")
"""The others resolve their bootstrap servers at the start only: docs/clients.md has the table."""
SETTINGS = {"muster.balancer.quiet.ms": "-1", "muster.decommission.redirect.ms": "3000"}
UNBOUNDED = 1e9
LEFT_S, RESUMED_S, NOT_RESUMED_S = 120, 60, 15


def link(target: int, listen: int = 0) -> tuple[SlowLink, int]:
    it = SlowLink(Budget(UNBOUNDED), Budget(UNBOUNDED))
    return it, it.forward(target, listen)


def send(bootstrap: str, values: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(TOPIC, value)
    assert producer.flush(30) == 0


def has_read(member: Member, value: str) -> bool:
    return any(text == value for *_, text in member.records)


def test_who_goes_on_when_all_brokers_that_it_knew_are_gone(tmp_path: Path) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(
            MusterCluster(tmp_path / "cluster", partitions=1, settings=SETTINGS, room_for=len(NEW))
        )
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})  # named: its requests end with it
        admin.create_topics([NewTopic(TOPIC, 1, -1)])[TOPIC].result(20)
        before, port = link(cluster.client_port(OLD[0]))
        stack.callback(before.close)
        service = f"127.0.0.1:{port}"
        members = {
            (client, how): Member(client, bootstrap=service, group=f"{client}-{how}", topics=[TOPIC])
            for client in CLIENTS
            for how in ("idle", "stopped")
        }
        for member in members.values():
            stack.callback(member.dispose)
        send(service, ["before"])
        for member in members.values():
            member.wait("the first record", lambda it: has_read(it, "before"), 90)
        for client in CLIENTS:
            members[client, "stopped"].freeze()
        for broker in NEW:
            cluster.add_replica(broker)
        for broker in OLD:
            command(cluster, "decommission", str(broker))

        def left() -> bool:
            return {one["broker"] for one in cluster.status(NEW[0])["brokers"]} == set(NEW)

        wait_until("the old ones have left", left, LEFT_S, every=0.5)
        for broker in OLD:
            cluster.kill(broker)
        before.close()
        after, _ = link(cluster.client_port(NEW[0]), port)
        stack.callback(after.close)
        send(service, ["after"])
        for client in CLIENTS:
            members[client, "stopped"].thaw()
        for client in CLIENTS:
            members[client, "idle"].wait("what was sent after", lambda it: has_read(it, "after"), RESUMED_S)
        for client in ASK_BOOTSTRAP_AGAIN:
            members[client, "stopped"].wait("what was sent after", lambda it: has_read(it, "after"), RESUMED_S)
        for client in set(CLIENTS) - set(ASK_BOOTSTRAP_AGAIN):
            with pytest.raises(AssertionError, match="what was sent after not within"):
                members[client, "stopped"].wait("what was sent after", lambda it: has_read(it, "after"), NOT_RESUMED_S)
