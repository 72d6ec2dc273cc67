"""Views shared by both kinds: unknown answers, pods, StatefulSets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The question was asked and not answered. `reason` is one CamelCase word, `message` a sentence without secrets."""

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
    """`deletionTimestamp` is set. On a cut-off node a pod stays terminating without end: it is *not* gone."""
    node: str | None
    waiting_reason: str | None
    """`state.waiting.reason` of the first container that waits (ImagePullBackOff, CrashLoopBackOff, ...)."""
    unschedulable: bool
    restarts: int
    pod_ip: str | None
    annotations: Mapping[str, str]
    created_ms: int | None = None
    """`metadata.creationTimestamp`."""
    unready_since_ms: int | None = None
    """Since when the Ready condition is not True; None while it is, or before the kubelet has said anything."""
    pod_ips: tuple[str, ...] = ()
    """`status.podIPs`: one of each family; `pod_ip` is the first."""
    image: str = ""
    """Of the first container, as the pod's spec has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulSetView:
    name: str
    uid: str
    generation: int
    observed_generation: int
    replicas: int
    """`spec.replicas`: what the controller has been told."""
    ready_replicas: int
    current_revision: str
    update_revision: str
    template_hash: str
    """Hash of the pod template as we applied it (annotation `muster.dev/manifest-hash`), "" when never applied."""
    pods: tuple[PodView, ...]
    """All pods owned by it, terminating ones included, by ordinal."""
    first_ordinal: int = 0
    """`spec.ordinals.start`."""
    rolls: bool = True
    """Its controller replaces outdated pods; False: its `updateStrategy` is OnDelete."""
    partition: int = 0
    """`spec.updateStrategy.rollingUpdate.partition`: pods of smaller ordinals are not replaced."""
    partition_before: int | None = None
    """Annotation `muster.dev/held-partition`; None: no pause holds it."""

    def ordinals(self, replicas: int) -> range:
        """Of its pods, if it had so many."""
        return range(self.first_ordinal, self.first_ordinal + replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferencedView:
    """A workload that somebody else made, which `spec.workloadRef` names, and its pods."""

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
    """The restart that it was last told: a text for Deployments and StatefulSets, a time for Rollouts."""
    pods: tuple[PodView, ...]
    """All pods of it, terminating ones included, by name."""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """The workload was looked for and is none that can be used. `reason` is one CamelCase word, `message` says why."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerView:
    """A CoordinatorCluster or ConsumerGroup as stored, without its spec (that is parsed apart)."""

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
    """`.status` as it is stored now, `{}` before the first write: carries `lastTransitionTime`s over."""
