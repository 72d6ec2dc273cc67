"""Live children that are no longer wanted: the Service of a removed listener, settings that no pod uses any more.

Only objects that this owner controls (by uid), of kinds without state. A StatefulSet, a Secret or a volume is never
surplus: removing a template or a listener must not cost data or identity. The exception is the StatefulSet of a
ConsumerGroup whose `template` was removed, because that removes the consumers.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from muster_operator.naming import CONFIG_HASH_ANNOTATION
from muster_operator.resources.owned import is_owned_by
from muster_operator.world.views import OwnerView

Live = Mapping[tuple[str, str], Mapping[str, Any]]
CLUSTER_KINDS: Final = frozenset({"Service", "ConfigMap", "NetworkPolicy", "ServiceAccount", "PodDisruptionBudget"})
GROUP_KINDS: Final = frozenset({"Service", "PodDisruptionBudget", "StatefulSet"})


def _names(wanted: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    return {(item["kind"], item["metadata"]["name"]) for item in wanted}


def of_cluster(
    owner: OwnerView,
    *,
    live: Live,
    wanted: Sequence[Mapping[str, Any]],
    config_hashes_in_use: Collection[str],
) -> tuple[Mapping[str, Any], ...]:
    """`live`: (kind, name) → object. `config_hashes_in_use`: `CONFIG_HASH_ANNOTATION` of every existing pod. Call only
    if all pods were observed: what an unobserved pod mounts must stay."""
    keep = _names(wanted)
    found = []
    for key, item in sorted(live.items()):
        if key in keep or key[0] not in CLUSTER_KINDS or not is_owned_by(item, owner):
            continue
        annotations = item.get("metadata", {}).get("annotations") or {}
        if key[0] == "ConfigMap" and annotations.get(CONFIG_HASH_ANNOTATION, "") in config_hashes_in_use:
            continue
        found.append(item)
    return tuple(found)


def of_group(owner: OwnerView, *, live: Live, wanted: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """As `of_cluster`, for a ConsumerGroup."""
    keep = _names(wanted)
    return tuple(
        item
        for key, item in sorted(live.items())
        if key not in keep and key[0] in GROUP_KINDS and is_owned_by(item, owner)
    )
