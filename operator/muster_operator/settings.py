"""Settings of `muster operator`: options, each with an environment variable, checked once at the start.

No other module of the operator reads the environment. Docs: docs/operator.md.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from muster_operator.limits import WORKERS_DEFAULT
from muster_operator.naming import CLAIM_NAME, LEASE_NAME

LOG_LEVELS = ("debug", "info", "warning", "error")
WORKERS_MAX = 256
ROLLOUTS_MAX = 1_000
ROLLOUT_DELAY_MAX_S = 86_400
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class SettingsError(ValueError):
    """A setting that cannot be used; the message names its option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    image: str
    """Image of coordinators whose spec sets none: the operator's own."""
    image_pull_policy: str | None = None
    platform_sets_user: bool = False
    """The coordinators' pods set no user and group ids: the platform (OpenShift) assigns them per namespace."""
    namespaces: tuple[str, ...] = ()
    """Watched namespaces; () for all."""
    own_namespace: str = "default"
    """The namespace of the Lease, and of the pods that the NetworkPolicies let connect as the operator."""
    lease_name: str = LEASE_NAME
    """One per Helm release: its processes share it, other releases have other names."""
    identity: str = ""
    """Holder identity in the Lease, unique per process; made from the host name if empty."""
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the operator's pods."""
    max_concurrent_cluster_rollouts: int = 1
    """Clusters that roll out a new operator image at the same time."""
    cluster_rollout_delay_s: int = 30
    """Seconds between two such rollouts."""
    leader_elect: bool = True
    probe_host: str = "0.0.0.0"  # a pod's probes come from its node
    probe_port: int = 8080
    workers: int = WORKERS_DEFAULT
    log_level: str = "info"
    kubeconfig: str | None = None

    def __post_init__(self) -> None:
        if not self.image:
            raise SettingsError("--image (MUSTER_OPERATOR_IMAGE) must name the image of the coordinators")
        if self.image_pull_policy not in (None, "Always", "IfNotPresent", "Never"):
            raise SettingsError("--image-pull-policy must be Always, IfNotPresent or Never")
        if not 1 <= self.workers <= WORKERS_MAX:
            raise SettingsError(f"--workers must be 1 to {WORKERS_MAX}")
        if not 1 <= self.max_concurrent_cluster_rollouts <= ROLLOUTS_MAX:
            raise SettingsError(f"--max-concurrent-cluster-rollouts must be 1 to {ROLLOUTS_MAX}")
        if not 0 <= self.cluster_rollout_delay_s <= ROLLOUT_DELAY_MAX_S:
            raise SettingsError(f"--cluster-rollout-delay must be 0 to {ROLLOUT_DELAY_MAX_S}")
        if not 0 <= self.probe_port <= 65_535:
            raise SettingsError("--probe-port must be 0 to 65535")
        if self.log_level not in LOG_LEVELS:
            raise SettingsError(f"--log-level must be one of {', '.join(LOG_LEVELS)}")
        if self.lease_name == CLAIM_NAME or not _SUBDOMAIN.fullmatch(self.lease_name):
            raise SettingsError(f"--lease-name {self.lease_name!r} cannot be the name of our Lease")
        bad = [one for one in (*self.namespaces, self.own_namespace) if not one or set(one) & set("*,/ ")]
        if bad:
            raise SettingsError(f"--namespace {bad[0]!r} is no name of a namespace (patterns are not supported)")


def split_list(text: str) -> tuple[str, ...]:
    """`a, b` as (a, b)."""
    return tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))


def split_labels(text: str) -> dict[str, str]:
    """`a=b,c=d` as a mapping. Raises SettingsError."""
    found = {}
    for pair in split_list(text):
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise SettingsError(f"--pod-labels must be key=value,..., not {pair!r}")
        found[key] = value
    return found
