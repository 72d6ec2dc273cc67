"""A cluster whose certificate is cert-manager's, on a fake API server: cert-manager that is not there yet, any more or
at all, that may not be asked, that does not answer, and a Certificate that is somebody else's.

The real one is in `e2e/test_cert_manager.py`.
"""

from typing import Any

import pytest
from muster_operator.kube.views import epoch_ms
from muster_operator.limits import NAME_TAKEN_RETRY_MS
from muster_operator.plan.conditions import timestamp
from muster_operator.runtime.observe_issued import view_of
from muster_operator.runtime.x509 import new_authority, new_certificate

from tests.operator.fakes.bench import World, cluster, run
from tests.operator.runtime.test_crashes import settled
from tests.operator.runtime.test_secured_cluster import LISTENER, put, told, uids

MINUTE_MS = 60_000
NAME = "c-internal-tls"
ISSUED = {"listeners": [{**LISTENER, "tls": {"issuerRef": {"name": "streaming", "kind": "ClusterIssuer"}}}]}
FORBIDDEN = (
    'HTTP 403 Forbidden: certificates.cert-manager.io "c-internal-tls" is forbidden: User "muster" cannot get resource'
    ' "certificates"'
)
REFUSALS = {("get", "Certificate"): FORBIDDEN, ("apply", "Certificate"): FORBIDDEN}


def begun(*, undefined: bool = False, refuse: dict[tuple[str, str], str] | None = None) -> World:
    """A cluster, and an operator that has not looked at it yet."""
    world = World()
    world.fake.undefined |= {"Certificate"} if undefined else set()
    world.fake.refuse |= refuse or {}
    world.fake.put(cluster(**ISSUED))
    world.start()
    return world


def sign(world: World, days: int = 90) -> None:
    """What cert-manager does when it was asked."""
    asked = world.fake.objects["Certificate", "ns", NAME]["spec"]
    ca = new_authority("issuer", now_ms=world.clock.wall_ms(), days=365)
    one = new_certificate(
        ca, asked["commonName"], hosts=asked["dnsNames"], addresses=(), now_ms=world.clock.wall_ms(), days=days
    )
    put(world, asked["secretName"], {"tls.crt": one.certificate, "tls.key": one.key, "ca.crt": ca.certificate})
    say(world, ("Ready", "True", "Ready", "Certificate is up to date and has not expired"))


def say(world: World, *conditions: tuple[str, str, str, str]) -> None:
    """Conditions of the Certificate: type, status, reason, message."""
    keys, now = ("type", "status", "reason", "message"), timestamp(world.clock.wall_ms())
    found = [dict(zip(keys, one, strict=True), lastTransitionTime=now) for one in conditions]
    world.fake.edit("Certificate", "ns", NAME, lambda live: live.update(status={"conditions": found}))


def condition(world: World, type_: str) -> dict[str, Any]:
    conditions = world.fake.objects["CoordinatorCluster", "ns", "c"]["status"]["conditions"]
    found: dict[str, Any] = next(one for one in conditions if one["type"] == type_)
    return found


async def served() -> World:
    """With a certificate of cert-manager's, and at rest."""
    world = await settled(begun())
    sign(world)
    await world.run(12 * MINUTE_MS)
    assert told(world)[:2] == ("True", "CertificatesValid")
    assert condition(world, "Ready")["status"] == "True"
    return world


def test_a_cluster_is_made_though_cert_manager_comes_later() -> None:
    async def scene() -> World:
        world = await settled(begun(undefined=True))
        assert ("StatefulSet", "ns", "c") in world.fake.objects
        degraded = condition(world, "Degraded")
        assert degraded["status"] == "True"
        assert "Certificate c-internal-tls cannot be asked for" in degraded["message"]
        assert "is cert-manager installed?" in degraded["message"]
        assert told(world)[0] == "False"
        world.fake.undefined.clear()
        await world.run(5 * MINUTE_MS)
        sign(world)
        await world.run(2 * MINUTE_MS)
        assert told(world)[:2] == ("True", "CertificatesValid"), "looked at once a minute while it is missing"
        assert condition(world, "Degraded")["status"] == "False"
        return world

    run(scene())


@pytest.mark.parametrize("lost", ["definitions", "right"])
def test_a_cluster_that_has_its_certificate_is_looked_after_without_cert_manager(lost: str) -> None:
    """An edit reaches the pods; what is missing is told, with what helps, and asked for ever more rarely."""

    async def scene() -> World:
        world = await served()
        if lost == "definitions":
            world.fake.undefined.add("Certificate")
            world.fake.remove("Certificate", "ns", NAME)
        else:
            world.fake.refuse |= REFUSALS
        before = uids(world)
        world.fake.edit("CoordinatorCluster", "ns", "c", lambda live: live["spec"].update(image="muster:2"))
        await world.run(20 * MINUTE_MS)
        assert not set(before.values()) & set(uids(world).values()), "every pod has the other image"
        assert condition(world, "Ready")["status"] == "True"
        assert told(world)[0] == "True", "the Secret is there, and good"
        degraded = condition(world, "Degraded")
        assert degraded["status"] == "True"
        helps = {"definitions": "is cert-manager installed?", "right": "rbac.certManager=true"}
        assert helps[lost] in degraded["message"]
        world.fake.calls.clear()
        await world.run(60 * MINUTE_MS)
        passes = world.fake.calls.count(("get", "Secret", NAME))
        assert 6 < passes < 20, "once in five minutes"
        return world

    run(scene())


