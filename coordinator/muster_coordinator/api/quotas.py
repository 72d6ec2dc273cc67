"""DescribeClientQuotas and AlterClientQuotas: quotas are in the controller's log (ADR 54).

An alteration is one command with the quotas of all valid entities; each entity has its own answer, as in Kafka.
What this does not do: hold clients to their quotas.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from muster_coordinator.api import limits
from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.changes import DONE, Outcome, propose
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import AlterQuotas, QuotaChange
from muster_coordinator.errors import ApiError, Code
from muster_coordinator.security.limits import ACLS_OF_A_COMMAND_MAX
from muster_coordinator.security.quota_entities import (
    CLIENT_ID,
    DEFAULT,
    IP,
    USER,
    QuotaEntity,
    entity_error,
    entity_of,
    quota_error,
)
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_EXACT, _DEFAULT, _SPECIFIED = range(3)
"""Types of matches of a filter."""


class _Filter(NamedTuple):
    exact: dict[str, str]
    specified: frozenset[str]
    strict: bool

    def matches(self, entity: QuotaEntity) -> bool:
        """Kafka's ClientQuotasImage.matches."""
        named = dict(entity)
        if self.strict and len(named) != len(self.exact) + len(self.specified):
            return False
        return all(named.get(kind) == name for kind, name in self.exact.items()) and self.specified <= named.keys()


class Quotas:
    """Handlers of both."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def describe(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """DescribeClientQuotas v0-1, from this broker's image."""
        code = self._services.cluster_code(context, Operation.DESCRIBE_CONFIGS)
        try:
            if code is not Code.NONE:
                raise ApiError(code)
            wanted = _filter_of(request)
        except ApiError as error:
            reply({"error_code": error.code, "error_message": error.message or None, "entries": None})
            return
        image = self._services.surface.image()
        quotas = {} if image is None else image.quotas
        entries = [
            {"entity": _parts(entity), "values": [{"key": key, "value": value} for key, value in quotas[entity]]}
            for entity in sorted(quotas)
            if wanted.matches(entity)
        ]
        reply({"error_code": Code.NONE, "error_message": None, "entries": entries})

    def alter(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """AlterClientQuotas v0-1."""
        entries = request.entries
        code = self._services.cluster_code(context, Operation.ALTER_CONFIGS)
        if code is not Code.NONE:
            _answer(reply, entries, [Outcome(code)] * len(entries))
            return
        outcomes: list[Outcome] = []
        changes: list[QuotaChange] = []
        entities = [_entity_of(entry) for entry in entries]
        for at, entry in enumerate(entries):
            error = "Ignoring duplicate entity" if entities.count(entities[at]) > 1 else _entry_error(entry)
            outcomes.append(DONE if error is None else Outcome(Code.INVALID_REQUEST, error))
            if error is None:
                changes += _changes(entry)
        if len(changes) > ACLS_OF_A_COMMAND_MAX:
            many = Outcome(Code.INVALID_REQUEST, f"at most {ACLS_OF_A_COMMAND_MAX} quotas are changed at once")
            _answer(reply, entries, [many] * len(entries))
            return
        if request.validate_only or not changes:
            _answer(reply, entries, outcomes)
            return

        def decided(told: Outcome) -> None:
            _answer(reply, entries, [one if one.code is not Code.NONE else told for one in outcomes])

        deadline_ms = self._services.surface.loop.monotonic_ms() + limits.ADMIN_TIMEOUT_MS_MAX // 2
        propose(self._services.surface, AlterQuotas(changes=tuple(changes)), deadline_ms, decided)


def _filter_of(request: Value) -> _Filter:
    """Raises ApiError, as Kafka refuses."""
    exact: dict[str, str] = {}
    specified: set[str] = set()
    for component in request.components:
        kind, match = component.entity_type, component.match
        if not kind or kind in exact or kind in specified:
            raise ApiError(Code.INVALID_REQUEST, "each entity type may be given once")
        if kind not in (USER, CLIENT_ID, IP):
            raise ApiError(Code.UNSUPPORTED_VERSION, "the entity types of quotas are user, client-id and ip")
        if component.match_type not in (_EXACT, _DEFAULT, _SPECIFIED):
            raise ApiError(Code.INVALID_REQUEST, f"Unknown match type {component.match_type}")
        if (component.match_type == _EXACT) == (match is None):
            raise ApiError(Code.INVALID_REQUEST, "a name is given if, and only if, it is to be matched")
        if component.match_type == _SPECIFIED:
            specified.add(kind)
        else:
            exact[kind] = DEFAULT if match is None else match
    if IP in {*exact, *specified} and len(exact) + len(specified) > 1:
        raise ApiError(Code.INVALID_REQUEST, "entity type ip cannot be combined with another")
    return _Filter(exact, frozenset(specified), request.strict)


def _entity_of(entry: Value) -> QuotaEntity:
    return entity_of(
        (part.entity_type, DEFAULT if part.entity_name is None else part.entity_name) for part in entry.entity
    )


def _entry_error(entry: Value) -> str | None:
    """Why the quotas of this entry are not set."""
    if any(part.entity_name == "" for part in entry.entity):
        return "a name of an entity must not be empty"
    keys = [op.key for op in entry.ops]
    if len(set(keys)) < len(keys):
        return "Duplicate quota key"
    entity = _entity_of(entry)
    error = entity_error(entity)
    for op in entry.ops:
        error = error or quota_error(entity, op.key, None if op.remove else op.value)
    return error


def _changes(entry: Value) -> Iterator[QuotaChange]:
    entity = _entity_of(entry)
    for op in entry.ops:
        yield QuotaChange(entity=entity, key=op.key, value=None if op.remove else op.value)


def _parts(entity: QuotaEntity) -> list[Value]:
    return [{"entity_type": kind, "entity_name": None if name == DEFAULT else name} for kind, name in entity]


def _answer(reply: Exchange, entries: Sequence[Value], outcomes: Sequence[Outcome]) -> None:
    told = [
        {
            "error_code": code,
            "error_message": message,
            "entity": [{"entity_type": one.entity_type, "entity_name": one.entity_name} for one in entry.entity],
        }
        for entry, (code, message) in zip(entries, outcomes, strict=True)
    ]
    reply({"entries": told})
