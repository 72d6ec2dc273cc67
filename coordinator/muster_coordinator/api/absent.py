"""ListTransactions and DescribeClientQuotas: what does not exist here is listed truly, as an empty list.

Tools that show a cluster ask for both as a matter of routine. There are no transactions yet, so no transactional id is
known; and no quotas, so nobody is throttled.
"""

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.wire.connection import Exchange
from muster_coordinator.wire.schema import Value

_STATES = frozenset(
    {
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
        "PrepareEpochFence",
    }
)  # fmt: skip
"""Names of a transaction's states in Kafka; others are told back as unknown."""
_ENTITIES = frozenset({"user", "client-id", "ip"})
_MATCHES = range(3)


class Absent:
    """Handlers of both; look at no state."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def transactions(self, _context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """ListTransactions v0-2: shows the ids that the caller may DESCRIBE, and there is none to ask about."""
        unknown = [state for state in dict.fromkeys(request.state_filters) if state not in _STATES]
        reply({"error_code": Code.NONE, "unknown_state_filters": unknown, "transaction_states": ()})

    def quotas(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """DescribeClientQuotas v0-1, with Kafka's checks of the filter."""
        code = self._services.cluster_code(context, Operation.DESCRIBE_CONFIGS)
        message = None
        if code is Code.NONE:
            code, message = _judge(request.components)
        reply({"error_code": code, "error_message": message, "entries": () if code is Code.NONE else None})


def _judge(components: tuple[Value, ...]) -> tuple[Code, str | None]:
    types = [component.entity_type for component in components]
    if len(set(types)) < len(types) or "" in types or any(c.match_type not in _MATCHES for c in components):
        return Code.INVALID_REQUEST, "each type of entity is named once, with an exact name, the default or any"
    if not _ENTITIES.issuperset(types):
        return Code.UNSUPPORTED_VERSION, "entities of quotas are user, client-id and ip"
    if "ip" in types and len(types) > 1:
        return Code.INVALID_REQUEST, "ip goes with no other type of entity"
    return Code.NONE, None
