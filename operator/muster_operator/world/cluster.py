"""One CoordinatorCluster and what surrounds it, as observed in one pass."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster_operator.api.cluster import ClusterSpec
from muster_operator.world.views import OwnerView, StatefulSetView, Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftGroupView:
    """One Raft group as its leader (or, without `match`, a follower) reports it: `/v1/partitions`."""

    group: int
    """0 is the controller group."""
    topic: str | None
    partition: int | None
    role: str
    term: int
    leader: int | None
    """Broker id; None if this replica knows no leader."""
    voters: tuple[int, ...]
    last_index: int
    commit_index: int
    applied_index: int
    match: Mapping[int, int]
    """Broker id → index known to be on it. On the leader only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """`/v1/status` and `/v1/partitions` of one pod, read in this pass."""

    pod: str
    broker_id: int
    ready: bool
    not_ready: tuple[str, ...]
    cluster_id: str | None
    drain_phase: str
    """idle | marking | transferring | drained"""
    leaderships: int
    groups: tuple[RaftGroupView, ...]
    disk_low: bool = False
    """The replica reports little free space on its volume. Coordinators of earlier releases do not report it."""
    version: str | None = None
    feature_level: int | None = None
    """The cluster's feature level; None before the cluster is formed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterWorld:
    owner: OwnerView
    spec: ClusterSpec
    statefulset: StatefulSetView | Unknown | None
    children: Mapping[tuple[str, str], Mapping[str, Any]] | Unknown
    """(kind, name) → live object, for all children that we own or would create."""
    replicas: Mapping[str, ReplicaView | Unknown]
    """By pod name, for every existing pod."""
    node_addresses: Mapping[str, str] | Unknown
    """Node name → address, for external NodePort listeners; {} if there are none."""
    now_ms: int
    must_wait: str | None = None
    """Why a roll-out to the operator's image must not begin now (`plan.pacing`); None: it may."""
