"""Limits of what replicas ask each other about transactions."""

from muster_coordinator.limits import PEER_FRAME_BYTES_MAX

MARKERS_PER_FRAME_MAX = 1_000
MARKERS_PER_TURN = 500
"""Markers that one turn sends, or writes here."""
MARKER_FRAMES_UNANSWERED_MAX = 64
"""Of all peers together; more markers wait for the answers."""
MARKERS_SERVED_MAX = 10_000
"""Markers of peers that are being written here; more are answered NOT_LEADER_OR_FOLLOWER, and come again."""
MARKER_WRITE_MS = 5_000
"""Longest time for which a leader tries to write one marker, before its coordinator is told to try again."""
MARKER_ANSWER_MS = 10_000
"""Longest time for which the answer to a frame of markers is waited for."""
MARKER_RETRY_MS = 50
MARKER_RETRY_MS_MAX = 2_000
"""Pause before a marker is tried again: the first one, doubled each time up to the second one."""
MARKER_LATE_MS = 10_000
"""A marker that is not written after this time is told in metrics: no election takes that long."""
LATE_PARTITIONS_MAX = 1_000
"""Of which that is told, and as many times ten markers are looked at in one scrape, the oldest first."""
QUESTIONS_UNANSWERED_MAX = 10_000
"""Questions of this replica that no coordinator has answered, and as many of peers that are not answered here."""
QUESTION_ANSWER_MS = 5_000
"""Longest time for which an answer is waited for."""
ADD_RETRY_MS = 20
ADD_RETRIES_MS = 1_000
"""Pause after which a partition is added again while the transaction before is being completed, and for how long."""

assert MARKER_WRITE_MS < MARKER_ANSWER_MS
assert MARKERS_PER_FRAME_MAX * 20 + 64 <= PEER_FRAME_BYTES_MAX
