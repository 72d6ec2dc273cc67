"""A Redis Cluster: `redis_streams.server.StreamServer` over a `RedisServer` for each of its primaries.

Problem: each slot is at one of many nodes, moves while it is used, and gets another node when its own dies; a call that
is sent to a wrong one must not count as failed, and one whose fate is unknown must not be told as done. Mechanism: a
node is asked for all slots when one is reached first, every minute, and when a call went wrong. A node that says MOVED
or ASK has done nothing, so the call goes on to the one that it names, a few times at most; one whose keys are half-way
(TRYAGAIN) is told as away, and its caller tries again. Each node is judged on its own before it is written to. For
news each slot in use has a connection, since XREAD takes streams of one slot only; beyond `REDIS_SLOTS_NEWS_MAX` of
them whoever listens is told at a pace, and finds out by reading. What this does not do: read from replicas, or keep
more than one stream's keys together.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.crc import key_slot
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from muster_coordinator.ports import Notice
from muster_coordinator.redis_streams.addresses import UNKNOWN, Address, address_of
from muster_coordinator.redis_streams.entry_ids import EntryId
from muster_coordinator.redis_streams.server import Answer, Failure, Script, Trouble
from muster_coordinator.redis_streams.slots import Slots, ranges_of
from muster_coordinator.runtime.limits import (
    REDIS_JUDGE_MS,
    REDIS_NEWS_IDLE_MS,
    REDIS_NODES_MAX,
    REDIS_PRIMARY_KEPT_MS,
    REDIS_REDIRECTS_MAX,
    REDIS_RETRY_MS,
    REDIS_SLOTS_NEWS_MAX,
)
from muster_coordinator.runtime.redis_calls import Calls
from muster_coordinator.runtime.redis_connections import RedisSettings
from muster_coordinator.runtime.redis_news import News, raise_bug
from muster_coordinator.runtime.redis_server import AWAY, UNREACHED, Redirect, RedisServer
from muster_coordinator.runtime.redis_tasks import ended
from muster_coordinator.setting_values import format_address


class _Node:
    """One server."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self.calls = 0
        """Under way."""
        self.used = False
        """Since the last list: a slot may be on its way to a node that has none yet."""


