"""What the operator relies on about an API server, as expectations that run against the fake and a real kube-apiserver.

Each takes `ports.Kube` and a namespace of its own in which the CRDs are served.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from muster_operator.errors import Conflict, OperatorError
from muster_operator.ports import Kube
from muster_operator.runtime.report import UNDECLARED

GROUP = {"api_version": "muster.dev/v1alpha1", "kind": "ConsumerGroup"}
CONFIG = {"api_version": "v1", "kind": "ConfigMap"}
POD = {"api_version": "v1", "kind": "Pod"}
DEPLOYMENT = {"api_version": "apps/v1", "kind": "Deployment"}


def group(namespace: str, name: str = "g", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": GROUP["api_version"], "kind": GROUP["kind"], "metadata": {"name": name, "namespace": namespace},
        "spec": {"bootstrapServers": "kafka:9092", "groupId": name, "topics": ["orders"], **spec},
    }  # fmt: skip


def config(namespace: str, name: str = "m", **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}}, "data": data,
    }  # fmt: skip


def pod(namespace: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }  # fmt: skip


def status(read: Mapping[str, Any] | None, *conditions: str) -> dict[str, Any]:
    """A status for the object that was read."""
    assert read is not None
    found = [
        {"type": one, "status": "True", "reason": "R", "message": "m", "observedGeneration": 1,
         "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for one in conditions
    ]  # fmt: skip
    metadata = {key: read["metadata"][key] for key in ("name", "namespace", "resourceVersion")}
    return {
        "apiVersion": GROUP["api_version"], "kind": GROUP["kind"], "metadata": metadata, "status": {"conditions": found}
    }  # fmt: skip


def deployment(namespace: str) -> dict[str, Any]:
    labels = {"app": "d"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": namespace},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }  # fmt: skip


async def an_equal_apply_changes_nothing(kube: Kube, namespace: str) -> None:
    first = await kube.apply(config(namespace, a="1"))
    again = await kube.apply(config(namespace, a="1"))
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def fields_left_out_vanish_and_those_of_others_stay(kube: Kube, namespace: str) -> None:
    await kube.apply(config(namespace, a="1", b="2"))
    assert await kube.patch({**config(namespace), "data": {"theirs": "3"}})
    stored = await kube.apply(config(namespace, a="1"))
    assert stored["data"] == {"a": "1", "theirs": "3"}


async def the_generation_counts_changes_of_the_spec_only(kube: Kube, namespace: str) -> None:
    first = await kube.apply(group(namespace))
    labelled = group(namespace)
    labelled["metadata"]["labels"] = {"a": "b"}
    second = await kube.apply(labelled)
    third = await kube.apply_status(status(second, "Ready"))
    fourth = await kube.apply({**labelled, "spec": {**labelled["spec"], "topics": ["orders", "returns"]}})
    assert third is not None
    assert [one["metadata"]["generation"] for one in (first, second, third, fourth)] == [1, 1, 1, 2]


async def a_status_is_written_to_what_was_read_or_not_at_all(kube: Kube, namespace: str) -> None:
    """The API server ignores a uid in the body of a status; the resource version is what it checks."""
    first = await kube.apply(group(namespace))
    assert await kube.delete(**GROUP, namespace=namespace, name="g", uid=first["metadata"]["uid"])
    assert await kube.apply_status(status(first, "Ready")) is None
    second = await kube.apply(group(namespace))
    with pytest.raises(Conflict):
        await kube.apply_status(status(first, "Ready"))
    found = await kube.get(**GROUP, namespace=namespace, name="g")
    assert found is not None
    assert "True" not in [one["status"] for one in found.get("status", {}).get("conditions", ())]
    assert await kube.apply_status(status(second, "Ready")) is not None


async def a_condition_left_out_disappears_and_an_equal_status_changes_nothing(kube: Kube, namespace: str) -> None:
    made = await kube.apply(group(namespace))
    # Both types that the definition's default names: what nobody owns would stay.
    first = await kube.apply_status(status(made, "Ready", "StaticMembership", "Degraded"))
    second = await kube.apply_status(status(first, "Ready", "StaticMembership"))
    third = await kube.apply_status(status(second, "Ready", "StaticMembership"))
    assert second is not None
    assert third is not None
    assert [one["type"] for one in third["status"]["conditions"]] == ["Ready", "StaticMembership"]
    assert third["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def a_status_field_that_is_not_declared_is_refused_in_these_words(kube: Kube, namespace: str) -> None:
    """So it is when CRDs are older than the operator; what is declared can be written without it."""
    made = await kube.apply(group(namespace))
    told = status(made, "Ready", "StaticMembership")
    newer = {"newerThanTheDefinition": [{"name": "x"}], "newerAsWell": {"x": 1}}
    with pytest.raises(OperatorError) as refused:
        await kube.apply_status({**told, "status": {**told["status"], **newer}})
    named = UNDECLARED.findall(refused.value.message)
    assert len(named) == 1, refused.value.message
    assert set(named) < set(newer), "one at a time"
    assert await kube.apply_status(told) is not None


async def applying_the_spec_leaves_the_status(kube: Kube, namespace: str) -> None:
    made = await kube.apply(group(namespace))
    await kube.apply_status(status(made, "Ready", "StaticMembership"))
    stored = await kube.apply(group(namespace, topics=["orders", "returns"]))
    assert [one["type"] for one in stored["status"]["conditions"]] == ["Ready", "StaticMembership"]


async def create_says_when_it_exists(kube: Kube, namespace: str) -> None:
    assert await kube.create(config(namespace, a="1"))
    assert not await kube.create(config(namespace, a="2"))
    found = await kube.get(**CONFIG, namespace=namespace, name="m")
    assert found is not None
    assert found["data"] == {"a": "1"}


async def delete_takes_only_the_object_of_that_uid(kube: Kube, namespace: str) -> None:
    made = await kube.apply(config(namespace, a="1"))
    stale = {**CONFIG, "namespace": namespace, "name": "m", "uid": "00000000-0000-0000-0000-000000000000"}
    assert not await kube.delete(**stale)
    assert await kube.get(**CONFIG, namespace=namespace, name="m") is not None
    assert await kube.delete(**{**stale, "uid": made["metadata"]["uid"]})
    assert await kube.get(**CONFIG, namespace=namespace, name="m") is None
    assert not await kube.delete(**stale)


async def a_pod_whose_node_does_not_answer_goes_at_once_or_never(kube: Kube, namespace: str) -> None:
    made = pod(namespace, "p")
    await kube.create({**made, "spec": {**made["spec"], "nodeName": "nowhere"}})
    found = await kube.get(**POD, namespace=namespace, name="p")
    assert found is not None
    here = {**POD, "namespace": namespace, "name": "p"}
    assert await kube.delete(**here, uid=found["metadata"]["uid"])
    left = await kube.get(**here)
    assert left is not None
    assert left["metadata"]["deletionTimestamp"], "it waits for its node"
    assert not await kube.delete(**here, uid="00000000-0000-0000-0000-000000000000", at_once=True)
    assert await kube.delete(**here, uid=found["metadata"]["uid"], at_once=True)
    assert await kube.get(**here) is None


async def what_belongs_to_no_namespace_is_read_without_one(kube: Kube, namespace: str) -> None:
    """Whether a volume exists, and by host names whether a node does; none of either is no error."""
    assert await kube.get(api_version="v1", kind="PersistentVolume", namespace="", name=namespace) is None
    hosts = "kubernetes.io/hostname in (nobody,nowhere)"
    assert list(await kube.list(api_version="v1", kind="Node", namespace="", selector=hosts)) == []


async def an_eviction_takes_only_the_pod_of_that_uid(kube: Kube, namespace: str) -> None:
    await kube.create(pod(namespace, "p"))
    made = await kube.get(**POD, namespace=namespace, name="p")
    assert made is not None
    assert await kube.evict(namespace=namespace, pod="p", uid="00000000-0000-0000-0000-000000000000")
    assert await kube.get(**POD, namespace=namespace, name="p") is not None, "another pod's eviction took this one"
    assert await kube.evict(namespace=namespace, pod="p", uid=made["metadata"]["uid"])
    assert await kube.get(**POD, namespace=namespace, name="p") is None
    assert await kube.evict(namespace=namespace, pod="p", uid=made["metadata"]["uid"])


async def replace_needs_the_version_that_was_read(kube: Kube, namespace: str) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "namespace": namespace},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15},
    }  # fmt: skip
    assert await kube.create(lease)
    read = await kube.get(api_version="coordination.k8s.io/v1", kind="Lease", namespace=namespace, name="l")
    assert read is not None
    await kube.replace({**read, "spec": {**read["spec"], "holderIdentity": "b"}})
    with pytest.raises(Conflict):
        await kube.replace({**read, "spec": {**read["spec"], "holderIdentity": "c"}})


async def patch_says_when_there_is_nothing(kube: Kube, namespace: str) -> None:
    assert not await kube.patch(config(namespace, a="1"))
    assert await kube.get(**CONFIG, namespace=namespace, name="m") is None


async def a_patch_of_another_version_is_a_conflict(kube: Kube, namespace: str) -> None:
    """So two who rotate one Secret never lose each other's key."""
    await kube.apply(config(namespace, a="1"))
    name = {"api_version": "v1", "kind": "ConfigMap", "namespace": namespace, "name": "m"}
    live = await kube.get(**name)
    assert live is not None
    read = {**config(namespace, a="2")["metadata"], "resourceVersion": live["metadata"]["resourceVersion"]}
    assert await kube.patch({**config(namespace, a="2"), "metadata": read})
    with pytest.raises(Conflict):
        await kube.patch({**config(namespace, a="3"), "metadata": read})


