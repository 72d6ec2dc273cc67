"""Names that operator, chart, tests and users share: labels, field managers, ports, names of child objects.

Selectors use only `NAME_LABEL`, `INSTANCE_LABEL` and `COMPONENT_LABEL`: selectors are immutable, so no label whose
value may ever change belongs in them.
"""

from typing import Final

GROUP: Final = "muster.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

FIELD_MANAGER: Final = "muster-operator"
"""The field manager of the child objects that the operator creates."""
STATUS_MANAGER: Final = "muster-operator-status"
"""The field manager of `.status` of our own kinds; a separate one, so that applying one never drops the other's fields.
"""

NAME_LABEL: Final = "app.kubernetes.io/name"
INSTANCE_LABEL: Final = "app.kubernetes.io/instance"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
PART_OF_LABEL: Final = "app.kubernetes.io/part-of"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
REVISION_LABEL: Final = "controller-revision-hash"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
"""Of nodes; Kubernetes 1.35 and later give it to each pod that is bound to one."""
POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"

COORDINATOR: Final = "coordinator"
CONSUMER: Final = "consumer"
USER: Final = "user"

PAUSED_ANNOTATION: Final = "muster.dev/paused"
"""`"true"` on a CoordinatorCluster or ConsumerGroup: only its status is written, and a roll-out in progress is held."""
RESTART_ANNOTATION: Final = "muster.dev/restarted-at"
"""Written by `kubectl muster restart` on our kinds; copied into the pod template, so that a new value is a new
revision."""
REPLACE_ANNOTATION: Final = "muster.dev/replace-folder"
"""On a CoordinatorCluster: the uuid of a replica's data folder that a person declares gone for good."""
ADOPT_ANNOTATION: Final = "muster.dev/adopt"
"""`"true"` on a Topic or User: what the cluster already has of that name, and differs, is meant and is changed."""
SETTINGS_HASH_ANNOTATION: Final = "muster.dev/settings-hash"
"""On a User's Secret: hash of what its content was made from."""
FINALIZER: Final = "muster.dev/kafka"
"""On a Topic or User: something of it is to be removed from its cluster before it may go."""
HELD_ANNOTATION: Final = "muster.dev/held-partition"
"""On a ConsumerGroup's StatefulSet while a pause holds its roll-out: the `partition` that it had before."""
CONFIG_HASH_ANNOTATION: Final = "muster.dev/config-hash"
MADE_FOR_ANNOTATION: Final = "muster.dev/made-for-release"
"""On a CoordinatorCluster's StatefulSet: the release that template and settings were made for (`plan.release`)."""
PEERS_ANNOTATION: Final = "muster.dev/peer-security"
"""On a coordinator's pod: how it dials its peers and, behind a comma, what it accepts besides. Absent: none."""
ADMIN_TLS_ANNOTATION: Final = "muster.dev/admin-tls"
"""`"true"` on a coordinator's pod whose admin API is https."""
ROTATE_PEERS_ANNOTATION: Final = "muster.dev/rotate-peer-secret"
"""On a CoordinatorCluster: a new text makes a new peer secret. On the Secret: the text that it was made for."""
ROTATE_CA_ANNOTATION: Final = "muster.dev/rotate-ca"
"""On a CoordinatorCluster: a new text makes successors of the operator's CAs. On a CA's Secret: the text that the last
one was made for."""
OVERLAP_ANNOTATION: Final = "muster.dev/rotated-at-ms"
"""On the peer secret's Secret while the one before is valid too: when the new one was made."""

CLIENT_PORT: Final = 9092
PEER_PORT: Final = 9093
PROBE_PORT: Final = 8080
ADMIN_PORT: Final = 8081

