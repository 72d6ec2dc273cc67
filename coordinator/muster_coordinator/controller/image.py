"""The cluster as recorded in the controller log: brokers, topics, routing, feature level. Immutable; replaced at apply.

Every replica has a copy (it is a voter of the controller group), so Metadata and FindCoordinator need no request to
another replica. `machine.ControllerMachine` owns the transitions (COMMAND entries of Raft group 0, `commands`). A
request takes one image at its start and uses it to its end.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from muster_coordinator.ids import BrokerId, GroupNo


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Advertised address of one listener of one broker."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A registered replica. It registers at each start, which clears `draining` (architecture "Drain")."""

    broker: BrokerId
    replica_uuid: bytes
    """16 bytes, chosen when the data folder was created (decision 14)."""
    incarnation: int
    """How often a replica has started with that data folder."""
    endpoints: tuple[Endpoint, ...]
    admin: str
    """host:port of the admin listener, for 421 answers (decision 37)."""
    draining: bool
    feature_max: int
    """Highest feature level that the broker's binary supports (decision 16)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition of a topic: a Raft group and its voters."""

    group: GroupNo
    voters: tuple[BrokerId, ...]
    """All voters of the cluster, rotated by the partition's index."""

    @property
    def preferred(self) -> BrokerId:
        """The broker that takes leadership back when it has caught up (decision 18): `voters[group mod n]`."""
        return self.voters[self.group % len(self.voters)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic. A re-created one has another id and other Raft groups; neither is ever reused."""

    name: str
    topic_id: bytes
    """16 bytes, random, never zero, never reused."""
    partitions: tuple[Partition, ...]
    configs: tuple[tuple[str, str], ...]
    """Overrides only, sorted by name."""
    internal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Which offsets partition a consumer group belongs to (decision 13). Overrides and epoch are for moving groups,
    which does not exist yet."""

    offsets_partitions: int
    epoch: int = 0
    overrides: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """The whole controller state at one applied index."""

    applied: int
    cluster_id: str
    """A uuid in 22 characters of URL-safe base64, like Kafka's."""
    voters: tuple[BrokerId, ...]
    brokers: Mapping[BrokerId, Broker]
    topics: Mapping[str, Topic]
    names_by_id: Mapping[bytes, str]
    deleted_topic_ids: frozenset[bytes]
    """Ids that were topics' and are deleted: the evidence for tombstones of their offsets (decision 27)."""
    routing: Routing
    feature_level: int
    next_group: GroupNo
    next_producer_id: int
    """First id of the next block of `limits.PRODUCER_ID_BLOCK`."""


OFFSETS_TOPIC = "__consumer_offsets"
EMPTY_ID = bytes(16)
