"""Limits of client connections and their frames (decisions 23, 24, 34)."""

from muster_coordinator.limits import BATCH_BYTES_MAX, BATCH_BYTES_MAX_DEFAULT, KIB, MIB
from muster_coordinator.security.limits import SASL_REQUESTS_MAX

FRAME_BYTES_MAX = 8 * MIB
FRAME_BYTES_MAX_LARGE = 16 * MIB
"""Produce, JoinGroup, SyncGroup."""
REQUEST_HEAP_BYTES_MAX = 16 * MIB
"""Estimated Python heap of one decoded request: one wire byte can become 83 heap bytes (decision 34)."""
PIPELINED_REQUESTS_MAX = 100
"""Unanswered requests of one connection; then reading stops (decision 23)."""
CONNECTION_HELD_BYTES_MAX = 16 * MIB
"""Estimated memory of one connection's unanswered requests; beyond it reading stops, too."""
REQUESTS_HELD_BYTES_MAX = 256 * MIB
"""The same of all connections. Beyond it a connection that waits for an answer is not read, and a request that is not
small ends its connection."""
SMALL_REQUEST_BYTES_MAX = 16 * KIB
"""Estimated memory of a request that is always taken: heartbeats, fetches and commits of ordinary consumers."""
HANDLING_FACTOR = 4
"""Until a request is answered its elements take so many times what decoding them took: tasks, results, the answer."""
CONNECTION_TURN_REQUESTS_MAX = PIPELINED_REQUESTS_MAX
"""Requests of one connection handled in one turn of the loop, and how long they may take; the others wait a turn."""
CONNECTION_TURN_MS_MAX = 2
REPEATED_HEARTBEAT_BYTES_MAX = KIB
"""A heartbeat frame up to this size is remembered by its connection, to know its repetition (docs/adr/0012)."""
UNAUTHENTICATED_FRAME_BYTES_MAX = 64 * KIB
"""Before a connection has authenticated (Kafka: 512 KiB since KAFKA-3169)."""
UNAUTHENTICATED_REQUESTS_MAX = SASL_REQUESTS_MAX
ANSWER_PARTS_LOOKED_AT = 1_000
"""Of one answer, for the counts of error codes."""

assert FRAME_BYTES_MAX <= FRAME_BYTES_MAX_LARGE
assert SMALL_REQUEST_BYTES_MAX <= CONNECTION_HELD_BYTES_MAX
assert FRAME_BYTES_MAX_LARGE + HANDLING_FACTOR * REQUEST_HEAP_BYTES_MAX <= REQUESTS_HELD_BYTES_MAX
assert BATCH_BYTES_MAX_DEFAULT <= BATCH_BYTES_MAX < FRAME_BYTES_MAX_LARGE
