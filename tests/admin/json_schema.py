"""The part of JSON Schema that docs/admin-api.schema.json uses; an unknown keyword fails: nothing goes unchecked."""

import json
from pathlib import Path
from typing import Any

SCHEMA_FILE = Path(__file__).resolve().parents[2] / "docs" / "admin-api.schema.json"
_KNOWN = {"type", "properties", "required", "additionalProperties", "items", "enum", "$ref", "description"}
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def load() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(SCHEMA_FILE.read_text())
    return document


def violations(value: Any, schema: dict[str, Any], root: dict[str, Any], where: str = "$") -> list[str]:
    """Everything wrong with `value`; empty when it conforms."""
    assert schema.keys() <= _KNOWN, f"{where}: keywords {schema.keys() - _KNOWN} are not checked"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        return violations(value, root["$defs"][name], root, where)
    found: list[str] = []
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(_is(value, name) for name in names):
            return [f"{where}: {value!r} is no {' or '.join(names)}"]
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where}: {value!r} is none of {schema['enum']}")
    if isinstance(value, dict):
        found += _object_violations(value, schema, root, where)
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            found += violations(item, schema["items"], root, f"{where}[{index}]")
    return found


def _object_violations(value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any], where: str) -> list[str]:
    found = [f"{where}: {name} is missing" for name in schema.get("required", ()) if name not in value]
    properties = schema.get("properties", {})
    extra = schema.get("additionalProperties", True)
    for name, item in value.items():
        if name in properties:
            found += violations(item, properties[name], root, f"{where}.{name}")
        elif extra is False:
            found.append(f"{where}: {name} is not in the contract")
        elif isinstance(extra, dict):
            found += violations(item, extra, root, f"{where}.{name}")
    return found


def _is(value: Any, name: str) -> bool:
    if name == "integer" and isinstance(value, bool):
        return False
    return isinstance(value, _TYPES[name])
