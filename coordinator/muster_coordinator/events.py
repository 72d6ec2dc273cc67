"""Log events of a cluster's life, as values: who leads, how groups change, which member is expelled and why.

Problem: an administrator who wants to know why a group rebalanced at three in the night has only the log, and cores may
not write one. Mechanism: each kind of event is declared here once, with its level and its fields. Cores return `Event`
values, the host adds the Raft group and partition, and `runtime.event_log` writes, counts and limits them. The table in
docs/events.md is made from these declarations. An internal fault is a `ports.Notice`, not an event.

Values that a client chose (names, reasons) are cut and escaped when they are written. No record key, value, metadata,
assignment or token is ever a field.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum, StrEnum
from typing import NamedTuple


class Level(IntEnum):
    """Levels, with the numbers of Python's `logging`."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


class Room(StrEnum):
    """Rooms whose log levels can be changed one by one (`/v1/log-levels`)."""

    GROUPS = "groups"
    RAFT = "raft"
    SNAPSHOTS = "snapshots"
    DISK = "disk"
    DRAIN = "drain"
    CLIENTS = "clients"


class EventKind(NamedTuple):
    """One row of the table in docs/events.md."""

    name: str
    """The line's message, and the label of `muster_events_total`."""
    room: Room
    level: Level
    fields: tuple[str, ...]
    meaning: str
    rare: bool = False
    """Rare events have a limit a hundred times as high before repeats are only counted."""
    stream: str = ""
    """The `logger` of lines that are a stream of their own: each is written, and no log level hides them."""


class Event(NamedTuple):
    """One event; `fields` has a value for each of `kind.fields`."""

    kind: EventKind
    fields: Mapping[str, object]


Tell = Callable[[Event], None]
"""Passes an event to the log and its counters. Never blocks, never raises; no behaviour may depend on it."""


def untold(_event: Event) -> None:
    """A `Tell` that drops the event."""


# -- consumer groups -----------------------------------------------------------------------------------------------

PREPARING = EventKind(
    "preparing to rebalance",
    Room.GROUPS,
    Level.INFO,
    ("consumer_group", "generation", "members", "reason"),
    "The generation has ended; its members are asked to join again.",
)
STABILIZED = EventKind(
    "stabilized group",
    Room.GROUPS,
    Level.INFO,
    ("consumer_group", "generation", "members", "leader", "protocol"),
    "All members have joined: the next generation begins, and its leader is asked for the assignment.",
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
    "The last member is gone; committed offsets stay until they expire.",
)
EXPELLED = EventKind(
    "member expelled",
    Room.GROUPS,
    Level.WARNING,
    ("consumer_group", "generation", "member", "instance", "client_id", "client_host", "reason"),
    "A member was not heard in time. A replica that was paused or cut off expels no member.",
    rare=True,
)
LEFT = EventKind(
    "member left",
    Room.GROUPS,
    Level.INFO,
    ("consumer_group", "generation", "member", "instance", "client_id", "client_host", "reason"),
    "A member left by LeaveGroup, or an administrator removed it.",
)
REPLACED = EventKind(
    "static member replaced",
    Room.GROUPS,
    Level.INFO,
    ("consumer_group", "generation", "member", "instance", "client_id", "client_host", "replaced"),
    "A member rejoined under its `group.instance.id`; its former member id is fenced.",
)

# -- Raft groups ---------------------------------------------------------------------------------------------------

BECAME_LEADER = EventKind(
    "became leader",
    Room.RAFT,
    Level.INFO,
    ("raft_group", "partition", "term"),
    "This replica won the election of a Raft group. For a partition of `__consumer_offsets` it is the coordinator now.",
    rare=True,
)
LOST_LEADERSHIP = EventKind(
    "lost leadership",
    Room.RAFT,
    Level.INFO,
    ("raft_group", "partition", "term", "leader"),
    "Another replica leads or campaigns, or no quorum was heard; `leader` is null while it is unknown.",
    rare=True,
)

