"""Objects whose `clusterRef` names a secured cluster of ours: listener, authority and login are found by themselves.

The operator's own user never gets into a pod or a client's Secret: it may do everything.
"""

import base64
from typing import Any

import pytest
from muster_operator.world.login import Endpoint, Login
from muster_operator.world.views import Unknown

from tests.operator.fakes.bench import World, cluster, group, run, topic, user
from tests.operator.plan.making import group_view

SECURE = {"name": "secure", "type": "internal", "port": 9094, "tls": {}, "authentication": {"type": "scram-sha-512"}}
PLAIN = {"name": "internal", "type": "internal", "port": 9092}
BY_CERTIFICATE = {
    "name": "mutual", "type": "internal", "port": 9095, "tls": {}, "authentication": {"type": "tls"}
}  # fmt: skip
SIMPLE = {"authorization": {"type": "simple"}}
OURS = {"bootstrapServers": None, "clusterRef": {"name": "c"}}
HOST = "c-bootstrap.ns.svc"
LOGIN = {"authentication": {"type": "scram-sha-512", "secret": {"name": "orders-user"}}}


def of(make: Any, **spec: Any) -> dict[str, Any]:
    made = make(**OURS | spec)
    made["spec"] = {key: value for key, value in made["spec"].items() if value is not None}
    return dict(made)


async def begun(*objects: dict[str, Any], **spec: Any) -> World:
    world = World()
    world.kafka.groups["g"] = group_view(())
    world.fake.put(cluster(**spec))
    for one in objects:
        world.fake.put(one)
    world.start()
    await world.begin()
    await world.run(60_000)
    return world


def seen(world: World) -> Endpoint:
    assert isinstance(world.kafka.where, Endpoint)
    return world.kafka.where


def secret(world: World, name: str, key: str) -> str:
    return base64.b64decode(world.fake.objects["Secret", "ns", name]["data"][key]).decode()


def environment(world: World) -> dict[str, Any]:
    container = world.fake.objects["StatefulSet", "ns", "g"]["spec"]["template"]["spec"]["containers"][0]
    return {one["name"]: one.get("value") for one in container["env"]}


def test_a_group_of_a_secured_cluster_needs_no_word_about_security() -> None:
    async def scene() -> None:
        world = await begun(of(group, template=False, replicas=None), listeners=[SECURE], **SIMPLE)
        assert seen(world).bootstrap == f"{HOST}:9094"
        assert seen(world).login == Login(
            tls=True, ca=secret(world, "c-cluster-ca-cert", "ca.crt"), mechanism="SCRAM-SHA-512",
            username="muster-operator", password=secret(world, "c-operator-user", "password"),
        )  # fmt: skip
        assert world.fake.objects["ConsumerGroup", "ns", "g"]["status"]["state"] == "Stable"
        password = secret(world, "c-operator-user", "password")
        assert password not in repr([one for one in world.fake.objects.values() if one["kind"] != "Secret"])

    run(scene())


@pytest.mark.parametrize(
    ("listeners", "more", "port", "known"),
    [
        ([PLAIN], {}, 9092, False),
        ([PLAIN, SECURE], {}, 9092, False),
        ([PLAIN, SECURE], SIMPLE, 9094, True),
        ([BY_CERTIFICATE, SECURE], SIMPLE, 9094, True),
        ([BY_CERTIFICATE, PLAIN], {}, 9092, False),
    ],
)
def test_the_operator_asks_where_it_may_know_everything(
    listeners: list[Any], more: dict[str, Any], port: int, known: bool
) -> None:
    async def scene() -> None:
        world = await begun(of(group), listeners=listeners, **more)
        where = world.kafka.where
        assert str(where) == f"{HOST}:{port}"
        assert isinstance(where, Endpoint) == known
        assert environment(world)["KAFKA_BOOTSTRAP_SERVERS"] == f"{HOST}:{listeners[0]['port']}", "the pods' own"
        assert "KAFKA_SECURITY_PROTOCOL" not in environment(world), "nobody asked for it"

    run(scene())


