"""A command that does not fit the image, and changed copies of the image's mappings: what all transitions share."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from muster_coordinator.controller.commands import CommandResult
from muster_coordinator.errors import Code

K = TypeVar("K")
V = TypeVar("V")


class MisfitError(Exception):
    """The command is not valid for this image; caught in `transitions.transition`."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.result = CommandResult(code, message)


def require(condition: bool, code: Code, message: str) -> None:
    """Raises `MisfitError` with this answer unless the condition holds."""
    if not condition:
        raise MisfitError(code, message)


def with_(mapping: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    """A copy in which `key` has this value."""
    return MappingProxyType({**mapping, key: value})


def without(mapping: Mapping[K, V], key: K) -> Mapping[K, V]:
    """A copy without `key`."""
    rest = dict(mapping)
    rest.pop(key, None)
    return MappingProxyType(rest)
