"""Authorisation (decision 11): every handler asks it before it reads any state.

The default allows everything. An ACL store will replace `allow_all` by another `Authorize`; handlers already return the
right code for each kind of resource (protocol notes 4.1, with Kafka's mapping of APIs to operations).
"""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code


class Operation(IntEnum):
    """Numbers of org.apache.kafka.common.acl.AclOperation; they are also the bits of `authorized_operations`."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourceType(IntEnum):
    """Numbers of org.apache.kafka.common.resource.ResourceType."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Resource(NamedTuple):
    """What an operation acts on; the cluster's own name is `kafka-cluster`."""

    type: ResourceType
    name: str


CLUSTER = Resource(ResourceType.CLUSTER, "kafka-cluster")
Authorize = Callable[[RequestContext, Operation, Resource], bool]

DENIED = {
    ResourceType.TOPIC: Code.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: Code.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: Code.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error code of a denied operation, by type of resource."""

_SUPPORTED = {
    ResourceType.TOPIC: (
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE, Operation.DELETE, Operation.ALTER,
        Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DESCRIBE, Operation.DELETE),
    ResourceType.CLUSTER: (
        Operation.CREATE, Operation.CLUSTER_ACTION, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE, Operation.ALTER, Operation.DESCRIBE,
    ),
}  # fmt: skip


def allow_all(_context: RequestContext, _operation: Operation, _resource: Resource) -> bool:
    """There are no ACLs: every client may perform every operation."""
    return True


def operations_mask(authorize: Authorize, context: RequestContext, resource: Resource) -> int:
    """The bit field `authorized_operations` of Metadata, DescribeCluster and DescribeGroups (KIP-430)."""
    return sum(1 << operation for operation in _SUPPORTED[resource.type] if authorize(context, operation, resource))
