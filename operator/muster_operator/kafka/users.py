"""One user: its SCRAM credentials, its ACLs, its quotas: look and change. Blocking.

ACLs are removed one by one, each by a filter that can match no other. A cluster without an authorizer has no ACLs to
show: it is told apart from one that has none.
"""

from collections.abc import Sequence
from typing import Any, Final

import kafka.errors
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from muster_operator.errors import Refused
from muster_operator.kafka.quotas import user_quotas
from muster_operator.kafka.topics import judge
from muster_operator.limits import MESSAGE_CHARS_MAX
from muster_operator.world.kafka_object import Acl, RemoveCredential, SetPassword, UserView

Untyped = Any
_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.CLUSTER,
    "transactionalId": ResourceType.TRANSACTIONAL_ID,
}
_RESOURCE_WORDS: Final = {value: word for word, value in _RESOURCES.items()}
_PATTERNS: Final = {"literal": ACLResourcePatternType.LITERAL, "prefixed": ACLResourcePatternType.PREFIXED}
_PATTERN_WORDS: Final = {value: word for word, value in _PATTERNS.items()}
_PERMISSIONS: Final = {"allow": ACLPermissionType.ALLOW, "deny": ACLPermissionType.DENY}
_PERMISSION_WORDS: Final = {value: word for word, value in _PERMISSIONS.items()}


def look(admin: Untyped, name: str, principal: str, *, credentials: bool, acls: bool, quotas: bool) -> UserView:
    """Only what is asked for is asked: the rest is empty. Raises kafka.errors.KafkaError."""
    return UserView(
        mechanisms=_mechanisms(admin, name) if credentials else frozenset(),
        acls=_acls(admin, principal) if acls else (),
        quotas=user_quotas(admin, name) if quotas else {},
    )


def _mechanisms(admin: Untyped, name: str) -> frozenset[str]:
    """An error about the one user means that it has no credentials; any other error is raised."""
    found = admin.describe_user_scram_credentials([name]).get(name) or {}
    return frozenset(one["mechanism"].name.replace("_", "-") for one in found.get("credential_infos") or ())


def set_password(admin: Untyped, change: SetPassword, password: str) -> None:
    _alter(admin, UserScramCredentialUpsertion(change.user, change.mechanism, password), change.user)


def remove_credential(admin: Untyped, change: RemoveCredential) -> None:
    _alter(admin, UserScramCredentialDeletion(change.user, change.mechanism), change.user)


def _alter(admin: Untyped, change: Untyped, user: str) -> None:
    answer = admin.alter_user_scram_credentials([change])
    for said in answer.values():
        if said is not None:
            raise Refused("ClusterRefuses", f"credentials of {user}: {said}"[:MESSAGE_CHARS_MAX])
    if user not in answer:
        raise Refused("ClusterRefuses", f"credentials of {user}: the cluster has not answered about them")


def _acls(admin: Untyped, principal: str) -> tuple[Acl, ...] | None:
    every = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    wanted = ACLFilter(principal, None, ACLOperation.ANY, ACLPermissionType.ANY, every)
    try:
        found, _ = admin.describe_acls(wanted)
    except kafka.errors.SecurityDisabledError:
        return None
    return tuple(sorted(_from_kafka(one) for one in found if one.principal == principal))


def add_acls(admin: Untyped, principal: str, acls: Sequence[Acl]) -> None:
    answer = admin.create_acls([_to_kafka(principal, one, ACL, ResourcePattern) for one in acls])
    for failed in answer["failed"]:
        judge(int(failed.errno), f"ACLs of {principal}", None)


def remove_acls(admin: Untyped, principal: str, acls: Sequence[Acl]) -> None:
    answer = admin.delete_acls([_to_kafka(principal, one, ACLFilter, ResourcePatternFilter) for one in acls])
    for _, _, failed in answer:
        judge(int(failed.errno), f"ACLs of {principal}", None)


def _to_kafka(principal: str, acl: Acl, kind: Untyped, pattern: Untyped) -> Untyped:
    of = pattern(_RESOURCES[acl.resource], acl.name, _PATTERNS[acl.pattern])
    operation = ACLOperation[_upper(acl.operation)]
    return kind(principal, acl.host, operation, _PERMISSIONS[acl.permission], of)


def _from_kafka(found: Untyped) -> Acl:
    of = found.resource_pattern
    return Acl(
        permission=_PERMISSION_WORDS.get(found.permission_type, found.permission_type.name),
        operation=_word(found.operation.name),
        host=str(found.host),
        resource=_RESOURCE_WORDS.get(of.resource_type, of.resource_type.name),
        pattern=_PATTERN_WORDS.get(of.pattern_type, of.pattern_type.name),
        name=str(of.resource_name),
    )


def _upper(operation: str) -> str:
    """`DescribeConfigs` → `DESCRIBE_CONFIGS`."""
    return "".join(f"_{one}" if one.isupper() else one.upper() for one in operation).lstrip("_")


def _word(operation: str) -> str:
    return "".join(part.capitalize() for part in operation.split("_"))
