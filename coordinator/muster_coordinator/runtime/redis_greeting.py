"""Connections to Redis whose greeting may be answered by anything, and a pool of them.

Problem: when a connection is made the library reads answers to HELLO, AUTH and SELECT as if they had the right shape;
one that has not is an error of its code, not of the server, and would end the process. By RESP3 it also asks each
server to tell of its maintenance, which one vendor's does and others note as a command without a right; and it takes
bytes that nobody has read for such news. Mechanism: an error of that kind is a connection that was not made, nobody is
asked for news of maintenance, and a connection with bytes that nobody has read is made anew before it is used. What
this does not do: greet.
"""

from redis.asyncio import BlockingConnectionPool
from redis.asyncio.connection import AbstractConnection, Connection, UnixDomainSocketConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from typing_extensions import override


class Greeting(AbstractConnection):
    """To be named before the library's class."""

    @override
    async def on_connect_check_health(self, check_health: bool = True) -> None:
        """Raises `redis.exceptions.RedisError` and OSError."""
        try:
            await super().on_connect_check_health(check_health)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            await self.disconnect(nowait=True)
            raise RedisConnectionError(f"no answer of Redis to a greeting: {error!r}") from error

    @override
    async def activate_maint_notifications_handling_if_enabled(self, check_health: bool = True) -> None:
        return


class Pool(BlockingConnectionPool):
    """Of such connections."""

    @override
    def maint_notifications_enabled(self) -> bool:
        return False

    @override
    async def release(self, connection: AbstractConnection) -> None:
        try:
            await super().release(connection)
        except BaseException:  # cancelled before it was taken back: nobody has it
            await connection.disconnect(nowait=True)
            raise


class TcpConnection(Greeting, Connection):
    """In the open."""


class SocketFileConnection(Greeting, UnixDomainSocketConnection):
    """By a file of this machine."""