class RedisCluster:
    """See the module. Made and closed in the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: RedisSettings, notice: Notice) -> None:
        self._loop = loop
        self._settings = settings
        self._notice = notice
        self._slots = Slots()
        self._nodes: dict[Address, _Node] = {}
        self._turn = 0
        self._calls = Calls(loop)
        self._news: dict[int, News] = {}
        """By slot."""
        self._leaving: set[News | RedisServer] = set()
        """Closed and not yet disconnected."""
        self._sooner = asyncio.Event()
        self._looking = loop.create_task(self._look_for_ever())
        self._looking.add_done_callback(raise_bug)

    def close(self) -> None:
        self._looking.cancel()
        self._calls.cancel()
        for news in self._news.values():
            news.close()
        for node in self._nodes.values():
            node.server.close()

    async def disconnected(self) -> None:
        """After `close`: its tasks have ended, and its connections are closed. A process that ends need not wait for
        that."""
        await ended((self._looking,))
        await self._calls.ended()
        for one in (*self._news.values(), *self._leaving):
            await one.disconnected()
        for node in [*self._nodes.values()]:  # of which listening may have made one more until then
            await node.server.disconnected()

    # -- StreamServer ----------------------------------------------------------------------------------------------

    def run(
        self,
        script: Script,
        keys: tuple[str, str],
        arguments: Sequence[bytes],
        done: Callable[[Answer], None],
        *,
        durable: bool = False,
    ) -> None:
        self._calls.begin(lambda: self._call(script, keys, arguments, durable=durable), done)

    def news(self, stream: str, after: EntryId, notify: Callable[[], None]) -> Callable[[], None]:
        slot = key_slot(stream.encode())
        listener = self._news.get(slot)
        if listener is None:
            if len(self._news) >= REDIS_SLOTS_NEWS_MAX and not self._make_room():
                return self._loop.call_later(REDIS_RETRY_MS / 1_000, notify).cancel
            listener = self._news[slot] = self._listener(slot)
        return listener.want(stream, after, notify)

    def proves(self) -> bool:
        return self._settings.proves

    def unfit(self) -> str:
        """Of any of its primaries: which of them has a batch's stream may change at any moment. One that was not
        reached yet is not written to, and does not keep the others from it."""
        said = {address: self._node(address).server.unfit() for address in self._slots.primaries()}
        if all(why == UNREACHED for why in said.values()):
            return UNREACHED
        return next((f"{format_address(*at)}: {why}" for at, why in said.items() if why not in ("", UNREACHED)), "")

    # -- calls -----------------------------------------------------------------------------------------------------

    async def _call(
        self, script: Script, keys: tuple[str, str], arguments: Sequence[bytes], *, durable: bool
    ) -> Answer:
        slot = key_slot(keys[0].encode())
        address, asking = self._slots.of(slot), False
        for _ in range(REDIS_REDIRECTS_MAX):
            if address is None:
                self._sooner.set()
                return Failure(Trouble.AWAY, f"{AWAY}: no node has slot {slot}, or none was reached yet")
            if address not in self._nodes and len(self._nodes) >= REDIS_NODES_MAX:
                return Failure(Trouble.AWAY, f"{AWAY}: more than {REDIS_NODES_MAX} nodes")
            node = self._node(address)
            node.calls, node.used = node.calls + 1, True
            try:
                answer = await node.server.call(script, keys, arguments, durable=durable, asking=asking)
            finally:
                node.calls -= 1
            if not isinstance(answer, Redirect):
                if isinstance(answer, Failure) and answer.trouble in (Trouble.AWAY, Trouble.UNKNOWN):
                    self._sooner.set()
                return answer
            try:
                address, asking = _named(answer.to, address), answer.ask
            except ValueError as error:
                self._sooner.set()  # the list has addresses beside names
                return Failure(Trouble.AWAY, f"{AWAY}: {format_address(*address)} sends on to nobody: {error}")
            if not asking:
                self._slots.moved(answer.slot, address)
                self._sooner.set()
        return Failure(Trouble.AWAY, f"{AWAY}: the nodes of the cluster send from one to another")

    def _make_room(self) -> bool:
        """Nobody has listened to a slot for a while: its connection is closed, for another slot."""
        slot = next((slot for slot, news in self._news.items() if news.idle_ms() >= REDIS_NEWS_IDLE_MS), None)
        if slot is None:
            return False
        self._calls.keep(self._left(self._news.pop(slot)))
        return True

    def _left(self, one: News | RedisServer) -> Coroutine[Any, Any, None]:
        """It is closed now, and disconnected by who awaits this; if that is cancelled, by `disconnected`."""
        one.close()
        self._leaving.add(one)

        async def disconnected() -> None:
            with contextlib.suppress(RedisError, OSError):
                await one.disconnected()
            self._leaving.discard(one)

        return disconnected()

    def _listener(self, slot: int) -> News:
        def server() -> RedisServer:
            address = self._slots.of(slot)
            if address is None:
                raise RedisConnectionError(f"no node has slot {slot}")
            return self._node(address).server

        def make() -> AbstractConnection:
            return server().make_connection()

        async def ask(*command: Any) -> Any:  # noqa: ANN401  # as the library has them
            return await server().ask(*command)

        return News(self._loop, make, ask, self._settings.timeout_ms)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _node(self, address: Address) -> _Node:
        found = self._nodes.get(address)
        if found is None:
            found = self._nodes[address] = _Node(RedisServer(self._loop, self._settings.at(address), self._notice))
        return found

    async def _look_for_ever(self) -> None:
        while True:
            self._sooner.clear()
            found = await self._look()
            await asyncio.sleep((REDIS_PRIMARY_KEPT_MS if found else REDIS_RETRY_MS) / 1_000)
            if found:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(REDIS_JUDGE_MS / 1_000):
                        await self._sooner.wait()

    async def _look(self) -> bool:
        """Ask one node after the other until one answers, another one first each time."""
        self._turn += 1
        known = list(self._slots.primaries())
        shift = self._turn % max(len(known), 1)
        problems = []
        for address in dict.fromkeys([*known[shift:], *known[:shift], *self._settings.nodes]):
            try:
                async with asyncio.timeout(self._settings.timeout_ms / 1_000):
                    ranges = ranges_of(await self._node(address).server.ask("CLUSTER", "SLOTS"), address)
            except (RedisError, OSError, ValueError) as error:
                problems.append(f"{format_address(*address)}: {str(error) or 'no answer'}")
                continue
            slots = Slots(ranges)
            if 0 < len(slots.primaries()) <= REDIS_NODES_MAX:
                self._slots = slots
                await self._forget()
                return True
            problems.append(f"{format_address(*address)}: it tells {len(slots.primaries())} primaries")
        self._notice(AWAY, {"why": "; ".join(problems)}, None)
        return False

    async def _forget(self) -> None:
        """Nodes that have no slot, and were not called since the last list."""
        for address in [*self._nodes.keys() - set(self._slots.primaries())]:
            node = self._nodes[address]
            if node.calls or node.used:
                node.used = False
            else:
                del self._nodes[address]
                await self._left(node.server)


def _named(to: Address, by: Address) -> Address:
    """Where MOVED or ASK sends to. A node that does not know its own address means its own host; "?" means nobody.
    Raises ValueError."""
    host = to[0] or by[0]
    if host == UNKNOWN:
        raise ValueError("a node whose name it does not know")
    return address_of(host, to[1])
