"""A secured cluster with a whole operator on a fake API server: its Secrets from nothing to their second generation."""

import base64
from collections.abc import Awaitable, Callable
from typing import Any

from muster_operator.runtime.observe_certificates import text_of
from muster_operator.runtime.x509 import new_authority, new_certificate, read_certificates
from muster_operator.world.admin_at import SecuredAdmin

from tests.operator.fakes.bench import World, cluster, run
from tests.operator.runtime.test_crashes import settled

LISTENER = {"name": "internal", "type": "internal", "port": 9092}
SECURED = {
    "listeners": [{**LISTENER, "tls": {}, "authentication": {"type": "scram-sha-512"}}],
    "authorization": {"type": "simple"},
    "certificates": {"trustDelayMinutes": 3},
}
CA, TRUST, LEAF, USER = "c-cluster-ca", "c-cluster-ca-cert", "c-server-cert", "c-operator-user"
HOUR_MS = 3_600_000


async def made(**spec: Any) -> World:
    world = World()
    world.fake.put(cluster(**(SECURED | spec)))
    world.start()
    return await settled(world)


def of(scene: Callable[[], Awaitable[Any]]) -> Any:
    return run(scene())


def text(world: World, name: str, key: str) -> str:
    return text_of(world.fake.objects["Secret", "ns", name], key) or ""


def told(world: World) -> tuple[str, str, str]:
    conditions = world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]["conditions"]
    found = next(one for one in conditions if one["type"] == "CertificatesReady")
    return found["status"], found["reason"], found["message"]


def uids(world: World) -> dict[str, str]:
    return {name: one["metadata"]["uid"] for (kind, _, name), one in world.fake.objects.items() if kind == "Pod"}


def test_everything_is_there_before_the_pods_and_no_key_is_anywhere_else() -> None:
    world = of(made)
    assert told(world)[:2] == ("True", "CertificatesValid")
    (leaf,), (ca,) = (read_certificates(text(world, *one)) for one in ((LEAF, "tls.crt"), (TRUST, "ca.crt")))
    assert leaf.issuer_key_id == ca.key_id
    assert "*.c-peers.ns.svc" in leaf.names
    secrets = {name for kind, _, name in world.fake.objects if kind == "Secret"}
    assert secrets == {"c-admin-token", "c-peer-secret", CA, TRUST, LEAF, USER}
    assert set(world.fake.objects["Secret", "ns", TRUST]["data"]) == {"ca.crt"}, "no key for clients"
    assert text(world, USER, "username") == "muster-operator"
    rest = repr([one for one in world.fake.objects.values() if one["kind"] != "Secret"])
    for name, key in ((CA, "tls.key"), (LEAF, "tls.key"), (USER, "password")):
        held = text(world, name, key)
        assert held
        assert held not in rest
        assert base64.b64encode(held.encode()).decode() not in rest
    pod = next(one for (kind, _, _), one in world.fake.objects.items() if kind == "Pod")
    mounted = {one["secret"]["secretName"] for one in pod["spec"]["volumes"] if "secret" in one}
    assert CA not in mounted, "the key of the CA is in no pod"
    status = world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]
    assert [one["name"] for one in status["certificates"]] == [CA, LEAF]


def test_a_converged_secured_cluster_writes_nothing() -> None:
    async def scene() -> list[Any]:
        world = await made()
        world.fake.calls.clear()
        await world.run(HOUR_MS)
        return list(world.fake.writes())

    assert of(scene) == []


def test_a_renewed_certificate_and_another_ca_restart_nobody() -> None:
    async def scene() -> World:
        world = await made()
        before, first = uids(world), text(world, LEAF, "tls.crt")
        world.clock.epoch_ms += 61 * 24 * HOUR_MS
        await world.run(700_000)
        assert text(world, LEAF, "tls.crt") != first
        assert told(world)[:2] == ("True", "CertificatesValid")

        def ask(one: dict[str, Any]) -> None:
            one["metadata"].setdefault("annotations", {})["muster.dev/rotate-ca"] = "monday"

        old = text(world, TRUST, "ca.crt")
        world.fake.edit("CoordinatorCluster", "ns", "c", ask)
        seen = []
        for _ in range(90):
            await world.run(10_000)
            trusted = [one.key_id for one in read_certificates(text(world, TRUST, "ca.crt"))]
            (leaf,) = read_certificates(text(world, LEAF, "tls.crt"))
            assert leaf.issuer_key_id in trusted, "at each moment"
            if not seen or seen[-1] != len(trusted):
                seen.append(len(trusted))
        assert seen[-2:] == [2, 1], "the second is there before it issues, the first goes after"
        assert text(world, TRUST, "ca.crt") != old
        assert uids(world) == before
        assert "drain c-0" not in world.admin.journal
        return world

    of(scene)


