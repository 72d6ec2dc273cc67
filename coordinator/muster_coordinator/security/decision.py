"""Who may do what: the rules of Kafka's StandardAuthorizer, over an `AclIndex`. Pure.

A super user may do everything. Else an entry that denies goes before any that allows; without either the answer is
no, but where no ACL names the resource at all it is `allow_if_no_acl`. Leave to read, write, delete or alter is leave
to describe, and leave to alter configs is leave to describe them; what denies denies only the operation that it names.

What it does not do: know connections (`api.standard_authorizer`).
"""

from enum import Enum

from muster_coordinator.security.acl import ANY_PRINCIPAL, WILDCARD, Acl
from muster_coordinator.security.acl_index import AclIndex
from muster_coordinator.security.resources import (
    AclOperation,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceType,
)

_IMPLIED_BY: dict[int, frozenset[int]] = {
    Operation.DESCRIBE: frozenset(
        (Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
    ),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)),
}

_ANY_NAME = "hardcode"
"""The name of a topic by which Kafka asks for what holds for all."""


class Rule(Enum):
    """Why the answer is what it is."""

    SUPER_USER = "super user"
    DENY = "an ACL denies it"
    ALLOW = "an ACL allows it"
    NO_ALLOW = "no ACL allows it"
    NO_ACL = "no ACL names the resource"


def judge(index: AclIndex, principal: str, host: str, operation: Operation, resource: Resource) -> Rule:
    """The rule that decides, for one who is no super user. `host` is an address without anything around it."""
    named = allowed = False
    for entries in index.of(resource.type, resource.name):
        named = True
        for who in (principal, ANY_PRINCIPAL):
            for acl in entries.get(who, ()):
                if acl.host not in (WILDCARD, host) or not _is_about(acl, operation):
                    continue
                if acl.permission == Permission.DENY:
                    return Rule.DENY
                allowed = True
    if allowed:
        return Rule.ALLOW
    return Rule.NO_ALLOW if named else Rule.NO_ACL


def _is_about(acl: Acl, operation: int) -> bool:
    if acl.operation in (AclOperation.ALL, operation):
        return True
    return acl.permission == Permission.ALLOW and acl.operation in _IMPLIED_BY.get(operation, ())


def allows(rule: Rule, *, if_no_acl: bool) -> bool:
    """Does the rule let the client do it? `if_no_acl`: `allow.everyone.if.no.acl.found`."""
    return rule in (Rule.SUPER_USER, Rule.ALLOW) or (rule is Rule.NO_ACL and if_no_acl)


def allows_any_of_type(
    index: AclIndex, principal: str, host: str, operation: Operation, kind: ResourceType, *, if_no_acl: bool
) -> bool:
    """May the client do this to some resource of the type? Kafka's Authorizer.authorizeByResourceType: yes, if it may
    to one that is named "hardcode", or if an entry allows it whose pattern no denied pattern covers, and nothing
    denies it for all. The second asks for the operation itself, not for what implies it."""
    if allows(judge(index, principal, host, operation, Resource(kind, _ANY_NAME)), if_no_acl=if_no_acl):
        return True
    denied_literal: set[str] = set()
    denied_prefixes: set[str] = set()
    allowed: list[Acl] = []
    for who in dict.fromkeys((principal, ANY_PRINCIPAL)):
        for acl in index.of_principal(kind, who):
            if acl.host not in (WILDCARD, host) or acl.operation not in (AclOperation.ALL, operation):
                continue
            if acl.permission == Permission.ALLOW:
                allowed.append(acl)
            elif acl.pattern == PatternType.PREFIXED:
                denied_prefixes.add(acl.name)
            elif acl.name == WILDCARD:
                return False
            else:
                denied_literal.add(acl.name)
    return any(_survives(acl, denied_literal, denied_prefixes) for acl in allowed)


def _survives(acl: Acl, denied_literal: set[str], denied_prefixes: set[str]) -> bool:
    name = acl.name
    if acl.pattern == PatternType.LITERAL:
        if name == WILDCARD:
            return True
        if name in denied_literal:
            return False
    return not any(name[:length] in denied_prefixes for length in range(1, len(name) + 1))
