"""What happens in a cluster's life, told to the log as values: who leads, how groups change, who is expelled and why.

Problem: a person who asks why a group rebalanced at three in the night has only the log, and cores must not write one.
Mechanism: a kind of event is declared here once, with its level and the fields that each event of it carries; cores
hand out `Event` values, the host adds where they happened, and `runtime.event_log` writes, counts and bounds them.
The table in docs/events.md is made from these declarations. What goes wrong inside is a `ports.Notice`, not an event.

Values that a client chose (names, reasons) are cut and escaped where they are written. No record key, value, metadata,
assignment or token is ever a field.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum, StrEnum
from typing import NamedTuple


class Level(IntEnum):
    """As Python's `logging` numbers them."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


class Room(StrEnum):
    """Whose events are made more or less talkative together (`/v1/log-levels`)."""

    GROUPS = "groups"
    RAFT = "raft"
    SNAPSHOTS = "snapshots"
    DISK = "disk"
    DRAIN = "drain"
    CLIENTS = "clients"


class EventKind(NamedTuple):
    """One row of the table."""

    name: str
    """The line's message, and the label of `muster_events_total`."""
    room: Room
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
    Room.GROUPS,
    Level.INFO,
    ("consumer_group", "generation", "members", "reason"),
    "The generation ends; its members are asked to join again.",
)
STABILIZED = EventKind(
    "stabilized group",
    Room.GROUPS,
    Level.INFO,
    ("consumer_group", "generation", "members", "leader", "protocol"),
    "Everybody has joined: the next generation begins, and its leader is asked for the assignment.",
)
ASSIGNED = EventKind(
    "assignment received",
    Room.GROUPS,
    Level.INFO,
    ("consumer_group", "generation", "members", "leader", "took_ms"),
    "The leader's assignment is stored: the group is Stable. `took_ms` since it prepared, null if another replica led.",
)
EMPTIED = EventKind(
    "group is empty",
    Room.GROUPS,
    Level.INFO,
    ("consumer_group", "generation", "reason"),
    "Its last member is gone; committed offsets stay until they expire.",
)
EXPELLED = EventKind(
    "member expelled",
    Room.GROUPS,
    Level.WARNING,
    ("consumer_group", "generation", "member", "instance", "client_id", "client_host", "reason"),
    "A member was not heard in time. A replica that was paused or cut off expels nobody.",
    rare=True,
)
LEFT = EventKind(
    "member left",
    Room.GROUPS,
    Level.INFO,
    ("consumer_group", "generation", "member", "instance", "client_id", "client_host", "reason"),
    "A member said that it leaves, or an administrator removed it.",
)
REPLACED = EventKind(
    "static member replaced",
    Room.GROUPS,
    Level.INFO,
    ("consumer_group", "generation", "member", "instance", "client_id", "client_host", "replaced"),
    "A member came back under its `group.instance.id`; the id it had before is fenced.",
)

# -- Raft groups ---------------------------------------------------------------------------------------------------

BECAME_LEADER = EventKind(
    "became leader",
    Room.RAFT,
    Level.INFO,
    ("raft_group", "partition", "term"),
    "This replica won the election of a Raft group. Of `__consumer_offsets` it is the coordinator from here on.",
    rare=True,
)
LOST_LEADERSHIP = EventKind(
    "lost leadership",
    Room.RAFT,
    Level.INFO,
    ("raft_group", "partition", "term", "leader"),
    "Another replica leads or campaigns, or no quorum was heard; `leader` is null while it is not known.",
    rare=True,
)

ELECTION_STARTED = EventKind(
    "election started",
    Room.RAFT,
    Level.INFO,
    ("raft_group", "partition", "term"),
    "This replica asks the others for their votes: it has not heard a leader for an election timeout, or was asked to.",
    rare=True,
)
TRANSFER_STARTED = EventKind(
    "leadership transfer started",
    Room.RAFT,
    Level.INFO,
    ("raft_group", "partition", "term", "target"),
    "Leadership is handed to `target`: a drain, a low disk, a preferred leader that is back, or an administrator.",
)
TRANSFER_ABORTED = EventKind(
    "leadership transfer aborted",
    Room.RAFT,
    Level.WARNING,
    ("raft_group", "partition", "term", "target"),
    "`target` has not taken over within an election timeout; this replica goes on leading.",
)
STATE_LOST = EventKind(
    "state lost",
    Room.RAFT,
    Level.ERROR,
    ("raft_group", "partition", "reason"),
    "This replica holds no state of the group (damaged files, or an entry that cannot be applied): it votes and "
    "stores, and serves nothing until its leader's checkpoint is installed.",
    rare=True,
)
STATE_RESTORED = EventKind(
    "state restored",
    Room.RAFT,
    Level.INFO,
    ("raft_group", "partition", "applied"),
    "A checkpoint was installed where the state was lost.",
    rare=True,
)
VOTER_SUSPENDED = EventKind(
    "voter suspended",
    Room.RAFT,
    Level.ERROR,
    ("raft_group", "partition", "reason"),
    "What this replica had promised in the group is damaged: it neither votes nor counts until the leader made good.",
    rare=True,
)
VOTER_RELEASED = EventKind(
    "voter released",
    Room.RAFT,
    Level.INFO,
    ("raft_group", "partition"),
    "A suspended voter votes and counts again.",
    rare=True,
)