async def a_null_in_a_patch_takes_the_key_away(kube: Kube, namespace: str) -> None:
    await kube.apply(config(namespace, a="1", b="2"))
    named = config(namespace)
    assert await kube.patch({**named, "metadata": {**named["metadata"], "annotations": {"x.example/y": "z"}}})
    assert await kube.patch({**named, "metadata": {**named["metadata"], "annotations": {"x.example/y": None}}})
    found = await kube.get(**CONFIG, namespace=namespace, name="m")
    assert found is not None
    assert not found["metadata"].get("annotations")
    assert found["data"] == {"a": "1", "b": "2"}


async def a_secret_is_read_as_it_was_written(kube: Kube, namespace: str) -> None:
    secret = {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": namespace},
        "stringData": {"token": "päss"},
    }  # fmt: skip
    assert await kube.secret_value(namespace=namespace, name="s", key="token") is None
    assert await kube.create(secret)
    assert await kube.secret_value(namespace=namespace, name="s", key="token") == "päss"
    assert await kube.secret_value(namespace=namespace, name="s", key="other") is None


async def a_list_is_selected_by_labels_and_says_kinds(kube: Kube, namespace: str) -> None:
    await kube.apply(config(namespace, "one"))
    await kube.apply(config(namespace, "two"))
    found = await kube.list(**CONFIG, namespace=namespace, labels={"app": "two"})
    assert [(one["apiVersion"], one["kind"], one["metadata"]["name"]) for one in found] == [("v1", "ConfigMap", "two")]


