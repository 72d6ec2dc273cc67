"""Which ACLs a line of `muster acl` means: Kafka's own tool's rules. Pure.

A line names resources, principals, hosts and operations, and means every combination of them. `--producer` and
`--consumer` stand for the operations that such a client needs, resource by resource. What this does not do: ask a
cluster (`acls`).
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from muster_coordinator.security.acl import WILDCARD, Acl, AclFilter
from muster_coordinator.security.resources import CLUSTER, AclOperation, AclResourceType, PatternType, Permission

_OF_A_PRODUCER = {
    AclResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    AclResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
_OF_A_CONSUMER = {
    AclResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    AclResourceType.GROUP: (AclOperation.READ,),
}


class Resources(NamedTuple):
    """What a line names."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    transactional_ids: Sequence[str] = ()
    cluster: bool = False

    def named(self) -> Iterator[tuple[AclResourceType, str]]:
        yield from ((AclResourceType.TOPIC, name) for name in self.topics)
        yield from ((AclResourceType.GROUP, name) for name in self.groups)
        yield from ((AclResourceType.TRANSACTIONAL_ID, name) for name in self.transactional_ids)
        if self.cluster:
            yield AclResourceType.CLUSTER, CLUSTER.name


class Granted(NamedTuple):
    """Who may, or may not, and from where."""

    allowed: Sequence[str] = ()
    denied: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    denied_hosts: Sequence[str] = ()

    def entries(self) -> Iterator[tuple[str, str, Permission]]:
        for principal, host in product(self.allowed, self.allowed_hosts or (WILDCARD,)):
            yield principal, host, Permission.ALLOW
        for principal, host in product(self.denied, self.denied_hosts or (WILDCARD,)):
            yield principal, host, Permission.DENY


def added(
    resources: Resources,
    granted: Granted,
    operations: Sequence[AclOperation],
    *,
    producer: bool = False,
    consumer: bool = False,
    idempotent: bool = False,
    pattern: PatternType = PatternType.LITERAL,
) -> tuple[Acl, ...]:
    """The ACLs to add, each once. Raises ValueError for a line that means none, or not what it seems to."""
    if not list(granted.entries()):
        raise ValueError("name somebody: --allow-principal User:NAME or --deny-principal User:NAME")
    if (granted.allowed_hosts and not granted.allowed) or (granted.denied_hosts and not granted.denied):
        raise ValueError("a host goes with a principal that is allowed, or denied, from there")
    if producer or consumer:
        found = list(_of_clients(resources, operations, producer=producer, consumer=consumer, idempotent=idempotent))
    elif idempotent:
        raise ValueError("--idempotent goes with --producer")
    else:
        found = [(kind, name, one) for kind, name in resources.named() for one in operations or (AclOperation.ALL,)]
    if not found:
        raise ValueError("name a resource: --topic, --group, --transactional-id or --cluster")
    return tuple(
        dict.fromkeys(
            Acl(kind, name, _pattern_of(kind, pattern), principal, host, operation, permission)
            for kind, name, operation in found
            for principal, host, permission in granted.entries()
        )
    )


def _pattern_of(kind: AclResourceType, pattern: PatternType) -> PatternType:
    """The cluster has one name, which is no prefix of anything."""
    return PatternType.LITERAL if kind is AclResourceType.CLUSTER else pattern


def _of_clients(
    resources: Resources, operations: Sequence[AclOperation], *, producer: bool, consumer: bool, idempotent: bool
) -> Iterator[tuple[AclResourceType, str, AclOperation]]:
    if operations:
        raise ValueError("--producer and --consumer say which operations; leave --operation out")
    if resources.cluster:
        raise ValueError("--producer and --consumer need no right to the cluster but --idempotent's")
    if not resources.topics:
        raise ValueError("--producer and --consumer need --topic")
    if consumer and not resources.groups:
        raise ValueError("--consumer needs --group")
    if (resources.groups and not consumer) or (resources.transactional_ids and not producer):
        raise ValueError("--group goes with --consumer, --transactional-id with --producer")
    for wanted, needs in ((producer, _OF_A_PRODUCER), (consumer, _OF_A_CONSUMER)):
        for kind, name in resources.named() if wanted else ():
            yield from ((kind, name, one) for one in needs.get(kind, ()))
    if idempotent:
        if not producer:
            raise ValueError("--idempotent goes with --producer")
        yield AclResourceType.CLUSTER, CLUSTER.name, AclOperation.IDEMPOTENT_WRITE


def filters(
    resources: Resources,
    *,
    principals: Sequence[str] = (),
    operations: Sequence[AclOperation] = (),
    permission: Permission = Permission.ANY,
    host: str | None = None,
    pattern: PatternType = PatternType.ANY,
) -> tuple[AclFilter, ...]:
    """The filters that together find what a line of `list` or `remove` means."""
    named: list[tuple[AclResourceType, str | None]] = list(resources.named())
    return tuple(
        AclFilter(kind, name, pattern, principal, host, operation, permission)
        for kind, name in named or [(AclResourceType.ANY, None)]
        for principal in principals or (None,)
        for operation in operations or (AclOperation.ANY,)
    )


def word(number: int, kind: type[AclOperation] | type[AclResourceType] | type[PatternType] | type[Permission]) -> str:
    """The name as Kafka's tools print it; the number of one that this release does not know."""
    return kind(number).name if number in frozenset(kind) else str(number)


def operation_of(text: str) -> AclOperation:
    """`Read`, `IdempotentWrite`, `idempotent_write`. Raises ValueError."""
    wanted = text.replace("_", "").replace("-", "").lower()
    for one in AclOperation:
        if one is not AclOperation.ANY and one.name.replace("_", "").lower() == wanted:
            return one
    known = ", ".join(one.name.title().replace("_", "") for one in AclOperation if one is not AclOperation.ANY)
    raise ValueError(f"{text} is none of {known}")
