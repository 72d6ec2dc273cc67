"""What is taken away when it is not wanted any more, and what never is."""

from typing import Any

from muster_operator.naming import CONFIG_HASH_ANNOTATION
from muster_operator.resources import surplus

from tests.operator.resources.owners import (
    EXTERNAL,
    INTERNAL,
    cluster_children,
    cluster_spec,
    group_children,
    group_spec,
    one,
    owner,
)


def live(*manifests: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(item["kind"], item["metadata"]["name"]): item for item in manifests}


def names(found: tuple[Any, ...]) -> list[str]:
    return [f"{item['kind']}/{item['metadata']['name']}" for item in found]


def test_services_of_a_listener_that_is_gone_go() -> None:
    before = cluster_children(cluster_spec(listeners=[INTERNAL, EXTERNAL]))
    wanted = cluster_children(cluster_spec())
    hashes = {one(before, "ConfigMap")["metadata"]["annotations"][CONFIG_HASH_ANNOTATION]}
    gone = surplus.of_cluster(owner(), live=live(*before), wanted=wanted, config_hashes_in_use=hashes)
    assert names(gone) == ["Service/main-external-0", "Service/main-external-1", "Service/main-external-2"]


def test_settings_go_with_the_last_pod_that_uses_them() -> None:
    old, wanted = cluster_children(cluster_spec(config={"a": 1})), cluster_children(cluster_spec())
    settings = one(old, "ConfigMap")
    digest = settings["metadata"]["annotations"][CONFIG_HASH_ANNOTATION]
    arguments: Any = {"live": live(settings, *wanted), "wanted": wanted}
    assert surplus.of_cluster(owner(), **arguments, config_hashes_in_use={digest}) == ()
    gone = surplus.of_cluster(owner(), **arguments, config_hashes_in_use={"other"})
    assert names(gone) == [f"ConfigMap/main-config-{digest}"]


def test_what_holds_state_or_belongs_to_others_stays() -> None:
    before = cluster_children(cluster_spec())
    foreign = {
        "kind": "Service",
        "metadata": {"name": "main-old", "ownerReferences": [{"uid": "x", "controller": True}]},
    }
    gone = surplus.of_cluster(owner(), live=live(*before, foreign), wanted=(), config_hashes_in_use=())
    kinds = {item["kind"] for item in gone}
    assert kinds == {"Service", "ConfigMap", "ServiceAccount", "NetworkPolicy", "PodDisruptionBudget"}
    assert foreign not in gone


def test_a_group_that_loses_its_template_loses_its_pods() -> None:
    before = group_children(group_spec(template={"image": "consumer:1"}))
    gone = surplus.of_group(owner("billing"), live=live(*before), wanted=())
    assert sorted(item["kind"] for item in gone) == ["PodDisruptionBudget", "Service", "StatefulSet"]
    assert surplus.of_group(owner("billing"), live=live(*before), wanted=before) == ()
