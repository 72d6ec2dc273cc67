"""What planning takes from outside a custom resource: where the operator runs, and every number a plan depends on.

All times are milliseconds of the wall clock that the world carries in `now_ms`. Nothing here is read from the
environment: `muster_operator.settings` does that and hands the values in.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    operator_image: str
    """Image of a CoordinatorCluster whose spec names none: the operator's own."""
    operator_namespace: str
    operator_release: str = ""
    """Of the operator's own image."""
    operator_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the operator's pods: the NetworkPolicy lets them, and nobody else, reach the admin port."""
    image_pull_policy: str | None = None
    platform_sets_user: bool = False
    """Pods ask for no user and group ids of ours."""

    cluster_rollouts_max: int = 1
    """Clusters that are brought to the operator's image at the same time."""
    cluster_rollout_delay_ms: int = 30_000
    """Between the end of one and the begin of the next."""
    min_ready_ms: int = 10_000
    """A replaced pod counts as back after it was Ready for so long (`minReadySeconds`, which OnDelete leaves to us)."""
    unready_patience_ms: int = 600_000
    """A pod of the wanted revision that is not Ready for longer is taken as evidence against that revision."""
    caught_up_entries_max: int = 1_000
    """A voter that lacks no more entries than this is caught up: a busy log's follower is hardly ever level.
    The same number as the coordinators' own take-back of leaderships."""

    step_ms: int = 1_000
    """Next look while something of ours is under way: a drain, a pod that comes back."""
    wait_ms: int = 5_000
    """Next look while we wait for what we cannot hasten: an unreachable replica, a group that is not Stable."""
    group_poll_ms: int = 10_000
    """Next look at a group that is Stable."""
    resync_ms: int = 600_000
    """Next look at what has converged and tells us of changes by itself."""
