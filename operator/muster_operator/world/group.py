"""One ConsumerGroup, its workload and the coordinator's view of the group, as observed in one pass."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from muster_operator.api.group import GroupSpec
from muster_operator.world.login import Login, Where, where
from muster_operator.world.views import OwnerView, PodView, ReferencedView, StatefulSetView, Unknown, Unusable


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[tuple[str, tuple[int, ...]], ...]
    """(topic, partitions) by topic; () if the protocol is not "consumer" or nothing is assigned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    """A static member to remove: only this member, not a later holder of the instance id."""

    instance_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Records behind a committed offset, counted by somebody, where offsets have gaps."""

    records: int | None
    """None: unknown."""
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    topic: str
    partition: int
    committed: int | None
    """None: there is no committed offset."""
    log_end: int | None
    """None: the log end offset is unknown (then lag is unknown, not 0)."""
    counted: Counted | None = None
    """None: the difference of the two is the number of records."""


class GroupFacts(NamedTuple):
    """What the coordinator alone knows of a group."""

    generation: int | None
    """None before any join."""
    rebalanced_ms: int | None
    rebalance_reason: str | None
    counted: Mapping[tuple[str, int], Counted]
    """By topic and partition, where offsets have gaps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGroup:
    """DescribeGroups, OffsetFetch and ListOffsets through kafka-python; the same for Muster and Apache Kafka."""

    state: str
    """Empty, PreparingRebalance, CompletingRebalance, Stable, Dead: in Kafka's spelling."""
    coordinator: str
    """host:port, with the broker id if known: `1 (host:port)`."""
    protocol_type: str
    protocol: str
    members: tuple[MemberView, ...]
    partitions: tuple[PartitionView, ...]
    generation: int | None
    """From Muster's `/v1/groups/{id}`; None for other clusters, since DescribeGroups does not contain it."""
    last_rebalance_ms: int | None
    last_rebalance_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWorld:
    owner: OwnerView
    spec: GroupSpec
    bootstrap: str | Unknown
    """From `clusterRef` (Unknown with reason ClusterNotFound or ClusterNotReady) or `bootstrapServers`: the pods get
    it."""
    statefulset: StatefulSetView | Unknown | None
    """The consumers' StatefulSet: the operator's own (`template`) or the one in `workloadRef`. None: there is none
    (yet), or the object only observes."""
    children: Mapping[tuple[str, str], Mapping[str, Any]] | Unknown
    group: ObservedGroup | Unknown
    now_ms: int
    elder: str | None = None
    """`namespace/name` of an older ConsumerGroup that runs consumers in the same group and has precedence."""
    referenced: ReferencedView | Unusable | None = None
    """The workload in `workloadRef`; None: there is no `workloadRef`."""
    workload_elder: str | None = None
    """`namespace/name` of an older ConsumerGroup that refers to the same workload and alone may scale it."""
    asked_at: str | Unknown | None = None
    """Where the operator asks, which may be another listener of a cluster of ours; None: at `bootstrap`."""
    login: Login | Unknown | None = None
    """Of the operator's own look; None: the cluster is open. Pods get it by reference, never from here."""

    @property
    def where(self) -> Where | Unknown:
        """The group's cluster, as it is asked."""
        return where(self.bootstrap if self.asked_at is None else self.asked_at, self.login)

    @property
    def pods(self) -> tuple[PodView, ...]:
        """The consumers' pods, as far as they are known."""
        if isinstance(self.referenced, ReferencedView):
            return self.referenced.pods
        return self.statefulset.pods if isinstance(self.statefulset, StatefulSetView) else ()

    @property
    def wanted(self) -> int | None:
        """Wanted number of consumer pods. None: the object runs no consumers, or the workload that defines the number
        does not exist."""
        if self.spec.template is not None:
            return self.spec.made_replicas
        if not isinstance(self.referenced, ReferencedView):
            return None
        if self.spec.replicas is None or self.workload_elder is not None:
            return self.referenced.replicas
        return self.spec.replicas

    @property
    def may_remove(self) -> bool:
        """Members may be removed: their instance ids are expected, and neither group nor workload belongs to an older
        object."""
        return self.spec.static_membership and self.elder is None and self.workload_elder is None
