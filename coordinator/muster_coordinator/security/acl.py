"""One access control entry, what makes it valid, and the filters that find entries: Kafka's rules. Pure values.

Kafka's AclBinding is a pattern of resources (type, name, LITERAL or PREFIXED) and an entry (principal, host, operation,
ALLOW or DENY). `Acl` has the seven in one tuple, whose order is that of checkpoints and answers.
"""

from typing import NamedTuple

from muster_coordinator.security import limits
from muster_coordinator.security.resources import CLUSTER, AclOperation, AclResourceType, PatternType, Permission

WILDCARD = "*"
"""Any host; as a LITERAL name, every resource of the type."""
ANY_PRINCIPAL = "User:*"


class Acl(NamedTuple):
    """Numbers, not enums: they are in the log for years and are compared and sorted by the thousand."""

    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class AclFilter(NamedTuple):
    """As `Acl`; None matches anything, and so does ANY. With MATCH the name is a resource's, and every pattern is found
    that holds for it."""

    resource_type: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: Acl) -> bool:
        """Kafka's AclBindingFilter.matches."""
        return (
            self.resource_type in (AclResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern != PatternType.MATCH:
            return self.name == acl.name
        if acl.pattern == PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, WILDCARD)


_TYPES = frozenset(AclResourceType) - {AclResourceType.ANY}
_OPERATIONS = frozenset(AclOperation) - {AclOperation.ANY}


def acl_error(acl: Acl) -> str | None:
    """Why this is no ACL (Kafka answers INVALID_REQUEST); None if it is one. Kafka's checks, and our bounds."""
    if acl.resource_type not in _TYPES:
        return f"Invalid resourceType {acl.resource_type}"
    if acl.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {acl.pattern}"
    if acl.operation not in _OPERATIONS:
        return f"Invalid operation {acl.operation}"
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        return f"Invalid permissionType {acl.permission}"
    if not acl.name:
        return "Resource name should not be empty"
    if acl.resource_type == AclResourceType.CLUSTER and acl.name != CLUSTER.name:
        return f"The only valid name for the CLUSTER resource is {CLUSTER.name}"
    if ":" not in acl.principal:
        return f"Could not parse principal from `{acl.principal[:100]}` (no colon is present)"
    if max(len(acl.name), len(acl.principal), len(acl.host)) > limits.ACL_TEXT_CHARS_MAX:
        return f"a name, principal or host of an ACL has at most {limits.ACL_TEXT_CHARS_MAX} characters"
    return None


def filter_error(wanted: AclFilter) -> str | None:
    """Why this is no filter (INVALID_REQUEST); None if it is one."""
    if wanted.resource_type not in frozenset(AclResourceType) or wanted.pattern not in frozenset(PatternType):
        return "Unknown patternFilter."
    if wanted.operation not in frozenset(AclOperation) or wanted.permission not in frozenset(Permission):
        return "Unknown entryFilter."
    return None


def size_bytes(acl: Acl) -> int:
    """At most this many bytes of a command."""
    return 4 * (len(acl.name) + len(acl.principal) + len(acl.host)) + 32
