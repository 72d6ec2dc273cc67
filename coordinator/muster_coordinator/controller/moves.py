"""Where a partition is to be: the rules of MovePartition, CompleteMove and CancelMove (ADR 42). Pure.

Problem: the replicas of a partition change by a change of its Raft group's members, which takes as long as copying the
data, and whoever carries it out may die at any step. Mechanism: the controller's log says where the replicas are to be,
where they were before, and who may still have one. The leader of the partition's group brings its members to what is
wanted, and says when that is complete; then those that are not wanted any more are let go. A move may be replaced by
another one at any time, also by one back to where it began; whoever may have a replica keeps it until the last of them
is complete, since it may be a voter of the group until then.

What this does not do: look at who is alive or how much room there is, limit how many partitions move at once, or know
what the group's log says.
"""

from dataclasses import replace

from muster_coordinator.controller.image import ClusterImage, Move, Partition
from muster_coordinator.controller.misfit import require
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId

VOTER_COUNTS = (1, 3, 5)
"""How many replicas a partition may have: an even number survives no more than one less."""


def move_partition(cluster: ClusterImage, partition: Partition, voters: tuple[BrokerId, ...]) -> Partition:
    """The partition with these brokers as its wanted voters; without any: with those from before the move under way.
    The same object if it has them already. Raises `MisfitError`."""
    move = partition.move
    if voters:
        require_replicas(cluster, voters)
    else:
        require(partition.moves, Code.NO_REASSIGNMENT_IN_PROGRESS, "the partition is not being moved")
        voters = move.origin if move is not None else ()
    if voters == partition.voters:
        return partition
    if set(voters) == set(partition.voters) and not partition.moves:
        return replace(partition, move=Move(voters))  # in another order: nobody has anything to do
    origin = move.origin if move is not None and partition.moves else partition.voters
    leaving = tuple(sorted({*partition.holders} - {*voters}))
    return replace(partition, move=Move(voters, origin, leaving))


def complete_move(partition: Partition, voters: tuple[BrokerId, ...]) -> Partition:
    """The partition after its group's log has these voters and no other members; the same object if that is not what is
    wanted: what the group's leader saw may be over, or another one was as quick."""
    if not partition.moves or partition.voters != voters:
        return partition
    return replace(partition, move=Move(voters))


def cancel_move(cluster: ClusterImage, partition: Partition, voters: tuple[BrokerId, ...]) -> Partition:
    """The partition on its way back from these voters. Raises `MisfitError` if it is not on its way to them (somebody
    wants something else by now, or the move was complete before), and as `move_partition` does."""
    under_way = partition.moves and partition.voters == voters
    require(under_way, Code.NO_REASSIGNMENT_IN_PROGRESS, f"the partition is not on its way to {list(voters)}")
    return move_partition(cluster, partition, ())


def require_replicas(cluster: ClusterImage, voters: tuple[BrokerId, ...]) -> None:
    """Raises `MisfitError` if these brokers cannot be the replicas of a partition."""
    code = Code.INVALID_REPLICA_ASSIGNMENT
    require(len(set(voters)) == len(voters), code, f"a broker is named twice: {list(voters)}")
    require(len(voters) in VOTER_COUNTS, code, f"a partition has 1, 3 or 5 replicas, not {len(voters)}")
    for broker in voters:
        known = cluster.brokers.get(broker)
        require(known is not None, code, f"broker {broker} is not registered")
        require(known is not None and known.bound, code, f"broker {broker} waits for a new data folder")
