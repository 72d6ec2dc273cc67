"""Makes `wire/schemas.json` out of kio's generated entity classes: `python -m tests.wire.schemas_from_kio`.

Run it after a new row in `wire.versions` or a new kio; `test_schema.py` fails until it was. kio's types are reduced to
what a codec needs: times to integers of milliseconds, error codes to integers, no UUID to the zero UUID.
"""

import json
import types
import typing
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import muster_coordinator.wire.schema
from kio.index import load_request_schema, load_response_schema
from muster_coordinator.wire.versions import VERSIONS

TABLE = Path(muster_coordinator.wire.schema.__file__).with_name("schemas.json")
_RENAMED = {
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
    "error_code": "int16",
    "records": "bytes",
}
_TIMES = ("timedelta_i32", "timedelta_i64", "datetime_i64")
_EMPTY_UUID = "00" * 16


def _strip_none(annotation: Any) -> tuple[Any, bool]:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        inner = [a for a in typing.get_args(annotation) if a is not type(None)]
        assert len(inner) == 1, annotation
        return inner[0], True
    return annotation, False


def _plain(value: Any, kind: str) -> Any:
    """A kio default as the plain value that our side uses."""
    if kind in ("timedelta_i32", "timedelta_i64"):
        return round(value.total_seconds() * 1000)
    if kind == "datetime_i64":
        return -1 if value is None else round(value.timestamp() * 1000)
    if kind == "uuid":
        return _EMPTY_UUID if value is None else value.hex
    if kind == "error_code":
        return int(value.value)
    if kind.startswith(("int", "uint")):
        return int(value)
    if is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    return value


class Table:
    """Collects structures, each once, those inside before those around them."""

    def __init__(self) -> None:
        self.structures: list[dict[str, Any]] = []
        self._places: dict[str, int] = {}

    def add(self, kio_class: Any) -> int:
        """The place of a class's structure."""
        row = {
            "name": kio_class.__name__,
            "flexible": kio_class.__flexible__,
            "fields": [self._field(f) for f in fields(kio_class)],
        }
        assert row["flexible"] or not any("tag" in one for one in row["fields"])
        place = self._places.setdefault(json.dumps(row), len(self.structures))
        if place == len(self.structures):
            self.structures.append(row)
        return place

    def _field(self, source: Any) -> dict[str, Any]:
        annotation, nullable = _strip_none(source.type)
        array = typing.get_origin(annotation) is tuple
        if array:
            annotation, _ = _strip_none(typing.get_args(annotation)[0])
        raw = "entity" if is_dataclass(annotation) else source.metadata["kafka_type"]
        kind = _RENAMED.get(raw, raw)
        row: dict[str, Any] = {"name": source.name + "_ms" if raw in _TIMES else source.name, "kind": kind}
        if kind == "entity":
            row["structure"] = self.add(annotation)
        if array:
            row["array"] = True
        tag = source.metadata.get("tag")
        if nullable and tag is None and (array or kind in ("string", "bytes", "entity")):
            row["nullable"] = True
        if tag is not None:
            row["tag"] = tag
        if source.default is not MISSING:
            row["default"] = source.default if array else _plain(source.default, raw)
        elif raw == "uuid" and not array:
            row["default"] = _EMPTY_UUID  # a missing id is none
        elif source.name.startswith("throttle_time") and not array:
            row["default"] = 0  # quotas do not exist, so nobody is ever throttled
        return row


def _lines(table: Table, messages: dict[str, int]) -> Iterator[str]:
    """JSON with a line for each field, so that a change of a version is a few lines of a diff."""
    yield '{"structures": ['
    for place, row in enumerate(table.structures):
        yield f'{{"name": "{row["name"]}", "flexible": {json.dumps(row["flexible"])}, "fields": ['
        yield ",\n".join(f"  {json.dumps(one)}" for one in row["fields"])
        yield "]}" if place == len(table.structures) - 1 else "]},"
    yield '], "messages": {'
    yield ",\n".join(f'  "{name}": {place}' for name, place in messages.items())
    yield "}}"


def table_text() -> str:
    """What the file must hold."""
    table, messages = Table(), {}
    for api, versions in VERSIONS.items():
        for version in range(versions.min, versions.max + 1):
            for direction, load in (("request", load_request_schema), ("response", load_response_schema)):
                messages[f"{int(api)}.{version}.{direction}"] = table.add(load(api, version))
    return "\n".join(line for line in _lines(table, messages) if line) + "\n"


if __name__ == "__main__":
    TABLE.write_text(table_text())
