"""Logins from Secrets: what is read and how often, what is Unknown and why, and that no text of ours shows a secret."""

import base64
import dataclasses
from typing import Any

import pytest
from muster_operator.api.group import GroupSpec
from muster_operator.limits import LOGIN_AGE_MAX_MS
from muster_operator.runtime.logins import Logins
from muster_operator.world.login import Endpoint, Login, where
from muster_operator.world.views import Unknown

from tests.operator.fakes.bench import World, group, run
from tests.operator.fakes.clocks import FakeClock
from tests.operator.fakes.fake_kube import FakeKube
from tests.operator.plan.making import group_view
from tests.operator.resources.owners import group_spec

CANARY = "canary-password"
SCRAM = {"tls": {"caSecret": {"name": "ca"}}, "authentication": {"type": "scram-sha-512", "secret": {"name": "who"}}}


def secret(name: str, **values: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "ns"}, "stringData": values}


def spec(**fields: Any) -> GroupSpec:
    return group_spec(**(SCRAM | fields))


class Scene:
    def __init__(self) -> None:
        self.kube, self.clock = FakeKube(), FakeClock()
        self.logins = Logins(self.kube, self.clock)

    def of(self, which: GroupSpec | None = None) -> Login | Unknown | None:
        found = run(self.logins.of("ns", which or spec()))
        assert found is None or isinstance(found, Login | Unknown)
        return found


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.kube.put(secret("ca", **{"ca.crt": "PEM"}))
    made.kube.put(secret("who", username="orders", password=CANARY))
    return made


def test_an_open_cluster_needs_none_and_costs_no_request(scene: Scene) -> None:
    assert scene.of(group_spec()) is None
    assert scene.kube.calls == []


def test_what_the_secrets_have_is_the_login(scene: Scene) -> None:
    assert scene.of() == Login(tls=True, ca="PEM", mechanism="SCRAM-SHA-512", username="orders", password=CANARY)


@pytest.mark.parametrize(
    ("kind", "values", "want"),
    [
        ("plain", {"username": "a", "password": "b"}, {"mechanism": "PLAIN", "username": "a", "password": "b"}),
        ("oauthbearer", {"token": "t\n"}, {"mechanism": "OAUTHBEARER", "token": "t"}),
        ("tls", {"tls.crt": "C", "tls.key": "K"}, {"certificate": "C", "key": "K"}),
    ],
)
def test_each_type_has_its_keys(scene: Scene, kind: str, values: dict[str, str], want: dict[str, str]) -> None:
    scene.kube.put(secret("who", **values))
    found = scene.of(spec(authentication={"type": kind, "secret": {"name": "who"}}))
    assert found == Login(tls=True, ca="PEM", **want)  # type: ignore[arg-type]
    scene.kube.put(secret("other", **dict.fromkeys(list(values)[:-1], "x"), more="y"))
    lacking = scene.of(spec(authentication={"type": kind, "secret": {"name": "other"}}))
    assert isinstance(lacking, Unknown)
    assert (lacking.reason, list(values)[-1] in lacking.message) == ("SecretUnusable", True)


def test_a_secret_that_is_not_there_is_unknown_and_found_at_once_when_it_comes(scene: Scene) -> None:
    scene.kube.remove("Secret", "ns", "who")
    found = scene.of()
    assert isinstance(found, Unknown)
    assert found.reason == "SecretNotFound"
    scene.kube.put(secret("who", username="orders", password=CANARY))
    assert isinstance(scene.of(), Login)


def test_one_that_may_not_be_read_is_unknown_with_the_api_servers_reason(scene: Scene) -> None:
    scene.kube.refuse["get", "Secret"] = "HTTP 403"
    found = scene.of()
    assert isinstance(found, Unknown)
    assert found.reason == "Forbidden"


