"""A Kafka connection without a client library: one frame out, one frame in, any API and version that kio knows.

For tests that must see exact answers and exact moments: generic groups, fail-over between two frames, pauses.
"""

import io
import itertools
import socket
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32


class Disconnected(Exception):
    """The other side closed, refused or did not answer in time: the request's fate is unknown."""


class RawClient:
    """One connection. Not thread-safe."""

    def __init__(self, host: str, port: int, *, client_id: str = "raw", timeout_s: float = 30) -> None:
        self.client_id = client_id
        self._correlation = itertools.count(1)
        self._waiting: dict[int, tuple[int, int]] = {}
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as error:
            raise Disconnected(str(error)) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, request: Any) -> int:
        """Returns the correlation id."""
        key, version = int(request.__api_key__), int(request.__version__)
        correlation = next(self._correlation)
        header_type = request.__header_schema__
        fields: dict[str, Any] = {
            "request_api_key": i16(key),
            "request_api_version": i16(version),
            "correlation_id": i32(correlation),
        }
        if int(header_type.__version__) >= 1:
            fields["client_id"] = self.client_id
        body = io.BytesIO()
        entity_writer(header_type)(body, header_type(**fields))
        entity_writer(type(request))(body, request)
        frame = body.getvalue()
        self._waiting[correlation] = (key, version)
        self.send_bytes(len(frame).to_bytes(4, "big") + frame)
        return correlation

    def send_bytes(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            self.close()
            raise Disconnected(str(error)) from error

    def receive(self, correlation: int | None = None) -> Any:
        """The next answer; answers come in the order of the requests."""
        frame = self.receive_frame()
        got = int.from_bytes(frame[:4], "big")
        assert correlation is None or got == correlation, f"answer {got}, expected {correlation}"
        key, version = self._waiting.pop(got)
        schema = load_response_schema(key, version)
        header = schema.__header_schema__
        _, at = entity_reader(header)(frame, 0)
        value, size = entity_reader(schema)(frame, at)
        assert at + size == len(frame), "bytes left over after the answer"
        return value

    def receive_frame(self) -> bytes:
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def call(self, request: Any) -> Any:
        return self.receive(self.send(request))

    def settimeout(self, seconds: float) -> None:
        self._socket.settimeout(seconds)

    def _exactly(self, count: int) -> bytes:
        parts: list[bytes] = []
        while count:
            try:
                part = self._socket.recv(min(count, 1 << 20))
            except OSError as error:
                self.close()
                raise Disconnected(str(error)) from error
            if not part:
                self.close()
                raise Disconnected("closed")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def request(api_key: int, version: int, **fields: Any) -> Any:
    """The request entity of `api_key` and `version`, nested entities given as dicts or lists of dicts."""
    return _build(load_request_schema(api_key, version), fields)


def _build(schema: Any, fields: dict[str, Any]) -> Any:
    values: dict[str, Any] = {}
    for name, value in fields.items():
        spec = schema.__dataclass_fields__[name]
        nested = _nested_type(schema, spec)
        if nested is not None and isinstance(value, list | tuple):
            value = tuple(_build(nested, item) if isinstance(item, dict) else item for item in value)
        values[name] = value
    return schema(**values)


def _nested_type(schema: Any, spec: Any) -> Any:
    """The dataclass inside `tuple[X, ...]`, if it is one of kio's nested entities."""
    import sys
    import typing

    hints = typing.get_type_hints(schema, vars(sys.modules[schema.__module__]))
    for candidate in _flatten(hints[spec.name]):
        if hasattr(candidate, "__dataclass_fields__"):
            return candidate
    return None


def _flatten(hint: Any) -> list[Any]:
    import typing

    arguments = typing.get_args(hint)
    return [hint] if not arguments else [leaf for argument in arguments for leaf in _flatten(argument)]