@pytest.mark.parametrize("asked", [LOGIN, {**LOGIN, "tls": {}}])
def test_pods_with_a_login_get_the_listener_that_wants_it_and_its_authority(asked: dict[str, Any]) -> None:
    async def scene() -> None:
        world = await begun(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "orders-user", "namespace": "ns"},
             "stringData": {"username": "orders", "password": "theirs"}},
            of(group, **asked), listeners=[PLAIN, SECURE], **SIMPLE,
        )  # fmt: skip
        found = environment(world)
        assert found["KAFKA_BOOTSTRAP_SERVERS"] == f"{HOST}:9094"
        assert found["KAFKA_SECURITY_PROTOCOL"] == "SASL_SSL"
        pod = world.fake.objects["StatefulSet", "ns", "g"]["spec"]["template"]["spec"]
        named = {one["secret"]["secretName"] for one in pod["volumes"]}
        assert named == {"orders-user", "c-cluster-ca-cert"}
        assert (seen(world).login.username, seen(world).login.ca != "") == ("orders", True), "it looks as it was told"

    run(scene())


def test_what_an_object_names_itself_comes_first() -> None:
    async def scene() -> None:
        world = await begun(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "theirs", "namespace": "ns"},
             "stringData": {"username": "orders", "password": "p", "root.pem": "PEM"}},
            of(group, tls={"caSecret": {"name": "theirs", "key": "root.pem"}},
               authentication={"type": "scram-sha-256", "secret": {"name": "theirs"}}),
            listeners=[SECURE], **SIMPLE,
        )  # fmt: skip
        assert seen(world).login == Login(
            tls=True, ca="PEM", mechanism="SCRAM-SHA-256", username="orders", password="p"
        )

    run(scene())


def test_a_topic_and_a_user_of_it_need_none_either_and_the_users_secret_has_the_authority() -> None:
    async def scene() -> None:
        world = await begun(of(topic, partitions=2), of(user), listeners=[PLAIN, SECURE], **SIMPLE)
        for kind, name in (("Topic", "orders"), ("User", "billing")):
            conditions = world.fake.objects[kind, "ns", name]["status"]["conditions"]
            assert {one["type"]: one["status"] for one in conditions}["Ready"] == "True", conditions
        at = world.kafka.seen_at
        assert isinstance(at, Endpoint)
        assert (at.bootstrap, at.login.username) == (f"{HOST}:9094", "muster-operator")
        settings = secret(world, "billing", "client.properties")
        assert f"bootstrap.servers={HOST}:9094\n" in settings
        assert "security.protocol=SASL_SSL\n" in settings
        assert secret(world, "billing", "ca.crt") == secret(world, "c-cluster-ca-cert", "ca.crt")
        assert "muster-operator" not in settings, "the operator's own user is nobody else's"

    run(scene())


def test_an_authority_that_is_not_there_is_unknown_and_not_left_out() -> None:
    async def scene() -> None:
        world = await begun(of(group), of(user), listeners=[SECURE], **SIMPLE)
        world.fake.refuse["get", "Secret"] = "HTTP 403"
        await world.run(130_000)
        conditions = world.fake.objects["ConsumerGroup", "ns", "g"]["status"]["conditions"]
        found = {one["type"]: (one["status"], one["reason"]) for one in conditions}
        assert found["ClusterReachable"] == ("Unknown", "NotObserved"), "it was not asked"

    run(scene())


@pytest.mark.parametrize("authority", [{}, {"ca.crt": "PEM"}])
def test_a_certificate_of_yours_may_be_of_a_public_authority(authority: dict[str, str]) -> None:
    listener = {**SECURE, "tls": {"secretName": "mine"}}

    async def scene() -> None:
        mine = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine", "namespace": "ns"},
                "stringData": {"tls.crt": "x", **authority}}  # fmt: skip
        world = await begun(mine, of(group), listeners=[listener], **SIMPLE)
        assert seen(world).login.ca == authority.get("ca.crt", "")
        world.fake.remove("Secret", "ns", "mine")
        await world.run(130_000)
        assert not isinstance(world.kafka.where, Unknown)
        conditions = world.fake.objects["ConsumerGroup", "ns", "g"]["status"]["conditions"]
        assert {one["type"]: one["reason"] for one in conditions}["ClusterReachable"] == "SecretNotFound"

    run(scene())
