"""Whether the cluster outlives the loss of any one node: a condition, by where the voters of each Raft group run.

Problem: Kubernetes spreads the pods when it places them, and moves none afterwards. After a cordon two coordinators may
stay on one node for months (ADR 39), all is Ready, and that one node has the majority of Raft groups whose owner
believes that three replicas survive a failure. Mechanism: each group's voters, by the view of its leader, are counted
by the node of their pods. Partitions of users' topics with one voter are left out: they survive no loss wherever they
are, and somebody has wanted them so. The cluster's own groups are not: what was grown from one coordinator to three
survives nothing before its replication factor is raised.

What this does not do: move a pod, or look at zones. Numbers that change with each new topic are not told: each would be
a write.
"""

from collections import Counter

from muster_operator.api.conditions import ClusterCondition, Reason
from muster_operator.plan import quorum
from muster_operator.plan.conditions import Finding, finding
from muster_operator.world.cluster import ClusterWorld, RaftGroupView, ReplicaView
from muster_operator.world.views import StatefulSetView

VOTERS_MIN = 3
"""Fewer have no majority without one of them."""


def node_loss_finding(world: ClusterWorld) -> Finding:
    """Unknown while some Raft group has no leader that answered."""
    type_, statefulset = ClusterCondition.SURVIVES_NODE_LOSS, world.statefulset
    if world.spec.replicas < VOTERS_MIN:
        message = "of three coordinators one can be away, of fewer none"
        return finding(type_, False, Reason.TOO_FEW_COORDINATORS, message)
    views = [view for view in world.replicas.values() if isinstance(view, ReplicaView)]
    survey = quorum.survey(views)
    if not isinstance(statefulset, StatefulSetView) or not survey.complete:
        return finding(type_, None, Reason.QUORUM_UNKNOWN, "not every Raft group has a leader that answered")
    if any(len(led.view.voters) < VOTERS_MIN for led in survey.led.values() if _own(led.view)):
        message = "the cluster's own Raft groups have fewer than three voters, of which none can be away"
        return finding(type_, False, Reason.TOO_FEW_COORDINATORS, message)
    # A broker's id is its pod's ordinal, so one that does not answer now is counted, too.
    at = {pod.ordinal: pod for pod in statefulset.pods if pod.node is not None and not pod.terminating}
    crowded: dict[str, set[str]] = {}
    for led in survey.led.values():
        voters = led.view.voters
        there = [at[voter] for voter in voters if voter in at]
        for node, count in Counter(pod.node for pod in there).items():
            if node is not None and len(voters) >= VOTERS_MIN and 2 * (len(voters) - count) <= len(voters):
                crowded.setdefault(node, set()).update(pod.name for pod in there if pod.node == node)
    if crowded:
        node = min(crowded)
        names = " and ".join(sorted(crowded[node]))
        message = (
            f"{names} are on node {node}: while it is away, Raft groups that have their majority there stop;"
            " a pod that is deleted goes to another node if one can take it and its volume"
        )
        return finding(type_, False, Reason.VOTERS_ON_ONE_NODE, message)
    return finding(type_, True, Reason.VOTERS_SPREAD, "no node has the majority of a Raft group's voters")


def _own(group: RaftGroupView) -> bool:
    """Not of a user's topic, who may want one replica."""
    return group.topic is None or group.topic.startswith("__")
