"""`range`: each topic is cut into contiguous blocks, one block per member; the first members get one partition more.

Topics with the same subscribers and partition count are therefore co-partitioned: partition p of all of them goes to
the same member. With racks (KIP-881), partitions are first given to members in a rack that has a replica, within the
same quotas, and the remaining ones are cut into blocks as before; keeping topics co-partitioned takes precedence over
racks. Racks are used for a topic only if a member's rack is among the racks of its replicas, and not every partition
has replicas in all racks.
"""

from collections.abc import Callable, Sequence
from itertools import islice

from muster_coordinator.groups.assignors.java_order import static_first, utf16_key
from muster_coordinator.groups.assignors.membership import Member, Plan, TopicPartition, Topology, subscribers

_NO_RACKS: frozenset[str] = frozenset()


def assign(members: Sequence[Member], topology: Topology) -> Plan:
    """Kafka's RangeAssignor; each member's partitions are in order of topic and number."""
    plan: Plan = {member.member_id: [] for member in members}
    found = subscribers(members, topology)
    topics = [_Topic(topic, topology, static_first(found[topic]), plan) for topic in sorted(found, key=utf16_key)]
    if any(topic.rack_aware for topic in topics):
        _match_racks(topics)
    for topic in topics:
        topic.cut(lambda _member, _partition: True)
    for partitions in plan.values():
        partitions.sort(key=lambda one: (utf16_key(one.topic), one.partition))
    return plan


class _Topic:
    """One topic during its assignment."""

    __slots__ = (
        "_extras_left",
        "_given",
        "_plan",
        "_quota",
        "_racks",
        "_unassigned",
        "members",
        "partitions",
        "rack_aware",
        "topic",
    )

    def __init__(self, topic: str, topology: Topology, members: Sequence[Member], plan: Plan) -> None:
        self.topic = topic
        self.partitions = topology.partitions[topic]
        self.members = {member.member_id: member.subscription.rack_id or None for member in members}
        """Rack of each member, in assignment order."""
        self._plan = plan
        self._quota, self._extras_left = divmod(self.partitions, len(self.members))
        self._given = dict.fromkeys(self.members, 0)
        self._unassigned = dict.fromkeys(range(self.partitions))
        self._racks = [topology.racks.get(TopicPartition(topic, p), _NO_RACKS) for p in range(self.partitions)]
        member_racks = {rack for rack in self.members.values() if rack is not None}
        all_racks = _NO_RACKS.union(*self._racks)
        self.rack_aware = bool(member_racks & all_racks) and any(racks != all_racks for racks in self._racks)

    def room(self, member_id: str) -> int:
        """How many more partitions the member may get now, by the quota and the extra partitions that are left."""
        return max(0, self._quota + (self._extras_left > 0) - self._given[member_id])

    def racks_match(self, member_id: str, partition: int) -> bool:
        rack = self.members[member_id]
        return rack is None or rack in self._racks[partition]

    def give(self, member_id: str, partitions: Sequence[int]) -> None:
        self._given[member_id] += len(partitions)
        if self._given[member_id] > self._quota:
            self._extras_left -= 1
        for partition in partitions:
            del self._unassigned[partition]
            self._plan[member_id].append(TopicPartition(self.topic, partition))

    def cut(self, allowed: Callable[[str, int], bool]) -> None:
        """Give each member its block: the first unassigned partitions `allowed` to it, up to its quota."""
        for member_id in self.members:
            if not self._unassigned:
                break
            room = self.room(member_id)
            block = list(islice((p for p in self._unassigned if allowed(member_id, p)), room))
            if block:
                self.give(member_id, block)


def _match_racks(topics: Sequence[_Topic]) -> None:
    together: dict[tuple[frozenset[tuple[str, str | None]], int], list[_Topic]] = {}
    for topic in topics:
        together.setdefault((frozenset(topic.members.items()), topic.partitions), []).append(topic)
    for group in together.values():
        if len(group) > 1:
            _match_racks_of_copartitioned(group)
        elif group[0].rack_aware:
            group[0].cut(group[0].racks_match)


def _match_racks_of_copartitioned(group: Sequence[_Topic]) -> None:
    """Give partition p of all topics to the first member with room whose rack has a replica of each of them."""
    open_members = list(group[0].members)
    for partition in range(group[0].partitions):
        for member_id in open_members:
            if all(topic.racks_match(member_id, partition) and topic.room(member_id) > 0 for topic in group):
                for topic in group:
                    topic.give(member_id, [partition])
                if not any(topic.room(member_id) > 0 for topic in group):
                    open_members.remove(member_id)
                break
