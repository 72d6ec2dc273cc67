"""What every handler gets: the replica's surface, authorisation, and the settings of this room."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from muster_coordinator.api.authorize import (
    CLUSTER,
    DENIED,
    Authorize,
    Operation,
    Resource,
    ResourceType,
    allow_all,
    operations_mask,
)
from muster_coordinator.api.standard_authorizer import StandardAuthorizer
from muster_coordinator.api.topic_values import ServerValues
from muster_coordinator.api.transaction_verifier import TransactionVerifier
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import Topic
from muster_coordinator.controller.topic_configs import OF_REDIS, items
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.limits import REFUSED_AFTER_MS
from muster_coordinator.replica.partitions.surface import Surface
from muster_coordinator.topics.stores import EMBEDDED, KAFKA, NONE, REDIS, STORE_CONFIG, Capability, TopicStore
from muster_coordinator.upstream.view import UpstreamView
from muster_coordinator.wire.exchange import CLOSE, Exchange


class TopicsMode(Enum):
    """`topics.mode` (decision 26)."""

    EMBEDDED = "embedded"
    REDIS = "redis"
    """Topics that are made are Redis Streams, unless they say otherwise (`topic.store`)."""
    KAFKA = "kafka"
    """Coordination for topics of an upstream Kafka, to which everything else is passed on (ADR 96)."""
    NONE = "none"
    """Coordination only: commits for any topic name are accepted, and the offsets topic is the only topic."""


STORES: dict[TopicsMode, TopicStore] = {
    TopicsMode.EMBEDDED: EMBEDDED,
    TopicsMode.REDIS: REDIS,
    TopicsMode.KAFKA: KAFKA,
    TopicsMode.NONE: NONE,
}


def configs_error(store: TopicStore, overrides: Mapping[str, str]) -> str | None:
    """Why a topic of this store cannot have these overrides, each of which is valid by itself; or None."""
    if "compact" in items(overrides, "cleanup.policy") and not store.can(Capability.COMPACTION):
        return f"cleanup.policy: topics in the store {store.name} cannot be compacted"
    of_redis = sorted(OF_REDIS & overrides.keys())
    if of_redis and store is not REDIS:
        return f"{of_redis[0]}: only topics in the store {REDIS.name} have it"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """Settings of this room; keys are Kafka's where Kafka has them."""

    topics_mode: TopicsMode
    redis: bool
    """Whether the configuration names a Redis, so that a topic may be there."""
    redis_prefix: str
    """Of the keys that are ours there."""
    num_partitions: int
    """Partitions of a topic whose creator leaves the number to us."""
    replication_factor: int
    """Replicas of such a topic's partitions, if the cluster's brokers allow as many."""
    delete_topic_enable: bool
    auto_create_topics: bool
    """`auto.create.topics.enable`: Metadata creates a topic that is asked for by name (`auto_create`)."""
    followers_serve: bool
    """`replica.selector.class` names the rack aware one (KIP-392)."""
    fetch_session_slots: int
    """`max.incremental.fetch.session.cache.slots`."""
    transaction_partitions: int
    """`transaction.state.log.num.partitions`, of the log that is made at first use."""
    broker_configs: tuple[tuple[str, str], ...]
    """(name, value) shown read-only by DescribeConfigs of this broker."""
    file_keys: frozenset[str]
    """Those of them that the file has; the others are defaults."""
    topic_values: ServerValues
    """Of topics that do not say it themselves."""
    coordinator_base: int
    """What is added to a replica's id in what clients are told, so that it is no upstream broker's; 0 without one."""
    internal_values: Mapping[str, ServerValues]
    """Internal topic -> what the settings make of it."""


