"""One ConsumerGroup, its workload and what the coordinator says of the group, as seen in one pass."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster_operator.api.group import GroupSpec
from muster_operator.world.views import OwnerView, PodView, ReferencedView, StatefulSetView, Unknown, Unusable


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[tuple[str, tuple[int, ...]], ...]
    """(topic, partitions) by topic; () when the protocol is not "consumer" or nothing is assigned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    """A static member to remove: nobody else who holds the instance id by then."""

    instance_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    topic: str
    partition: int
    committed: int | None
    """None: the coordinator says that nothing is committed."""
    log_end: int | None
    """None: the topic's end could not be had (then lag is unknown, not 0)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGroup:
    """DescribeGroups, OffsetFetch and ListOffsets through kafka-python; works against Muster and Apache Kafka alike."""

    state: str
    """Empty, PreparingRebalance, CompletingRebalance, Stable, Dead: as Kafka spells it."""
    coordinator: str
    """host:port, with the broker id where known: `1 (host:port)`."""
    protocol_type: str
    protocol: str
    members: tuple[MemberView, ...]
    partitions: tuple[PartitionView, ...]
    generation: int | None
    """From Muster's `/v1/groups/{id}`; None where only Kafka's protocol is spoken (DescribeGroups has none)."""
    last_rebalance_ms: int | None
    last_rebalance_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWorld:
    owner: OwnerView
    spec: GroupSpec
    bootstrap: str | Unknown
    """From `clusterRef` (Unknown with reason ClusterNotFound / ClusterNotReady) or as given."""
    statefulset: StatefulSetView | Unknown | None
    """Of the consumers, whoever made it: the operator (`template`) or somebody else (`workloadRef`). None: there is
    none (yet), or the object only observes."""
    children: Mapping[tuple[str, str], Mapping[str, Any]] | Unknown
    group: ObservedGroup | Unknown
    now_ms: int
    elder: str | None = None
    """`namespace/name` of an older ConsumerGroup that runs consumers in the same group; the group is that one's."""
    referenced: ReferencedView | Unusable | None = None
    """What `workloadRef` names; None: it names nothing."""
    workload_elder: str | None = None
    """`namespace/name` of an older ConsumerGroup that refers to the same workload, which is that one's to scale."""

    @property
    def pods(self) -> tuple[PodView, ...]:
        """Of the consumers, as far as they are known."""
        if isinstance(self.referenced, ReferencedView):
            return self.referenced.pods
        return self.statefulset.pods if isinstance(self.statefulset, StatefulSetView) else ()

    @property
    def wanted(self) -> int | None:
        """Consumer pods that shall be there. None: no consumers are run, or the workload whose number counts is not
        there."""
        if self.spec.template is not None:
            return self.spec.made_replicas
        if not isinstance(self.referenced, ReferencedView):
            return None
        if self.spec.replicas is None or self.workload_elder is not None:
            return self.referenced.replicas
        return self.spec.replicas

    @property
    def may_remove(self) -> bool:
        """Members may be removed: ids are expected, and neither group nor workload is an older object's."""
        return self.spec.static_membership and self.elder is None and self.workload_elder is None
