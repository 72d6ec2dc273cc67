"""Who is to vote in the controller's group: the rules of SetControllerVoters, CompleteControllerVoters (ADR 45). Pure.

Problem: the controller's group changes its members as any other, step by step, and whoever leads it may die meanwhile.
Mechanism: as with partitions (`moves`) its log says who is to vote, and who voted before and may still do: these stay
registered until the leader says that a configuration with exactly the wanted voters is committed. A change may be
replaced by another one at any time, also by one back. Nobody is removed from the group: a broker that votes no longer
is an observer of its log.

What this does not do: look at who is alive or has caught up; whoever carries it out does.
"""

from dataclasses import replace

from muster_coordinator.controller.image import ClusterImage
from muster_coordinator.controller.misfit import require
from muster_coordinator.controller.moves import VOTER_COUNTS
from muster_coordinator.controller.replication import voters_wanted_after
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId


def set_voters(cluster: ClusterImage, voters: tuple[BrokerId, ...]) -> ClusterImage:
    """The image with these brokers as the wanted voters; the same object if they are. Raises `MisfitError`."""
    code = Code.INVALID_REQUEST
    require(len(set(voters)) == len(voters), code, f"a broker is named twice: {list(voters)}")
    require(len(voters) in VOTER_COUNTS, code, f"the controller's group has 1, 3 or 5 voters, not {len(voters)}")
    for broker in voters:
        known = cluster.brokers.get(broker)
        require(known is not None, code, f"broker {broker} is not registered")
        require(known is not None and known.bound, code, f"broker {broker} waits for a new data folder")
    for broker in cluster.voters:  # one that is no voter any more is known by its registration only
        require(broker in cluster.brokers, code, f"broker {broker} votes, and has never registered")
    wanted = voters_wanted_after(cluster, voters)
    if set(voters) == set(cluster.voters):
        return cluster
    former = tuple(sorted({*cluster.voters, *cluster.former_voters} - {*voters}))
    return replace(cluster, voters=voters, former_voters=former, controller_voters_wanted=wanted)


def complete_voters(cluster: ClusterImage, voters: tuple[BrokerId, ...]) -> ClusterImage:
    """The image after the group's log has these voters and no others; the same object if that is not what is wanted."""
    if set(voters) != set(cluster.voters) or not cluster.former_voters:
        return cluster
    return replace(cluster, former_voters=())
