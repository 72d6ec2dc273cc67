"""What may be done to what: Kafka's operations, types of resources and patterns, with the numbers of its protocol.

`Operation` and `ResourceType` are what a handler asks about. In an ACL or a filter there are more numbers (ALL, ANY,
types that nothing here has, such as delegation tokens): those are `AclOperation` and `AclResourceType`.
"""

from enum import IntEnum
from typing import NamedTuple


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


class AclOperation(IntEnum):
    """As `Operation`, with what only ACLs and filters say."""

    ANY = 1
    ALL = 2
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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclResourceType(IntEnum):
    """As `ResourceType`, with what only ACLs and filters say."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """Numbers of org.apache.kafka.common.resource.PatternType."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Numbers of org.apache.kafka.common.acl.AclPermissionType."""

    ANY = 1
    DENY = 2
    ALLOW = 3
