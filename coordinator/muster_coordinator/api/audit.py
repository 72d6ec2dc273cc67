"""One line of the stream `muster.audit` for each request that changes what a cluster is or who may use it (ADR 54).

Topics, partitions, records, configs, groups and their offsets, ACLs, quotas, leaders, replicas, features: who asked,
from where, for which resources, and what it was answered, also when that was no. It is told when the answer is there; a
request whose client is gone by then is told as well, and so is one that went on to an existing Kafka, which tells
nobody who asked (ADR 101): if no answer came, nobody knows what became of it. With an authorizer, commits without a
generation are told too, because that is how offsets are reset. Without one they are not: no client has shown who it is,
and consumers that choose their partitions themselves commit in that way all the time. A LeaveGroup is told where it
removes others: a member leaves alone, by its member id.

What a request says besides (values of configs, keys of users, records) is never told.
"""

from collections.abc import Callable, Iterator, Mapping

from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.events import AUDITED, Event, Tell
from muster_coordinator.wire.answer_errors import errors_in
from muster_coordinator.wire.exchange import CLOSE
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.versions import Api

NAMES_MAX = 20
"""Resources of one request that its line names; of more, their number is told."""
UNHEARD = "connection closed"
"""What becomes of a request while nobody knows who may do what (`standard_authorizer`)."""
UNANSWERED = "not answered: what became of it is not known"
"""By an existing Kafka, to which it went on."""
_CONFIG_TYPES = {2: "topic", 4: "broker", 8: "logger", 16: "metrics", 32: "group"}


def _named(kind: str, names: Iterator[str]) -> Iterator[str]:
    return (f"{kind}:{name}" for name in names)


def _configs(request: Value) -> Iterator[str]:
    types = _CONFIG_TYPES
    return (f"{types.get(one.resource_type, one.resource_type)}:{one.resource_name}" for one in request.resources)


def _deleted_topics(request: Value) -> Iterator[str]:
    names = [*request.topic_names, *(one.name or one.topic_id.hex() for one in request.topics)]
    return _named("topic", iter(names))


def _acls(request: Value) -> Iterator[str]:
    return (f"acl:{one.principal}:{one.resource_type}:{one.resource_name}" for one in request.creations)


def _filters(request: Value) -> Iterator[str]:
    return (
        f"acl:{one.principal_filter or '*'}:{one.resource_type_filter}:{one.resource_name_filter or '*'}"
        for one in request.filters
    )


def _quotas(request: Value) -> Iterator[str]:
    for entry in request.entries:
        yield "quota:" + ",".join(f"{part.entity_type}={part.entity_name}" for part in entry.entity)


def _of_topics(request: Value) -> Iterator[str]:
    return _named("topic", (one.name for one in request.topics))


def _elected(request: Value) -> Iterator[str]:
    return _named("topic", (one.topic for one in request.topic_partitions or ()))


def _users(request: Value) -> Iterator[str]:
    return _named("user", (one.name for one in (*request.deletions, *request.upsertions)))


RESOURCES: Mapping[int, Callable[[Value], Iterator[str]]] = {
    Api.CREATE_TOPICS: _of_topics,
    Api.DELETE_TOPICS: _deleted_topics,
    Api.DELETE_RECORDS: _of_topics,
    Api.CREATE_PARTITIONS: _of_topics,
    Api.ALTER_CONFIGS: _configs,
    Api.INCREMENTAL_ALTER_CONFIGS: _configs,
    Api.CREATE_ACLS: _acls,
    Api.DELETE_ACLS: _filters,
    Api.ALTER_CLIENT_QUOTAS: _quotas,
    Api.ALTER_USER_SCRAM_CREDENTIALS: _users,
    Api.DELETE_GROUPS: lambda request: _named("group", iter(request.groups_names)),
    Api.OFFSET_DELETE: lambda request: _named("group", iter((request.group_id,))),
    Api.ELECT_LEADERS: _elected,
    Api.ALTER_PARTITION_REASSIGNMENTS: _of_topics,
    Api.WRITE_TXN_MARKERS: lambda request: _named(
        "topic", (topic.name for one in request.markers for topic in one.topics)
    ),
    Api.UPDATE_FEATURES: lambda request: _named("feature", (one.feature for one in request.feature_updates)),
    Api.UNREGISTER_BROKER: lambda request: _named("broker", iter((str(request.broker_id),))),
}
"""What each audited request names."""


def _reset(request: Value) -> Iterator[str]:
    return _named("group", iter((request.group,)))


def is_reset(request: Value) -> bool:
    """Is this commit no member's?"""
    return bool(request.generation < 0 and not request.member)


REMOVED_BY_ADMIN = "member was removed by an admin"
"""With what the reason of Java's Admin begins (`KafkaAdminClient.DEFAULT_LEAVE_GROUP_REASON`, KIP-800)."""


def is_removal(request: Value, version: int) -> bool:
    """Does this LeaveGroup remove others? Whoever removes one dynamic member by its id and says nothing is taken for
    that member: the request has nothing that tells them apart."""
    if version < 3:
        return False
    members = request.members
    return len(members) > 1 or any(
        not one.member_id or (version >= 5 and (one.reason or "").startswith(REMOVED_BY_ADMIN)) for one in members
    )


def _removed(request: Value) -> Iterator[str]:
    yield f"group:{request.group_id}"
    yield from _named("member", (one.group_instance_id or one.member_id for one in request.members))


class Audit:
    """Tells of audited requests; holds no state."""

    __slots__ = ("_resets", "_tell")

    def __init__(self, tell: Tell, *, resets: bool) -> None:
        self._tell = tell
        self._resets = resets

    def of(self, context: RequestContext, request: Value) -> Callable[[Value | None], None] | None:
        """What is to be called with the answer, or with None if there is none; None: the request is not audited."""
        resources = RESOURCES.get(context.api_key) or self._of_groups(context, request)
        if resources is None:
            return None
        named = list(resources(request))
        told = named if len(named) <= NAMES_MAX else [*named[:NAMES_MAX], f"and {len(named) - NAMES_MAX} more"]

        def answered(answer: Value | None) -> None:
            if answer is None or answer is CLOSE:
                result = UNANSWERED if answer is None else UNHEARD
            else:
                result = result_of([code for code in errors_in(context.api_key)(answer) if code])
            said = {
                "principal": context.principal,
                "peer": context.client_host.removeprefix("/"),
                "listener": context.listener,
                "client": context.client_id,
                "action": Api(context.api_key).name,
                "resources": ", ".join(told),
                "result": result,
            }
            self._tell(Event(AUDITED, said))

        return answered

    def _of_groups(self, context: RequestContext, request: Value) -> Callable[[Value], Iterator[str]] | None:
        """What it names, of a request that members of groups have too but is none of theirs."""
        if context.api_key == Api.LEAVE_GROUP:
            return _removed if is_removal(request, context.api_version) else None
        reset = self._resets and context.api_key == Api.OFFSET_COMMIT and is_reset(request)
        return _reset if reset else None


def result_of(codes: list[int]) -> str:
    """What was answered: done, or each error once."""
    if not codes:
        return "done"
    known = {int(code): code.name for code in Code}
    return ", ".join(sorted({known.get(code, str(code)) for code in codes}))
