"""An object against a generated schema, as strictly as kubectl: unknown fields are errors, CEL is left to others."""

from typing import Any

import jsonschema
from muster_operator.api.crd import root_schema
from muster_operator.api.kinds import KINDS


def strict(schema: Any) -> Any:
    """The schema with unknown fields forbidden wherever fields are named."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(item) for key, item in schema.items() if key != "default"}
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        found["additionalProperties"] = False
    return found


def problems(manifest: dict[str, Any]) -> list[str]:
    """What the schema of the manifest's kind says against it; [] when nothing."""
    kind = next(item for item in KINDS if item.kind == manifest["kind"])
    validator = jsonschema.Draft202012Validator(strict(root_schema(kind)))
    return [f"{'.'.join(map(str, error.path))}: {error.message}" for error in validator.iter_errors(manifest)]