def test_a_certificate_of_yours_is_judged_in_words_and_taken_when_it_is_right() -> None:
    async def scene() -> World:
        world = await made(listeners=[{**LISTENER, "tls": {"secretName": "mine"}}], authorization=None)
        assert told(world)[:2] == ("False", "SecretUnusable")
        assert "Secret mine of listener internal" in told(world)[2]
        ca = new_authority("ours", now_ms=world.clock.wall_ms(), days=30)
        for hosts, good in (((), False), (("*.c-peers.ns.svc",), True)):
            one = new_certificate(ca, "x", hosts=hosts, addresses=(), now_ms=world.clock.wall_ms(), days=30)
            put(world, "mine", {"tls.crt": one.certificate, "tls.key": one.key})
            await world.run(700_000)
            assert (told(world)[0] == "True") == good, told(world)
        put(world, "mine", {"tls.crt": one.certificate, "tls.key": ca.key})
        await world.run(700_000)
        assert "is not the key of" in told(world)[2]
        world.fake.calls.clear()
        await world.run(700_000)
        assert not [call for call in world.fake.writes() if call[2] == "mine"]
        return world

    of(scene)


def put(world: World, name: str, content: dict[str, str]) -> None:
    world.fake.put(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "ns"}, "stringData": content}
    )


def test_a_secret_of_somebody_elses_under_our_name_is_named_and_left_alone() -> None:
    async def scene() -> World:
        world = World()
        put(world, CA, {"tls.crt": "theirs"})
        world.fake.put(cluster(**SECURED))
        world.start()
        return await settled(world)

    world = of(scene)
    assert text(world, CA, "tls.crt") == "theirs"
    assert told(world)[:2] == ("False", "NameTaken")
    assert CA in told(world)[2]


def test_cert_manager_is_asked_and_its_secret_is_waited_for() -> None:
    async def scene() -> World:
        issuer = {"name": "streaming", "kind": "ClusterIssuer"}
        world = await made(listeners=[{**LISTENER, "tls": {"issuerRef": issuer}}], authorization=None)
        asked = world.fake.objects["Certificate", "ns", "c-internal-tls"]["spec"]
        assert asked["issuerRef"] == {**issuer, "group": "cert-manager.io"}
        assert "does not exist" in told(world)[2]
        ca = new_authority("issuer", now_ms=world.clock.wall_ms(), days=365)
        one = new_certificate(
            ca, asked["commonName"], hosts=asked["dnsNames"], addresses=(), now_ms=world.clock.wall_ms(), days=90
        )
        put(world, asked["secretName"], {"tls.crt": one.certificate, "tls.key": one.key, "ca.crt": ca.certificate})
        await world.run(700_000)
        assert told(world)[:2] == ("True", "CertificatesValid")
        world.fake.calls.clear()
        await world.run(HOUR_MS)
        assert list(world.fake.writes()) == []
        world.clock.epoch_ms += 85 * 24 * HOUR_MS
        await world.run(700_000)
        assert told(world)[:2] == ("True", "CertificateExpiring")
        return world

    of(scene)


def test_the_admin_api_is_asked_by_https_pod_by_pod_as_each_speaks_it() -> None:
    async def scene() -> World:
        world = await made(listeners=[LISTENER], authorization=None)
        assert all(isinstance(one, str) for one in world.admin.asked_at.values())
        plain = uids(world)
        world.fake.edit(
            "CoordinatorCluster", "ns", "c",
            lambda live: live["spec"].update(admin={"tls": True}, probes={"tls": True}),
        )  # fmt: skip
        both = False
        for _ in range(120):
            await world.run(5_000)
            spoken = {isinstance(one, SecuredAdmin) for one in world.admin.asked_at.values()}
            both = both or len(spoken) == 2
        assert both, "while it rolls, some speak it and some do not"
        assert not set(uids(world).values()) & set(plain.values())
        for pod, at in world.admin.asked_at.items():
            assert isinstance(at, SecuredAdmin)
            assert (at.name, at.ca) == (f"{pod}.c-peers.ns.svc", text(world, TRUST, "ca.crt").strip())
        (leaf,) = read_certificates(text(world, LEAF, "tls.crt"))
        assert "*.c-peers.ns.svc" in leaf.names
        pod = next(one for (kind, _, _), one in world.fake.objects.items() if kind == "Pod")
        container = pod["spec"]["containers"][0]
        assert {container[one]["httpGet"]["scheme"] for one in container if one.endswith("Probe")} == {"HTTPS"}
        status = world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]
        assert {one["type"]: one["status"] for one in status["conditions"]}["Ready"] == "True"
        return world

    of(scene)
