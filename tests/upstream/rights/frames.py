"""Requests and answers about topics and transactions of two owners: `mine-...` and `theirs-...`."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from kio.serial import entity_reader
from muster_coordinator.security.resources import Operation, Resource, ResourceType
from muster_coordinator.upstream.rights.verdict import Heard
from muster_coordinator.wire.passage import Forwarded
from muster_coordinator.wire.schema import Entity, Value, schema
from muster_coordinator.wire.versions import is_flexible

from tests.wire.kio_entities import encode_request, kio_class
from tests.wire.schema_values import entity_values

MINE, THEIRS = ("mine-one", "mine-two"), ("theirs-one", "theirs-two")
CLIENT = "c"
CORRELATION = 77
_NAMES = frozenset(
    ("name", "topic", "topic_name", "resource_name", "transactional_id", "v3_and_below_transactional_id", "key")
)
_LISTS = frozenset(("topic_names", "transactional_ids", "coordinator_keys"))
_BY_NAME = (2, 32)
"""Types of config resources that are a topic's or a group's."""


class Owner:
    """Rights to what is called `mine`, and, with `cluster`, to the cluster. `audit` gets what is audited of it."""

    def __init__(
        self, *, cluster: bool = False, everything: bool = False, audit: Callable[[Value], Heard | None] | None = None
    ) -> None:
        self.cluster = cluster
        self._audit = audit
        self.everything = everything
        self.asked: list[tuple[Operation, Resource]] = []

    def may(self, operation: Operation, resource: Resource) -> bool:
        self.asked.append((operation, resource))
        if self.everything:
            return True
        return self.cluster if resource.type is ResourceType.CLUSTER else resource.name.startswith("mine")

    may_instead = sees = may

    def may_some(self, operation: Operation, kind: ResourceType) -> bool:
        del operation, kind
        return True

    def audited(self, request: Value) -> Heard | None:
        return None if self._audit is None else self._audit(request)


def named(value: Any, pool: tuple[str, ...], draw: Any) -> Any:
    """The same with names of the pool."""
    if isinstance(value, dict):
        found = {}
        for key, part in value.items():
            if key in _NAMES and isinstance(part, str):
                found[key] = draw(st.sampled_from(pool))
            elif key == "configs":
                found[key] = part  # names of configs are nobody's
            elif key in _LISTS:
                found[key] = tuple(draw(st.sampled_from(pool)) for _ in part)
            else:
                found[key] = named(part, pool, draw)
        if found.get("resource_type", _BY_NAME[0]) not in _BY_NAME:
            found["resource_name"] = "0"
        return found
    return tuple(named(one, pool, draw) for one in value) if isinstance(value, tuple) else value


@st.composite
def messages(
    draw: st.DrawFn, api: int, version: int, direction: Any, pool: tuple[str, ...] = MINE + THEIRS
) -> dict[str, Any]:
    """Values of a message whose names are of this pool. No name is null."""
    values = draw(entity_values(schema(api, version, direction)).filter(_has_names))
    found: dict[str, Any] = named(values, pool, draw)
    return found


def _has_names(value: Any) -> bool:
    if isinstance(value, dict):
        return all(
            _has_names(part) and not (part is None and key in _NAMES - {"transactional_id"})
            for key, part in value.items()
        )
    return all(map(_has_names, value)) if isinstance(value, tuple) else True


def request(api: int, version: int, values: dict[str, Any]) -> Forwarded:
    """The frame, as it stands between others."""
    frame = encode_request(api, version, values, CORRELATION, CLIENT)
    before, behind = b"before", b"behind"
    start = len(before)
    body = start + 4 + 8 + 2 + len(CLIENT) + (1 if is_flexible(api, version) else 0)
    return Forwarded(before + frame + behind, start, body, start + len(frame))


def decode_request(api: int, version: int, frame: bytes) -> Any:
    """The entity of a whole frame; every byte must be used."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    cls = kio_class(api, version, "request")
    header, size = entity_reader(cls.__header_schema__)(frame[4:], 0)
    assert header.correlation_id == CORRELATION
    entity, used = entity_reader(cls)(frame[4 + size :], 0)
    assert 4 + size + used == len(frame)
    return entity


def of_theirs(entity: Entity) -> dict[str, Any]:
    """Values with one of each list, and names of the others'. What may be null is not."""
    found: dict[str, Any] = {}
    for field in entity.fields + entity.tagged:
        if field.entity is not None:
            one: Any = of_theirs(field.entity)
        elif field.kind == "string":
            one = THEIRS[0]
        else:
            one = {"bytes": b"", "bool": False, "uuid": bytes(16), "float64": 0.0}.get(field.kind, 1)
        found[field.name] = (one,) if field.array else one
    return found | ({"resource_type": _BY_NAME[0]} if "resource_type" in found else {})
