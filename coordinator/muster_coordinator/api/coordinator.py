"""FindCoordinator (protocol notes 2.2): the broker that leads a group's offsets partition, by the client's listener.

While no leader is known the answer waits `limits.COORDINATOR_LOOKUP_WAIT_MS` (decision 18), then it is error 15. The
first question about a transactional id has the transaction log made (ADR 63), and waits as long for the log, and then
for the leader of the id's one partition of it; the others are not waited for. Where a cluster cannot have one,
because some of its replicas are of a release that does not know transactions, key type 1 is answered 35 from version
4 on: Java's, Python's and Go's clients then fail at once and show our message. librdkafka asks in version 2 and
retries every error but 53 until its time is over, so it gets 53 and shows the message with it. As that code's name
suggests a missing right, the message says that it is none.
"""

from collections.abc import Callable, Sequence
from functools import partial

from muster_coordinator.api.coordinator_search import CoordinatorSearch, Found
from muster_coordinator.api.gather import in_turns
from muster_coordinator.api.services import Services
from muster_coordinator.api.transaction_logs import TRANSACTIONS, LogWait, TransactionLogs
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.wire.exchange import Exchange
from muster_coordinator.wire.schema import Value

_KEYS_SINCE = 4
_GROUP, _TRANSACTION = 0, 1
_NO_TRANSACTIONS = (
    "transactions are not supported at this cluster's feature level, regardless of permissions: upgrade all replicas, "
    "or use a producer without transactional.id"
)
_MESSAGES = {
    Code.NONE: None,
    Code.COORDINATOR_NOT_AVAILABLE: "the coordinator's partition has no leader now",
    Code.GROUP_AUTHORIZATION_FAILED: "not authorized to DESCRIBE this group",
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "not authorized to DESCRIBE this transactional id",
    Code.INVALID_REQUEST: "unknown type of coordinator",
}


class FindCoordinator:
    """Handler of FindCoordinator v0-6."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._log = TransactionLogs(services)

    def handle(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """One key before v4, a list of keys since; each has its own answer."""
        keys = request.coordinator_keys if version >= _KEYS_SINCE else (request.key,)
        if request.key_type == _GROUP:
            answered = partial(self._answer, keys, version, reply)
            CoordinatorSearch(self._services, context, keys, answered).begin()
        elif request.key_type == _TRANSACTION and self._log.possible():
            answered = partial(self._answer, keys, version, reply)
            if self._log.exists():
                CoordinatorSearch(self._services, context, keys, answered, TRANSACTIONS).begin()
            else:
                self._first_use(context, keys, answered)
        else:
            refused = Found(_refusal(request.key_type, version))
            said = _NO_TRANSACTIONS if request.key_type == _TRANSACTION else None
            self._answer(keys, version, reply, [refused] * len(keys), said)

    def _first_use(self, context: RequestContext, keys: Sequence[str], done: Callable[[Sequence[Found]], None]) -> None:
        """Have the log made for whoever may know of one of the ids."""
        found: list[Found] = []

        def judge(index: int) -> int:
            may = TRANSACTIONS.may(self._services, context, keys[index])
            found.append(Found(Code.COORDINATOR_NOT_AVAILABLE if may else TRANSACTIONS.denied))
            return 0

        def judged() -> None:
            if all(one.code is TRANSACTIONS.denied for one in found):
                done(found)
                return
            self._log.create(context)
            made = CoordinatorSearch(services, context, keys, done, TRANSACTIONS).begin
            LogWait(self._log, services.surface.loop, made, lambda: done(found)).look()

        services = self._services
        in_turns(self._services.surface.loop, len(keys), judge, judged)

    def _answer(
        self,
        keys: tuple[str, ...],
        version: int,
        reply: Exchange,
        found: Sequence[Found],
        said: str | None = None,
    ) -> None:
        """`said`: why, if it is not what the code says by itself."""
        entries: list[Value] = []
        base = self._services.settings.coordinator_base

        def add(index: int) -> int:
            entries.append(_entry(keys[index], found[index], said, base))
            return 0

        def done() -> None:
            reply({"coordinators": entries} if version >= _KEYS_SINCE else entries[0])

        in_turns(self._services.surface.loop, len(keys), add, done)


def _refusal(key_type: int, version: int) -> Code:
    if key_type != _TRANSACTION:
        return Code.INVALID_REQUEST
    return Code.UNSUPPORTED_VERSION if version >= _KEYS_SINCE else Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _entry(key: str, found: Found, said: str | None, base: int) -> Value:
    return {
        "key": key,
        "error_code": found.code,
        "error_message": said or _MESSAGES[found.code],
        "node_id": found.node_id if found.node_id < 0 else base + found.node_id,
        "host": found.host,
        "port": found.port,
    }
