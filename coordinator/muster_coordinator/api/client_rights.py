"""The rights of a client to what goes on to an upstream Kafka, by the cluster's ACLs, and the audit of what it asks for
there: `upstream.rights.verdict.Asking`.

What this does not do: know which rights a request needs (`upstream.rights`).
"""

from typing import TYPE_CHECKING

from muster_coordinator.api.audit import Audit
from muster_coordinator.api.authorize import Operation, Resource, ResourceType
from muster_coordinator.api.standard_authorizer import StandardAuthorizer
from muster_coordinator.context import RequestContext
from muster_coordinator.upstream.rights.verdict import Asking, Heard
from muster_coordinator.wire.schema import Value


class ClientRights:
    """To one request."""

    __slots__ = ("_audit", "_authorizer", "_context")

    def __init__(self, authorizer: StandardAuthorizer, context: RequestContext, audit: Audit) -> None:
        self._audit = audit
        self._authorizer = authorizer
        self._context = context

    def may(self, operation: Operation, resource: Resource) -> bool:
        return self._authorizer(self._context, operation, resource)

    def may_instead(self, operation: Operation, resource: Resource) -> bool:
        return self._authorizer.would_allow(self._context, operation, resource)

    def sees(self, operation: Operation, resource: Resource) -> bool:
        return self._authorizer.quietly(self._context, operation, resource)

    def may_some(self, operation: Operation, kind: ResourceType) -> bool:
        return self._authorizer.would_allow_any(self._context, operation, kind)

    def audited(self, request: Value) -> Heard | None:
        return self._audit.of(self._context, request)


def rights_of(authorizer: StandardAuthorizer, context: RequestContext, audit: Audit) -> ClientRights | None:
    """None: nobody knows yet what this client may do."""
    return ClientRights(authorizer, context, audit) if authorizer.knows(context) else None


if TYPE_CHECKING:
    _ASKS: type[Asking] = ClientRights
