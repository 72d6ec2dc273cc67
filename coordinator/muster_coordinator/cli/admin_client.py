"""Requests to the admin API of a replica: HTTP with a bearer token, JSON answers, failures as one sentence."""

import http.client
import json
import os
from pathlib import Path
from typing import Any

from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.properties import PropertiesError, parse_properties

ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""Largest answer that is read. /v1/partitions of 2,000 Raft groups takes about 1 MiB."""

Json = dict[str, Any]


def read_token(path: Path) -> str:
    """The bearer token of a file. Raises CliError."""
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(Exit.USAGE, f"cannot read the token file {path}: {error}") from error
    if not token:
        raise CliError(Exit.USAGE, f"the token file {path} is empty")
    return token


def dev_access(folder: Path) -> tuple[list[str], Path]:
    """Admin addresses and token file of a `muster dev` folder. Raises CliError."""
    addresses = []
    for path in sorted(folder.glob("replica-*/server.properties")):
        try:
            addresses.append(parse_properties(path.read_text())["muster.admin.listener"])
        except (OSError, PropertiesError, KeyError) as error:
            raise CliError(Exit.USAGE, f"cannot use {path}: {error}") from error
    if not addresses:
        raise CliError(Exit.USAGE, f"{folder} is not a folder of muster dev: it has no replica-N/server.properties")
    return addresses, folder / "admin-token"


def get_json(address: str, path: str, token: str, timeout_s: float) -> tuple[int, Json]:
    """(HTTP status, document) of a GET at the replica at host:port. Raises CliError."""
    return _exchange("GET", address, path, token, timeout_s, None)


def post_json(address: str, path: str, token: str, timeout_s: float, body: Json) -> tuple[int, Json]:
    """As `get_json`, for a POST."""
    return _exchange("POST", address, path, token, timeout_s, json.dumps(body))


def _exchange(method: str, address: str, path: str, token: str, timeout_s: float, body: str | None) -> tuple[int, Json]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise CliError(Exit.USAGE, f"{address!r} is not host:port")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout_s)
    try:
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        content = answer.read(ANSWER_BYTES_MAX)
    except (OSError, http.client.HTTPException) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise CliError(Exit.UNREACHABLE, f"{address} does not answer: {reason}") from error
    finally:
        connection.close()
    try:
        document = json.loads(content)
    except ValueError as error:
        raise CliError(Exit.REFUSED, f"{address}{path} does not answer JSON (HTTP {answer.status})") from error
    return answer.status, document if isinstance(document, dict) else {}


def ask_admin(address: str, path: str, token: str, timeout_s: float) -> Json:
    """The document at `path`. Raises CliError, also when there is none."""
    status, document = get_json(address, path, token, timeout_s)
    if status == http.HTTPStatus.OK:
        return document
    if status == http.HTTPStatus.UNAUTHORIZED:
        raise CliError(Exit.REFUSED, f"{address} rejects the token")
    code = Exit.UNREACHABLE if status == http.HTTPStatus.SERVICE_UNAVAILABLE else Exit.REFUSED
    raise CliError(code, f"{address}{path} answers HTTP {status}: {document.get('message', '')}".rstrip(": "))
