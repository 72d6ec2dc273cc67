"""Objects of our kinds: frozen dataclasses whose fields carry shape, default and documentation.

`spec_field(...)` is a dataclass field; `Record(cls)` is the shape of such a dataclass; `Struct(...)` is the shape of a
part of a pod that is passed through to Kubernetes unchanged (affinity): typed in the schema, a plain dict in Python.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any

from muster_operator.api.errors import InvalidObject
from muster_operator.api.schema import UNSET, Json, Rule, Shape, checked, complete


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One field under the name that users write."""

    name: str
    shape: Shape
    text: str
    required: bool = False
    default: Json = UNSET

    def schema(self) -> dict[str, Json]:
        found: dict[str, Json] = {"description": self.text, **complete(self.shape)}
        if self.default is not UNSET:
            found["default"] = self._whole_default()
        return found

    def _whole_default(self) -> Json:
        """The default with all inner defaults: the API server applies rules to a default as written, before it fills in
        inner ones."""
        if isinstance(self.shape, Record) and self.shape.rules:
            return plain(self.shape.parse(self.default, self.name))
        return self.default


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def spec_field(shape: Shape, text: str, *, default: Json = UNSET, required: bool = False, name: str = "") -> Any:  # noqa: ANN401
    """A field of a dataclass that `Record` describes. `default` is the JSON value, as in the CRD; without one, and
    unless `required`, the field may be absent and is then None."""
    metadata = {"shape": shape, "text": text, "required": required, "default": default, "name": name}
    if required:
        return field(metadata=metadata)
    if default is UNSET:
        return field(default=None, metadata=metadata)
    return field(default_factory=lambda: checked(shape, default, "default"), metadata=metadata)


@cache
def properties_of(cls: type) -> tuple[Property, ...]:
    return tuple(
        Property(
            name=item.metadata["name"] or camel(item.name),
            shape=item.metadata["shape"],
            text=item.metadata["text"],
            required=item.metadata["required"],
            default=item.metadata["default"],
        )
        for item in fields(cls)
    )


@cache
def attributes_of(cls: type) -> Mapping[str, str]:
    """By the name that users write, that of the dataclass."""
    return {item.metadata["name"] or camel(item.name): item.name for item in fields(cls)}


def _object_schema(properties: tuple[Property, ...]) -> dict[str, Json]:
    found: dict[str, Json] = {"type": "object"}
    required = [item.name for item in properties if item.required]
    if required:
        found["required"] = required
    found["properties"] = {item.name: item.schema() for item in properties}
    return found


def _parse_properties(properties: tuple[Property, ...], value: Json, path: str) -> dict[str, Any]:
    """Values by JSON name; absent fields are left out, except those with a default."""
    if not isinstance(value, Mapping):
        raise InvalidObject(path, "must be an object")
    found: dict[str, Any] = {}
    for item in properties:
        given = value.get(item.name)
        if given is None:
            if item.required:
                raise InvalidObject(f"{path}.{item.name}", "must be set")
            if item.default is UNSET:
                continue
            given = item.default
        found[item.name] = checked(item.shape, given, f"{path}.{item.name}")
    return found


@dataclass(frozen=True, slots=True)
class Record:
    """The shape of a dataclass made with `spec_field`; its class attribute `RULES`, if any, applies to the whole
    value."""

    cls: type

    @property
    def rules(self) -> tuple[Rule, ...]:
        found: tuple[Rule, ...] = getattr(self.cls, "RULES", ())
        return found

    @property
    def properties(self) -> tuple[Property, ...]:
        return properties_of(self.cls)

    def schema(self) -> dict[str, Json]:
        return _object_schema(self.properties)

    def parse(self, value: Json, path: str) -> Any:  # noqa: ANN401
        parsed = _parse_properties(self.properties, value, path)
        attributes = attributes_of(self.cls)
        return self.cls(**{attributes[name]: item for name, item in parsed.items()})

    @property
    def type_text(self) -> str:
        return "object"


@dataclass(frozen=True, slots=True)
class Struct:
    """A part of Kubernetes' own API, passed through: parsed into plain dicts and lists of known fields."""

    properties: tuple[Property, ...]
    rules: tuple[Rule, ...] = ()

    def schema(self) -> dict[str, Json]:
        return _object_schema(self.properties)

    def parse(self, value: Json, path: str) -> dict[str, Json]:
        return {name: plain(item) for name, item in _parse_properties(self.properties, value, path).items()}

    @property
    def type_text(self) -> str:
        return "object"


def prop(
    name: str,
    shape: Shape,
    text: str,
    *,
    required: bool = False,
    default: Json = UNSET,
) -> Property:
    return Property(name=name, shape=shape, text=text, required=required, default=default)


def plain(value: Any) -> Json:  # noqa: ANN401
    """A parsed value as JSON: dataclasses become objects without absent fields, tuples become lists."""
    if is_dataclass(value) and not isinstance(value, type):
        found = {}
        for item in fields(value):
            held = getattr(value, item.name)
            if held is not None:
                found[item.metadata["name"] or camel(item.name)] = plain(held)
        return found
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
