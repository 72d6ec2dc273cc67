"""Limits of a Raft group: times (raft rule 28) and bounds (raft rule 33)."""

from muster_coordinator.limits import (
    APPLY_BYTES_PER_TURN_MAX,
    GROUP_UNCOMMITTED_BYTES_MAX,
    HEARTBEAT_MS,
    KIB,
    LINK_REDIAL_GRACE_MS,
    MIB,
    PEER_FRAME_BYTES_MAX,
)

# What is computed says its type: the package's own file imports `timing`, which mypyc therefore may meet first.
ELECTION_TIMEOUT_MIN_MS = 1_000
ELECTION_TIMEOUT_MAX_MS = 2_000
LINK_LOSS_STAGGER_MS = 50
"""Spreads the campaigns of one dead process' groups over both survivors (decision 17)."""
GROUP_UNCOMMITTED_ENTRIES_MAX = 4_096
INFLIGHT_APPENDS_MAX = 128
INFLIGHT_APPEND_BYTES_MAX: int = 2 * MIB
APPEND_BYTES_MAX: int = 192 * KIB
"""Entries of one append message; a larger single entry travels alone."""
COLD_APPEND_BYTES_MAX: int = 64 * KIB
"""The same of entries that are read back from the disk: the loop does that, and what clients ask waits for it."""
UNAPPLIED_BYTES_MAX: int = 8 * MIB
"""Handed out for applying and not reported applied, per group; one oversize entry passes."""
READS_UNGRANTED_MAX = 4_096
"""ReadIndex requests of one group that wait for their round; the host asks once a turn, not once a client."""
GROUP_CACHE_BYTES_MAX: int = MIB
"""Payloads of one group kept in memory."""
MEMBERS_MAX = 63
"""Voters of one half, and learners, of one configuration; a group has 1, 3 or 5 voters when nothing is changing."""

assert COLD_APPEND_BYTES_MAX <= APPEND_BYTES_MAX
assert APPEND_BYTES_MAX < PEER_FRAME_BYTES_MAX
assert APPLY_BYTES_PER_TURN_MAX <= UNAPPLIED_BYTES_MAX <= GROUP_UNCOMMITTED_BYTES_MAX
assert LINK_LOSS_STAGGER_MS < HEARTBEAT_MS
assert HEARTBEAT_MS * 5 <= ELECTION_TIMEOUT_MIN_MS < ELECTION_TIMEOUT_MAX_MS
assert LINK_REDIAL_GRACE_MS < ELECTION_TIMEOUT_MIN_MS
