"""`spec.template` of a ConsumerGroup: the pods that consume, as a typed subset of a pod with one container."""

# ruff: noqa: RUF009  # a field is a call with its shape and text

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from muster_operator.api.consumer_env import OPERATOR_NAMES
from muster_operator.api.container import (
    CONTAINER_SECURITY,
    ENV_FROM,
    ENV_VARIABLE,
    PORTS,
    PROBE,
    VOLUME_MOUNTS,
    VOLUMES,
)
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
from muster_operator.api.schema import Integer, ListOf, Rule, Text

Json = Mapping[str, Any]

_ARGUMENTS: Final = ListOf(items=Text(max_length=32_768), max_items=200)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerTemplate:
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.volumeMounts) || self.volumeMounts.all(mount,"
            " has(self.volumes) && self.volumes.exists(volume, volume.name == mount.name))",
            message="each of `volumeMounts` must name one of `volumes`",
            holds=lambda template: (
                {item["name"] for item in template.volume_mounts or ()}
                <= {item["name"] for item in template.volumes or ()}
            ),
        ),
    )

    image: str = spec_field(IMAGE, "Image of the consumer.", required=True)
    image_pull_policy: str | None = spec_field(PULL_POLICY, "When the image is pulled. Absent: as Kubernetes decides.")
    image_pull_secrets: tuple[Json, ...] | None = spec_field(PULL_SECRETS, "Secrets for pulling the image.")
    command: tuple[str, ...] | None = spec_field(_ARGUMENTS, "Entry point. Absent: the image's.")
    args: tuple[str, ...] | None = spec_field(_ARGUMENTS, "Arguments. Absent: the image's.")
    env: tuple[Json, ...] = spec_field(_ENV, "Further environment variables.", default=[])
    env_from: tuple[Json, ...] | None = spec_field(ENV_FROM, "Environment variables from ConfigMaps and Secrets.")
    ports: tuple[Json, ...] | None = spec_field(PORTS, "Ports that the consumer opens, such as its metrics.")
    resources: Json | None = spec_field(RESOURCES, "Processor and memory of each consumer.")
    startup_probe: Json | None = spec_field(PROBE, "Until it succeeds, the other probes wait.")
    liveness_probe: Json | None = spec_field(PROBE, "The container is restarted when it fails.")
    readiness_probe: Json | None = spec_field(PROBE, "The pod is Ready while it succeeds.")
    volumes: tuple[Json, ...] | None = spec_field(VOLUMES, "Volumes of the pod.")
    volume_mounts: tuple[Json, ...] | None = spec_field(VOLUME_MOUNTS, "Where the volumes are mounted.")
    labels: Json = spec_field(LABELS, "Further labels of the pods.", default={})
    annotations: Json = spec_field(ANNOTATIONS, "Further annotations of the pods.", default={})
    node_selector: Json | None = spec_field(NODE_SELECTOR, "Labels that a node must have.")
    affinity: Json | None = spec_field(AFFINITY, "Where the pods may and would rather run.")
    tolerations: tuple[Json, ...] | None = spec_field(TOLERATIONS, "Taints that the pods put up with.")
    topology_spread_constraints: tuple[Json, ...] | None = spec_field(TOPOLOGY_SPREAD, "How the pods spread.")
    priority_class_name: str | None = spec_field(NAME, "Priority class of the pods.")
    service_account_name: str | None = spec_field(
        NAME, "Service account of the pods. Absent: the default one, without its token."
    )
    termination_grace_period_seconds: int = spec_field(
        Integer(low=0, high=3600), "Time to finish the records at hand and commit after SIGTERM.", default=30
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
