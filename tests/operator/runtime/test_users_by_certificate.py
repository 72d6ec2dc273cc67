"""Users that show a certificate of the operator's CA of clients: issued, renewed, and of another CA with overlap."""

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import pkcs12
from muster_operator.runtime.observe_certificates import text_of
from muster_operator.runtime.x509 import read_certificates
from muster_operator.world.certificates import CertificateView

from tests.operator.fakes.bench import World, cluster, run, user
from tests.operator.runtime.test_crashes import settled

PLAIN = {"name": "internal", "type": "internal", "port": 9092}
MUTUAL = {"name": "mutual", "type": "internal", "port": 9094, "tls": {}, "authentication": {"type": "tls"}}
OUTSIDE = {
    "name": "partners", "type": "nodePort", "port": 9095, "nodePortBase": 31090, "tls": {},
    "authentication": {"type": "tls"},
}  # fmt: skip
BY_PASSWORD = {
    "name": "by-password", "type": "nodePort", "port": 9096, "nodePortBase": 31080, "tls": {},
    "authentication": {"type": "scram-sha-512"},
}  # fmt: skip
CLIENTS_CA, CLIENTS_TRUST = "c-clients-ca", "c-clients-ca-cert"
DAY_MS = 86_400_000


def by_certificate(name: str = "billing", **spec: Any) -> dict[str, Any]:
    made = user(name, clusterRef={"name": "c"}, authentication={"type": "tls"}, **spec)
    del made["spec"]["bootstrapServers"]
    return made


async def begun(*objects: dict[str, Any], listeners: Any = (PLAIN, MUTUAL), **spec: Any) -> World:
    world = World()
    world.fake.put(cluster(listeners=list(listeners), certificates={"trustDelayMinutes": 3}, **spec))
    for one in objects:
        world.fake.put(one)
    world.start()
    await settled(world)
    await world.run(10_000)
    return world


def text(world: World, name: str, key: str) -> str:
    return text_of(world.fake.objects["Secret", "ns", name], key) or ""


def held(world: World, name: str = "billing") -> CertificateView:
    (one,) = read_certificates(text(world, name, "tls.crt"))
    return one


def told(world: World, type_: str, name: str = "billing") -> tuple[str, str, str]:
    conditions = world.fake.objects["User", "ns", name]["status"]["conditions"]
    found = next(one for one in conditions if one["type"] == type_)
    return found["status"], found["reason"], found["message"]


def trusted(world: World) -> set[str]:
    """Key ids that coordinators take clients' certificates of."""
    return {one.key_id for one in read_certificates(text(world, CLIENTS_TRUST, "ca.crt"))}


def test_the_secret_is_complete_and_its_key_is_nowhere_else() -> None:
    async def scene() -> None:
        world = await begun(by_certificate())
        assert told(world, "Ready")[:2] == ("True", "Applied")
        assert told(world, "CredentialsReady")[:2] == ("True", "CertificateIssued")
        assert world.fake.objects["User", "ns", "billing"]["status"]["principal"] == "User:CN=billing"
        assert {held(world).issuer_key_id} == trusted(world)
        secret = world.fake.objects["Secret", "ns", "billing"]
        assert "password" not in secret["data"], "it has none"
        assert secret["metadata"]["ownerReferences"][0]["kind"] == "User"
        java = text(world, "billing", "client.properties")
        assert "bootstrap.servers=c-bootstrap.ns.svc:9094\n" in java
        assert "security.protocol=SSL\n" in java
        assert "sasl" not in java
        assert "ssl.keystore.certificate.chain=-----BEGIN CERTIFICATE-----\\n" in java
        assert "ssl.truststore.certificates=-----BEGIN" in java
        assert text(world, "billing", "ca.crt") == text(world, "c-cluster-ca-cert", "ca.crt")
        store = pkcs12.load_key_and_certificates(
            base64.b64decode(secret["data"]["keystore.p12"]), text(world, "billing", "keystore.password").encode()
        )
        assert store[1] is not None
        assert store[1].subject.rfc4514_string() == "CN=billing"
        key = text(world, "billing", "tls.key")
        assert key
        rest = repr([one for one in world.fake.objects.values() if one["kind"] != "Secret"])
        assert base64.b64encode(key.encode()).decode() not in rest
        assert key not in rest
        assert not world.kafka.passwords
        world.fake.calls.clear()
        await world.run(600_000)
        assert [one for one in world.fake.writes() if one[1] == "Secret"] == []

    run(scene())


def test_a_certificate_is_renewed_at_two_thirds_of_its_life_and_not_before() -> None:
    async def scene() -> None:
        world = await begun(by_certificate())
        first = held(world)
        world.clock.epoch_ms += 59 * DAY_MS
        await world.run(300_000)
        assert held(world) == first
        world.clock.epoch_ms += 2 * DAY_MS
        await world.run(700_000)
        assert held(world).key_id != first.key_id
        assert held(world).issuer_key_id == first.issuer_key_id
        assert world.clock.wall_ms() < first.not_after_ms, "with a month to spare"

    run(scene())


