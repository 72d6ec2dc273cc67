"""One CoordinatorCluster and what surrounds it, as seen in one pass."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster_operator.api.cluster import ClusterSpec
from muster_operator.world.views import OwnerView, StatefulSetView, Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftGroupView:
    """One Raft group as its leader (or, without `match`, a follower) tells it: `/v1/partitions`."""

    group: int
    """0 is the controller group."""
    topic: str | None
    partition: int | None
    role: str
    term: int
    leader: int | None
    """Broker id; None when this replica knows none."""
    voters: tuple[int, ...]
    last_index: int
    commit_index: int
    applied_index: int
    match: Mapping[int, int]
    """Broker id → index known to be on it. Only on the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """`/v1/status` and `/v1/partitions` of one pod, asked in this pass."""

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
    """It says that little room is left on its volume. A coordinator of a release before says nothing."""
    version: str | None = None
    feature_level: int | None = None
    """Of the cluster; None before it is formed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterWorld:
    owner: OwnerView
    spec: ClusterSpec
    statefulset: StatefulSetView | Unknown | None
    children: Mapping[tuple[str, str], Mapping[str, Any]] | Unknown
    """(kind, name) → the live object, of all children that we own or would create."""
    replicas: Mapping[str, ReplicaView | Unknown]
    """By pod name, for every pod that exists."""
    node_addresses: Mapping[str, str] | Unknown
    """Node name → address, for external NodePort listeners; {} when none is asked for."""
    now_ms: int
    must_wait: str | None = None
    """Why a roll-out to the operator's image must not begin now (`plan.pacing`); None: it may."""