ELECTION_STARTED = EventKind(
    "election started",
    Room.RAFT,
    Level.INFO,
    ("raft_group", "partition", "term"),
    "This replica requests votes: it has not heard a leader for an election timeout, or leadership is handed to it.",
    rare=True,
)
MEMBERS_CHANGE = EventKind(
    "members change",
    Room.RAFT,
    Level.INFO,
    ("raft_group", "partition", "voters", "learners", "reason"),
    "The leader begins to give the group these members, as the controller wants. A member is its broker's id, and "
    "after a dot how often that was bound to another folder.",
    rare=True,
)
MOVE_COMPLETE = EventKind(
    "move complete",
    Room.RAFT,
    Level.INFO,
    ("raft_group", "partition", "voters"),
    "The partition's replicas are where they were to be moved: the leader has that in its log, and tells the "
    "controller, so that the others are let go.",
    rare=True,
)
BALANCER_MOVE = EventKind(
    "balancer moves",
    Room.RAFT,
    Level.INFO,
    ("raft_group", "partition", "topic", "moved_partition", "voters", "reason"),
    "The balancer asks for a move of a partition, and says why; these brokers are to have its replicas.",
    rare=True,
)
CONTROLLER_VOTERS_WANTED = EventKind(
    "controller voters wanted",
    Room.RAFT,
    Level.INFO,
    ("raft_group", "partition", "voters"),
    "A broker that is to leave votes in the controller's group: these are to vote there, another one in its place.",
    rare=True,
)
BROKER_EMPTIED = EventKind(
    "broker emptied",
    Room.RAFT,
    Level.INFO,
    ("raft_group", "partition", "replica"),
    "A broker that is to leave holds nothing any more, and is unregistered.",
    rare=True,
)
REPLICA_REMOVED = EventKind(
    "replica removed",
    Room.RAFT,
    Level.INFO,
    ("raft_group", "partition"),
    "The partition was moved to other brokers, and its replica here is deleted.",
    rare=True,
)
FOLDER_GONE = EventKind(
    "data folder gone",
    Room.RAFT,
    Level.WARNING,
    ("raft_group", "partition", "replica", "folder"),
    "An administrator has declared the data folder with this uuid gone for good; the broker waits for a new one. Told "
    "by the controller's leader.",
    rare=True,
)
BROKER_UNREGISTERED = EventKind(
    "broker unregistered",
    Room.RAFT,
    Level.WARNING,
    ("raft_group", "partition", "replica", "folder"),
    "An administrator has taken the broker out of the cluster; the data folder with this uuid never registers again. "
    "Told by the controller's leader.",
    rare=True,
)
FOLDER_BOUND = EventKind(
    "data folder bound",
    Room.RAFT,
    Level.INFO,
    ("raft_group", "partition", "replica", "folder"),
    "The broker whose data folder is gone has a new one, which the Raft groups take in now. Told by the controller's "
    "leader.",
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
    "`target` did not take over within an election timeout, or its link broke; this replica continues to lead.",
)
STATE_LOST = EventKind(
    "state lost",
    Room.RAFT,
    Level.ERROR,
    ("raft_group", "partition", "reason"),
    "This replica has no state of the group (damaged files, or an entry that cannot be applied): it votes and "
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
    "This replica's promises in the group are damaged: it does not vote or count until the leader has restored it.",
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
    "The checkpoint is durable; WAL entries up to it can be dropped.",
)
CHECKPOINT_POSTPONED = EventKind(
    "checkpoint postponed",
    Room.SNAPSHOTS,
    Level.WARNING,
    ("raft_group", "partition", "file"),
    "The disk had no space for a `segment` or the `checkpoint`; the WAL still has the data, and it is tried again.",
)
SNAPSHOT_OFFERED = EventKind(
    "snapshot offered",
    Room.SNAPSHOTS,
    Level.INFO,
    ("raft_group", "partition", "target", "applied", "files", "size_bytes"),
    "`target` needs entries that this leader's WAL no longer has: it fetches a checkpoint and the segments.",
)
COPY_WAITS = EventKind(
    "copy waits for room",
    Room.SNAPSHOTS,
    Level.WARNING,
    ("raft_group", "partition", "reason"),
    "The partition is moved to this replica, or this replica lacks much of it, and what is to come would leave too "
    "little of the disk. Who has it keeps it, and serves; it goes on by itself when there is room.",
)
MOVE_CANCELLED = EventKind(
    "move cancelled",
    Room.SNAPSHOTS,
    Level.WARNING,
    ("raft_group", "partition", "voters", "reason"),
    "The partition was on its way to this replica, whose disk had no room for it for "
    "`muster.reassignment.room.timeout.ms`. Those who had it before keep it.",
    rare=True,
)
COPY_GOES_ON = EventKind(
    "copy goes on",
    Room.SNAPSHOTS,
    Level.INFO,
    ("raft_group", "partition"),
    "There is room for it again.",
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
    "The checkpoint and segments are in place and durable here.",
)
INSTALL_FAILED = EventKind(
    "snapshot install failed",
    Room.SNAPSHOTS,
    Level.WARNING,
    ("raft_group", "partition", "reason"),
    "It is tried again, as the leader offers it while the follower needs it.",
)