class Services:
    """Shared by all handlers; holds no state of its own."""

    __slots__ = ("authorize", "authorizer", "open", "settings", "store", "surface", "upstream", "verifier")

    def __init__(
        self,
        surface: Surface,
        settings: ApiSettings,
        authorize: Authorize = allow_all,
        *,
        verifier: TransactionVerifier | None = None,
        upstream: UpstreamView | None = None,
    ) -> None:
        self.surface = surface
        self.upstream = upstream
        """The Kafka whose topics are used; None: there is none."""
        self.verifier = verifier
        """Who knows whether a partition is in a transaction; None: nobody does, and no transactional batch is taken."""
        self.settings = settings
        self.store = STORES[settings.topics_mode]
        """Where the topics of this cluster are."""
        self.authorize = authorize
        self.open = authorize is allow_all
        """Every client may perform every operation, so a handler need not know the principal."""
        self.authorizer = authorize if isinstance(authorize, StandardAuthorizer) else None
        """Who decides by ACLs; None: nobody does."""

    def refuse_later(self, reply: Exchange, why: str) -> None:
        """Close the client's connection after a pause, since it would come again at once. What it sends meanwhile is
        not read: a request must not be served behind one that is not."""
        loop = self.surface.loop
        reply.pause_reading(2 * REFUSED_AFTER_MS)
        loop.call_at(loop.monotonic_ms() + REFUSED_AFTER_MS, lambda: reply.last(CLOSE, why))

    def store_of(self, topic: Topic) -> TopicStore:
        """Where this topic is; what we write ourselves is always in our own segments."""
        named = dict(topic.configs).get(STORE_CONFIG)
        if named is not None:
            return REDIS if named == REDIS.name else EMBEDDED
        return EMBEDDED if topic.internal or self.store is REDIS else self.store

    def store_for(self, named: str | None) -> TopicStore:
        """Where a topic that is made is to be. Raises ApiError if this cluster has no such store."""
        if named is None:
            return self.store
        if named != EMBEDDED.name and not (named == REDIS.name and self.settings.redis):
            raise ApiError(Code.INVALID_CONFIG, f"{STORE_CONFIG}: this cluster has no store {named}")
        return REDIS if named == REDIS.name else EMBEDDED

    def may_topic(self, context: RequestContext, operation: Operation, topic: str) -> bool:
        """Whether the client may perform the operation on this topic."""
        return self.open or self.authorize(context, operation, Resource(ResourceType.TOPIC, topic))

    def may_group(self, context: RequestContext, operation: Operation, group: str) -> bool:
        """Whether the client may perform the operation on this group."""
        return self.open or self.authorize(context, operation, Resource(ResourceType.GROUP, group))

    def may_transact(self, context: RequestContext, operation: Operation, transactional_id: str) -> bool:
        """Whether the client may perform the operation on this transactional id."""
        named = Resource(ResourceType.TRANSACTIONAL_ID, transactional_id)
        return self.open or self.authorize(context, operation, named)

    def cluster_code(self, context: RequestContext, operation: Operation) -> Code:
        """NONE, or the code that denies the operation on the cluster."""
        return Code.NONE if self.authorize(context, operation, CLUSTER) else DENIED[ResourceType.CLUSTER]

    def operations(self, context: RequestContext, resource: Resource) -> int:
        """The bit field of the operations that the client may perform on the resource."""
        authorize = self.authorize if self.authorizer is None else self.authorizer.quietly
        return operations_mask(authorize, context, resource)

    def cluster_operations(self, context: RequestContext) -> int:
        """The bit field for the cluster; none for who may not describe it."""
        may = self.authorize(context, Operation.DESCRIBE, CLUSTER)
        return self.operations(context, CLUSTER) if may else 0

    def may_create(self, context: RequestContext, topic: str) -> bool:
        """Whether the client may create a topic of this name: by right to the cluster, or to the topic."""
        return self.open or (
            self.would_allow(context, Operation.CREATE, CLUSTER) or self.may_topic(context, Operation.CREATE, topic)
        )

    def may_write_idempotently(self, context: RequestContext) -> bool:
        """Whether the client may have a producer id: who may write to any topic may (KIP-679)."""
        authorizer = self.authorizer
        if authorizer is not None and authorizer.would_allow_any(context, Operation.WRITE, ResourceType.TOPIC):
            return True
        return self.authorize(context, Operation.IDEMPOTENT_WRITE, CLUSTER)

    def would_allow(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        """As `authorize`, where another right may stand in for this one: a no is reported to nobody."""
        return (self.authorizer.would_allow if self.authorizer is not None else self.authorize)(
            context, operation, resource
        )