LEASE_NAME: Final = "muster-operator"
"""The Lease that decides which process of a release acts, if no other name is set."""
CLAIM_NAME: Final = "muster-operator-namespace"
"""The Lease that decides which release serves the namespace that it is in."""
TOKEN_KEY: Final = "token"
PEER_KEY: Final = "secret"
PASSWORD_KEY: Final = "password"
USERNAME_KEY: Final = "username"
OPERATOR_USER: Final = "muster-operator"
"""The operator's own user in each cluster with SCRAM: made with the cluster, and a super user."""
UPSTREAM_USERNAME: Final = "UPSTREAM_USERNAME"
"""Variable of the pods: who coordinators are at an existing Kafka."""
CERTIFICATE_KEY: Final = "tls.crt"
PRIVATE_KEY: Final = "tls.key"
CA_KEY: Final = "ca.crt"


def selector(*, component: str, instance: str) -> dict[str, str]:
    """The immutable selector labels of the pods of `instance` (a CoordinatorCluster or a ConsumerGroup)."""
    return {NAME_LABEL: "muster", COMPONENT_LABEL: component, INSTANCE_LABEL: instance}


def labels(*, component: str, instance: str) -> dict[str, str]:
    return {
        **selector(component=component, instance=instance),
        PART_OF_LABEL: "muster",
        MANAGED_BY_LABEL: FIELD_MANAGER,
    }


def peers_service(cluster: str) -> str:
    """The headless Service. It publishes unready addresses: peers must find each other before any of them can be
    Ready."""
    return f"{cluster}-peers"


def bootstrap_service(cluster: str) -> str:
    return f"{cluster}-bootstrap"


def members_service(group: str) -> str:
    """Headless; a StatefulSet needs one. No client connects to consumers through it."""
    return f"{group}-members"


def config_map(cluster: str, config_hash: str) -> str:
    """One immutable ConfigMap per content: a pod of an older revision keeps the settings that it was made with."""
    return f"{cluster}-config-{config_hash}"


def identity(cluster: str) -> str:
    """The ConfigMap that tells coordinators which cluster they join."""
    return f"{cluster}-identity"


def token_secret(cluster: str) -> str:
    return f"{cluster}-admin-token"


def peer_secret(cluster: str) -> str:
    return f"{cluster}-peer-secret"


def cluster_ca(cluster: str) -> str:
    """The Secret with the CA that issues the certificates of listeners and peers, with its key."""
    return f"{cluster}-cluster-ca"


def clients_ca(cluster: str) -> str:
    """The Secret with the CA that issues clients' certificates, with its key."""
    return f"{cluster}-clients-ca"


def ca_certificates(authority: str) -> str:
    """The Secret with what is to be trusted of a CA, `ca.crt`, and no key: for clients."""
    return f"{authority}-cert"


def server_certificate(cluster: str) -> str:
    """The Secret with the certificate of listeners and peers that is of the operator's CA."""
    return f"{cluster}-server-cert"


def listener_certificate(cluster: str, listener: str) -> str:
    """The Secret, and cert-manager's Certificate, of one listener."""
    return f"{cluster}-{listener}-tls"


def operator_user(cluster: str) -> str:
    """The Secret with the password of the operator's own user."""
    return f"{cluster}-operator-user"


def external_service(cluster: str, listener: str, ordinal: int) -> str:
    return f"{cluster}-{listener}-{ordinal}"


def pod_name(statefulset: str, ordinal: int) -> str:
    return f"{statefulset}-{ordinal}"


def ordinal_of(pod: str) -> int:
    """The ordinal at the end of a StatefulSet pod's name; -1 if there is none."""
    _, dash, tail = pod.rpartition("-")
    return int(tail) if dash and tail.isdigit() else -1


def service_host(*, service: str, namespace: str, domain: str | None = None) -> str:
    """Without `domain` (`spec.clusterDomain`) the DNS search path of the client's pod completes the name."""
    return f"{service}.{namespace}.svc" + (f".{domain}" if domain else "")


def pod_host(*, pod: str, service: str, namespace: str, domain: str | None = None) -> str:
    """The DNS name by which clients and peers connect to one pod. Without `domain` the DNS search path completes it."""
    return f"{pod}.{service_host(service=service, namespace=namespace, domain=domain)}"