# -- the replica ---------------------------------------------------------------------------------------------------

DISK_LOW = EventKind(
    "disk low",
    Room.DISK,
    Level.WARNING,
    ("path", "free_bytes", "low_bytes", "good_bytes"),
    "Little space is left: new data is refused, and leaderships are handed to replicas with more.",
    rare=True,
)
WAL_SLOW = EventKind(
    "WAL write slow",
    Room.DISK,
    Level.WARNING,
    ("wal", "running_ms", "groups_led"),
    "A write and fdatasync of this WAL runs for so long already: groups of which another replica has more are handed "
    "over, and after a second this replica leads no group of the WAL.",
)
DISK_FULL = EventKind(
    "disk full",
    Room.DISK,
    Level.ERROR,
    ("path", "free_bytes", "low_bytes", "good_bytes"),
    "New data from other leaders is refused, too: less is free than a quarter of `low_bytes`, or a write had no space.",
    rare=True,
)
DISK_HAS_ROOM = EventKind(
    "disk has room again",
    Room.DISK,
    Level.INFO,
    ("path", "free_bytes", "low_bytes", "good_bytes"),
    "New data is accepted again, and leaderships return.",
    rare=True,
)
SEGMENT_DAMAGED = EventKind(
    "segment damaged",
    Room.DISK,
    Level.ERROR,
    ("raft_group", "partition", "damage", "target"),
    "Stored batches are not as they were written: reads get an error, leadership goes to `target` if a replica can "
    "take it, and the segment is fetched again from a peer.",
    rare=True,
)
SEGMENT_REPAIRED = EventKind(
    "segment repaired",
    Room.DISK,
    Level.INFO,
    ("raft_group", "partition", "file"),
    "A damaged segment is intact again.",
    rare=True,
)
LOG_CLEANED = EventKind(
    "log cleaned",
    Room.DISK,
    Level.INFO,
    (
        "raft_group",
        "partition",
        "before_bytes",
        "after_bytes",
        "before_segments",
        "after_segments",
        "keys",
        "cleaned_to",
        "took_ms",
    ),
    "A round of cleaning of a compacted partition has ended; the log is clean below the offset `cleaned_to`.",
)
LOG_NOT_CLEANED = EventKind(
    "log not cleaned",
    Room.DISK,
    Level.WARNING,
    ("raft_group", "partition", "reason"),
    "A round of cleaning was given up; the log is as it was, and the round is tried again.",
)
DRAIN_STARTED = EventKind(
    "drain started",
    Room.DRAIN,
    Level.INFO,
    ("leaderships",),
    "This replica is marked as draining and hands its leaderships to others.",
    rare=True,
)
DRAINED = EventKind(
    "drained",
    Room.DRAIN,
    Level.INFO,
    ("leaderships", "took_ms"),
    "There is nothing left to hand over; `leaderships` remain that no other replica can take.",
    rare=True,
)
DRAIN_UNDONE = EventKind(
    "drain undone",
    Room.DRAIN,
    Level.INFO,
    ("leaderships",),
    "The mark as draining is being removed.",
    rare=True,
)
CONNECTION_FAILED = EventKind(
    "connection closed",
    Room.CLIENTS,
    Level.INFO,
    ("listener", "peer", "why"),
    "This replica closed a client's connection: the bytes were not a request, or a handler refused it that way.",
)
TLS_LOADED = EventKind(
    "certificate loaded",
    Room.CLIENTS,
    Level.INFO,
    ("listener", "subject", "expires_s"),
    "The files of a listener's TLS have changed, and new connections use what they hold now.",
)
TLS_REFUSED = EventKind(
    "certificate refused",
    Room.CLIENTS,
    Level.WARNING,
    ("listener", "why"),
    "The files of a listener's TLS have changed and cannot be used; what was loaded before stays in use.",
)
PEERS_OPEN = EventKind(
    "peers are not authenticated",
    Room.RAFT,
    Level.WARNING,
    ("address",),
    "The peer port is not on loopback, and whoever reaches it may call itself a replica: set `muster.peer.security`.",
)
UPSTREAM_REACHED = EventKind(
    "upstream reached",
    Room.CLIENTS,
    Level.INFO,
    ("brokers",),
    "A broker of the Kafka of `upstream.bootstrap.servers` answers, and has told who its brokers are.",
)
UPSTREAM_UNREACHED = EventKind(
    "upstream not reached",
    Room.CLIENTS,
    Level.WARNING,
    ("why",),
    "No broker of the Kafka of `upstream.bootstrap.servers` answers: groups are served, records are not.",
)
UPSTREAM_TOPICS_DELETED = EventKind(
    "upstream topics deleted",
    Room.GROUPS,
    Level.INFO,
    ("topics",),
    "The Kafka of `upstream.bootstrap.servers` knows these topics no more; offsets that were committed for them are "
    "removed.",
)
PEER_SECRETS_LOADED = EventKind(
    "peer secret changed",
    Room.RAFT,
    Level.INFO,
    ("secrets",),
    "The file of the peer links' secret has changed; so many secrets are in force.",
)
PEER_SECRETS_REFUSED = EventKind(
    "peer secret refused",
    Room.RAFT,
    Level.WARNING,
    ("why",),
    "The file of the peer links' secret cannot be used; the secrets before stay in force.",
)

