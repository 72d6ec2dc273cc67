"""Input of both sticky algorithms: members, topics and partitions as small integers, and the settled ownership.

Mechanism: members and topics are sorted as Java sorts strings and replaced by their position, so that every later
comparison of names is one of integers. Claims of ownership are settled here, once, for both algorithms:
1. A claim counts only for a partition that exists (a topic may have been re-created with fewer partitions).
2. Of two claims to one partition the one of the higher generation wins.
3. Two claims of one generation void each other: the partition is `contested` and has no owner.

Deviations from Kafka, all on inputs where Kafka's own plan would be wrong: rule 1; a member without subscriptions never
counts as "equally subscribed"; a partition that a member claims twice counts once.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from muster_coordinator.groups.assignors.java_order import by_member_id, hash_map_order, utf16_key
from muster_coordinator.groups.assignors.membership import Member, Plan, TopicPartition, Topology

NO_GENERATION = -1


class Key(NamedTuple):
    """A partition inside the algorithms: position of its topic, and its number."""

    topic: int
    partition: int


class Claims(NamedTuple):
    """What a member says it owned, and in which generation (None: its data has no generation)."""

    partitions: tuple[TopicPartition, ...]
    generation: int | None


class StickyInput:
    """The input of one assignment. The algorithms do not change it."""

    __slots__ = (
        "claims",
        "contested",
        "generations",
        "member_ids",
        "order",
        "owned",
        "partition_counts",
        "racks",
        "subscribed",
        "subscriptions_equal",
        "topics",
    )

    def __init__(self, members: Sequence[Member], topology: Topology, claims_of: Callable[[Member], Claims]) -> None:
        ordered = by_member_id(members)
        self.member_ids = [member.member_id for member in ordered]
        wanted = {topic for member in members for topic in member.subscription.topics}
        known = (topic for topic in wanted if topology.partitions.get(topic, 0) > 0)
        self.topics = sorted(known, key=utf16_key)
        self.partition_counts = [topology.partitions[topic] for topic in self.topics]
        position_of_topic = {topic: i for i, topic in enumerate(self.topics)}
        self.subscribed = [
            frozenset(position_of_topic[t] for t in member.subscription.topics if t in position_of_topic)
            for member in ordered
        ]
        self.subscriptions_equal = len({frozenset(member.subscription.topics) for member in members}) <= 1
        position_of_member = {member_id: i for i, member_id in enumerate(self.member_ids)}
        self.order = [position_of_member[name] for name in hash_map_order([member.member_id for member in members])]
        """Members in the order in which Kafka's leader iterates over them."""
        self.claims: list[list[Key]] = []
        self.generations: list[int | None] = []
        for member in ordered:
            partitions, generation = claims_of(member)
            self.claims.append(self._existing(partitions, position_of_topic))
            self.generations.append(generation)
        self.owned: list[list[Key]] = []
        """Settled ownership of partitions that exist, by member."""
        self.contested: set[Key] = set()
        self._settle([member.subscription.generation_id for member in ordered])
        self.racks = Racks(self, [member.subscription.rack_id or None for member in ordered], topology)

    def all_partitions(self, topics: Sequence[int]) -> list[Key]:
        """Every partition of `topics`, topic by topic."""
        return [Key(topic, partition) for topic in topics for partition in range(self.partition_counts[topic])]

    def plan(self, assigned: Sequence[Sequence[Key]]) -> Plan:
        """Translate positions back to names; each member's partitions are in order of topic and number."""
        return {
            member_id: [TopicPartition(self.topics[key.topic], key.partition) for key in sorted(keys)]
            for member_id, keys in zip(self.member_ids, assigned, strict=True)
        }

    def _existing(self, partitions: Sequence[TopicPartition], position_of_topic: dict[str, int]) -> list[Key]:
        keys: dict[Key, None] = {}
        for one in partitions:
            topic = position_of_topic.get(one.topic)
            if topic is not None and 0 <= one.partition < self.partition_counts[topic]:
                keys[Key(topic, one.partition)] = None
        return list(keys)

    def _settle(self, subscription_generations: Sequence[int]) -> None:
        """Fill `owned` and `contested`.

        NB: as in Kafka, the earlier claimant's generation is read from its subscription, but the later one's from its
        claim. The two differ only for the sticky assignor's user data.
        """
        owned: list[dict[Key, None]] = [{} for _ in self.member_ids]
        owner_of: dict[Key, int] = {}
        for member in self.order:
            own_generation = self.generations[member]
            generation = NO_GENERATION if own_generation is None else own_generation
            for key in self.claims[member]:
                other = owner_of.get(key)
                if other is None or generation > subscription_generations[other]:
                    owned[member][key] = None
                elif generation == subscription_generations[other]:
                    self.contested.add(key)
                else:
                    continue
                if other is not None:
                    owned[other].pop(key, None)
                owner_of[key] = member
        self.owned = [list(keys) for keys in owned]


class Racks:
    """Which members are in the rack of a replica. Without usable racks (see `range`) `usable` is False and nothing
    mismatches."""

    __slots__ = ("_member_racks", "_nearby", "_partition_racks", "usable")

    def __init__(self, problem: StickyInput, member_racks: list[str | None], topology: Topology) -> None:
        members_of_rack: dict[str, int] = {}
        for rack in member_racks:
            if rack is not None:
                members_of_rack[rack] = members_of_rack.get(rack, 0) + 1
        self._nearby: dict[Key, int] = {}
        self._partition_racks: dict[Key, frozenset[str]] = {}
        self._member_racks: list[str | None] = [None] * len(member_racks)
        self.usable = False
        if not members_of_rack:
            return
        none: frozenset[str] = frozenset()
        racks = {
            key: topology.racks.get(TopicPartition(problem.topics[key.topic], key.partition), none)
            for key in problem.all_partitions(range(len(problem.topics)))
        }
        self._nearby = {key: sum(members_of_rack.get(rack, 0) for rack in those) for key, those in racks.items()}
        every_rack = none.union(*racks.values())
        if every_rack.isdisjoint(members_of_rack) or all(those == every_rack for those in racks.values()):
            return
        self.usable = True
        self._partition_racks = racks
        self._member_racks = member_racks

    def mismatch(self, member: int, key: Key) -> bool:
        """Whether the member has a rack, and the partition has no replica in it."""
        rack = self._member_racks[member]
        return rack is not None and rack not in self._partition_racks[key]

    def match(self, member: int, key: Key) -> bool:
        """Whether the member has a rack, and the partition has a replica in it."""
        rack = self._member_racks[member]
        return rack is not None and rack in self._partition_racks[key]

    def fewest_nearby_first(self, keys: list[Key]) -> list[Key]:
        """Sort by the number of members with a replica in their rack, ascending; ties keep their order."""
        if not self._nearby:
            return keys
        return sorted(keys, key=self._nearby.__getitem__)

    def next_near(self, key: Key, members: Sequence[int], start: int) -> int:
        """Index of the first of `members` with a replica in its rack, in a circle from `start`; -1 for none."""
        for step in range(len(members)):
            index = (start + step) % len(members)
            if self.match(members[index], key):
                return index
        return -1
