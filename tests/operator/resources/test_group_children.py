"""What must hold of a ConsumerGroup's objects: above all what its pods are told."""

from typing import Any

import pytest
from muster_operator.api.consumer_env import OPERATOR_NAMES

from tests.operator.resources.owners import UID, group_children, group_spec, one

IMAGE = {"image": "consumer:1"}


def environment(**spec: Any) -> dict[str, Any]:
    """Name → value, or the field it comes from."""
    template = {**IMAGE, **spec.pop("template", {})}
    manifests = group_children(group_spec(**spec, template=template))
    container = one(manifests, "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    return {
        item["name"]: item["value"] if "value" in item else item["valueFrom"]["fieldRef"]["fieldPath"]
        for item in container["env"]
    }


def test_without_a_template_nothing_is_made() -> None:
    assert group_children(group_spec()) == ()


@pytest.mark.parametrize(
    "name",
    [
        "KAFKA_GROUP_INSTANCE_ID",
        "MUSTER_GROUP_INSTANCE_ID",
        "RIVVEN_GROUP_INSTANCE_ID",
        "SPRING_KAFKA_PROPERTIES_GROUP_INSTANCE_ID",
    ],
)
def test_the_instance_id_is_the_pods_name(name: str) -> None:
    assert environment()[name] == "metadata.name"
    assert name not in environment(staticMembership=False)


@pytest.mark.parametrize(
    ("names", "value"),
    [
        (("KAFKA_GROUP_ID", "MUSTER_GROUP_ID", "RIVVEN_GROUP_ID", "SPRING_KAFKA_CONSUMER_GROUP_ID"), "billing"),
        (
            (
                "KAFKA_BOOTSTRAP_SERVERS",
                "MUSTER_BOOTSTRAP_SERVERS",
                "RIVVEN_BOOTSTRAP_SERVERS",
                "SPRING_KAFKA_BOOTSTRAP_SERVERS",
            ),
            "main-bootstrap.shop.svc:9092",
        ),
        (("KAFKA_TOPICS", "MUSTER_TOPICS", "RIVVEN_TOPICS"), "orders,returns"),
        (("KAFKA_SESSION_TIMEOUT_MS", "SPRING_KAFKA_PROPERTIES_SESSION_TIMEOUT_MS"), "45000"),
        (("KAFKA_HEARTBEAT_INTERVAL_MS",), "3000"),
        (("KAFKA_MAX_POLL_INTERVAL_MS",), "300000"),
    ],
)
def test_every_custom_name_carries_the_fact(names: tuple[str, ...], value: str) -> None:
    assert {environment()[name] for name in names} == {value}


def test_an_assignor_has_kafkas_name_and_for_java_its_class() -> None:
    told = environment(assignor="round_robin")
    assert told["KAFKA_PARTITION_ASSIGNMENT_STRATEGY"] == "roundrobin"
    assert told["SPRING_KAFKA_PROPERTIES_PARTITION_ASSIGNMENT_STRATEGY"].endswith(".RoundRobinAssignor")
    assert "KAFKA_PARTITION_ASSIGNMENT_STRATEGY" not in environment()


def test_what_the_operator_sets_is_what_users_may_not() -> None:
    assert set(environment(assignor="range")) == set(OPERATOR_NAMES)


def test_a_group_id_that_looks_like_a_reference_is_not_replaced_by_kubernetes() -> None:
    assert environment(groupId="a$(HOME)")["KAFKA_GROUP_ID"] == "a$$(HOME)"


def test_users_variables_come_after_ours_so_that_they_can_refer_to_them() -> None:
    names = list(environment(template={"env": [{"name": "MINE", "value": "$(KAFKA_GROUP_ID)"}]}))
    assert names[-1] == "MINE"


def test_scaling_changes_no_pod() -> None:
    made = [one(group_children(group_spec(template=IMAGE, replicas=n)), "StatefulSet")["spec"] for n in (3, 5)]
    assert [spec["replicas"] for spec in made] == [3, 5]
    assert made[0]["template"] == made[1]["template"]


def test_all_pods_may_start_and_stop_at_once_and_roll_one_by_one() -> None:
    spec = one(group_children(group_spec(template=IMAGE)), "StatefulSet")["spec"]
    assert spec["podManagementPolicy"] == "Parallel"
    assert spec["updateStrategy"] == {"type": "RollingUpdate"}
    wide = one(group_children(group_spec(template=IMAGE, rollout={"maxUnavailable": 3})), "StatefulSet")["spec"]
    assert wide["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 3}


def test_every_object_goes_with_its_owner() -> None:
    for manifest in group_children(group_spec(template=IMAGE)):
        assert manifest["metadata"]["ownerReferences"][0]["uid"] == UID
        assert manifest["metadata"]["ownerReferences"][0]["kind"] == "ConsumerGroup"


@pytest.mark.parametrize(("account", "mounted"), [(None, False), ("mine", True)])
def test_a_token_is_mounted_only_for_an_account_that_the_user_names(account: str | None, mounted: bool) -> None:
    template = IMAGE | ({"serviceAccountName": account} if account else {})
    pod = one(group_children(group_spec(template=template)), "StatefulSet")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is mounted


SIDECAR = {"name": "logs", "image": "logs:1"}
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def statefulset_of(**template: Any) -> dict[str, Any]:
    return one(group_children(group_spec(template={**IMAGE, **template})), "StatefulSet")


def test_the_consumer_stays_the_first_container_and_only_it_learns_the_group() -> None:
    pod = statefulset_of(sidecars=[SIDECAR], initContainers=[{**SIDECAR, "name": "first", "restartPolicy": "Always"}])
    pod = pod["spec"]["template"]["spec"]
    assert [container["name"] for container in pod["containers"]] == ["consumer", "logs"]
    assert [container["name"] for container in pod["initContainers"]] == ["first"]
    for other in (pod["containers"][1], pod["initContainers"][0]):
        assert "env" not in other
        assert other["securityContext"] == RESTRICTED, "else the restricted Pod Security level would refuse the pod"


def test_claims_are_written_only_where_they_are_asked_for() -> None:
    """A StatefulSet may never get other claims, so one without any must stay as it was made."""
    assert not {"volumeClaimTemplates", "persistentVolumeClaimRetentionPolicy"} & statefulset_of()["spec"].keys()
    spec = statefulset_of(
        volumeClaimTemplates=[{"name": "state", "size": "1Gi"}],
        volumeMounts=[{"name": "state", "mountPath": "/state"}],
    )["spec"]
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    (claim,) = spec["volumeClaimTemplates"]
    assert claim["metadata"] == {"name": "state"}
    assert claim["spec"] == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    assert "state" not in [volume["name"] for volume in spec["template"]["spec"].get("volumes", ())]


def test_a_release_that_takes_more_of_a_template_rolls_nobody() -> None:
    """What was not asked for is not in the pod: an upgrade of the operator changes no revision."""
    pod = statefulset_of()["spec"]["template"]["spec"]
    assert pod.keys() == {
        "automountServiceAccountToken", "enableServiceLinks", "terminationGracePeriodSeconds", "securityContext",
        "containers",
    }  # fmt: skip
    assert pod["containers"][0].keys() == {"name", "image", "env", "securityContext"}
