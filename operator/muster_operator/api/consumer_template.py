"""`spec.template` of a ConsumerGroup: the consumers' pods, as a typed subset of a pod.

Fields without a prefix are those of the consumer's own container, the first of the pod.
"""

# ruff: noqa: RUF009  # a field is a call with its shape and text

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from muster_operator.api.consumer_env import OPERATOR_NAMES
from muster_operator.api.container import (
    CONTAINER_SECURITY,
    ENV_FROM,
    ENV_VARIABLE,
    LIFECYCLE,
    PORTS,
    PROBE,
)
from muster_operator.api.extra_containers import ARGUMENTS, INIT_CONTAINERS, SIDECARS
from muster_operator.api.fields import spec_field
from muster_operator.api.pod import (
    AFFINITY,
    ANNOTATIONS,
    IMAGE,
    LABELS,
    NAME,
    NODE_SELECTOR,
    POD_SECURITY,
    PULL_POLICY,
    PULL_SECRETS,
    RESOURCES,
    TOLERATIONS,
    TOPOLOGY_SPREAD,
)
from muster_operator.api.schema import Integer, ListOf, Rule, choice
from muster_operator.api.volumes import CLAIM_TEMPLATES, VOLUME_MOUNTS, VOLUMES, ClaimTemplate

Json = Mapping[str, Any]

_LISTED: Final = ", ".join(f"'{name}'" for name in OPERATOR_NAMES)
_ENV: Final = ListOf(
    items=ENV_VARIABLE,
    max_items=200,
    keys=("name",),
    rules=(
        Rule(
            cel=f"self.all(variable, !(variable.name in [{_LISTED}]))",
            message="`env` may not set the group's own variables (KAFKA_GROUP_ID and its like):"
            " the operator writes them from the fields of this object",
            holds=lambda env: not {item["name"] for item in env} & set(OPERATOR_NAMES),
        ),
    ),
)


_KNOWN: Final = (
    "((has(self.volumes) && self.volumes.exists(volume, volume.name == mount.name))"
    " || (has(self.volumeClaimTemplates)"
    " && self.volumeClaimTemplates.exists(claim, claim.name == mount.name)))"
)
"""CEL: the volume of `mount` is one of the template's."""


def _mounts_of(containers: str) -> str:
    """CEL: the volumes that the containers in that field mount exist."""
    each = f"!has(one.volumeMounts) || one.volumeMounts.all(mount, {_KNOWN})"
    return f"(!has(self.{containers}) || self.{containers}.all(one, {each}))"


def _all_mounts_exist(template: "ConsumerTemplate") -> bool:
    known = {item["name"] for item in template.volumes or ()} | _claims(template).keys()
    others = (*(template.init_containers or ()), *(template.sidecars or ()))
    mounts = [*(template.volume_mounts or ()), *(one for each in others for one in each.get("volumeMounts", ()))]
    return {mount["name"] for mount in mounts} <= known


