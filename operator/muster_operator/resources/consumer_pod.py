"""The pod template of a ConsumerGroup's consumers: the user's container and what it needs to know about its group.

The group's data are set as environment variables under every customary name (`api.consumer_env`), so that a program
written for any of them needs no change. With static membership the instance id is the pod's name, from the downward
API: it survives the pod. The consumer is the first container; sidecars and init containers are as the user wrote them.
"""

from muster_operator.api import consumer_env as env
from muster_operator.api.consumer_template import ConsumerTemplate
from muster_operator.api.group import GroupSpec
from muster_operator.naming import CONSUMER, RESTART_ANNOTATION, labels, selector
from muster_operator.resources import client_login
from muster_operator.resources.coordinator_pod import spread_constraints
from muster_operator.resources.owned import Manifest
from muster_operator.world.views import OwnerView


def environment(spec: GroupSpec, bootstrap: str) -> list[Manifest]:
    """The group's variables, in a fixed order."""
    facts = {
        env.GROUP_ID: spec.group_id,
        env.BOOTSTRAP_SERVERS: bootstrap,
        env.TOPICS: ",".join(spec.topics),
        env.SESSION_TIMEOUT_MS: str(spec.session.timeout_seconds * 1000),
        env.HEARTBEAT_INTERVAL_MS: str(spec.session.heartbeat_interval_seconds * 1000),
        env.MAX_POLL_INTERVAL_MS: str(spec.session.max_poll_interval_seconds * 1000),
    }
    found: list[Manifest] = []
    if spec.static_membership:
        source = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}
        found += [{"name": name, "valueFrom": source} for name in env.names_of(env.GROUP_INSTANCE_ID)]
    for suffix, value in facts.items():
        found += [{"name": name, "value": literal(value)} for name in env.names_of(suffix)]
    assignor = spec.kafka_assignor
    if assignor is not None:
        java = env.SPRING[env.ASSIGNMENT_STRATEGY]
        found += [
            {"name": name, "value": env.JAVA_ASSIGNORS[assignor] if name == java else assignor}
            for name in env.names_of(env.ASSIGNMENT_STRATEGY)
        ]
    return found


def literal(value: str) -> str:
    """Escape `$`: Kubernetes replaces `$(NAME)` in values, and a group id may contain that text."""
    return value.replace("$(", "$$(")


def _container(spec: GroupSpec, asked: ConsumerTemplate, bootstrap: str) -> Manifest:
    found: Manifest = {
        "name": CONSUMER,
        "image": asked.image,
        "env": [*environment(spec, bootstrap), *client_login.environment(spec), *asked.env],
        "securityContext": dict(asked.container_security_context),
    }
    optional = {
        "imagePullPolicy": asked.image_pull_policy,
        "command": asked.command,
        "args": asked.args,
        "envFrom": asked.env_from,
        "ports": asked.ports,
        "resources": asked.resources,
        "startupProbe": asked.startup_probe,
        "livenessProbe": asked.liveness_probe,
        "readinessProbe": asked.readiness_probe,
        "lifecycle": asked.lifecycle,
        "volumeMounts": (*(asked.volume_mounts or ()), *client_login.mounts(spec)),
    }
    return found | _given(optional)


def _given(optional: Manifest) -> Manifest:
    return {name: list(item) if isinstance(item, tuple) else item for name, item in optional.items() if item}


def template(owner: OwnerView, spec: GroupSpec, asked: ConsumerTemplate, *, bootstrap: str) -> Manifest:
    pods = labels(component=CONSUMER, instance=owner.name)
    pod: Manifest = {
        "automountServiceAccountToken": asked.service_account_name is not None,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": asked.termination_grace_period_seconds,
        "securityContext": dict(asked.security_context),
        "containers": [_container(spec, asked, bootstrap), *(asked.sidecars or ())],
    }
    optional = {
        "serviceAccountName": asked.service_account_name,
        "imagePullSecrets": asked.image_pull_secrets,
        "nodeSelector": asked.node_selector,
        "affinity": asked.affinity,
        "tolerations": asked.tolerations,
        "priorityClassName": asked.priority_class_name,
        "initContainers": asked.init_containers,
        "volumes": (*(asked.volumes or ()), *client_login.volumes(spec)),
        "topologySpreadConstraints": spread_constraints(
            asked.topology_spread_constraints, selector(component=CONSUMER, instance=owner.name), ()
        ),
    }
    annotations = dict(asked.annotations)
    if owner.restarted_at is not None:
        annotations[RESTART_ANNOTATION] = owner.restarted_at
    head: Manifest = {"labels": {**asked.labels, **pods}}
    if annotations:
        head["annotations"] = annotations
    return {"metadata": head, "spec": pod | _given(optional)}
