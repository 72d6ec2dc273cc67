"""Limits that several rooms share, with unit and reason; limits of one room are in its own `limits.py`.

A limit that users may set is a key in `settings.py`, and here only where another limit is in relation with its default,
or several rooms use it; the rest are constants of the design. The
relations between limits are asserted where the higher of their rooms has its own.
"""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# Answers to clients.
CONNECTION_UNSENT_BYTES_MAX = 16 * MIB
"""Unsent answers of a connection above which it is not read, and closed if its client takes nothing for a while."""
ERROR_MESSAGE_CHARS_MAX = 1_024
"""Length of an answer's error message: it may quote the client's input, and an old string has at most 32,767 bytes."""

# Record batches.
BATCH_BYTES_MAX_DEFAULT = MIB + 12
"""max.message.bytes default (Kafka: 1048588)."""
BATCH_BYTES_MAX = 4 * MIB
"""Ceiling of a produced batch, whatever the topic's max.message.bytes."""

# Groups.
GROUP_STORED_BYTES_MAX = 8 * MIB
"""Metadata plus assignments of one generation; the offsets log accepts one batch of this size (decision 24)."""
OFFSETS_BATCH_BYTES_MAX = GROUP_STORED_BYTES_MAX + MIB

# Looking up a coordinator (decision 18).
COORDINATOR_LOOKUP_WAIT_MS = 250

# Connections.
REFUSED_AFTER_MS = 250
"""Before a connection is closed that was accepted and cannot be served yet. kafka-python comes again at once, 90 times
a second, because for it a connection that is accepted was a success."""

# Raft (raft rules 28, 33).
HEARTBEAT_MS = 100
LINK_REDIAL_GRACE_MS = 150
GROUP_UNCOMMITTED_BYTES_MAX = 16 * MIB
APPLY_BYTES_PER_TURN_MAX = MIB
RAFT_ENTRY_OVERHEAD_BYTES = 32
"""Counted for every entry in addition to its data, so that the number of empty entries is limited, too."""
BROKERS_MAX = 50
"""Brokers of one cluster. Each has links to all others, and is told every change of the controller's log."""
RAFT_GROUPS_MAX = 2_000
PROPOSAL_TIMEOUT_MS = 5_000

# Peer frames.
PEER_FRAME_BYTES_MAX = 256 * KIB
LINK_WRITE_BYTES = 256 * KIB
"""Passed to the transport at once: at most this, plus one frame, is sent before a control message."""
LINK_HELLO_BYTES_MAX = 64 * KIB
"""Most that a peer can make us buffer before it is identified."""

# Storage (decisions 2, 3).
WAL_FILE_BYTES = 64 * MIB
WAL_BYTES_MAX = GIB
SEGMENT_BYTES = 100 * MIB
SEGMENT_MS = 7 * 24 * 3_600_000
"""segment.ms default; counted in record time."""

# Topics.
PRODUCER_ID_BLOCK = 1_000
PRODUCER_BATCHES_KEPT = 5

# Drain (architecture "Drain").
DRAIN_TRANSFERS_AT_ONCE = 4

assert GROUP_STORED_BYTES_MAX < OFFSETS_BATCH_BYTES_MAX <= GROUP_UNCOMMITTED_BYTES_MAX
SEQUENCE_BITS_DEFAULT = 10
SEQUENCE_BITS_MIN = 1
SEQUENCE_BITS_MAX = 20
"""Bits of an offset that are an id's sequence. With 20, offsets reach to the year 2248; with 10, entries of a whole
second that come in one millisecond take that second."""
assert SEQUENCE_BITS_MIN <= SEQUENCE_BITS_DEFAULT <= SEQUENCE_BITS_MAX