def test_another_ca_issues_anew_and_both_are_trusted_all_the_while() -> None:
    async def scene() -> None:
        world = await begun(by_certificate())
        first = held(world)
        world.fake.edit(
            "CoordinatorCluster", "ns", "c",
            lambda live: live["metadata"].setdefault("annotations", {}).update({"muster.dev/rotate-ca": "now"}),
        )  # fmt: skip
        for _ in range(300):
            await world.run(5_000)
            assert held(world).issuer_key_id in trusted(world), "at each moment"
            assert first.issuer_key_id in trusted(world), "whoever has not taken up the new one is let in"
        assert held(world).issuer_key_id != first.issuer_key_id
        assert len(trusted(world)) == 2

    run(scene())


def test_of_a_listener_outside_the_settings_name_the_addresses_outside() -> None:
    async def scene() -> None:
        world = await begun(by_certificate(), listeners=(PLAIN, OUTSIDE))
        outside = world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]["bootstrapServers"]["external"]
        assert ":31090" in outside
        assert f"bootstrap.servers={outside}\n" in text(world, "billing", "client.properties").replace("\\:", ":")

    run(scene())


def bootstrap(world: World) -> str:
    return text(world, "billing", "bootstrap.servers")


def test_with_an_older_definition_the_first_listener_outside_is_told() -> None:
    """It has no place for the others."""

    async def scene() -> None:
        for listeners, expected in (((OUTSIDE, BY_PASSWORD), True), ((BY_PASSWORD, OUTSIDE), False)):
            world = World()
            world.fake.undeclared = {"listeners"}
            world.fake.put(cluster(listeners=[PLAIN, *listeners]))
            world.fake.put(by_certificate())
            world.start()
            await settled(world)
            await world.run(10_000)
            if expected:
                assert ":31090" in bootstrap(world)
            else:
                assert told(world, "ClusterReachable")[1] == "ClusterNotReady"
                assert "no address of listener partners" in told(world, "ClusterReachable")[2]

    run(scene())


NAMED = {**BY_PASSWORD, "advertisedHost": "$(POD_NAME).example"}


@pytest.mark.parametrize("others", [(BY_PASSWORD, OUTSIDE), (OUTSIDE, NAMED), (NAMED, OUTSIDE)])
def test_of_two_listeners_outside_the_one_that_takes_the_login_is_told(others: tuple[Any, ...]) -> None:
    """Also behind one that has names, by which no node's address is known."""

    async def scene() -> None:
        alone = bootstrap(await begun(by_certificate(), listeners=(PLAIN, OUTSIDE)))
        assert ":31090" in alone
        assert bootstrap(await begun(by_certificate(), listeners=(PLAIN, *others))) == alone

    run(scene())


def test_of_two_listeners_outside_with_names_each_has_its_own() -> None:
    async def scene() -> None:
        elsewhere = {**OUTSIDE, "advertisedHost": "k$(ORDINAL).example"}
        found = bootstrap(await begun(by_certificate(), listeners=(PLAIN, NAMED, elsewhere)))
        assert found.startswith("k0.example:31090")

    run(scene())


def test_where_others_issue_clients_certificates_nothing_is_made() -> None:
    async def scene() -> None:
        theirs = {**MUTUAL, "tls": {"trustedSecretName": "theirs"}}
        world = await begun(by_certificate(), listeners=(PLAIN, theirs))
        assert told(world, "CredentialsReady")[1] == "CertificateYours"
        assert ("Secret", "ns", "billing") not in world.fake.objects

    run(scene())


@pytest.mark.parametrize(
    ("content", "anew"), [({"tls.crt": ""}, True), ({"tls.key": "no key"}, True), ({"username": "other"}, False)]
)
def test_what_cannot_be_used_is_issued_anew(content: dict[str, str], anew: bool) -> None:
    async def scene() -> None:
        world = await begun(by_certificate())
        first = held(world)
        data = {key: base64.b64encode(value.encode()).decode() for key, value in content.items()}
        world.fake.edit("Secret", "ns", "billing", lambda live: live["data"].update(data))
        await world.run(300_000)
        assert (held(world) != first) == anew
        assert told(world, "CredentialsReady")[0] == "True"

    run(scene())


def test_a_damaged_ca_a_foreign_secret_and_a_name_that_is_no_subject_are_told_and_nothing_is_issued() -> None:
    async def scene() -> None:
        world = await begun(by_certificate("n" * 65), by_certificate(userName="orders"))
        for name in ("n" * 65, "billing"):
            assert told(world, "Degraded", name)[0] == "True"
            assert "is no subject of a certificate" in told(world, "Degraded", name)[2]
        broken = base64.b64encode(b"broken").decode()
        world.fake.edit("Secret", "ns", CLIENTS_CA, lambda live: live["data"].update({"tls.key": broken}))
        world.fake.put(by_certificate("late"))
        world.fake.put(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "taken", "namespace": "ns"}, "stringData": {}}
        )
        world.fake.put(by_certificate("taken"))
        await world.run(300_000)
        assert told(world, "Degraded", "late")[:2] == ("True", "SecretUnusable")
        assert CLIENTS_CA in told(world, "Degraded", "late")[2]
        assert ("Secret", "ns", "late") not in world.fake.objects
        assert told(world, "Degraded", "taken")[:2] == ("True", "NameTaken")

    run(scene())
