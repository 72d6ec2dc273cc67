"""What happens in a cluster's life, told to the log as values: who leads, how groups change, who is expelled and why.

Problem: a person who asks why a group rebalanced at three in the night has only the log, and cores must not write one.
Mechanism: a kind of event is declared here once, with its level and the fields that each event of it carries; cores
hand out `Event` values, the host adds where they happened, and `runtime.event_log` writes, counts and bounds them.
The table in docs/events.md is made from these declarations. What goes wrong inside is a `ports.Notice`, not an event.

Values that a client chose (names, reasons) are cut and escaped where they are written. No record key, value, metadata,
assignment or token is ever a field.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import NamedTuple


class Level(IntEnum):
    """As Python's `logging` numbers them."""

    DEBUG = 10
    INFO = 20
    WARNING = 30


class EventKind(NamedTuple):
    """One row of the table."""

    name: str
    """The line's message, and the label of `muster_events_total`."""
    level: Level
    fields: tuple[str, ...]
    meaning: str
    rare: bool = False
    """Of such events a hundred times as many are written one by one before repeats are only counted."""


class Event(NamedTuple):
    """`fields` has a value for each of `kind.fields`."""

    kind: EventKind
    fields: Mapping[str, object]


Tell = Callable[[Event], None]
"""For the log and its counters. Never blocks, never raises; nothing may depend on it."""


def untold(_event: Event) -> None:
    """A `Tell` to nobody."""


# -- consumer groups -----------------------------------------------------------------------------------------------

PREPARING = EventKind(
    "preparing to rebalance",
    Level.INFO,
    ("consumer_group", "generation", "members", "reason"),
    "The generation ends; its members are asked to join again.",
)
STABILIZED = EventKind(
    "stabilized group",
    Level.INFO,
    ("consumer_group", "generation", "members", "leader", "protocol"),
    "Everybody has joined: the next generation begins, and its leader is asked for the assignment.",
)
ASSIGNED = EventKind(
    "assignment received",
    Level.INFO,
    ("consumer_group", "generation", "members", "leader", "took_ms"),
    "The leader's assignment is stored: the group is Stable. `took_ms` since it prepared, null if another replica led.",
)
EMPTIED = EventKind(
    "group is empty",
    Level.INFO,
    ("consumer_group", "generation", "reason"),
    "Its last member is gone; committed offsets stay until they expire.",
)
EXPELLED = EventKind(
    "member expelled",
    Level.WARNING,
    ("consumer_group", "generation", "member", "instance", "client_id", "client_host", "reason"),
    "A member was not heard in time. A replica that was paused or cut off expels nobody.",
    rare=True,
)
LEFT = EventKind(
    "member left",
    Level.INFO,
    ("consumer_group", "generation", "member", "instance", "client_id", "client_host", "reason"),
    "A member said that it leaves, or an administrator removed it.",
)
REPLACED = EventKind(
    "static member replaced",
    Level.INFO,
    ("consumer_group", "generation", "member", "instance", "client_id", "client_host", "replaced"),
    "A member came back under its `group.instance.id`; the id it had before is fenced.",
)

# -- replicas ------------------------------------------------------------------------------------------------------

BECAME_LEADER = EventKind(
    "became leader",
    Level.INFO,
    ("raft_group", "partition", "term"),
    "This replica won the election of a Raft group. Of `__consumer_offsets` it is the coordinator from here on.",
    rare=True,
)
LOST_LEADERSHIP = EventKind(
    "lost leadership",
    Level.INFO,
    ("raft_group", "partition", "term", "leader"),
    "Another replica leads or campaigns, or no quorum was heard; `leader` is null while it is not known.",
    rare=True,
)

KINDS = (
    PREPARING,
    STABILIZED,
    ASSIGNED,
    EMPTIED,
    EXPELLED,
    LEFT,
    REPLACED,
    BECAME_LEADER,
    LOST_LEADERSHIP,
)
