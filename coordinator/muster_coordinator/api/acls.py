"""DescribeAcls, CreateAcls, DeleteAcls: there are no ACLs yet, so all answer 54, as Kafka does without an authorizer.

Tools call them routinely; this answer is no failure to them, a closed connection would be."""

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.wire.connection import Exchange
from muster_coordinator.wire.schema import Value

_WHY = "this cluster has no ACLs: every client may perform every operation"


class Acls:
    """Handlers of ACLs; they read no state."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def describe(self, context: RequestContext, _version: int, _request: Value, reply: Exchange) -> None:
        """DescribeAcls v1-3."""
        reply({**self._refusal(context, Operation.DESCRIBE), "resources": ()})

    def create(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """CreateAcls v1-3: one answer for each ACL of the request."""
        refusal = self._refusal(context, Operation.ALTER)
        reply({"results": [refusal] * len(request.creations)})

    def delete(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """DeleteAcls v1-3: one answer for each filter of the request."""
        refusal = {**self._refusal(context, Operation.ALTER), "matching_acls": ()}
        reply({"filter_results": [refusal] * len(request.filters)})

    def _refusal(self, context: RequestContext, operation: Operation) -> dict[str, Value]:
        denied = self._services.cluster_code(context, operation)
        if denied is not Code.NONE:
            return {"error_code": denied, "error_message": None}
        return {"error_code": Code.SECURITY_DISABLED, "error_message": _WHY}