def test_what_is_no_text_is_unusable(scene: Scene) -> None:
    broken = secret("who", username="orders")
    scene.kube.put({**broken, "data": {"password": base64.b64encode(b"\xff\xfe").decode()}})
    found = scene.of()
    assert isinstance(found, Unknown)
    assert found.reason == "SecretUnusable"


def test_a_changed_secret_is_read_when_it_is_old_and_at_once_when_the_login_is_not_taken(scene: Scene) -> None:
    scene.of()
    reads = len(scene.kube.calls)
    scene.kube.put(secret("who", username="orders", password="second"))
    for _ in range(10):
        scene.clock.advance(LOGIN_AGE_MAX_MS // 20)
        first = scene.of()
        assert isinstance(first, Login)
        assert first.password == CANARY
    assert len(scene.kube.calls) == reads, "not read again within a minute"
    scene.logins.distrust("ns", spec(), Unknown(reason="BootstrapUnreachable", message=""))
    scene.of()
    assert len(scene.kube.calls) == reads, "a cluster that is down says nothing about the login"
    scene.logins.distrust("ns", spec(), Unknown(reason="AuthenticationFailed", message=""))
    second = scene.of()
    assert isinstance(second, Login)
    assert second.password == "second"
    scene.kube.put(secret("who", username="orders", password="third"))
    scene.clock.advance(LOGIN_AGE_MAX_MS)
    third = scene.of()
    assert isinstance(third, Login)
    assert third.password == "third"


def test_no_text_of_a_login_has_a_secret() -> None:
    names = [field.name for field in dataclasses.fields(Login) if field.name not in ("tls", "mechanism")]
    login = Login(tls=True, mechanism="PLAIN", **dict.fromkeys(names, CANARY))  # type: ignore[arg-type]
    endpoint = where("kafka:9092", login)
    assert isinstance(endpoint, Endpoint)
    for text in (repr(login), str(login), repr(endpoint), str(endpoint), f"{endpoint}", repr([endpoint])):
        assert CANARY not in text
    assert str(endpoint) == "kafka:9092"
    assert endpoint != where("kafka:9092", dataclasses.replace(login, password="x")), "another password, another client"


def test_a_group_whose_secret_is_missing_is_unknown_and_its_pods_are_made_all_the_same() -> None:
    async def scene() -> None:
        world = World()
        world.fake.put(group(**SCRAM))
        world.start()
        await world.begin()
        await world.run(10_000)
        live = world.fake.objects["ConsumerGroup", "ns", "g"]
        found = {one["type"]: (one["status"], one["reason"]) for one in live["status"]["conditions"]}
        assert found["ClusterReachable"] == ("False", "SecretNotFound")
        assert found["Ready"][0] != "True"
        assert "memberCount" not in live["status"], "not known is not 0"
        assert world.kafka.asked == 0, "nobody is asked without the login"
        statefulset = world.fake.objects["StatefulSet", "ns", "g"]
        before = statefulset["spec"]["template"]
        world.fake.put(secret("ca", **{"ca.crt": "PEM"}))
        world.fake.put(secret("who", username="orders", password=CANARY))
        world.kafka.groups["g"] = group_view(())
        await world.run(20_000)
        live = world.fake.objects["ConsumerGroup", "ns", "g"]
        assert live["status"]["state"] == "Stable"
        assert world.kafka.where is not None
        assert world.kafka.where == where("kafka:9092", Login(
            tls=True, ca="PEM", mechanism="SCRAM-SHA-512", username="orders", password=CANARY
        ))  # fmt: skip
        # A rotated password is the operator's business alone: no template changes, so no pod is replaced.
        world.fake.put(secret("who", username="orders", password="second"))
        await world.run(2 * LOGIN_AGE_MAX_MS)
        assert isinstance(world.kafka.where, Endpoint)
        assert world.kafka.where.login.password == "second"
        assert world.fake.objects["StatefulSet", "ns", "g"]["spec"]["template"] == before
        assert CANARY not in repr([one for one in world.fake.objects.values() if one["kind"] != "Secret"])

    run(scene())
