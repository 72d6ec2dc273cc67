"""Inputs of planning besides the custom resource: where the operator runs, and every number that a plan depends on.

All times are milliseconds of the wall clock, which the world carries in `now_ms`. Nothing here is read from the
environment: `muster_operator.settings` does that and hands the values in.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    operator_image: str
    """Image of a CoordinatorCluster whose spec sets none: the operator's own."""
    operator_namespace: str
    operator_release: str = ""
    """Release of Muster in the operator's own image."""
    operator_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the operator's pods: the NetworkPolicy lets only them reach the admin port."""
    image_pull_policy: str | None = None
    platform_sets_user: bool = False
    """Pods set no user and group ids."""

    cluster_rollouts_max: int = 1
    """Clusters that roll out a new operator image at the same time."""
    cluster_rollout_delay_ms: int = 30_000
    """Between the end of one such roll-out and the start of the next."""
    min_ready_ms: int = 10_000
    """A replaced pod counts as back once it has been Ready for this time (`minReadySeconds`, which OnDelete does not
    apply)."""
    unready_patience_ms: int = 600_000
    """A pod of the wanted revision that is not Ready for longer counts against that revision."""
    node_gone_patience_ms: int = 300_000
    """A volume whose node does not exist counts as lost after this time: as long as Kubernetes by default leaves pods
    on a node that does not answer."""
    caught_up_entries_max: int = 1_000
    """A voter that lacks at most this many entries is caught up: in a busy log a follower is hardly ever level. The
    coordinators use the same number before they take leaderships back."""

    rotation_ms: int = 600_000
    """A peer secret stays valid after its successor was made, for kubelets bring a Secret's file up to date within two
    minutes."""

    step_ms: int = 1_000
    """Time to the next pass while an action of ours is in progress: a drain, a pod that comes back."""
    wait_ms: int = 5_000
    """Time to the next pass while waiting for others: an unreachable replica, a group that is not Stable."""
    group_poll_ms: int = 10_000
    """Time to the next pass over a Stable group."""
    kafka_object_poll_ms: int = 120_000
    """Time to the next pass over a Topic or User that is as specified: what others change in Kafka sends no event."""
    resync_ms: int = 600_000
    """Time to the next pass over a converged object, whose changes arrive as events."""
