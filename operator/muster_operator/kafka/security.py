"""A `Login` as the settings of kafka-python: an SSL context, a SASL mechanism, or nothing.

Chain and host name are always verified; there is no way to switch that off. Keys are handed to OpenSSL through a file
in memory where the system has such files, since its interface takes paths only: no key is ever written to a disk.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from muster_operator.errors import Transient
from muster_operator.world.login import Login

Untyped = Any
UNUSABLE = "SecretUnusable"


class _Token(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no type hints
    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


def settings(login: Login) -> dict[str, Untyped]:
    """Keyword arguments of kafka-python's admin client. Raises Transient if certificate, key or authorities cannot be
    read; the message names which, and nothing of them."""
    found: dict[str, Untyped] = {"security_protocol": login.protocol}
    if login.tls:
        found["ssl_context"] = ssl_context(login)
    if login.mechanism:
        found["sasl_mechanism"] = login.mechanism
        if login.mechanism == "OAUTHBEARER":
            found["sasl_oauth_token_provider"] = _Token(login.token)
        else:
            found["sasl_plain_username"] = login.username
            found["sasl_plain_password"] = login.password
    return found


def ssl_context(login: Login) -> ssl.SSLContext:
    """Raises Transient."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if login.ca:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # these authorities alone
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_verify_locations(cadata=login.ca)
        except (ssl.SSLError, ValueError):
            raise Transient(UNUSABLE, "the authorities in `tls.caSecret` are not certificates in PEM") from None
    if login.certificate:
        with _file(login.certificate + "\n" + login.key) as path:
            try:
                context.load_cert_chain(path, password=_no_password)
            except (ssl.SSLError, ValueError, OSError):
                message = "certificate and key of `authentication.secret` are not a pair in PEM without a password"
                raise Transient(UNUSABLE, message) from None
    return context


def _no_password() -> str:
    """OpenSSL would ask the terminal."""
    raise ValueError("the key is encrypted")


@contextmanager
def _file(text: str) -> Iterator[str]:
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("client", os.MFD_CLOEXEC)
        with os.fdopen(number, "wb") as file:
            file.write(text.encode())
            file.flush()
            yield f"/proc/self/fd/{number}"
        return
    with tempfile.NamedTemporaryFile() as named:
        named.write(text.encode())
        named.flush()
        yield named.name
