"""The upstream's ACLs, asked by a replica's own user: what groups here are judged by, too (ADR 100).

Problem: who may join a group or commit for it is said by ACLs that the upstream keeps, and only its brokers judge by
them. Mechanism: DescribeAcls without a filter tells all of them, to a user who may describe the cluster. An answer with
one that cannot be understood is none: whoever passed over a DENY would allow what is forbidden. Those about what nobody
asks for here, such as delegation tokens, are left out. What this does not do: judge (`security.decision`), or know the
super users of that Kafka.
"""

from collections.abc import Mapping
from typing import NamedTuple

from muster_coordinator.errors import Code, WireError
from muster_coordinator.security.acl import Acl
from muster_coordinator.security.resources import (
    AclOperation,
    AclResourceType,
    PatternType,
    Permission,
    ResourceType,
)
from muster_coordinator.upstream.apis import Offered
from muster_coordinator.upstream.frames import framed, read_answer
from muster_coordinator.upstream.limits import LOGIN_TOLD_CHARS_MAX
from muster_coordinator.wire.versions import VERSIONS, Api

_PATTERNS = frozenset((PatternType.LITERAL, PatternType.PREFIXED))
_PERMISSIONS = frozenset((Permission.ALLOW, Permission.DENY))
_TYPES = frozenset(ResourceType)
_WHY = {
    Code.CLUSTER_AUTHORIZATION_FAILED: "the replicas' user there has no right to describe the cluster",
    Code.SECURITY_DISABLED: "it has no authorizer",
}


class KnownAcls(NamedTuple):
    """As they were told last."""

    acls: frozenset[Acl]


class ToldAcls(NamedTuple):
    """An answer that has not been read."""

    version: int
    frame: bytes


def acls_version(versions: Mapping[int, Offered]) -> int:
    """The version in which to ask. Raises `WireError` if we have none in common."""
    theirs = versions.get(Api.DESCRIBE_ACLS)
    if theirs is None:
        raise WireError("it does not serve DescribeAcls")
    version = min(theirs.high, VERSIONS[Api.DESCRIBE_ACLS].max)
    if version < max(theirs.low, VERSIONS[Api.DESCRIBE_ACLS].min):
        raise WireError(f"it serves DescribeAcls in versions {theirs.low} to {theirs.high} only")
    return version


def ask_acls(version: int, correlation: int) -> bytes:
    """The request for all of them."""
    asked = {
        "resource_type_filter": AclResourceType.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": AclOperation.ANY,
        "permission_type": Permission.ANY,
    }
    return framed(Api.DESCRIBE_ACLS, version, correlation, asked)


def read_acls(told: ToldAcls) -> frozenset[Acl]:
    """Of its answer. Raises `WireError`."""
    answer = read_answer(Api.DESCRIBE_ACLS, told.version, told.frame)
    if answer.error_code:
        said = (answer.error_message or "")[:LOGIN_TOLD_CHARS_MAX]
        raise WireError(
            _WHY.get(answer.error_code) or f"DescribeAcls is answered with error {answer.error_code}: {said}"
        )
    return frozenset(
        _checked(
            Acl(
                resource.resource_type,
                resource.resource_name,
                resource.pattern_type,
                entry.principal,
                entry.host,
                entry.operation,
                entry.permission_type,
            )
        )
        for resource in answer.resources
        if resource.resource_type in _TYPES
        for entry in resource.acls
    )


def _checked(acl: Acl) -> Acl:
    """An operation that is not known here is asked for by nobody here, so it may be any."""
    if acl.pattern not in _PATTERNS or acl.permission not in _PERMISSIONS:
        raise WireError(f"an ACL with pattern {acl.pattern} and permission {acl.permission}, which are not known here")
    return acl