async def a_list_is_selected_by_a_selector_as_text(kube: Kube, namespace: str) -> None:
    for name, labels in (("a", {"app": "x", "tier": "1"}), ("b", {"app": "x", "tier": "2"}), ("c", {"app": "y"})):
        manifest = pod(namespace, name)
        await kube.create({**manifest, "metadata": {**manifest["metadata"], "labels": labels}})
    for selector, names in (
        ("app=x", ["a", "b"]),
        ("app=x,tier in (2,3)", ["b"]),
        ("tier notin (2)", ["a", "c"]),
        ("!tier", ["c"]),
        ("tier,app=x", ["a", "b"]),
    ):
        found = await kube.list(**POD, namespace=namespace, selector=selector)
        assert [one["metadata"]["name"] for one in found] == names, selector


async def a_scale_changes_the_number_and_nothing_else(kube: Kube, namespace: str) -> None:
    assert not await kube.scale(**DEPLOYMENT, namespace=namespace, name="d", replicas=5)
    await kube.create(deployment(namespace))
    before = await kube.get(**DEPLOYMENT, namespace=namespace, name="d")
    assert await kube.scale(**DEPLOYMENT, namespace=namespace, name="d", replicas=5)
    after = await kube.get(**DEPLOYMENT, namespace=namespace, name="d")
    assert before is not None
    assert after is not None
    assert after["spec"] == {**before["spec"], "replicas": 5}
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1


async def a_restart_writes_one_annotation_of_the_template(kube: Kube, namespace: str) -> None:
    assert not await kube.restart(**DEPLOYMENT, namespace=namespace, name="d", at="now")
    await kube.create(deployment(namespace))
    before = await kube.get(**DEPLOYMENT, namespace=namespace, name="d")
    for at in ("now", "later"):
        assert await kube.restart(**DEPLOYMENT, namespace=namespace, name="d", at=at)
    after = await kube.get(**DEPLOYMENT, namespace=namespace, name="d")
    assert before is not None
    assert after is not None
    assert after["spec"]["template"]["metadata"]["annotations"] == {"muster.dev/restarted-at": "later"}
    after["spec"]["template"]["metadata"].pop("annotations")
    assert after["spec"] == before["spec"]


EXPECTATIONS = (
    an_equal_apply_changes_nothing,
    fields_left_out_vanish_and_those_of_others_stay,
    the_generation_counts_changes_of_the_spec_only,
    a_status_is_written_to_what_was_read_or_not_at_all,
    a_condition_left_out_disappears_and_an_equal_status_changes_nothing,
    a_status_field_that_is_not_declared_is_refused_in_these_words,
    applying_the_spec_leaves_the_status,
    create_says_when_it_exists,
    delete_takes_only_the_object_of_that_uid,
    a_pod_whose_node_does_not_answer_goes_at_once_or_never,
    what_belongs_to_no_namespace_is_read_without_one,
    an_eviction_takes_only_the_pod_of_that_uid,
    replace_needs_the_version_that_was_read,
    patch_says_when_there_is_nothing,
    a_patch_of_another_version_is_a_conflict,
    a_null_in_a_patch_takes_the_key_away,
    a_secret_is_read_as_it_was_written,
    a_list_is_selected_by_labels_and_says_kinds,
    a_list_is_selected_by_a_selector_as_text,
    a_scale_changes_the_number_and_nothing_else,
    a_restart_writes_one_annotation_of_the_template,
)
