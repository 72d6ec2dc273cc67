"""What makes membership static: the promise without the CRD, and what is said when a program breaks it."""

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from e2e.fleet import Cluster, Group, condition, until
from e2e.node.client import Client, Refused
from e2e.node.session import Description
from tests.operator.api.generate import ROOT

pytestmark = pytest.mark.timeout(400)
SLEEP = "import time; time.sleep(3600)"

DOCUMENT = ROOT / "docs" / "operator.md"
OWN = re.compile(r"<!-- example: own-statefulset -->\n```yaml\n(.*?)```", re.DOTALL)
FORGETFUL = (
    "import os, runpy; os.environ.pop('KAFKA_GROUP_INSTANCE_ID'); "
    "runpy.run_path('/program/consumer.py', run_name='__main__')"
)
DYNAMIC: dict[str, dict[str, Any]] = {
    "ignores the id": {"command": ["python3", "-c", FORGETFUL]},
    "has an id of its own": {"env": [{"name": "INSTANCE_ID", "value": "mine-$(KAFKA_GROUP_INSTANCE_ID)"}]},
}


def documented(image: str, bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """The objects of docs/operator.md, with this cluster's image, address and topic instead of the reader's."""
    (text,) = OWN.findall(DOCUMENT.read_text())
    for theirs, ours in (
        ("registry.example.com/muster:0.3.0", image),
        ("main-bootstrap.shop.svc:9092", bootstrap),
        ("topic-orders", topic),
    ):
        assert theirs in text
        text = text.replace(theirs, ours)
    return list(yaml.safe_load_all(text))


@pytest.fixture
def own(shared: Cluster, node: Description) -> Iterator[Client]:
    """The documented StatefulSet, running, and a ConsumerGroup without a template beside it."""
    client = shared.client
    shared.create_topic("own-orders", 6)
    shared.produce("own-orders", [f"order-{number}" for number in range(50)])
    client.apply(*documented(node.muster_image, shared.bootstrap, "own-orders"))
    yield client
    client.kubectl("delete", "statefulset/own", "service/own", "cg/own", "--ignore-not-found")
    until("end of own pods", lambda: not client.read("pods", "--selector=app=own")["items"], 60)


def test_a_statefulset_of_ones_own_with_a_field_reference(own: Client, shared: Cluster) -> None:
    """A rollout of it changes no generation, and a ConsumerGroup that runs no pods observes it."""

    def stable() -> int:
        truth = shared.group("own")
        names = {member["instance"] for member in truth.get("members", ())}
        return truth["generation"] if truth.get("state") == "Stable" and names == {f"own-{n}" for n in range(3)} else 0

    before = until("three static members", stable, 120)
    uids = {one["metadata"]["uid"] for one in own.read("pods", "--selector=app=own")["items"]}
    own.kubectl("rollout", "restart", "statefulset/own")
    own.kubectl("rollout", "status", "statefulset/own", "--timeout=150s", timeout_s=160)
    now = {one["metadata"]["uid"] for one in own.read("pods", "--selector=app=own")["items"]}
    assert len(now) == 3
    assert not now & uids
    after = until("three static members", stable, 60)
    print(f"own StatefulSet: generation {before} before, {after} after its rollout")
    assert after == before

    def observed() -> bool:
        obj = own.read("cg", "own")
        return condition(obj, "Ready").get("status") == "True" and obj["status"].get("memberCount") == 3

    until("observation", observed, 30)
    obj = own.read("cg", "own")
    assert condition(obj, "StaticMembership")["reason"] == "MembersStatic"
    assert condition(obj, "Progressing")["reason"] == "ObservingOnly"
    assert obj["status"]["readyText"] == "-"
    assert obj["status"]["generation"] == after
    assert {one["instanceId"] for one in obj["status"]["members"]} == {f"own-{n}" for n in range(3)}


@pytest.fixture
def altered(shared: Cluster, node: Description) -> Iterator[Callable[..., Group]]:
    """Makes a group of two with a changed pod template."""
    made: list[Group] = []

    def make(name: str, **template: Any) -> Group:
        one = Group(cluster=shared, image=node.demo_image, name=name, session_s=6)
        one.spec = {"template": {**one.manifest(2)["spec"]["template"], **template}}
        made.append(one.create(2))
        return one

    yield make
    for one in made:
        one.delete()


@pytest.mark.parametrize("how", DYNAMIC)
def test_a_program_that_does_not_use_its_id_is_told_of(altered: Callable[..., Group], how: str) -> None:
    """StaticMembership=False with the reason, a warning, and no promise about rebalances in the next rollout."""
    mine = altered(how.replace(" ", "-"), **DYNAMIC[how])
    mine.stable(2)
    until("judgement", lambda: condition(mine.read(), "StaticMembership").get("reason") == "MembersDynamic", 30)
    found = condition(mine.read(), "StaticMembership")
    assert found["status"] == "False"
    assert all(part in found["message"] for part in ("every restart rebalances", f"{mine.name}-0", f"{mine.name}-1"))
    query = ("events", f"--field-selector=reason=MembersDynamic,involvedObject.name={mine.name}")
    assert until("warning", lambda: mine.client.read(*query)["items"], 10)[0]["type"] == "Warning"
    mine.client.kubectl("annotate", f"cg/{mine.name}", "muster.dev/restarted-at=now")
    promise = "no promise about rebalances (MembersDynamic)"
    until("roll-out", lambda: promise in condition(mine.read(), "Progressing").get("message", ""), 60)


def test_a_duplicate_instance_id_is_fenced_and_named(altered: Callable[..., Group]) -> None:
    """A stranger takes a pod's id: one of the two is fenced with an error, and the condition says which id it is."""
    mine = altered("duplicate")
    mine.stable(2)
    pod = mine.pods()[f"{mine.name}-0"]
    stranger = {key: pod["spec"][key] for key in ("containers", "volumes", "securityContext")}
    container = dict(stranger["containers"][0])
    container["volumeMounts"] = [one for one in container["volumeMounts"] if one["name"] == "program"]
    named = [one for one in container["env"] if not one["name"].endswith("INSTANCE_ID")]
    container["env"] = [*named, {"name": "INSTANCE_ID", "value": f"{mine.name}-0"}]
    volumes = [one for one in stranger["volumes"] if one["name"] == "program"]
    body = {**stranger, "containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 1}
    mine.client.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger"}, "spec": body})
    try:

        def named_in_a_condition() -> bool:
            return condition(mine.read(), "StaticMembership").get("reason") == "DuplicateInstanceId"

        until("judgement", named_in_a_condition, 120)
        obj = mine.read()
        for kind, status in (("StaticMembership", "False"), ("Degraded", "True")):
            assert condition(obj, kind)["status"] == status
            assert f"instance {mine.name}-0 is held by a process at" in condition(obj, kind)["message"]
        assert until("a fenced process", lambda: fenced(mine), 60)
        query = ("events", f"--field-selector=reason=DuplicateInstanceId,involvedObject.name={mine.name}")
        assert mine.client.read(*query)["items"]
    finally:
        mine.client.kubectl("delete", "pod", "stranger")
    until("calm", lambda: condition(mine.read(), "StaticMembership").get("status") == "True", 180)


def fenced(mine: Group) -> bool:
    """Whether either process has said that it was fenced."""
    said = ""
    for pod in (f"{mine.name}-0", "stranger"):
        for words in (("logs", pod), ("logs", pod, "--previous")):
            try:
                said += mine.client.kubectl(*words)
            except Refused as nothing_yet:
                said += str(nothing_yet)
    return re.search("FENCED_INSTANCE_ID|fenced by other consumer", said) is not None


def test_of_two_objects_with_one_group_id_the_younger_is_told(group: Callable[..., Group], namespace: Client) -> None:
    """Another namespace, the same cluster, a group that is taken: no promise, and the elder's members stay."""
    elder = group(replicas=3, session_s=60)
    generation = elder.stable(3)
    younger = elder.manifest(1)
    younger["metadata"] = {"name": elder.name}  # so that their pods have the same names, and so the same instance ids
    younger["spec"] |= {"bootstrapServers": elder.cluster.bootstrap}
    del younger["spec"]["clusterRef"]
    younger["spec"]["template"] |= {"command": ["python3", "-c", SLEEP], "volumes": [], "volumeMounts": []}
    namespace.apply(younger)

    def told() -> dict[str, Any] | None:
        found = dict(condition(namespace.read("cg", elder.name), "Degraded"))
        return found if found.get("reason") == "GroupIdShared" else None

    said = until("word to the younger", told, 60)
    assert f"{elder.client.namespace}/{elder.name}" in said["message"]
    assert condition(namespace.read("cg", elder.name), "StaticMembership").get("reason") == "GroupIdShared"

    def looked_again() -> bool:
        """After its pods are as wanted, which is when members beyond its one replica would be removed."""
        status = namespace.read("cg", elder.name)["status"]
        return status.get("replicas") == 1 and status.get("memberCount") == 3

    until("a look of the younger at all three members", looked_again, 60)
    assert elder.stable(3) == generation
    assert condition(elder.read(), "StaticMembership").get("status") == "True"
    namespace.kubectl("delete", "cg", elder.name)


def test_a_deleted_group_leaves_no_members_behind(group: Callable[..., Group]) -> None:
    """Static members do not leave by themselves; the operator removes exactly those of the pods that it ran."""
    mine = group(replicas=3, session_s=300)
    members = {one["member"] for one in mine.truth()["members"]}
    assert len(members) == 3
    mine.delete()
    began_s = time.monotonic()
    until("an empty group", lambda: mine.truth().get("state") in ("Empty", None), 30)
    print(f"{mine.name}: empty {time.monotonic() - began_s:.1f} s after its last pod, with a session timeout of 300 s")
