"""A connection to Redis with TLS, whose files are looked at whenever it is made.

Problem: the library makes a context when a connection object first connects and keeps it for all later ones, so after
certificates were renewed a process that goes on for months reaches Redis no more; and it trusts the system's
authorities besides the one that is named. Mechanism: before each connect a context of ours is put in the library's
place, made anew only when a file is another one (`client_context`): while Redis is away there are many tries a second.
Files that do not go together, as in the middle of a renewal, are a server that cannot be reached. What this does not
do: end connections whose certificate was replaced.
"""

from redis.asyncio.connection import SSLConnection
from typing_extensions import override

from muster_coordinator.runtime.client_context import context_of
from muster_coordinator.runtime.redis_greeting import Greeting


class RenewedConnection(Greeting, SSLConnection):
    """As the library's, which is given paths."""

    @override
    async def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
        """Raises OSError, of which SSLError is one, if a file is missing or OpenSSL does not take it."""
        if not self.is_connected:
            paths = self.ssl_context
            paths.context = context_of(paths.ca_certs, paths.certfile, paths.keyfile)
        await super().connect_check_health(check_health, retry_socket_connect)
