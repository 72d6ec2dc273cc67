"""Further containers of the consumer's pod: before the consumer (`initContainers`) and beside it (`sidecars`).

They do not get the group's environment variables: what they need has to be set in their `env`.
"""

from typing import Final

from muster_operator.api.container import (
    CONTAINER_SECURITY,
    ENV_FROM,
    ENV_VARIABLE,
    LIFECYCLE,
    PORTS,
    PROBE,
)
from muster_operator.api.fields import Property, Struct, prop
from muster_operator.api.pod import IMAGE, PULL_POLICY, RESOURCES
from muster_operator.api.schema import ListOf, Rule, Text, choice
from muster_operator.api.volumes import VOLUME_MOUNTS
from muster_operator.naming import CONSUMER

CONTAINERS_MAX: Final = 10
ARGUMENTS: Final = ListOf(items=Text(max_length=32_768), max_items=200)
_NAME = Text(
    max_length=63,
    min_length=1,
    pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    pattern_text="must be a lower-case label",
    rules=(
        Rule(
            cel=f"self != '{CONSUMER}'",
            message=f"`name` may not be `{CONSUMER}`: that is the container that `image` runs in",
            holds=lambda name: name != CONSUMER,
        ),
    ),
)
_HOOKS = ("lifecycle", "startupProbe", "livenessProbe", "readinessProbe")


def _fields(*further: Property) -> tuple[Property, ...]:
    return (
        prop("name", _NAME, "Name of the container.", required=True),
        prop("image", IMAGE, "Its image.", required=True),
        *further,
        prop("imagePullPolicy", PULL_POLICY, "When the image is pulled. Absent: as Kubernetes decides."),
        prop("command", ARGUMENTS, "Entry point. Absent: the image's."),
        prop("args", ARGUMENTS, "Arguments. Absent: the image's."),
        prop("env", ListOf(items=ENV_VARIABLE, max_items=100, keys=("name",)), "Environment variables."),
        prop("envFrom", ENV_FROM, "Environment variables from ConfigMaps and Secrets."),
        prop("ports", PORTS, "Ports that it opens."),
        prop("resources", RESOURCES, "Processor and memory."),
        prop("lifecycle", LIFECYCLE, "Hooks at its start and before its end."),
        prop("startupProbe", PROBE, "Until it succeeds, the other probes wait."),
        prop("livenessProbe", PROBE, "The container is restarted when it fails."),
        prop("readinessProbe", PROBE, "The pod is Ready only while it succeeds."),
        prop("volumeMounts", VOLUME_MOUNTS, "Where the volumes are mounted."),
        prop(
            "securityContext",
            CONTAINER_SECURITY,
            "Security settings. The default meets the restricted Pod Security level.",
            default={"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        ),
    )


SIDECARS: Final = ListOf(items=Struct(_fields()), max_items=CONTAINERS_MAX, keys=("name",))
INIT_CONTAINERS: Final = ListOf(
    items=Struct(
        _fields(
            prop(
                "restartPolicy",
                choice("Always"),
                "Always: it is started before the consumer and ends after it (a sidecar as Kubernetes means it).",
            )
        ),
        rules=(
            Rule(
                cel="has(self.restartPolicy) || !(has(self.lifecycle) || has(self.startupProbe)"
                " || has(self.livenessProbe) || has(self.readinessProbe))",
                message="`lifecycle` and probes of one of `initContainers` may only be set with `restartPolicy` Always",
                holds=lambda container: "restartPolicy" in container or not any(hook in container for hook in _HOOKS),
            ),
        ),
    ),
    max_items=CONTAINERS_MAX,
    keys=("name",),
)
