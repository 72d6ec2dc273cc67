"""Parsing: defaults as in the definition, bounds and types as typed errors with the path, unknown fields left alone."""

import json
from typing import Any

import pytest
from muster_operator.api.cluster import ClusterSpec, parse_cluster
from muster_operator.api.crd import root_schema
from muster_operator.api.errors import InvalidObject
from muster_operator.api.fields import plain
from muster_operator.api.group import GroupSpec, parse_group
from muster_operator.api.kinds import COORDINATOR_CLUSTER
from muster_operator.api.quantity import bytes_of

EXTERNAL = {"name": "outside", "type": "nodePort", "port": 9094, "nodePortBase": 31090}


def cluster(**spec: Any) -> ClusterSpec:
    return parse_cluster({"metadata": {"name": "main"}, "spec": spec})


def group(**spec: Any) -> GroupSpec:
    given = {"groupId": "g", "topics": ["t"], "clusterRef": {"name": "main"}, **spec}
    return parse_group({"metadata": {"name": "main"}, "spec": {k: v for k, v in given.items() if v is not None}})


def test_an_empty_spec_is_a_whole_cluster() -> None:
    spec = cluster()
    assert (spec.replicas, spec.offsets_partitions, spec.storage.size) == (3, 50, "10Gi")
    assert [(x.name, x.type, x.port) for x in spec.listeners] == [("internal", "internal", 9092)]
    assert spec.external_listeners == ()
    assert spec.image is None, "the operator's own is chosen by planning, not here"


def test_the_parsers_defaults_are_the_api_servers() -> None:
    """A stored object has every default filled in by the server; parsing it or the bare one must not differ."""
    bare = cluster()
    assert parse_cluster({"metadata": {"name": "main"}, "spec": json.loads(json.dumps(plain(bare)))}) == bare
    properties = root_schema(COORDINATOR_CLUSTER)["properties"]["spec"]["properties"]
    defaults = {name: item["default"] for name, item in properties.items() if "default" in item}
    assert parse_cluster({"metadata": {"name": "main"}, "spec": defaults}) == bare


def test_a_group_without_a_template_only_observes() -> None:
    assert group().template is None
    assert (group().replicas, group().made_replicas) == (None, 1)
    assert (group().runs_consumers, group().static_membership, group().session.timeout_seconds) == (False, True, 45)


@pytest.mark.parametrize(
    ("written", "kafkas"),
    [("round_robin", "roundrobin"), ("cooperative_sticky", "cooperative-sticky"), ("range", "range"), (None, None)],
)
def test_an_assignor_is_given_under_kafkas_name(written: str | None, kafkas: str | None) -> None:
    assert group(assignor=written).kafka_assignor == kafkas


def test_a_field_of_a_later_version_is_no_error() -> None:
    assert cluster(tieredStorage={"enabled": True}) == cluster()


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"replicas": "3"}, "spec.replicas"),
        ({"replicas": True}, "spec.replicas"),
        ({"replicas": 51}, "spec.replicas"),
        ({"offsetsPartitions": 1001}, "spec.offsetsPartitions"),
        ({"storage": {"size": "big"}}, "spec.storage.size"),
        ({"storage": {"reclaimPolicy": "Recycle"}}, "spec.storage.reclaimPolicy"),
        ({"storage": []}, "spec.storage"),
        ({"listeners": []}, "spec.listeners"),
        ({"listeners": [{"name": "a", "port": 80}]}, "spec.listeners[0].port"),
        ({"listeners": [{"port": 9092}]}, "spec.listeners[0].name"),
        ({"listeners": [EXTERNAL, EXTERNAL]}, "spec.listeners"),
        ({"listeners": [{**EXTERNAL, "advertisedHost": "$(HOST)"}]}, "spec.listeners[0].advertisedHost"),
        ({"config": {"log.roll.ms": "1\n2"}}, "spec.config.log.roll.ms"),
        ({"config": {"delete.topic.enable": True}}, "spec.config.delete.topic.enable"),
        ({"config": {f"key{i}": 1 for i in range(101)}}, "spec.config"),
        ({"podTemplate": {"tolerations": [{"effect": "Never"}]}}, "spec.podTemplate.tolerations[0].effect"),
        ({"networkPolicy": {"enabled": "yes"}}, "spec.networkPolicy.enabled"),
    ],
)
def test_an_error_names_the_field_as_users_write_it(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        cluster(**spec)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"topics": []}, "spec.topics"),
        ({"topics": ["a", "a"]}, "spec.topics"),
        ({"topics": ["no blanks"]}, "spec.topics[0]"),
        ({"topics": [f"t{i}" for i in range(101)]}, "spec.topics"),
        ({"groupId": None}, "spec.groupId"),
        ({"groupId": ""}, "spec.groupId"),
        ({"replicas": 1001}, "spec.replicas"),
        ({"clusterRef": None, "bootstrapServers": "kafka"}, "spec.bootstrapServers"),
        ({"clusterRef": None, "bootstrapServers": "kafka:9092, other:9092"}, "spec.bootstrapServers"),
        ({"template": {}}, "spec.template.image"),
        ({"template": {"image": "two words"}}, "spec.template.image"),
        ({"template": {"image": "a", "env": [{"name": "A"}, {"name": "A"}]}}, "spec.template.env"),
    ],
)
def test_an_error_in_a_group_names_its_field(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        group(**spec)
    assert caught.value.path == path


def test_bounds_are_inclusive() -> None:
    assert group(topics=[f"t{i}" for i in range(100)], replicas=1000).replicas == 1000
    assert cluster(offsetsPartitions=1000).offsets_partitions == 1000
    assert group(session={"timeoutSeconds": 9, "heartbeatIntervalSeconds": 3}).session.timeout_seconds == 9


def test_an_object_without_a_spec_is_refused() -> None:
    with pytest.raises(InvalidObject, match="spec: must be set"):
        parse_cluster({"metadata": {"name": "main"}})


@pytest.mark.parametrize(
    ("text", "count"), [("1Gi", 2**30), ("1.5Ki", 1536), ("10G", 10**10), ("7", 7), ("0.1k", 100), ("0.3Ki", 308)]
)
def test_quantities_are_bytes(text: str, count: int) -> None:
    assert bytes_of(text) == count


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "-1", "1e3", "1gi"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        bytes_of(text)
