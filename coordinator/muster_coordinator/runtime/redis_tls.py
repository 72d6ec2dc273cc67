"""A connection to Redis with TLS, whose files are looked at whenever it is made.

Problem: the library makes a context when a connection object first connects and keeps it for all later ones, so after
certificates were renewed a process that goes on for months reaches Redis no more; and it trusts the system's
authorities besides the one that is named. Mechanism: before each connect a context of ours is put in the library's
place, made anew only when a file is another one: while Redis is away there are many tries a second, and a context takes
milliseconds of the loop. Files that do not go together, as in the middle of a renewal, are a server that cannot be
reached. What this does not do: end connections whose certificate was replaced, look for revocations, or read the
system's authorities again.
"""

import os
import ssl
from collections.abc import Iterable
from functools import lru_cache

from redis.asyncio.connection import SSLConnection
from typing_extensions import override

Stamp = tuple[int, int, int]


class RenewedConnection(SSLConnection):
    """As the library's, which is given paths."""

    @override
    async def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
        """Raises OSError, of which SSLError is one, if a file is missing or OpenSSL does not take it."""
        if not self.is_connected:
            paths = self.ssl_context
            paths.context = context_of(paths.ca_certs, paths.certfile, paths.keyfile)
        await super().connect_check_health(check_health, retry_socket_connect)


def context_of(ca: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    """It trusts the authorities in `ca`, or without it those of the system, and verifies certificate and name."""
    return _made(ca, certificate, key, tuple(_stamps(path for path in (ca, certificate, key) if path is not None)))


def _stamps(paths: Iterable[str]) -> Iterable[Stamp]:
    """What differs when a file is another one: a Secret's volume changes by a link to files that were made before."""
    for path in paths:
        found = os.stat(path)
        yield found.st_ino, found.st_mtime_ns, found.st_size


@lru_cache(maxsize=2)
def _made(ca: str | None, certificate: str | None, key: str | None, _stamps: tuple[Stamp, ...]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    if ca is not None:
        context.load_verify_locations(ca)
    else:
        context.load_default_certs()
    return context
