"""Whole passes over Topics and Users on the fake API server: Secrets, finalizers, budgets, crashes at every request."""

import base64
import json
from typing import Any

import pytest
from muster_operator.api.crd import root_schema
from muster_operator.api.kinds import TOPIC, USER
from muster_operator.naming import FINALIZER
from muster_operator.world.kafka_object import SetPassword
from muster_operator.world.login import Endpoint
from muster_operator.world.views import Unknown

from tests.certificates import Authority
from tests.operator.api.openapi import problems
from tests.operator.fakes.bench import World, cluster, run, topic, user
from tests.operator.fakes.faults import Crash, FaultLine

RULES = [{"resource": {"type": "topic", "name": "orders"}, "operations": ["Read", "Describe"]}]
SECURED = {
    "tls": {"caSecret": {"name": "ca"}},
    "login": {"type": "scram-sha-512", "secret": {"name": "operator-login"}},
}
CANARY = "canary-of-the-operator"
LATE = "2026-02-01T00:00:00Z"


def secret(name: str, **values: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "ns"}, "stringData": values}


def ready(world: World, kind: str, name: str) -> tuple[str, str]:
    conditions = world.fake.objects[kind, "ns", name]["status"]["conditions"]
    return next((one["status"], one["reason"]) for one in conditions if one["type"] == "Ready")


def content(world: World, name: str) -> dict[str, bytes]:
    return {key: base64.b64decode(one) for key, one in world.fake.objects["Secret", "ns", name]["data"].items()}


async def begun(*objects: dict[str, Any]) -> World:
    world = World()
    for one in objects:
        world.fake.put(one)
    world.start()
    await world.begin()
    await world.run(10_000)
    return world


def test_a_users_secret_has_what_each_client_needs_and_nothing_else_has_the_password() -> None:
    authority = Authority()

    async def scene() -> None:
        world = await begun(
            secret("ca", **{"ca.crt": authority.pem}), secret("operator-login", username="admin", password=CANARY),
            user(acls=RULES, **SECURED),
        )  # fmt: skip
        assert ready(world, "User", "billing") == ("True", "Applied")
        found = content(world, "billing")
        password = found["password"].decode()
        assert world.kafka.passwords == {("billing", "SCRAM-SHA-512"): password}
        assert found["ca.crt"].decode() == authority.pem
        assert found["truststore.p12"][:1] == b"\x30"
        java = found["client.properties"].decode()
        assert "security.protocol=SASL_SSL\n" in java
        assert f'username="billing" password="{password}";' in java
        assert java.count("\n") == len(java.splitlines()), "a certificate is one line with \\n in it"
        python = json.loads(found["python.json"])
        assert (python["sasl_plain_password"], python["ssl_cafile"]) == (password, "/etc/muster/client/ca.crt")
        rest = json.dumps([one for one in world.fake.objects.values() if one["kind"] != "Secret"])
        assert password not in rest
        assert CANARY not in rest
        assert isinstance(world.kafka.seen_at, Endpoint)
        assert world.kafka.seen_at.login.password == CANARY
        live = world.fake.objects["Secret", "ns", "billing"]["metadata"]
        assert live["ownerReferences"][0]["kind"] == "User"
        assert live["labels"]["app.kubernetes.io/managed-by"] == "muster-operator"

    run(scene())


def test_what_is_as_specified_costs_no_write_and_few_looks() -> None:
    async def scene() -> None:
        world = await begun(topic(partitions=2), user(acls=RULES))
        world.fake.calls.clear()
        world.kafka.looks, changes = 0, len(world.kafka.changes)
        await world.run(600_000)
        writes = [one for one in world.fake.writes() if one[1] != "Lease"]
        assert writes == []
        assert len(world.kafka.changes) == changes
        assert world.kafka.looks <= 16, "two objects, a look every two minutes, and the resync"
        reads = [one for one in world.fake.calls if one[0] == "get" and one[1] == "Secret"]
        assert len(reads) <= 8

    run(scene())


