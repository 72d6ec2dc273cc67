"""Why the operator could not log in to a secured cluster. Blocking; asked once after a client could not be made.

kafka-python tries until its time is up and reports only that: a wrong password, an unknown CA and a network that is
down look the same. So one address is asked step by step: a connection, a handshake, an authentication. Each step has
a reason of its own. A message never has what the other side sent, nor anything of the login.
"""

import socket
import ssl
import struct
from typing import Any, Final

import kafka.errors
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from muster_operator.errors import Transient
from muster_operator.kafka.security import settings
from muster_operator.limits import KAFKA_DIAGNOSIS_TIMEOUT_MS, KAFKA_SASL_BYTES_MAX, KAFKA_SASL_MESSAGES_MAX
from muster_operator.ports import Clock
from muster_operator.world.login import Endpoint

Untyped = Any
NOT_TRUSTED: Final = "CertificateNotTrusted"
NO_TLS: Final = "TlsFailed"
NOT_OFFERED: Final = "MechanismNotOffered"
NOT_AUTHENTICATED: Final = "AuthenticationFailed"
LOGIN_REASONS: Final = frozenset({NOT_TRUSTED, NO_TLS, NOT_OFFERED, NOT_AUTHENTICATED})
"""The cluster answers, and the login is not right, or not right any more."""
_UNREADABLE: Final = (
    struct.error, ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError, ValueError,
    kafka.errors.KafkaError,
)  # fmt: skip
"""What kafka-python raises for bytes of another form."""
_UNSUPPORTED_MECHANISM: Final = 33
_AUTHENTICATION_FAILED: Final = 58


class _Limit:
    """Of all steps together."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._end_ms = clock.monotonic_ms() + KAFKA_DIAGNOSIS_TIMEOUT_MS

    def left_s(self) -> float:
        """Raises OSError when it is over."""
        left_ms = self._end_ms - self._clock.monotonic_ms()
        if left_ms <= 0:
            raise OSError("the time is up")
        return left_ms / 1_000


def why_not(endpoint: Endpoint, clock: Clock) -> Transient | None:
    """The reason if this address shows one; None: it does not answer, or it lets the operator in by now. Raises
    Transient if the login cannot be used at all."""
    login = endpoint.login
    given = settings(login)
    first = endpoint.bootstrap.split(",")[0].strip()
    host, _, port = first.rpartition(":")
    limit = _Limit(clock)
    try:
        with socket.create_connection((host.strip("[]"), int(port)), KAFKA_DIAGNOSIS_TIMEOUT_MS / 1_000) as plain:
            if not login.tls:
                return _authenticate(plain, host, given, limit) if login.mechanism else None
            context: ssl.SSLContext = given["ssl_context"]
            with context.wrap_socket(plain, server_hostname=host.strip("[]").rstrip(".")) as wrapped:
                return _authenticate(wrapped, host, given, limit) if login.mechanism else None
    except ssl.SSLCertVerificationError as error:
        return Transient(NOT_TRUSTED, f"the certificate of {first} is not trusted: {error.verify_message}")
    except ssl.SSLError:
        return Transient(NO_TLS, f"{first} ends the TLS handshake: no TLS there, or a certificate is wanted")
    except (OSError, ValueError):
        return None


def _authenticate(link: socket.socket, host: str, given: dict[str, Untyped], limit: _Limit) -> Transient | None:
    mechanism: str = given["sasl_mechanism"]
    refused = Transient(NOT_AUTHENTICATED, f"the cluster does not take the login by {mechanism}")
    answer = _ask(link, SaslHandshakeRequest(mechanism=mechanism, version=1), SaslHandshakeResponse, limit)
    if answer.error_code == _UNSUPPORTED_MECHANISM:
        return Transient(NOT_OFFERED, f"the listener does not offer {mechanism}")
    exchange = get_sasl_mechanism(mechanism)(host=host, **given)
    for _ in range(KAFKA_SASL_MESSAGES_MAX):
        request = SaslAuthenticateRequest(auth_bytes=exchange.auth_bytes(), version=0)
        answer = _ask(link, request, SaslAuthenticateResponse, limit)
        if answer.error_code == _AUTHENTICATION_FAILED:
            return refused
        if answer.error_code:
            return None
        try:
            exchange.receive(answer.auth_bytes)
        except _UNREADABLE:
            return refused  # the server's own proof is wrong: it does not know the password
        if exchange.is_done():
            return None if exchange.is_authenticated() else refused
    return None


def _ask(link: socket.socket, request: Untyped, kind: Untyped, limit: _Limit) -> Untyped:
    request.with_header(correlation_id=1, client_id="muster-operator")
    link.settimeout(limit.left_s())
    link.sendall(request.encode(framed=True, header=True))
    (size,) = struct.unpack(">i", _read(link, 4, limit))
    if not 0 <= size <= KAFKA_SASL_BYTES_MAX:
        raise ValueError("no answer of Kafka's protocol")
    try:
        return kind.decode(_read(link, size, limit), version=request.API_VERSION, header=True)
    except _UNREADABLE:
        raise ValueError("no answer of Kafka's protocol") from None


def _read(link: socket.socket, count: int, limit: _Limit) -> bytes:
    found = b""
    while len(found) < count:
        link.settimeout(limit.left_s())
        part = link.recv(count - len(found))
        if not part:
            raise OSError("closed")
        found += part
    return found