def test_the_right_is_granted_later() -> None:
    async def scene() -> World:
        world = await settled(begun(refuse=REFUSALS))
        assert ("StatefulSet", "ns", "c") in world.fake.objects
        assert "rbac.certManager=true" in condition(world, "Degraded")["message"]
        world.fake.refuse.clear()
        await world.run(5 * MINUTE_MS)
        assert ("Certificate", "ns", NAME) in world.fake.objects
        return world

    run(scene())


def test_cert_manager_has_a_minute_and_then_its_words_are_told() -> None:
    async def scene() -> World:
        world = begun()
        await world.begin()
        await world.run(3_000)
        made = world.fake.objects["Certificate", "ns", NAME]["metadata"]
        made["creationTimestamp"] = timestamp(world.clock.wall_ms())
        await world.run(20_000)
        assert told(world)[:2] == ("False", "CreatingChildren")
        assert "it does not exist" in told(world)[2]
        await world.run(90_000)
        assert told(world)[:2] == ("False", "SecretUnusable")
        assert "by ClusterIssuer streaming: nobody has looked at it: is cert-manager running?" in told(world)[2]
        assert "put what is right into it" not in told(world)[2], "it is not theirs to write"
        assert condition(world, "Degraded")["reason"] == "SecretUnusable"
        say(
            world,
            ("Ready", "False", "DoesNotExist", "Issuing certificate as Secret does not exist"),
            ("Issuing", "False", "Failed", "The certificate request has failed to complete and will be retried: no"),
        )
        await world.run(12 * MINUTE_MS)
        assert told(world)[2].endswith("Failed: The certificate request has failed to complete and will be retried: no")
        sign(world)
        await world.run(12 * MINUTE_MS)
        assert told(world)[:2] == ("True", "CertificatesValid")
        return world

    run(scene())


def test_a_renewal_that_fails_is_told_with_cert_managers_words() -> None:
    async def scene() -> World:
        world = await served()
        world.clock.epoch_ms += 85 * 24 * 60 * MINUTE_MS
        say(world, ("Ready", "True", "Ready", "up to date"), ("Issuing", "False", "Failed", "the issuer is gone"))
        await world.run(12 * MINUTE_MS)
        assert told(world)[:2] == ("True", "CertificateExpiring")
        assert told(world)[2].endswith("by ClusterIssuer streaming: Failed: the issuer is gone")
        return world

    run(scene())


@pytest.mark.parametrize("before", [True, False], ids=["before the cluster", "instead of ours"])
def test_a_certificate_of_somebody_elses_is_left_alone(before: bool) -> None:
    async def scene() -> World:
        world = begun() if before else await served()
        world.fake.remove("Certificate", "ns", NAME)
        theirs = {"secretName": "web", "issuerRef": {"name": "web"}, "dnsNames": ["web.example.com"]}
        world.fake.put(
            {
                "apiVersion": "cert-manager.io/v1",
                "kind": "Certificate",
                "metadata": {"name": NAME, "namespace": "ns"},
                "spec": theirs,
            }
        )
        world.fake.calls.clear()
        await (settled(world) if before else world.run(12 * MINUTE_MS))
        assert world.fake.objects["Certificate", "ns", NAME]["spec"] == theirs
        assert ("apply", "Certificate", NAME) not in world.fake.calls
        for type_ in ("Ready", "Degraded"):
            assert condition(world, type_)["reason"] == "NameTaken"
        assert "Certificate c-internal-tls exists and belongs to another owner" in condition(world, "Ready")["message"]
        world.fake.remove("Certificate", "ns", NAME)
        await world.run(NAME_TAKEN_RETRY_MS + 2_000)
        assert world.fake.objects["Certificate", "ns", NAME]["spec"]["secretName"] == NAME, "no watch tells of it"
        return world

    run(scene())


def test_what_is_told_of_a_certificate() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T00:00:00Z"}
    live = {"metadata": {"creationTimestamp": "2026-02-01T00:00:00Z"}, "status": {"conditions": [ready]}}
    found = view_of(live, "Issuer ca")
    assert (found.says, found.changed_ms) == (None, epoch_ms("2026-03-01T00:00:00Z"))
    issuing = {"type": "Issuing", "status": "True", "reason": "Renewing", "message": "soon"}
    live["status"]["conditions"] = [issuing]
    assert view_of(live, "Issuer ca").says == "Renewing: soon"
    assert view_of(None, "Issuer ca").changed_ms is None
