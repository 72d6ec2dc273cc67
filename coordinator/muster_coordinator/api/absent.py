"""ListTransactions: there are no transactions yet, so it lists nothing. Tools that show a cluster call it routinely."""

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


class Absent:
    """Its handler; it reads no state."""

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
