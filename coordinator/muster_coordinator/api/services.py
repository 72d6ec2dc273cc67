"""What every handler is made with: the replica, the right to ask, and the settings of this room."""

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
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.replica.partitions.surface import Surface


class TopicsMode(Enum):
    """`topics.mode` (decision 26)."""

    EMBEDDED = "embedded"
    NONE = "none"
    """Coordination alone: commits for any topic name are taken, and there are no topics but the offsets topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """Settings of this room; keys and defaults are Kafka's where Kafka has them."""

    topics_mode: TopicsMode = TopicsMode.EMBEDDED
    num_partitions: int = 1
    """Partitions of a topic whose creator leaves the number to us."""
    delete_topic_enable: bool = True
    auto_create_topics: bool = False
    """`auto.create.topics.enable`: Metadata creates a topic that is asked for by name (`auto_create`)."""
    broker_configs: tuple[tuple[str, str], ...] = ()
    """(name, value) shown read-only by DescribeConfigs of this broker."""


class Services:
    """Shared by all handlers; holds no state of its own."""

    __slots__ = ("authorize", "open", "settings", "surface")

    def __init__(self, surface: Surface, settings: ApiSettings, authorize: Authorize = allow_all) -> None:
        self.surface = surface
        self.settings = settings
        self.authorize = authorize
        self.open = authorize is allow_all
        """Everybody may do everything, so a handler need not know who asks."""

    def may_topic(self, context: RequestContext, operation: Operation, topic: str) -> bool:
        """Ask about a topic by name."""
        return self.open or self.authorize(context, operation, Resource(ResourceType.TOPIC, topic))

    def may_group(self, context: RequestContext, operation: Operation, group: str) -> bool:
        """Ask about a group."""
        return self.open or self.authorize(context, operation, Resource(ResourceType.GROUP, group))

    def cluster_code(self, context: RequestContext, operation: Operation) -> Code:
        """NONE, or the code that refuses an operation on the cluster."""
        return Code.NONE if self.authorize(context, operation, CLUSTER) else DENIED[ResourceType.CLUSTER]

    def operations(self, context: RequestContext, resource: Resource) -> int:
        """Bit field of what the caller may do."""
        return operations_mask(self.authorize, context, resource)
