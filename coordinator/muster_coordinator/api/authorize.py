"""Authorisation (decision 11): every handler asks it before it reads any state.

The default allows everything. With `authorizer.class.name` set, `standard_authorizer` decides by the ACLs of the image.
Handlers return the right code for each kind of resource (docs/authorization.md, with Kafka's mapping of APIs to
operations).
"""

from collections.abc import Callable

from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.security.resources import CLUSTER, Operation, Resource, ResourceType

__all__ = ["CLUSTER", "DENIED", "Authorize", "Operation", "Resource", "ResourceType", "allow_all", "operations_mask"]


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
