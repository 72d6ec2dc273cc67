"""The closed set of value shapes of our kinds. One description with three uses.

Each shape has its structural OpenAPI schema for the CRD, the parser and checks for the value that the API server
returns, and the text for the field tables. So CRD, parser and documents cannot disagree. Every string, list and map has
a maximum and every number both bounds: the API server needs them to bound the cost of CEL rules, and refuses a CRD
whose estimate is too high. (Schemas made by a model library have `$ref`, `null` and no list types: they are not
structural.)

`parse` ignores unknown fields, as API clients do: an older operator must work with a newer CRD. What it does not do:
evaluate CEL. A rule that must also hold in Python has a counterpart, `Rule.holds`, and a test runs both on the same
examples.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from muster_operator.api.errors import InvalidObject

Json = Any
UNSET: Final = object()
"""No default: the field is required or may be absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One CEL rule. `holds` is its counterpart in Python on the parsed value; None for a transition rule, which needs
    the old object, and for a rule that stored objects may break without harm."""

    cel: str
    message: str
    holds: Callable[[Any], bool] | None

    def schema(self) -> dict[str, Json]:
        return {"rule": self.cel, "message": self.message}


IMMUTABLE_CEL: Final = "self == oldSelf"


def immutable(field: str) -> Rule:
    """A rule for a field that is required or has a default; otherwise unsetting and setting it again would change
    it."""
    return Rule(cel=IMMUTABLE_CEL, message=f"`{field}` may not change", holds=None)


class Shape(Protocol):
    """The interface of all shapes. `rules` belong to the schema of the value itself."""

    @property
    def rules(self) -> tuple[Rule, ...]: ...

    @property
    def type_text(self) -> str:
        """One or two words for the field tables."""
        ...

    def schema(self) -> dict[str, Json]:
        """The schema without `rules` and description."""
        ...

    def parse(self, value: Json, path: str) -> Any:  # noqa: ANN401  # as typed as the shape
        """The value, checked against the schema. Raises `InvalidObject`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    max_length: int
    min_length: int = 0
    pattern: str | None = None
    pattern_text: str = ""
    """The pattern in words, for error messages."""
    choices: tuple[str, ...] = ()
    format: str | None = None
    rules: tuple[Rule, ...] = ()

    def schema(self) -> dict[str, Json]:
        found: dict[str, Json] = {"type": "string"}
        if self.choices:
            return found | {"enum": list(self.choices)}
        if self.min_length:
            found["minLength"] = self.min_length
        found["maxLength"] = self.max_length
        if self.pattern:
            found["pattern"] = self.pattern
        if self.format:
            found["format"] = self.format
        return found

    def parse(self, value: Json, path: str) -> str:
        if not isinstance(value, str):
            raise InvalidObject(path, "must be a string")
        if self.choices and value not in self.choices:
            raise InvalidObject(path, f"must be one of {', '.join(self.choices)}")
        if not self.min_length <= len(value) <= self.max_length:
            raise InvalidObject(path, f"must have {self.min_length} to {self.max_length} characters")
        if self.pattern and not re.search(self.pattern, value):
            raise InvalidObject(path, self.pattern_text or f"must match {self.pattern}")
        return value

    @property
    def type_text(self) -> str:
        return " \\| ".join(self.choices) if self.choices else "string"