def test_what_others_change_is_found_and_put_back() -> None:
    async def scene() -> None:
        world = await begun(topic(configs={"retention.ms": "5"}), user(acls=RULES))
        live = world.kafka.topics["orders"]
        world.kafka.topics["orders"] = live.__class__(
            topic_id=live.topic_id, partitions=1, replication_factor=3, configs={}
        )
        world.kafka.acls["User:billing"].clear()
        world.kafka.passwords.clear()
        await world.run(180_000)
        assert world.kafka.topics["orders"].configs == {"retention.ms": "5"}
        assert len(world.kafka.acls["User:billing"]) == 2
        assert world.kafka.passwords["billing", "SCRAM-SHA-512"] == content(world, "billing")["password"].decode()

    run(scene())


def test_a_deleted_secret_is_made_anew_and_kafka_is_told_its_password() -> None:
    async def scene() -> None:
        world = await begun(user())
        world.kafka.changes.clear()
        world.fake.remove("Secret", "ns", "billing")
        await world.run(180_000)
        (change,) = world.kafka.changes
        assert isinstance(change, SetPassword)
        assert ready(world, "User", "billing") == ("True", "Applied")
        assert world.kafka.passwords["billing", "SCRAM-SHA-512"].encode() == content(world, "billing")["password"]

    run(scene())


def test_a_finalizer_of_somebody_else_is_neither_lost_nor_kept() -> None:
    async def scene() -> None:
        theirs = topic(deletionPolicy="Delete")
        theirs["metadata"]["finalizers"] = ["example.com/theirs"]
        world = await begun(theirs)
        assert world.fake.objects["Topic", "ns", "orders"]["metadata"]["finalizers"] == [
            "example.com/theirs", FINALIZER,
        ]  # fmt: skip
        world.fake.end("Topic", "ns", "orders")
        await world.run(10_000)
        assert world.fake.objects["Topic", "ns", "orders"]["metadata"]["finalizers"] == ["example.com/theirs"]
        assert world.kafka.topics == {}
        await world.run(60_000)
        assert world.kafka.topics == {}, "a topic is not made anew for an object that is being deleted"

    run(scene())


def test_two_objects_of_one_name_the_older_is_obeyed_and_the_younger_takes_over_when_it_goes() -> None:
    async def scene() -> None:
        first, second = topic("first", topicName="t", partitions=2), topic("second", topicName="t")
        second["metadata"]["creationTimestamp"] = LATE
        world = await begun(first, second)
        assert ready(world, "Topic", "first") == ("True", "Applied")
        assert ready(world, "Topic", "second") == ("False", "NameShared")
        world.fake.end("Topic", "ns", "first")
        await world.run(180_000)
        assert ready(world, "Topic", "second") == ("True", "Applied")

    run(scene())


def test_other_clusters_have_topics_and_users_of_the_same_name() -> None:
    async def scene() -> None:
        second = topic("second", topicName="orders", bootstrapServers="elsewhere:9092")
        second["metadata"]["creationTimestamp"] = LATE
        third = user("orders")
        world = await begun(topic(), second, third)
        assert ready(world, "Topic", "orders") == ("True", "Applied")
        assert ready(world, "Topic", "second") == ("True", "Applied")
        assert ready(world, "User", "orders") == ("True", "Applied")

    run(scene())


def test_a_cluster_of_ours_is_found_by_its_status_and_holds_nothing_when_it_is_gone() -> None:
    async def scene() -> None:
        made = topic(deletionPolicy="Delete", bootstrapServers=None, clusterRef={"name": "c"})
        del made["spec"]["bootstrapServers"]
        world = await begun(made)
        assert ready(world, "Topic", "orders") == ("Unknown", "ClusterNotFound")
        world.fake.put(cluster())
        await world.run(60_000)
        assert ready(world, "Topic", "orders") == ("True", "Applied")
        assert str(world.kafka.seen_at).startswith("c-bootstrap.ns.svc")
        world.kafka.silent = Unknown(reason="BootstrapUnreachable", message="no broker answers")
        world.fake.remove("CoordinatorCluster", "ns", "c")
        world.fake.end("Topic", "ns", "orders")
        await world.run(60_000)
        assert ("Topic", "ns", "orders") not in world.fake.objects

    run(scene())


