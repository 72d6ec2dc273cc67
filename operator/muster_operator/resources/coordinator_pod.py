"""The pod template of the coordinators.

Restricted in the sense of the Pod Security levels: non-root, read-only root, no capabilities, RuntimeDefault seccomp,
no service account token. Probes: start-up is patient (replaying logs may take long), liveness only checks that the
event loop runs (never the quorum: restarting all replicas would not restore it), readiness is the coordinator's own
judgement.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from muster_operator.api.cluster import ClusterSpec
from muster_operator.naming import (
    ADMIN_PORT,
    ADMIN_TLS_ANNOTATION,
    CONFIG_HASH_ANNOTATION,
    COORDINATOR,
    OPERATOR_USER,
    PASSWORD_KEY,
    PEER_PORT,
    PEERS_ANNOTATION,
    POD_INDEX_LABEL,
    PROBE_PORT,
    RESTART_ANNOTATION,
    TOKEN_KEY,
    ZONE_LABEL,
    labels,
    operator_user,
    selector,
    token_secret,
)
from muster_operator.naming import identity as identity_name
from muster_operator.resources import identity, oauth, secured, server_properties, topic_store, upstream_kafka
from muster_operator.resources.owned import Manifest
from muster_operator.resources.peer_mode import OPEN, PeerMode
from muster_operator.resources.secured import Mounted
from muster_operator.resources.service_account import account_name
from muster_operator.world.views import OwnerView

USER_ID: Final = 10001
"""User and group id of the image."""
STARTUP_SECONDS_MAX: Final = 3600
STARTUP_PERIOD_SECONDS: Final = 2
TMP_SIZE: Final = "64Mi"
FIRST_USER: Final = "first-user"
PASSWORD_VARIABLE: Final = "OPERATOR_PASSWORD"

_USER: Final = {"runAsUser": USER_ID, "runAsGroup": USER_ID, "fsGroup": USER_ID}
"""Left out if the platform assigns ids per namespace (OpenShift refuses all others)."""


def _security(*, platform_sets_user: bool) -> Manifest:
    return {
        "runAsNonRoot": True,
        **({} if platform_sets_user else _USER),
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _field(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _probe(path: str, *, tls: bool, period: int, timeout: int, failures: int) -> Manifest:
    return {
        "httpGet": {"path": path, "port": "probe", "scheme": "HTTPS" if tls else "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }


class Parts(NamedTuple):
    """What is in the template for some releases only: pods of others would be restarted for nothing."""

    joins: bool
    """Pods of it may join a formed cluster."""
    formed: bool
    """The release takes the word that the cluster is formed."""
    racks: bool
    counts_tainted: bool
    """Its pods were made with a spread over nodes that take none, too."""


ALL_PARTS: Final = Parts(joins=False, formed=True, racks=True, counts_tainted=False)
"""Of the operator's own release, of a cluster that nobody has joined."""


def _identity(owner: OwnerView, *, formed: bool) -> list[Manifest]:
    """`formed`: the release takes the word that the cluster is."""
    keys = {server_properties.CLUSTER_ID: identity.KEY}
    if formed:
        keys[server_properties.CLUSTER_FORMED] = identity.FORMED_KEY
    name = identity_name(owner.name)
    return [
        {"name": variable, "valueFrom": {"configMapKeyRef": {"name": name, "key": key}}}
        for variable, key in keys.items()
    ]


