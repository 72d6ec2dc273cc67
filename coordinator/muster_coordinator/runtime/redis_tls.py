"""A connection to Redis with TLS, whose files are read whenever it is made.

Problem: the library makes a context when a connection object first connects and keeps it for all later ones, so after
certificates were renewed a process that goes on for months reaches Redis no more; and it trusts the system's
authorities besides the one that is named. Mechanism: before each connect a context of its own is put in the library's
place. Files that do not go together, as in the middle of a renewal, are a server that cannot be reached, and read again
at the next connect. What this does not do: end connections whose certificate was replaced, or look for revocations.
"""

import ssl

from redis.asyncio.connection import SSLConnection
from typing_extensions import override


class RenewedConnection(SSLConnection):
    """As the library's, which is given paths."""

    @override
    async def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
        """Raises OSError, of which SSLError is one, if a file is missing or OpenSSL does not take it."""
        if not self.is_connected:
            paths = self.ssl_context
            paths.context = made(paths.ca_certs, paths.certfile, paths.keyfile)
        await super().connect_check_health(check_health, retry_socket_connect)


def made(ca: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    """Trusts the authorities in `ca`, or without it those of the system; verifies certificate and name."""
    context = ssl.create_default_context(cafile=ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context
