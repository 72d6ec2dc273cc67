"""Holds every event that is made while tests run against its declaration in `muster_coordinator.events`.

Problem: docs/events.md and whoever reads the log rely on the declared fields, and each event is made somewhere else.
Mechanism: `hold` puts a check into the making of `Event` itself, once a process, so that every test of every room that
meets an event holds it, asserted on or not. What it does not do: hold
the processes that integration tests start.
"""

from collections.abc import Mapping

from muster_coordinator.events import Event, EventKind, Room

OF_HOST = frozenset({"raft_group", "partition"})
"""What the host adds to the events of a group's core, which knows neither; docs/events.md says so of all."""


def fault(kind: EventKind, fields: Mapping[str, object]) -> str | None:
    """What differs between an event's fields and those that its kind declares; None: nothing."""
    told, declared = set(fields), set(kind.fields)
    if kind.room is Room.GROUPS and told >= OF_HOST:
        told -= OF_HOST
    if told == declared:
        return None
    return f"{kind.name!r} is told without {sorted(declared - told)} and with {sorted(told - declared)}"


_make = Event.__new__


def _made(cls: type[Event], kind: EventKind, fields: Mapping[str, object]) -> Event:
    found = fault(kind, fields)
    assert found is None, found
    return _make(cls, kind, fields)


def hold() -> None:
    """From now on no event is made in this process whose fields are not the declared ones."""
    setattr(Event, "__new__", _made)  # noqa: B010  # a NamedTuple's own is final to mypy
