"""DescribeAcls, CreateAcls, DeleteAcls: ACLs are in the controller's log (ADR 53).

Without an authorizer all answer 54, as Kafka does. Tools call them routinely; this answer is no failure to them.

A request may have more ACLs than a command takes: it becomes several, one after the other. Adding again what is there
and removing what is gone change nothing, so a client may send a request again whose end it does not know. What a filter
deletes is computed here, after the image was confirmed as current, and the command names exactly that; an ACL that is
added meanwhile stays, as one that is added a moment later would.
"""

from collections.abc import Callable, Sequence
from functools import partial

from muster_coordinator.api import limits
from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.changes import DONE, Outcome, propose
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.commands import AddAcls, Command, RemoveAcls
from muster_coordinator.errors import Code
from muster_coordinator.replica.partitions.surface import Surface
from muster_coordinator.security.acl import Acl, AclFilter, acl_error, filter_error, size_bytes
from muster_coordinator.security.limits import (
    ACLS_OF_A_COMMAND_BYTES_MAX,
    ACLS_OF_A_COMMAND_MAX,
    ACLS_OF_A_REQUEST_MAX,
)
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_NO_AUTHORIZER = "No Authorizer is configured."
_UNPROVEN = "it cannot be shown now that all ACLs are known here"


class Acls:
    """Handlers of the three."""

    def __init__(self, services: Services) -> None:
        self._services = services

    # -- DescribeAcls

    def describe(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """DescribeAcls v1-3: from this broker's image, as in Kafka."""
        refused = self._refused(context, Operation.DESCRIBE)
        wanted = AclFilter(
            request.resource_type_filter,
            request.resource_name_filter,
            request.pattern_type_filter,
            request.principal_filter,
            request.host_filter,
            request.operation,
            request.permission_type,
        )
        if refused is None:
            error = filter_error(wanted)
            refused = None if error is None else Outcome(Code.INVALID_REQUEST, error)
        if refused is not None:
            reply({"error_code": refused.code, "error_message": refused.message, "resources": ()})
            return
        resources: dict[tuple[int, str, int], list[Value]] = {}
        for acl in self._found(wanted):
            entry = {
                "principal": acl.principal,
                "host": acl.host,
                "operation": acl.operation,
                "permission_type": acl.permission,
            }
            resources.setdefault((acl.resource_type, acl.name, acl.pattern), []).append(entry)
        described = [
            {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": entries}
            for (kind, name, pattern), entries in resources.items()
        ]
        reply({"error_code": Code.NONE, "error_message": None, "resources": described})

    def _found(self, wanted: AclFilter) -> list[Acl]:
        image = self._services.surface.image()
        return [] if image is None else sorted(filter(wanted.matches, image.acls))

    # -- CreateAcls

    def create(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """CreateAcls v1-3: one answer for each ACL of the request; valid ones are added, whatever the others are."""
        creations = request.creations
        refused = self._refused(context, Operation.ALTER)
        if refused is None and len(creations) > ACLS_OF_A_REQUEST_MAX:
            refused = Outcome(Code.INVALID_REQUEST, f"more than {ACLS_OF_A_REQUEST_MAX} ACLs")
        if refused is not None:
            reply({"results": [_result(refused)] * len(creations)})
            return
        acls = [_acl_of(one) for one in creations]
        errors = {acl: acl_error(acl) for acl in acls}
        valid = [acl for acl, error in errors.items() if error is None]

        def added(outcomes: dict[Acl, Outcome]) -> None:
            told = {acl: Outcome(Code.INVALID_REQUEST, error) for acl, error in errors.items() if error is not None}
            told.update(outcomes)
            reply({"results": [_result(told[acl]) for acl in acls]})

        self._run(valid, lambda some: AddAcls(acls=some), self._deadline_ms(), added)

    # -- DeleteAcls

    def delete(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """DeleteAcls v1-3: one answer for each filter of the request, with the ACLs that it found."""
        filters = [
            AclFilter(
                one.resource_type_filter,
                one.resource_name_filter,
                one.pattern_type_filter,
                one.principal_filter,
                one.host_filter,
                one.operation,
                one.permission_type,
            )
            for one in request.filters
        ]
        refused = self._refused(context, Operation.ALTER)
        if refused is not None:
            reply({"filter_results": [_deleted(refused, ())] * len(filters)})
            return
        self._services.surface.when_topics_current(partial(self._delete, filters, self._deadline_ms(), reply))

    def _delete(self, filters: Sequence[AclFilter], deadline_ms: int, reply: Exchange, current: bool) -> None:
        """`current`: every ACL that was answered before the request is in this image."""
        if not current:
            unproven = Outcome(Code.NOT_CONTROLLER, _UNPROVEN)
            reply({"filter_results": [_deleted(unproven, ())] * len(filters)})
            return
        errors = [filter_error(one) for one in filters]
        found = [[] if error else self._found(one) for one, error in zip(filters, errors, strict=True)]
        doomed = list(dict.fromkeys(acl for acls in found for acl in acls))
        if len(doomed) > ACLS_OF_A_REQUEST_MAX:
            many = Outcome(Code.INVALID_REQUEST, f"Cannot remove more than {ACLS_OF_A_REQUEST_MAX} acls at once.")
            reply({"filter_results": [_deleted(many, ())] * len(filters)})
            return

        def removed(outcomes: dict[Acl, Outcome]) -> None:
            results = []
            for error, acls in zip(errors, found, strict=True):
                code = DONE if error is None else Outcome(Code.INVALID_REQUEST, error)
                results.append(_deleted(code, [(acl, outcomes[acl]) for acl in acls]))
            reply({"filter_results": results})

        self._run(doomed, lambda some: RemoveAcls(acls=some), deadline_ms, removed)

    # -- both

    def _deadline_ms(self) -> int:
        return self._services.surface.loop.monotonic_ms() + limits.ADMIN_TIMEOUT_MS_MAX // 2

    def _refused(self, context: RequestContext, operation: Operation) -> Outcome | None:
        services = self._services
        denied = services.cluster_code(context, operation)
        if denied is not Code.NONE:
            return Outcome(denied)
        return Outcome(Code.SECURITY_DISABLED, _NO_AUTHORIZER) if services.authorizer is None else None

    def _run(
        self,
        acls: Sequence[Acl],
        command: Callable[[tuple[Acl, ...]], Command],
        deadline_ms: int,
        done: Callable[[dict[Acl, Outcome]], None],
    ) -> None:
        """One command after the other; the outcome of each is that of its ACLs."""
        _Commands(self._services.surface, _parts(acls), command, deadline_ms, done).propose(0)


class _Commands:
    """Those of one request, one after the other. No function that refers to itself: such a circle would keep the answer
    until the collector looks, which is seldom."""

    __slots__ = ("_command", "_deadline_ms", "_done", "_outcomes", "_parts", "_surface")

    def __init__(
        self,
        surface: Surface,
        parts: Sequence[tuple[Acl, ...]],
        command: Callable[[tuple[Acl, ...]], Command],
        deadline_ms: int,
        done: Callable[[dict[Acl, Outcome]], None],
    ) -> None:
        self._surface = surface
        self._parts = parts
        self._command = command
        self._deadline_ms = deadline_ms
        self._done = done
        self._outcomes: dict[Acl, Outcome] = {}

    def propose(self, at: int) -> None:
        """The command at this place and those behind it, or the end."""
        if at == len(self._parts):
            self._done(self._outcomes)
        else:
            propose(self._surface, self._command(self._parts[at]), self._deadline_ms, partial(self._decided, at))

    def _decided(self, at: int, outcome: Outcome) -> None:
        self._outcomes.update(dict.fromkeys(self._parts[at], outcome))
        self.propose(at + 1)


def _parts(acls: Sequence[Acl]) -> list[tuple[Acl, ...]]:
    """As few commands as there may be."""
    parts: list[tuple[Acl, ...]] = []
    part: list[Acl] = []
    part_bytes = 0
    for acl in acls:
        more = size_bytes(acl)
        if part and (len(part) == ACLS_OF_A_COMMAND_MAX or part_bytes + more > ACLS_OF_A_COMMAND_BYTES_MAX):
            parts.append(tuple(part))
            part, part_bytes = [], 0
        part.append(acl)
        part_bytes += more
    return [*parts, tuple(part)] if part else parts


def _acl_of(one: Value) -> Acl:
    return Acl(
        one.resource_type,
        one.resource_name,
        one.resource_pattern_type,
        one.principal,
        one.host,
        one.operation,
        one.permission_type,
    )


def _result(outcome: Outcome) -> Value:
    return {"error_code": outcome.code, "error_message": outcome.message}


def _deleted(outcome: Outcome, found: Sequence[tuple[Acl, Outcome]]) -> Value:
    matching = [
        {
            **_result(of_acl),
            "resource_type": acl.resource_type,
            "resource_name": acl.name,
            "pattern_type": acl.pattern,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation,
            "permission_type": acl.permission,
        }
        for acl, of_acl in found
    ]
    return {**_result(outcome), "matching_acls": matching}