# -- checkpoints and snapshot installs -------------------------------------------------------------------------------

CHECKPOINT_STARTED = EventKind(
    "checkpoint started",
    Room.SNAPSHOTS,
    Level.DEBUG,
    ("raft_group", "partition", "applied"),
    "The state as of the Raft index `applied` is being written.",
)
CHECKPOINT_WRITTEN = EventKind(
    "checkpoint written",
    Room.SNAPSHOTS,
    Level.INFO,
    ("raft_group", "partition", "applied", "term", "size_bytes", "took_ms"),
    "It is durable; WAL entries up to it may go.",
)
CHECKPOINT_POSTPONED = EventKind(
    "checkpoint postponed",
    Room.SNAPSHOTS,
    Level.WARNING,
    ("raft_group", "partition", "file"),
    "The disk had no space for a `segment` or the `checkpoint`; the WAL has what is in them, and it is tried again.",
)
SNAPSHOT_OFFERED = EventKind(
    "snapshot offered",
    Room.SNAPSHOTS,
    Level.INFO,
    ("raft_group", "partition", "target", "applied", "files", "size_bytes"),
    "`target` needs entries that are gone from this leader's WAL: it fetches a checkpoint and the segments.",
)
INSTALL_STARTED = EventKind(
    "snapshot install started",
    Room.SNAPSHOTS,
    Level.INFO,
    ("raft_group", "partition", "leader", "applied", "files", "size_bytes"),
    "This replica fetches the leader's checkpoint and segments.",
)
INSTALLED = EventKind(
    "snapshot installed",
    Room.SNAPSHOTS,
    Level.INFO,
    ("raft_group", "partition", "applied", "term"),
    "They are in place and durable here.",
)
INSTALL_FAILED = EventKind(
    "snapshot install failed",
    Room.SNAPSHOTS,
    Level.WARNING,
    ("raft_group", "partition", "reason"),
    "It is tried again: the leader offers it for as long as it is needed.",
)

# -- the replica ---------------------------------------------------------------------------------------------------

DISK_LOW = EventKind(
    "disk low",
    Room.DISK,
    Level.WARNING,
    ("path", "free_bytes", "low_bytes", "good_bytes"),
    "Little room is left: new data is refused, leaderships are handed to replicas with room.",
    rare=True,
)
DISK_FULL = EventKind(
    "disk full",
    Room.DISK,
    Level.ERROR,
    ("path", "free_bytes", "low_bytes", "good_bytes"),
    "No new data is taken from other leaders either: less is free than a quarter of `low_bytes`, or a write was "
    "refused.",
    rare=True,
)
DISK_HAS_ROOM = EventKind(
    "disk has room again",
    Room.DISK,
    Level.INFO,
    ("path", "free_bytes", "low_bytes", "good_bytes"),
    "New data is taken again, and leaderships come back by themselves.",
    rare=True,
)
SEGMENT_DAMAGED = EventKind(
    "segment damaged",
    Room.DISK,
    Level.ERROR,
    ("raft_group", "partition", "damage", "target"),
    "Stored batches are not as they were written: readers are refused, leadership goes to `target` if anybody can have "
    "it, and the segment is fetched again from a peer.",
    rare=True,
)
SEGMENT_REPAIRED = EventKind(
    "segment repaired",
    Room.DISK,
    Level.INFO,
    ("raft_group", "partition", "file"),
    "A damaged segment is whole again.",
    rare=True,
)
DRAIN_STARTED = EventKind(
    "drain started",
    Room.DRAIN,
    Level.INFO,
    ("leaderships",),
    "This replica marks itself as draining and hands away what it leads.",
    rare=True,
)
DRAINED = EventKind(
    "drained",
    Room.DRAIN,
    Level.INFO,
    ("leaderships", "took_ms"),
    "Nothing is left to hand away; `leaderships` remain that nobody else can take.",
    rare=True,
)
DRAIN_UNDONE = EventKind(
    "drain undone",
    Room.DRAIN,
    Level.INFO,
    ("leaderships",),
    "The mark is being cleared.",
    rare=True,
)
CONNECTION_FAILED = EventKind(
    "connection closed",
    Room.CLIENTS,
    Level.INFO,
    ("listener", "peer", "why"),
    "A client's connection was closed by this replica: bytes that are no request, or a handler that says no that way.",
)

KINDS = (
    PREPARING,
    STABILIZED,
    ASSIGNED,
    EMPTIED,
    EXPELLED,
    LEFT,
    REPLACED,
    ELECTION_STARTED,
    BECAME_LEADER,
    LOST_LEADERSHIP,
    TRANSFER_STARTED,
    TRANSFER_ABORTED,
    STATE_LOST,
    STATE_RESTORED,
    VOTER_SUSPENDED,
    VOTER_RELEASED,
    CHECKPOINT_STARTED,
    CHECKPOINT_WRITTEN,
    CHECKPOINT_POSTPONED,
    SNAPSHOT_OFFERED,
    INSTALL_STARTED,
    INSTALLED,
    INSTALL_FAILED,
    DISK_LOW,
    DISK_FULL,
    DISK_HAS_ROOM,
    SEGMENT_DAMAGED,
    SEGMENT_REPAIRED,
    DRAIN_STARTED,
    DRAINED,
    DRAIN_UNDONE,
    CONNECTION_FAILED,
)
