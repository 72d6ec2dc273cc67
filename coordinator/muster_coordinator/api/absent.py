"""ListTransactions and DescribeClientQuotas: features that do not exist here, so both list nothing.

Tools that show a cluster call both routinely. There are no transactions yet, so no transactional id is known; and there
are no quotas, so no client is throttled.
"""

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.gather import in_turns
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
"""Names of Kafka's transaction states; a filter by any other is answered as unknown."""
_ENTITIES = frozenset({"user", "client-id", "ip"})
_MATCHES = range(3)


class Absent:
    """Handlers of both; they read no state."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def transactions(self, _context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """ListTransactions v0-2. Ids that the caller may not DESCRIBE would be left out; as there are none, no right is
        checked."""
        filters = request.state_filters
        unknown: dict[str, None] = {}

        def judge(index: int) -> int:
            if filters[index] not in _STATES:
                unknown[filters[index]] = None
            return 0

        def judged() -> None:
            reply({"error_code": Code.NONE, "unknown_state_filters": list(unknown), "transaction_states": ()})

        in_turns(self._services.surface.loop, len(filters), judge, judged)

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
        return (
            Code.INVALID_REQUEST,
            "each entity type may be given once, to match a name, the default or any",
        )
    if not _ENTITIES.issuperset(types):
        return Code.UNSUPPORTED_VERSION, "the entity types of quotas are user, client-id and ip"
    if "ip" in types and len(types) > 1:
        return Code.INVALID_REQUEST, "entity type ip cannot be combined with another"
    return Code.NONE, None