def _container(
    owner: OwnerView,
    spec: ClusterSpec,
    image: str,
    pull_policy: str | None,
    *,
    parts: Parts,
    mounts: tuple[Mounted, ...],
) -> Manifest:
    ports = [(listener.name, listener.port) for listener in spec.listeners]
    ports += [("peer", PEER_PORT), ("probe", PROBE_PORT), ("admin", ADMIN_PORT)]
    found: Manifest = {
        "name": COORDINATOR,
        "image": image,
        "args": ["server", "--config", f"{server_properties.CONFIG_DIR}/{server_properties.FILE_NAME}"],
        "env": [
            _field(server_properties.POD_INDEX, f"metadata.labels['{POD_INDEX_LABEL}']"),
            _field(server_properties.POD_NAME, "metadata.name"),
            _field(server_properties.NODE_IP, "status.hostIP"),
            *([_field(server_properties.RACK, f"metadata.labels['{ZONE_LABEL}']")] if parts.racks else []),
            *(_identity(owner, formed=parts.formed) if parts.joins else []),
            *topic_store.environment(spec),
            *upstream_kafka.environment(spec),
        ],
        "ports": [
            *({"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports),
            *upstream_kafka.container_ports(spec),
        ],
        "resources": dict(spec.resources),
        "startupProbe": _probe(
            "/livez",
            tls=spec.probes.tls,
            period=STARTUP_PERIOD_SECONDS,
            timeout=2,
            failures=STARTUP_SECONDS_MAX // STARTUP_PERIOD_SECONDS,
        ),
        "livenessProbe": _probe("/livez", tls=spec.probes.tls, period=10, timeout=5, failures=6),
        "readinessProbe": _probe("/readyz", tls=spec.probes.tls, period=3, timeout=2, failures=2),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "data", "mountPath": server_properties.DATA_DIR},
            {"name": "config", "mountPath": server_properties.CONFIG_DIR, "readOnly": True},
            {"name": "admin-token", "mountPath": server_properties.TOKEN_DIR, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
            *(one.as_mount() for one in mounts),
        ],
    }
    if pull_policy is not None:
        found["imagePullPolicy"] = pull_policy
    return found


def _first_user(owner: OwnerView, spec: ClusterSpec, container: Manifest) -> Manifest:
    """Puts the operator's own user into the data folder: it is made if the cluster never had users (ADR 52). The
    password is in this container's environment only."""
    mechanisms = sorted({one.scram for one in spec.listeners if one.scram is not None})
    user = f"name={OPERATOR_USER},password=${{env:{PASSWORD_VARIABLE}}}"
    password = {"secretKeyRef": {"name": operator_user(owner.name), "key": PASSWORD_KEY}}
    config = f"{server_properties.CONFIG_DIR}/{server_properties.FILE_NAME}"
    added = [f"--add-scram={mechanism}=[{user}]" for mechanism in mechanisms]
    mounts = [one for one in container["volumeMounts"] if one["name"] in ("data", "config", "tmp")]
    kept = ("image", "imagePullPolicy", "resources", "securityContext")
    return {
        "name": FIRST_USER,
        **{key: container[key] for key in kept if key in container},
        "args": ["format", "--config", config, "--even-if-formed", *added],
        "env": [*container["env"], {"name": PASSWORD_VARIABLE, "valueFrom": password}],
        "volumeMounts": mounts,
    }


def _volumes(owner: OwnerView, config_map_name: str, mounts: tuple[Mounted, ...]) -> list[Manifest]:
    return [
        {"name": "config", "configMap": {"name": config_map_name}},
        Mounted("admin-token", token_secret(owner.name), server_properties.TOKEN_DIR, {TOKEN_KEY: "token"}).as_volume(),
        {"name": "tmp", "emptyDir": {"sizeLimit": TMP_SIZE}},
        *(one.as_volume() for one in mounts),
    ]


def spread_constraints(
    asked: tuple[Mapping[str, Any], ...] | None, pods: Mapping[str, str], default: tuple[Manifest, ...]
) -> list[Manifest]:
    """The user's constraints, completed with the labels `pods` if they have no selector; `default` if there are
    none."""
    chosen = default if asked is None else asked
    return [{"labelSelector": {"matchLabels": dict(pods)}, **constraint} for constraint in chosen]


def _spread(counts_tainted: bool) -> tuple[Manifest, ...]:
    """The loss of one node must not cost a quorum, if there are enough nodes. One that takes no pods is none of them:
    else the place of a coordinator on a lost node would be kept free for ever, and the others, one on each, be full."""
    return (
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            **({} if counts_tainted else {"nodeTaintsPolicy": "Honor"}),
        },
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"},
    )


def template(
    owner: OwnerView,
    spec: ClusterSpec,
    *,
    image: str,
    pull_policy: str | None,
    platform_sets_user: bool,
    config_map_name: str,
    config_hash: str,
    parts: Parts = ALL_PARTS,
    peers: PeerMode = OPEN,
) -> Manifest:
    """`image` and `pull_policy`: used if the spec sets none."""
    asked = spec.pod_template
    further = (*oauth.mounted(spec), *topic_store.mounted(spec), *upstream_kafka.mounted(spec))
    mounts = (*secured.mounted(owner, spec, peers), *further)
    annotations = {**asked.annotations, CONFIG_HASH_ANNOTATION: config_hash}
    if peers != OPEN:
        annotations[PEERS_ANNOTATION] = peers.text
    if spec.admin.tls:
        annotations[ADMIN_TLS_ANNOTATION] = "true"
    if owner.restarted_at is not None:
        annotations[RESTART_ANNOTATION] = owner.restarted_at
    pod: Manifest = {
        "serviceAccountName": asked.service_account_name or account_name(owner),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": server_properties.SHUTDOWN_GRACE_SECONDS,
        "securityContext": {**_security(platform_sets_user=platform_sets_user), **(asked.security_context or {})},
        "containers": [
            _container(
                owner,
                spec,
                spec.image or image,
                spec.image_pull_policy or pull_policy,
                parts=parts,
                mounts=mounts,
            )
        ],
        "volumes": _volumes(owner, config_map_name, mounts),
        "topologySpreadConstraints": spread_constraints(
            asked.topology_spread_constraints,
            selector(component=COORDINATOR, instance=owner.name),
            _spread(parts.counts_tainted),
        ),
    }
    if spec.has_operator_user:
        pod["initContainers"] = [_first_user(owner, spec, pod["containers"][0])]
    optional = {
        "imagePullSecrets": spec.image_pull_secrets,
        "nodeSelector": asked.node_selector,
        "affinity": asked.affinity,
        "tolerations": asked.tolerations,
        "priorityClassName": asked.priority_class_name,
    }
    for name, value in optional.items():
        if value:
            pod[name] = list(value) if isinstance(value, tuple) else value
    return {
        "metadata": {
            "labels": {**asked.labels, **labels(component=COORDINATOR, instance=owner.name)},
            "annotations": annotations,
        },
        "spec": pod,
    }
