"""Views that both kinds use: unknown answers, pods, StatefulSets, workloads, owners."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The value could not be read. `reason` is one CamelCase word, `message` a sentence without secrets."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    name: str
    uid: str
    ordinal: int
    revision: str
    """Label `controller-revision-hash`; "" before the controller has set it."""
    phase: str
    ready: bool
    ready_since_ms: int | None
    terminating: bool
    """`deletionTimestamp` is set. On a cut-off node a pod stays terminating for ever: it is *not* gone."""
    node: str | None
    waiting_reason: str | None
    """`state.waiting.reason` of the first waiting container (ImagePullBackOff, CrashLoopBackOff, ...)."""
    unschedulable: bool
    restarts: int
    pod_ip: str | None
    annotations: Mapping[str, str]
    created_ms: int | None = None
    """`metadata.creationTimestamp`."""
    unready_since_ms: int | None = None
    """Since when the Ready condition is not True; None while it is, or before the kubelet has reported."""
    pod_ips: tuple[str, ...] = ()
    """`status.podIPs`: one per address family; `pod_ip` is the first."""
    image: str = ""
    """Image of the first container in the pod's spec."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulSetView:
    name: str
    uid: str
    generation: int
    observed_generation: int
    replicas: int
    """`spec.replicas`: the number that its controller aims for."""
    ready_replicas: int
    current_revision: str
    update_revision: str
    template_hash: str
    """Hash of the pod template that we applied (annotation `muster.dev/manifest-hash`); "" if never applied."""
    pods: tuple[PodView, ...]
    """All pods that it owns, terminating ones included, by ordinal."""
    first_ordinal: int = 0
    """`spec.ordinals.start`."""
    rolls: bool = True
    """Its controller replaces outdated pods; False: its `updateStrategy` is OnDelete."""
    partition: int = 0
    """`spec.updateStrategy.rollingUpdate.partition`: pods of smaller ordinals are not replaced."""
    partition_before: int | None = None
    """Annotation `muster.dev/held-partition`; None: no pause holds it."""

    def ordinals(self, replicas: int) -> range:
        """The ordinals of its pods if it had `replicas` of them."""
        return range(self.first_ordinal, self.first_ordinal + replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferencedView:
    """The workload in `spec.workloadRef`, and its pods."""

    api_version: str
    kind: str
    """Deployment, StatefulSet or Rollout."""
    name: str
    uid: str
    generation: int
    observed_generation: int
    replicas: int
    """`spec.replicas`."""
    updated_replicas: int
    """Pods of the newest template, as its controller counts them."""
    selector: str
    """Label selector as text."""
    restarted_at: str | None
    """The last requested restart in it: text for Deployments and StatefulSets, a time for Rollouts."""
    pods: tuple[PodView, ...]
    """All its pods, terminating ones included, by name."""
    phase: str = ""
    """`status.phase` of a Rollout: Healthy, Progressing, Paused, Degraded; "" for the others."""
    phase_message: str = ""
    """`status.message` of a Rollout: why it is in that phase."""
    restart_done: str | None = None
    """`status.restartedAt` of a Rollout: the last restart whose pods are all replaced."""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """The workload does not exist or cannot be used. `reason` is one CamelCase word, `message` says why."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerView:
    """An object of our kinds as stored, without its spec, which is parsed separately."""

    name: str
    namespace: str
    uid: str
    generation: int
    resource_version: str
    deleting: bool
    paused: bool
    restarted_at: str | None
    """Annotation `muster.dev/restarted-at`."""
    status: Mapping[str, Any]
    """`.status` as stored now, `{}` before the first write: it keeps the `lastTransitionTime`s."""
    replace_folder: str | None = None
    """Annotation `muster.dev/replace-folder`."""
    finalizers: tuple[str, ...] = ()
    adopts: bool = False
    """Annotation `muster.dev/adopt`."""
    rotate_peers: str | None = None
    """Annotation `muster.dev/rotate-peer-secret`."""
    rotate_ca: str | None = None
    """Annotation `muster.dev/rotate-ca`."""