AUTHENTICATION_FAILED = EventKind(
    "authentication failed",
    Room.CLIENTS,
    Level.WARNING,
    ("listener", "peer", "mechanism", "user", "why"),
    "A client did not show who it is. `user` is who it said to be, if that could be read; nothing it sent is in `why`.",
)
USER_REVOKED = EventKind(
    "user revoked",
    Room.CLIENTS,
    Level.INFO,
    ("listener", "peer", "user"),
    "A client's connection was closed because its user's password was deleted.",
)
WOULD_BE_DENIED = EventKind(
    "would be denied",
    Room.CLIENTS,
    Level.WARNING,
    ("principal", "peer", "operation", "resource", "api"),
    "The ACLs do not allow what a client did; `muster.authorizer.report.only` let it pass.",
)
AUDITED = EventKind(
    "audit",
    Room.CLIENTS,
    Level.INFO,
    ("principal", "peer", "listener", "client", "action", "resources", "result"),
    "A request that changes the cluster or who may use it was answered, refused ones too. `logger` is `muster.audit`.",
    stream="muster.audit",
)
CLIENT_THROTTLED = EventKind(
    "client throttled",
    Room.CLIENTS,
    Level.INFO,
    ("principal", "client", "peer", "quota", "throttle_ms"),
    "A client has used more than its quota, and its connection is not read for `throttle_ms`. See [quotas](quotas.md).",
)
CONNECTION_REFUSED = EventKind(
    "connection refused",
    Room.CLIENTS,
    Level.WARNING,
    ("listener", "peer", "why"),
    "A connection was over a limit of connections, or came faster than its rate: `why` names the setting or quota.",
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
    MEMBERS_CHANGE,
    MOVE_COMPLETE,
    BALANCER_MOVE,
    CONTROLLER_VOTERS_WANTED,
    BROKER_EMPTIED,
    REPLICA_REMOVED,
    FOLDER_GONE,
    BROKER_UNREGISTERED,
    FOLDER_BOUND,
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
    COPY_WAITS,
    MOVE_CANCELLED,
    COPY_GOES_ON,
    DISK_LOW,
    WAL_SLOW,
    DISK_FULL,
    DISK_HAS_ROOM,
    SEGMENT_DAMAGED,
    SEGMENT_REPAIRED,
    LOG_CLEANED,
    LOG_NOT_CLEANED,
    DRAIN_STARTED,
    DRAINED,
    DRAIN_UNDONE,
    CONNECTION_FAILED,
    AUTHENTICATION_FAILED,
    USER_REVOKED,
    TLS_LOADED,
    TLS_REFUSED,
    PEERS_OPEN,
    UPSTREAM_REACHED,
    UPSTREAM_UNREACHED,
    UPSTREAM_TOPICS_DELETED,
    PEER_SECRETS_LOADED,
    PEER_SECRETS_REFUSED,
    WOULD_BE_DENIED,
    AUDITED,
    CLIENT_THROTTLED,
    CONNECTION_REFUSED,
)