def test_a_refusal_is_told_in_the_clusters_words_and_asked_again_seldom() -> None:
    async def scene() -> None:
        from muster_operator.errors import Refused

        world = World()
        world.kafka.refusal = Refused("ClusterRefuses", "topic orders: InvalidReplicationFactorError: 9 of 3 brokers")
        world.fake.put(topic(replicationFactor=9))
        world.start()
        await world.begin()
        await world.run(60_000)
        conditions = {one["type"]: one for one in world.fake.objects["Topic", "ns", "orders"]["status"]["conditions"]}
        assert (conditions["Degraded"]["status"], conditions["Degraded"]["reason"]) == ("True", "ClusterRefuses")
        assert "9 of 3 brokers" in conditions["Degraded"]["message"]
        assert world.kafka.looks == 1
        world.kafka.refusal = None
        world.fake.edit("Topic", "ns", "orders", lambda one: one["spec"].update(replicationFactor=3))
        await world.run(20_000)
        assert ready(world, "Topic", "orders") == ("True", "Applied")
        assert {one["reason"] for one in world.fake.objects["Topic", "ns", "orders"]["status"]["conditions"]} >= {
            "Applied", "AsExpected",
        }  # fmt: skip

    run(scene())


def test_an_operator_that_does_not_serve_the_namespace_removes_nothing_either() -> None:
    async def scene() -> None:
        world = await begun(topic(deletionPolicy="Delete"))
        other = world.start_other("elsewhere/muster-operator")
        world.fake.end("Topic", "ns", "orders")
        world.kafka.changes.clear()
        await other.resync.list_all()
        other.resync.wake_all()
        await other.runner.drain()
        assert world.kafka.changes == []
        assert ("Topic", "ns", "orders") in world.fake.objects
        await world.run(10_000)
        assert ("Topic", "ns", "orders") not in world.fake.objects

    run(scene())


def test_every_status_fits_the_definitions() -> None:
    async def scene() -> None:
        tls = user("holder", authentication={"type": "tls"}, acls=RULES)
        world = await begun(topic(configs={"retention.ms": "5"}), user(acls=RULES, quotas={"producerByteRate": 5}), tls)
        for kind, name in ((TOPIC, "orders"), (USER, "billing"), (USER, "holder")):
            live = world.fake.objects[kind.kind, "ns", name]
            assert problems({"apiVersion": live["apiVersion"], "kind": kind.kind, "spec": live["spec"],
                             "status": live["status"]}) == []  # fmt: skip
            known = root_schema(kind)["properties"]["status"]["properties"]
            assert set(live["status"]) <= set(known)

    run(scene())


@pytest.mark.parametrize("after", [False, True])
def test_an_operator_that_ends_at_any_request_leaves_nothing_behind_and_nothing_undone(after: bool) -> None:
    """Killed before or after each request of a creation, then of a deletion: the next one comes to the same end."""

    async def end_at(number: int, *, deleting: bool) -> bool:
        """False: so many requests are not sent at all."""
        world = World()
        world.fake.put(topic(partitions=2, deletionPolicy="Delete", configs={"retention.ms": "5"}))
        world.fake.put(user(acls=RULES, quotas={"producerByteRate": 5}))
        foreign = "User:billing"
        if deleting:
            world.start()
            await world.begin()
            await world.run(10_000)
            world.fake.end("Topic", "ns", "orders")
            world.fake.end("User", "ns", "billing")
        line = FaultLine(number, after=after, ignored=frozenset({"list"}))
        world.start(line)
        crashed = False
        try:
            await world.begin()
            await world.run(10_000)
        except (Crash, BaseExceptionGroup):
            crashed = True
        world.stop()
        world.start()
        await world.begin()
        await world.run(30_000)
        if not deleting:
            assert ready(world, "Topic", "orders") == ("True", "Applied")
            assert ready(world, "User", "billing") == ("True", "Applied")
            assert world.kafka.passwords["billing", "SCRAM-SHA-512"] == content(world, "billing")["password"].decode()
            world.fake.end("Topic", "ns", "orders")
            world.fake.end("User", "ns", "billing")
            await world.run(30_000)
        assert not {"Topic", "User", "Secret"} & {kind for kind, _, _ in world.fake.objects}
        assert (world.kafka.topics, world.kafka.passwords) == ({}, {})
        assert world.kafka.acls.get(foreign, set()) == set()
        assert world.kafka.quotas.get("billing", {}) == {}
        return crashed

    for deleting in (False, True):
        reached = 0
        for number in range(1, 80):
            if not run(end_at(number, deleting=deleting)):
                break
            reached = number
        assert reached > 8, "so many requests there are at least"
        assert reached < 79
