"""The TLS context of connections to somebody else's server, made anew when one of its files is another one.

Problem: certificates are renewed while a process goes on for months, and a context takes milliseconds of the loop.
Mechanism: the files' marks are looked at for each connection, and a context is made when they differ. Certificate and
name are always verified; an authority that is named is the only one. What this does not do: watch files (`tls_store`),
look for revocations, or read the system's authorities again.
"""

import os
import ssl
from collections.abc import Iterable
from functools import lru_cache

Stamp = tuple[int, int, int]


def context_of(ca: str | None, certificate: str | None, key: str | None, password: str = "") -> ssl.SSLContext:
    """It trusts the authorities in `ca`, or without it those of the system. Raises OSError, of which SSLError is one,
    if a file is missing or OpenSSL does not take it."""
    stamps = tuple(_stamps(path for path in (ca, certificate, key) if path is not None))
    return _made(ca, certificate, key, password, stamps)


def _stamps(paths: Iterable[str]) -> Iterable[Stamp]:
    """What differs when a file is another one: a Secret's volume changes by a link to files that were made before."""
    for path in paths:
        found = os.stat(path)
        yield found.st_ino, found.st_mtime_ns, found.st_size


@lru_cache(maxsize=4)
def _made(
    ca: str | None, certificate: str | None, key: str | None, password: str, _stamps: tuple[Stamp, ...]
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None:
        # Always a password: without one OpenSSL asks the terminal for that of an encrypted key.
        context.load_cert_chain(certificate, key, lambda: password)
    if ca is not None:
        context.load_verify_locations(ca)
    else:
        context.load_default_certs()
    return context
