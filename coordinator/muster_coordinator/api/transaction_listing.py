"""ListTransactions: the transactional ids of which this broker is the coordinator.

Each partition's list is made after a ReadIndex round, and in slices: it may have 100,000 ids. If leadership of one is
lost meanwhile, its ids may be in no broker's list: error 15 makes clients ask all brokers again. Ids that the client
may not describe are left out. Version 2, which filters by a regular expression of the client's, is not offered: an
expression can take for ever.
"""

from collections.abc import Callable, Iterator
from itertools import chain

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.gather import Gather, in_turns
from muster_coordinator.api.limits import PARTS_IN_A_TURN_MAX
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.replica.partitions.surface import Surface
from muster_coordinator.transactions.metadata import Transaction
from muster_coordinator.transactions.states import BY_NAME, NAMES, State
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_DURATION_SINCE = 1


class ListTransactions:
    """Handler of ListTransactions v0-1."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """By state, producer id and how long a transaction is open."""
        filters = request.state_filters
        states: set[State] = set()
        unknown: dict[str, None] = {}

        def judge(index: int) -> int:
            state = BY_NAME.get(filters[index])
            if state is None:
                unknown[filters[index]] = None
            else:
                states.add(state)
            return 0

        producers = frozenset(request.producer_id_filters)
        duration_ms = request.duration_filter if version >= _DURATION_SINCE else -1
        loop = self._services.surface.loop

        def kept(name: str, known: Transaction) -> bool:
            if (filters and known.state not in states) or (producers and known.producer_id not in producers):
                return False
            if duration_ms >= 0 and loop.wall_ms() - known.start_ms <= duration_ms:
                return False
            return self._services.may_transact(context, Operation.DESCRIBE, name)

        def listed(code: Code, found: list[Value]) -> None:
            reply({"error_code": code, "unknown_state_filters": list(unknown), "transaction_states": found})

        in_turns(loop, len(filters), judge, lambda: self._confirm(kept, listed))

    def _confirm(self, kept: Callable[[str, Transaction], bool], done: Callable[[Code, list[Value]], None]) -> None:
        surface = self._services.surface
        led = surface.transactions_led()

        def confirmed(proven: list[bool]) -> None:
            if not all(proven):
                done(Code.COORDINATOR_NOT_AVAILABLE, [])
                return
            _Walk(surface, led, kept, done).some()

        gather: Gather[bool] = Gather(len(led), confirmed)
        for index, group in enumerate(led):
            log = surface.local_log(group)
            if log is None:
                gather.part(index)(False)
            else:
                log.confirm(gather.part(index))


class _Walk:
    """Looks at some ids in each turn. An object, as a function that names itself would keep the request for ever."""

    __slots__ = ("_done", "_found", "_ids", "_kept", "_led", "_surface")

    def __init__(
        self,
        surface: Surface,
        led: tuple[GroupNo, ...],
        kept: Callable[[str, Transaction], bool],
        done: Callable[[Code, list[Value]], None],
    ) -> None:
        self._surface = surface
        self._led = led
        self._ids: Iterator[tuple[str, Transaction]] = chain.from_iterable(map(surface.transactions, led))
        self._kept = kept
        self._done = done
        self._found: list[Value] = []

    def some(self) -> None:
        """The next ids; `done` after the last."""
        for _ in range(PARTS_IN_A_TURN_MAX):
            one = next(self._ids, None)
            if one is None:
                lost = not set(self._led) <= set(self._surface.transactions_led())
                self._done(Code.COORDINATOR_NOT_AVAILABLE if lost else Code.NONE, [] if lost else self._found)
                return
            name, known = one
            if self._kept(name, known):
                self._found.append(
                    {
                        "transactional_id": name,
                        "producer_id": known.producer_id,
                        "transaction_state": NAMES[known.state],
                    }
                )
        self._surface.loop.call_soon(self.some)
