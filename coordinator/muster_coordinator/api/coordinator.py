"""FindCoordinator (protocol notes 2.2): the broker that leads a group's offsets partition, by the client's listener.

While no leader is known the answer waits `limits.COORDINATOR_LOOKUP_WAIT_MS` (decision 18), then it is error 15.
Transactions do not exist here. From version 4 on key type 1 is answered 35: Java's, Python's and Go's clients then fail
at once and show our message. librdkafka asks in version 2 and retries every error but 53 until its time is over, so it
gets 53 and shows the message with it. As that code's name suggests a missing right, the message says that it is none.
"""

from collections.abc import Callable
from typing import NamedTuple

from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.cluster_view import ClusterView, offsets_group, offsets_partition
from muster_coordinator.api.gather import Gather
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import COORDINATOR_LOOKUP_WAIT_MS
from muster_coordinator.wire.connection import Exchange
from muster_coordinator.wire.schema import Value

_KEYS_SINCE = 4
_LOOK_AGAIN_MS = 20
_GROUP, _TRANSACTION = 0, 1
_NO_TRANSACTIONS = "transactions are not supported, regardless of permissions: use a producer without transactional.id"
_MESSAGES = {
    Code.NONE: None,
    Code.COORDINATOR_NOT_AVAILABLE: "the group's offsets partition has no leader now",
    Code.GROUP_AUTHORIZATION_FAILED: "not authorized to DESCRIBE this group",
    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _NO_TRANSACTIONS,
    Code.UNSUPPORTED_VERSION: _NO_TRANSACTIONS,
    Code.INVALID_REQUEST: "unknown type of coordinator",
}


class Found(NamedTuple):
    """The answer for one key."""

    code: Code
    node_id: int = -1
    host: str = ""
    port: int = -1


class FindCoordinator:
    """Handler of FindCoordinator v0-6."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """One key before v4, a list of keys since; each is looked up by itself."""
        keys = request.coordinator_keys if version >= _KEYS_SINCE else (request.key,)

        def answered(found: list[Found]) -> None:
            reply(_answer(keys, found, version))

        gather = Gather(len(keys), answered)
        for index, key in enumerate(keys):
            if request.key_type == _GROUP:
                self._find(context, key, gather.part(index))
            else:
                gather.part(index)(Found(_refusal(request.key_type, version)))

    def _find(self, context: RequestContext, key: str, done: Callable[[Found], None]) -> None:
        if not self._services.may_group(context, Operation.DESCRIBE, key):
            done(Found(Code.GROUP_AUTHORIZATION_FAILED))
            return
        found = self._now(context, key)
        if found.code is Code.NONE:
            done(found)
            return
        surface = self._services.surface
        image = surface.image()
        if image is None:
            wait = surface.loop.monotonic_ms() + COORDINATOR_LOOKUP_WAIT_MS
            surface.loop.call_at(wait, lambda: done(self._now(context, key)))
            return
        group = offsets_group(offsets_partition(image, key))
        self._wait(context, key, group, surface.loop.monotonic_ms() + COORDINATOR_LOOKUP_WAIT_MS, done)

    def _wait(
        self, context: RequestContext, key: str, group: GroupNo, until_ms: int, done: Callable[[Found], None]
    ) -> None:
        """Wait until the leader is known *and alive*: a crashed one is still known until its link is given up."""
        surface = self._services.surface

        def known() -> None:
            found = self._now(context, key)
            now_ms = surface.loop.monotonic_ms()
            if found.code is Code.NONE or now_ms >= until_ms:
                done(found)
            else:
                again_ms = min(now_ms + _LOOK_AGAIN_MS, until_ms)
                surface.loop.call_at(again_ms, lambda: self._wait(context, key, group, until_ms, done))

        surface.when_leader_known(group, max(0, until_ms - surface.loop.monotonic_ms()), known)

    def _now(self, context: RequestContext, key: str) -> Found:
        surface = self._services.surface
        image = surface.image()
        if image is None:
            return Found(Code.COORDINATOR_NOT_AVAILABLE)
        view = ClusterView(surface, image, context.listener)
        node = view.leader(offsets_group(offsets_partition(image, key))).node
        if node is None:
            return Found(Code.COORDINATOR_NOT_AVAILABLE)
        return Found(Code.NONE, *node)


def _refusal(key_type: int, version: int) -> Code:
    if key_type != _TRANSACTION:
        return Code.INVALID_REQUEST
    return Code.UNSUPPORTED_VERSION if version >= _KEYS_SINCE else Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _answer(keys: tuple[str, ...], found: list[Found], version: int) -> Value:
    entries = [
        {
            "key": key,
            "error_code": one.code,
            "error_message": _MESSAGES[one.code],
            "node_id": one.node_id,
            "host": one.host,
            "port": one.port,
        }
        for key, one in zip(keys, found, strict=True)
    ]
    return {"coordinators": entries} if version >= _KEYS_SINCE else entries[0]
