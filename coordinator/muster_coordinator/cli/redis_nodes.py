"""Connections of a command to Redis: to the one server, or in a Redis Cluster to the node that has a stream.

They are made as a replica's (`runtime.redis_connections`), verified and by the same Sentinels. What this does not do:
follow a slot that moves meanwhile; the node's own word (MOVED, ASK) is the error then.
"""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from muster_coordinator.redis_settings import RedisKeys
from muster_coordinator.redis_streams.addresses import Address

if TYPE_CHECKING:
    from redis.asyncio import BlockingConnectionPool

    from muster_coordinator.redis_streams.slots import Slots


class RedisNodes:
    """`async with`; what goes wrong is raised as the library has it, or as OSError."""

    def __init__(self, keys: RedisKeys, timeout_ms: int) -> None:
        from muster_coordinator.runtime.redis_connections import RedisSettings

        self._settings = RedisSettings.of(keys)._replace(connections_max=1, timeout_ms=timeout_ms)
        self._pools: dict[Address | None, BlockingConnectionPool] = {}
        self._connections: dict[Address | None, Any] = {}
        """By node; None: the one server."""
        self._slots: Slots | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pool in self._pools.values():
            await pool.disconnect()

    async def to(self, stream: str) -> Any:  # noqa: ANN401  # the library's
        """A connection for commands about this stream and the hash beside it."""
        if not self._settings.nodes:
            return await self._connection(None)
        from redis.crc import key_slot

        slots = self._slots = self._slots or await self._list()
        address = slots.of(key_slot(stream.encode()))
        if address is None:
            raise OSError(f"no node of the Redis Cluster has the slot of {stream}")
        return await self._connection(address)

    async def _connection(self, node: Address | None) -> Any:  # noqa: ANN401
        from muster_coordinator.runtime.redis_connections import pool_of

        found = self._connections.get(node)
        if found is None:
            pool = self._pools[node] = pool_of(self._settings._replace(node=node))
            found = self._connections[node] = await pool.get_connection()  # type: ignore[no-untyped-call]
        return found

    async def _list(self) -> "Slots":
        """By the first node that answers."""
        from redis.exceptions import RedisError

        from muster_coordinator.redis_streams.slots import Slots, ranges_of

        problem: Exception = OSError("no node is told")
        for address in self._settings.nodes:
            try:
                connection = await self._connection(address)
                await connection.send_command("CLUSTER", "SLOTS")
                return Slots(ranges_of(await connection.read_response(disable_decoding=True), address))
            except ValueError as error:
                problem = OSError(str(error))
            except (RedisError, OSError) as error:
                problem = error
        raise problem
