"""Whether the cluster outlives the loss of any one node: a condition, by where the voters of each Raft group run.

Problem: Kubernetes spreads the pods when it places them, and moves none afterwards. After a cordon two coordinators may
stay on one node for months (ADR 39), all is Ready, and that one node has the majority of Raft groups whose owner
believes that three replicas survive a failure. Mechanism: each group's voters, by the view of its leader, are counted
by the node of their pods. Groups with one voter or two are left out: they survive no loss wherever they are.

What this does not do: move a pod, or look at zones. Numbers that change with each new topic are not told: each would be
a write.
"""

from collections import Counter

from muster_operator.api.conditions import ClusterCondition, Reason
from muster_operator.plan import quorum
from muster_operator.plan.conditions import Finding, finding
from muster_operator.world.cluster import ClusterWorld, ReplicaView
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
    nodes = {pod.name: pod.node for pod in statefulset.pods if pod.node is not None and not pod.terminating}
    pods = {view.broker_id: view.pod for view in views if view.pod in nodes}
    crowded: dict[str, set[str]] = {}
    for led in survey.led.values():
        voters = led.view.voters
        by_node = Counter(nodes[pods[voter]] for voter in voters if voter in pods)
        for node, there in by_node.items():
            if len(voters) >= VOTERS_MIN and 2 * (len(voters) - there) <= len(voters):
                crowded.setdefault(node, set()).update(
                    pods[voter] for voter in voters if voter in pods and nodes[pods[voter]] == node
                )
    if crowded:
        node = min(crowded)
        names = " and ".join(sorted(crowded[node]))
        message = (
            f"{names} are on node {node}: while it is away, Raft groups that have their majority there stop;"
            " a pod that is deleted goes to another node if one can take it and its volume"
        )
        return finding(type_, False, Reason.VOTERS_ON_ONE_NODE, message)
    return finding(type_, True, Reason.VOTERS_SPREAD, "no node has the majority of a Raft group's voters")