def choice(*names: str) -> Text:
    return Text(max_length=max(map(len, names)), choices=names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer:
    low: int
    high: int
    rules: tuple[Rule, ...] = ()

    def schema(self) -> dict[str, Json]:
        wide = self.high > 2**31 - 1
        return {
            "type": "integer",
            "format": "int64" if wide else "int32",
            "minimum": self.low,
            "maximum": self.high,
        }

    def parse(self, value: Json, path: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidObject(path, "must be a whole number")
        if not self.low <= value <= self.high:
            raise InvalidObject(path, f"must be between {self.low} and {self.high}")
        return value

    @property
    def type_text(self) -> str:
        return f"integer {self.low}..{self.high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean:
    rules: tuple[Rule, ...] = ()

    def schema(self) -> dict[str, Json]:
        return {"type": "boolean"}

    def parse(self, value: Json, path: str) -> bool:
        if not isinstance(value, bool):
            raise InvalidObject(path, "must be true or false")
        return value

    @property
    def type_text(self) -> str:
        return "boolean"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntOrText:
    """Quantities (`cpu: 2`, `cpu: 500m`), ports by number or name, Kafka settings: YAML has both forms."""

    max_length: int
    pattern: str
    pattern_text: str
    name: str = "integer or string"
    rules: tuple[Rule, ...] = ()

    def schema(self) -> dict[str, Json]:
        return {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "maxLength": self.max_length,
            "pattern": self.pattern,
        }

    def parse(self, value: Json, path: str) -> int | str:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise InvalidObject(path, "must be a whole number or a string")
        if isinstance(value, str) and (len(value) > self.max_length or not re.search(self.pattern, value)):
            raise InvalidObject(path, self.pattern_text)
        return value

    @property
    def type_text(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """`keys`: a list-map, merged by these fields; `unique`: a set; neither: atomic, replaced as a whole."""

    items: Shape
    max_items: int
    min_items: int = 0
    keys: tuple[str, ...] = ()
    unique: bool = False
    rules: tuple[Rule, ...] = ()

    def schema(self) -> dict[str, Json]:
        found: dict[str, Json] = {"type": "array"}
        if self.min_items:
            found["minItems"] = self.min_items
        found["maxItems"] = self.max_items
        found["x-kubernetes-list-type"] = "map" if self.keys else "set" if self.unique else "atomic"
        if self.keys:
            found["x-kubernetes-list-map-keys"] = list(self.keys)
        found["items"] = complete(self.items)
        return found

    def parse(self, value: Json, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise InvalidObject(path, "must be a list")
        if not self.min_items <= len(value) <= self.max_items:
            raise InvalidObject(path, f"must have {self.min_items} to {self.max_items} items")
        parsed = tuple(checked(self.items, item, f"{path}[{i}]") for i, item in enumerate(value))
        identities = [tuple(item.get(key) for key in self.keys) if self.keys else item for item in value]
        if (self.keys or self.unique) and len(set(identities)) != len(identities):
            raise InvalidObject(path, f"may not hold the same {self.keys[0] if self.keys else 'value'} twice")
        return parsed

    @property
    def type_text(self) -> str:
        return f"list of {self.items.type_text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOf:
    values: Shape
    max_properties: int
    rules: tuple[Rule, ...] = ()

    def schema(self) -> dict[str, Json]:
        return {
            "type": "object",
            "maxProperties": self.max_properties,
            "additionalProperties": complete(self.values),
        }

    def parse(self, value: Json, path: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise InvalidObject(path, "must be a map")
        if len(value) > self.max_properties:
            raise InvalidObject(path, f"may have at most {self.max_properties} entries")
        return {str(key): checked(self.values, item, f"{path}.{key}") for key, item in value.items()}

    @property
    def type_text(self) -> str:
        return f"map of {self.values.type_text}"


def complete(shape: Shape) -> dict[str, Json]:
    """The shape's schema including its rules."""
    found = shape.schema()
    if shape.rules:
        found["x-kubernetes-validations"] = [rule.schema() for rule in shape.rules]
    return found


def checked(shape: Shape, value: Json, path: str) -> Any:  # noqa: ANN401  # as typed as the shape that made it
    """Parse, then apply the rules that have a counterpart in Python. Raises `InvalidObject`."""
    parsed = shape.parse(value, path)
    for rule in shape.rules:
        if rule.holds is not None and not rule.holds(parsed):
            raise InvalidObject(path, rule.message)
    return parsed