def _claims(template: "ConsumerTemplate") -> dict[str, ClaimTemplate]:
    return {claim.name: claim for claim in template.volume_claim_templates or ()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerTemplate:
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"(!has(self.volumeMounts) || self.volumeMounts.all(mount, {_KNOWN}))"
            f" && {_mounts_of('initContainers')} && {_mounts_of('sidecars')}",
            message="each of `volumeMounts` must name one of `volumes` or `volumeClaimTemplates`",
            holds=_all_mounts_exist,
        ),
        Rule(
            cel="!has(self.volumes) || !has(self.volumeClaimTemplates)"
            " || self.volumeClaimTemplates.all(claim, !self.volumes.exists(volume, volume.name == claim.name))",
            message="`name` may not be that of one of `volumes` and one of `volumeClaimTemplates`",
            holds=lambda template: not {item["name"] for item in template.volumes or ()} & _claims(template).keys(),
        ),
        Rule(
            cel="!has(self.initContainers) || !has(self.sidecars)"
            " || self.sidecars.all(one, !self.initContainers.exists(other, other.name == one.name))",
            message="`name` may not be that of one of `initContainers` and one of `sidecars`",
            holds=lambda template: (
                not {item["name"] for item in template.init_containers or ()}
                & {item["name"] for item in template.sidecars or ()}
            ),
        ),
        Rule(
            cel="(has(self.volumeClaimTemplates) ? self.volumeClaimTemplates.size() : 0)"
            " == (has(oldSelf.volumeClaimTemplates) ? oldSelf.volumeClaimTemplates.size() : 0)"
            " && (!has(self.volumeClaimTemplates) || self.volumeClaimTemplates.all(claim,"
            " oldSelf.volumeClaimTemplates.exists(old, old.name == claim.name && old.size == claim.size"
            " && old.accessMode == claim.accessMode && has(old.storageClassName) == has(claim.storageClassName)"
            " && (!has(claim.storageClassName) || old.storageClassName == claim.storageClassName))))",
            message="`volumeClaimTemplates` may not change: a StatefulSet keeps those that it was made with",
            holds=None,
        ),
    )

    image: str = spec_field(IMAGE, "Image of the consumer.", required=True)
    image_pull_policy: str | None = spec_field(PULL_POLICY, "When the image is pulled. Absent: as Kubernetes decides.")
    image_pull_secrets: tuple[Json, ...] | None = spec_field(PULL_SECRETS, "Secrets for pulling the image.")
    command: tuple[str, ...] | None = spec_field(ARGUMENTS, "Entry point. Absent: the image's.")
    args: tuple[str, ...] | None = spec_field(ARGUMENTS, "Arguments. Absent: the image's.")
    env: tuple[Json, ...] = spec_field(_ENV, "Further environment variables.", default=[])
    env_from: tuple[Json, ...] | None = spec_field(ENV_FROM, "Environment variables from ConfigMaps and Secrets.")
    ports: tuple[Json, ...] | None = spec_field(PORTS, "Ports that the consumer opens, such as its metrics.")
    resources: Json | None = spec_field(RESOURCES, "Processor and memory of each consumer.")
    startup_probe: Json | None = spec_field(PROBE, "Until it succeeds, the other probes wait.")
    liveness_probe: Json | None = spec_field(PROBE, "The container is restarted when it fails.")
    readiness_probe: Json | None = spec_field(PROBE, "The pod is Ready while it succeeds.")
    lifecycle: Json | None = spec_field(LIFECYCLE, "Hooks at the consumer's start and before its end.")
    init_containers: tuple[Json, ...] | None = spec_field(
        INIT_CONTAINERS, "Containers that end before the consumer starts, or with `restartPolicy: Always` sidecars."
    )
    sidecars: tuple[Json, ...] | None = spec_field(
        SIDECARS, "Containers that run beside the consumer, started and stopped at the same time."
    )
    volumes: tuple[Json, ...] | None = spec_field(VOLUMES, "Volumes of the pod.")
    volume_mounts: tuple[Json, ...] | None = spec_field(
        VOLUME_MOUNTS, "Where volumes and claims are mounted in the consumer's container."
    )
    volume_claim_templates: tuple[ClaimTemplate, ...] | None = spec_field(
        CLAIM_TEMPLATES,
        "Claims of each single pod, kept over its restarts, such as for the state of Kafka Streams."
        " They may not change.",
    )
    volume_claim_retention: str | None = spec_field(
        choice("Retain", "Delete"),
        "What happens to these claims when their pods are scaled down or this object is deleted. Absent: Retain.",
    )
    labels: Json = spec_field(LABELS, "Further labels of the pods.", default={})
    annotations: Json = spec_field(ANNOTATIONS, "Further annotations of the pods.", default={})
    node_selector: Json | None = spec_field(NODE_SELECTOR, "Labels that a node must have.")
    affinity: Json | None = spec_field(AFFINITY, "Node and pod affinity: where the pods must or should run.")
    tolerations: tuple[Json, ...] | None = spec_field(TOLERATIONS, "Taints that the pods tolerate.")
    topology_spread_constraints: tuple[Json, ...] | None = spec_field(TOPOLOGY_SPREAD, "How the pods spread.")
    priority_class_name: str | None = spec_field(NAME, "Priority class of the pods.")
    service_account_name: str | None = spec_field(
        NAME, "Service account of the pods. Absent: the default one, without its token."
    )
    termination_grace_period_seconds: int = spec_field(
        Integer(low=0, high=3600), "Time after SIGTERM to finish the current records and commit.", default=30
    )
    security_context: Json = spec_field(
        POD_SECURITY,
        "Security settings of the pods. The default asks for an image that does not run as root.",
        default={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    )
    container_security_context: Json = spec_field(
        CONTAINER_SECURITY,
        "Security settings of the container. The default meets the restricted Pod Security level.",
        default={"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    )
