"""Requests encoded and answers decoded by kafka-python's schemas: an implementation that shares nothing with ours."""

import importlib
import itertools
import re
import socket
from typing import Any

MODULES = ("consumer", "admin", "metadata", "producer", "sasl")


def message(name: str) -> Any:
    """kafka-python's class of a request or response, e.g. `message("JoinGroupRequest")`."""
    for module in MODULES:
        found = getattr(importlib.import_module(f"kafka.protocol.{module}"), name, None)
        if found is not None:
            return found
    raise AssertionError(name)


class SecondClient:
    """One connection; `ask("Metadata", 9, topics=None)`."""

    def __init__(self, port: int, host: str = "127.0.0.1", source: str | None = None) -> None:
        """`source`: the address to connect from; of loopback there are many."""
        bound = None if source is None else (source, 0)
        self._socket = socket.create_connection((host, port), timeout=30, source_address=bound)
        self._correlation = itertools.count(1)

    def close(self) -> None:
        self._socket.close()

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        """The decoded answer. Fields that the version does not have are left out by the encoder."""
        kind = message(f"{api}Request")
        request = kind(version=version, **_nested(kind, kind.json["fields"], fields))
        correlation = next(self._correlation)
        request.with_header(correlation, "second")
        self._socket.sendall(bytes(request.encode(header=True, framed=True)))
        frame = self._exactly(int.from_bytes(self._exactly(4), "big"))
        assert int.from_bytes(frame[:4], "big") == correlation
        return message(f"{api}Response").decode(frame, version=version, header=True)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            assert part, "the server closed the connection"
            data += part
        return data


def _nested(kind: Any, schema: list[dict[str, Any]], fields: dict[str, Any]) -> dict[str, Any]:
    """Dicts inside `fields` as the nested classes that kafka-python makes from the schema."""
    types = {_snake(field["name"]): field for field in schema}
    return {name: _value(kind, types[name], value) for name, value in fields.items() if name in types}


def _value(kind: Any, field: dict[str, Any], value: Any) -> Any:
    if isinstance(value, list):
        return [_value(kind, field, item) for item in value]
    if isinstance(value, dict):
        nested = getattr(kind, field["type"].removeprefix("[]"))
        return nested(**_nested(nested, field["fields"], value))
    return value


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
