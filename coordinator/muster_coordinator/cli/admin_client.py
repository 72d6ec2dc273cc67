"""Requests to the admin API of a replica: HTTP or HTTPS by an `AdminLogin`, JSON answers, failures as one sentence."""

import http.client
import json
import os
import ssl
from typing import Any

from muster_coordinator.cli.admin_login import AdminLogin
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.options import DEFAULT_ADMIN

ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""Largest answer that is read. /v1/partitions of 2,000 Raft groups takes about 1 MiB."""

WHERE_ELSE = ": --admin names another address, --dev the folder of a muster dev"
"""For who named none."""

Json = dict[str, Any]
_CLOSED = (ConnectionResetError, BrokenPipeError, http.client.BadStatusLine, ssl.SSLEOFError)
"""How it looks when the other side has ended the connection."""


def get_json(address: str, path: str, login: AdminLogin, timeout_s: float) -> tuple[int, Json]:
    """(HTTP status, document) of a GET at the replica at host:port. Raises CliError."""
    return _exchange("GET", address, path, login, timeout_s, None)


def post_json(address: str, path: str, login: AdminLogin, timeout_s: float, body: Json) -> tuple[int, Json]:
    """As `get_json`, for a POST."""
    return _exchange("POST", address, path, login, timeout_s, json.dumps(body))


def _exchange(
    method: str, address: str, path: str, login: AdminLogin, timeout_s: float, body: str | None
) -> tuple[int, Json]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise CliError(Exit.USAGE, f"{address!r} is not host:port")
    connection = _connection(host.strip("[]"), int(port), login.tls, timeout_s)
    try:
        headers = {"Accept": "application/json"}
        if login.token:
            headers["Authorization"] = f"Bearer {login.token}"
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        content = answer.read(ANSWER_BYTES_MAX)
    except (OSError, http.client.HTTPException) as error:
        cure = WHERE_ELSE if address == DEFAULT_ADMIN and isinstance(error, ConnectionRefusedError) else ""
        raise CliError(Exit.UNREACHABLE, f"{address} {_sentence(error, login)}{cure}") from error
    finally:
        connection.close()
    try:
        document = json.loads(content)
    except ValueError as error:
        raise CliError(Exit.REFUSED, f"{address}{path} does not answer JSON (HTTP {answer.status})") from error
    return answer.status, document if isinstance(document, dict) else {}


def _connection(host: str, port: int, tls: ssl.SSLContext | None, timeout_s: float) -> http.client.HTTPConnection:
    if tls is None:
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=tls)


def _sentence(error: Exception, login: AdminLogin) -> str:
    """What is wrong, and of TLS what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"has a certificate that is not trusted ({error.verify_message}): name its CA by ssl.truststore.location"
    if isinstance(error, _CLOSED):
        # With TLS 1.3 a client learns only after its handshake that it should have shown a certificate, or not at all.
        if login.tls is None:
            return (
                "closed the connection unanswered: if its admin API is https, give --config with security.protocol=SSL"
            )
        return (
            "closed the connection unanswered: if it asks for a client certificate, name one by ssl.keystore.location "
            "in --config"
        )
    if isinstance(error, ssl.SSLError):
        said = error.reason or ""
        if "CERTIFICATE_REQUIRED" in said or "HANDSHAKE_FAILURE" in said:
            return "asks for a client certificate: name one by ssl.keystore.location in --config"
        if "ALERT" in said:
            return f"does not take the client's certificate ({said.lower().replace('_', ' ')})"
        return "does not speak TLS: write muster.admin.tls=false in --config if it is to be plain HTTP"
    reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return f"does not answer: {reason}"


def ask_admin(address: str, path: str, login: AdminLogin, timeout_s: float) -> Json:
    """The document at `path`. Raises CliError, also when there is none."""
    status, document = get_json(address, path, login, timeout_s)
    if status == http.HTTPStatus.OK:
        return document
    if status == http.HTTPStatus.UNAUTHORIZED:
        raise CliError(Exit.REFUSED, f"{address} rejects the {'token' if login.token else 'certificate'}")
    code = Exit.UNREACHABLE if status == http.HTTPStatus.SERVICE_UNAVAILABLE else Exit.REFUSED
    raise CliError(code, f"{address}{path} answers HTTP {status}: {document.get('message', '')}".rstrip(": "))
