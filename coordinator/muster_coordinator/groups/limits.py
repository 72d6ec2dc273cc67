"""Limits of a group shard: sizes of a group, and how much work one turn does (decisions 21, 24)."""

from muster_coordinator.limits import KIB

GROUP_SIZE_MAX = 2_000
PROOF_DECODED_BYTES_MAX = 64 * KIB
"""A group's record of up to this size is decoded whole before it is proposed: some 300 members, 3 ms."""
FAULTS_KEPT = 16
"""Contained errors of one shard that are kept for the log; more are only counted."""
PENDING_MEMBERS_MAX = 2 * GROUP_SIZE_MAX
GROUP_WAITING_REQUESTS_MAX = 4 * GROUP_SIZE_MAX
"""Requests of one group that wait for its in-flight membership record."""
LOG_STRING_BYTES_MAX = 2**15 - 1
"""UTF-8 bytes of a string in the offsets log, and in answers of versions that are not flexible (an int16 length).
Compact strings in newer requests may be longer, but everything that is stored must fit."""
MEMBER_ID_SUFFIX_BYTES = 37
"""Length of the suffix that makes a member id of a client or instance id: "-" and a uuid."""
SESSION_TIMEOUT_MIN_MS = 6_000
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
OFFSETS_RETENTION_MS = 7 * 24 * 3_600_000
OFFSETS_RETENTION_CHECK_MS = 600_000

# A group shard's turns (decision 21); pure code counts work instead of time.
GROUP_TIMERS_PER_TURN = 512
"""Deadlines that one `on_timer` fires or queues again for a later time."""
GROUP_WAITING_PER_TURN = 256
"""Waiting requests of one group that are handled in one turn after its record is applied."""
GROUP_SLICE_WORK = 500
"""Groups plus members or offsets visited in one slice of a background job: about 1 ms."""
GROUP_TOMBSTONES_PER_BATCH = 1_000
GROUP_DELETE_BATCH = 10_000
"""Tombstones of one DeleteGroups batch; a group with more offsets takes several."""
GROUP_SWEEP_IN_FLIGHT_MAX = 8
"""Batches of tombstones that one background job has in flight."""
STATIC_MEMBERS_LOOK_MS = 1_000
"""Shortest interval at which a join phase that waits only for absent static members is checked again, however short
their rebalance timeouts are. It ends when their sessions end or they return."""
APPEND_RETRY_MS = 250
"""Pause before a change that no request asked for (an expulsion, a pending rebalance) is proposed again."""
PAUSE_SUSPECTED_MS = 1_000
"""A session timer that fires this late shows that the process was probably paused and may have missed heartbeats: the
member gets a new session instead (invariant G14)."""
CLOCK_JUMP_SUSPECTED_MS = 60_000
"""Change of wall minus monotonic clock between two expiry sweeps; beyond it the sweep is skipped (invariant O11)."""
UNPACKED_OFFSETS_MAX = 5_000
"""Unpacked offsets of one shard; above it, groups that were not used lately are packed again (decision 20)."""
OFFSETS_PRODUCERS_MAX = 10_000
"""Producer ids kept by one offsets partition."""
OFFSETS_TRANSACTIONS_MAX = OFFSETS_PRODUCERS_MAX // 2
"""Open transactions of one offsets partition; the next one's first commit is answered 15. So the producers that may be
forgotten are at least as many."""
TOPIC_DELETIONS_REMEMBERED = 1_000
"""Deleted topic ids that a follower keeps in case it becomes leader before their offsets are removed."""

assert PAUSE_SUSPECTED_MS < SESSION_TIMEOUT_MIN_MS
assert CLOCK_JUMP_SUSPECTED_MS < OFFSETS_RETENTION_CHECK_MS < OFFSETS_RETENTION_MS
