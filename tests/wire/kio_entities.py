"""kio's entities from plain values and back: the second implementation that our codecs are held against."""

import datetime as dt
import io
import uuid
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MS = dt.timedelta(milliseconds=1)
_TIMES = ("timedelta_i32", "timedelta_i64", "datetime_i64")


def kio_class(api: int, version: int, direction: str) -> Any:
    """The message class."""
    load = load_request_schema if direction == "request" else load_response_schema
    return load(i16(api), version)


@cache
def structure_of(annotation: Any) -> Any:
    """The entity class inside a field's type, if any."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation if is_dataclass(annotation) else None
    found = [structure_of(arg) for arg in get_args(annotation) if arg is not Ellipsis]
    return next((one for one in found if one is not None), None)


def is_array(annotation: Any) -> bool:
    """Whether a field holds a tuple, null allowed or not."""
    return get_origin(annotation) is tuple or any(get_origin(a) is tuple for a in get_args(annotation))


def plain_name(field: Any) -> str:
    """Our name of a field."""
    return field.name + "_ms" if field.metadata.get("kafka_type") in _TIMES else field.name


def _zero(field: Any) -> Any:
    if is_array(field.type):
        return ()
    if type(None) in get_args(field.type):
        return None
    kafka_type = field.metadata.get("kafka_type", "")
    if kafka_type.startswith("timedelta"):
        return dt.timedelta(0)
    return {"string": "", "bytes": b"", "records": b"", "bool": False}.get(kafka_type, 0)


def _to_kio(value: Any, kafka_type: str) -> Any:
    if kafka_type.startswith("timedelta"):
        return value * _MS
    if kafka_type == "datetime_i64":
        return None if value == -1 else _EPOCH + value * _MS
    if kafka_type == "uuid":
        return uuid.UUID(bytes=value) if isinstance(value, bytes) else value
    if kafka_type == "error_code":
        return ErrorCode(value)
    return value


def build(cls: Any, values: dict[str, Any]) -> Any:
    """An entity from plain values; what other versions have is left out, what is missing becomes the default or
    zero."""
    given = {}
    for field in fields(cls):
        plain = values.get(plain_name(field), MISSING)
        inner = structure_of(field.type)
        kafka_type = field.metadata.get("kafka_type", "")
        if plain is MISSING:
            given[field.name] = _zero(field) if field.default is MISSING else field.default
        elif plain is None:
            given[field.name] = None
        elif is_array(field.type):
            given[field.name] = tuple(build(inner, v) if inner else _to_kio(v, kafka_type) for v in plain)
        else:
            given[field.name] = build(inner, plain) if inner else _to_kio(plain, kafka_type)
    return cls(**given)


def _from_kio(value: Any, kafka_type: str) -> Any:
    if kafka_type.startswith("timedelta"):
        return value // _MS
    if kafka_type == "datetime_i64":
        return -1 if value is None else (value - _EPOCH) // _MS
    if kafka_type == "uuid":
        return bytes(16) if value is None else value.bytes
    if kafka_type == "error_code":
        return int(value.value)
    return value


def plain(entity: Any) -> Any:
    """Plain values of an entity: what our side says in the same place."""
    if entity is None:
        return None
    values = {}
    for field in fields(entity):
        value = getattr(entity, field.name)
        inner = structure_of(field.type)
        kafka_type = field.metadata.get("kafka_type", "")
        if value is None and kafka_type not in ("uuid", "datetime_i64"):
            values[plain_name(field)] = None
        elif is_array(field.type):
            values[plain_name(field)] = tuple(plain(v) if inner else _from_kio(v, kafka_type) for v in value)
        else:
            values[plain_name(field)] = plain(value) if inner else _from_kio(value, kafka_type)
    return values


def encode(entity: Any) -> bytes:
    """The body."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def encode_request(api: int, version: int, values: dict[str, Any], correlation: int, client_id: str | None) -> bytes:
    """A whole frame."""
    cls = kio_class(api, version, "request")
    header = cls.__header_schema__(
        request_api_key=i16(api),
        request_api_version=i16(version),
        correlation_id=i32(correlation),
        client_id=client_id,
    )
    body = encode(header) + encode(build(cls, values))
    return len(body).to_bytes(4, "big") + body


def decode_answer(api: int, version: int, frame: bytes) -> tuple[int, Any]:
    """(correlation id, entity) of a whole frame; every byte must be used."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    cls = kio_class(api, version, "response")
    header, size = entity_reader(cls.__header_schema__)(frame[4:], 0)
    entity, used = entity_reader(cls)(frame[4 + size :], 0)
    assert 4 + size + used == len(frame)
    return header.correlation_id, entity
