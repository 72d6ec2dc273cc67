"""The logs of a partition on all replicas: byte by byte, or in meaning where they were cleaned."""

from muster_coordinator.errors import Code
from muster_coordinator.ids import FIRST_OFFSETS_GROUP, GroupNo

from tests.groups.folding import folded, meaning
from tests.records.made import split_batches
from tests.sim.cluster import Cluster, Replica
from tests.sim.history import Violation

READ_BYTES = 1 << 20


class Unreadable(AssertionError):
    """Batches that are there are not given."""


def read_log(replica: Replica, group: GroupNo) -> list[bytes]:
    """All batches of a partition as Fetch gives them, from the log start."""
    log = replica.node.local_log(group)
    group_manager = replica.node.group_manager
    assert log is not None
    assert group_manager is not None
    offset = group_manager.states[group].log_start
    batches: list[bytes] = []
    while True:
        result = log.read(offset, READ_BYTES, whole_first_batch=True)
        if result.code != Code.NONE:
            raise Unreadable(f"read at {offset} answered {result.code}")
        got = split_batches(result.records)
        if not got:
            return batches
        batches += got
        last = got[-1]
        offset = int.from_bytes(last[:8], "big") + int.from_bytes(last[23:27], "big") + 1


def compare_logs(cluster: Cluster, group: GroupNo) -> tuple[list[bytes], list[Violation]]:
    """The log, and where replicas differ (R1)."""
    voters = cluster.holders(group)
    first = read_log(voters[0], group)
    found = []
    for replica in voters[1:]:
        other = read_log(replica, group)
        if other != first:
            at = next((n for n, (a, b) in enumerate(zip(first, other, strict=False)) if a != b), len(first))
            found.append(
                Violation(
                    "R1",
                    f"group {group}: the logs of {voters[0].broker} and {replica.broker} differ from batch {at} "
                    f"({len(first)} and {len(other)} batches)",
                )
            )
    return first, found


def cleaned_here(replica: Replica, group: GroupNo) -> bool:
    """Has this replica cleaned a part of the partition's log?"""
    group_manager = replica.node.group_manager
    assert group_manager is not None
    return group_manager.states[group].log.cleaned.touched_to > 0


def compare_cleaned(cluster: Cluster, partition: int) -> list[Violation]:
    """Where the log of an offsets partition that replicas have cleaned, each for itself, says something else than the
    state that each has applied (ADR 76)."""
    group = GroupNo(FIRST_OFFSETS_GROUP + partition)
    found = []
    for replica in cluster.holders(group):
        group_manager = replica.node.group_manager
        assert group_manager is not None
        state = group_manager.shards[partition].shard._core.state
        if group_manager.states[group].log_start:
            found.append(Violation("ADR 76", f"group {group}: the log of {replica.broker} was cut"))
        elif meaning(folded(read_log(replica, group))) != meaning(state):
            found.append(Violation("ADR 76", f"group {group}: the cleaned log of {replica.broker} says something else"))
    return found


def damaged_logs(cluster: Cluster) -> list[str]:
    """Logs that cannot be read to their end now. A read makes the replica notice the damage, and mend it."""
    found = []
    for replica in cluster.voters():
        if replica.broker not in cluster.harm.rotten:
            continue
        group_manager = replica.node.group_manager
        for group in sorted(group_manager.states) if group_manager is not None else ():
            try:
                read_log(replica, group)
            except Unreadable as error:
                found.append(f"group {group} of {replica.broker}: {error}")
    return found
