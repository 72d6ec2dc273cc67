"""Limits of a replica: its Raft groups, the disk, snapshot installs, requests that wait."""

from muster_coordinator.limits import (
    APPLY_BYTES_PER_TURN_MAX,
    GROUP_UNCOMMITTED_BYTES_MAX,
    KIB,
    MIB,
    PEER_FRAME_BYTES_MAX,
    WAL_BYTES_MAX,
    WAL_FILE_BYTES,
)
from muster_coordinator.links.limits import LINK_BULK_UNSENT_BYTES_MAX
from muster_coordinator.raft.limits import GROUP_CACHE_BYTES_MAX
from muster_coordinator.storage.limits import LOG_CACHE_BYTES_MAX

# Turns (decision 21).
GROUP_ANSWERS_PER_TURN = 100
"""Answers of one group shard that leave in one turn; encoding one costs some 20 us."""
READS_ANSWERED_PER_TURN = 200
"""Reads that a confirmed round answers in one turn, over all Raft groups; an OffsetFetch costs some 20 us."""

# Parking of group requests until the no-op of a new term is applied (decision 5).
PARK_MS_MAX = 1_000
PARK_REQUESTS_MAX = 1_000

# Raft groups (raft rules 28, 33).
HOST_UNCOMMITTED_BYTES_MAX = 64 * MIB
APPLY_MS_PER_TURN_MAX = 3
"""No further group is visited in this turn."""
APPLY_BYTES_PER_VISIT = 64 * KIB
"""Of one group at a stretch, or one entry: some 30 commits of ten partitions, 2 ms."""
STOPPED_GROUP_BACKLOG_BYTES = 64 * MIB
"""Entries that a group without a state goes on storing; they stay in the WAL that all groups share (1 GiB)."""
GROUP_CACHE_FLUSHED_BYTES = 64 * KIB
"""What a flush leaves in memory of the payloads of one group: followers have the rest, and a late one
is sent it from the WAL."""
TRAILING_ENTRIES = 5_000
GOSSIP_FULL_MS = 10_000
FORWARDED_REQUESTS_MAX = 1_000
FORWARD_TIMEOUT_MS = 5_000
CURRENT_IMAGE_WAIT_MS = 1_000
CURRENT_IMAGE_PARKED_MAX = 1_000
"""Commits that wait for the proof that a topic is not there."""
CURRENT_TOPICS_PARKED_MAX = 2_000
"""All other requests that do; beyond it they are told at once what is told without a proof."""
CURRENT_TOPICS_PACE_MS = 20
"""Between two of their questions to the controller's leader, however many clients poll for a mistyped topic."""

# Payloads, and snapshot installs.
HEARTBEAT_ROWS_MAX = 2_000
"""Groups that one heartbeat names or drops, or one of its answers rejects; more take several frames, up to 56 kB
each."""
LEADERS_PER_FRAME_MAX = 4_000
"""Rows of gossip, 16 bytes each; a longer table takes several frames."""
INSTALL_CHUNK_BYTES = 64 * KIB
INSTALLS_MAX = 2
INSTALL_BYTES_PER_SECOND = 128 * MIB
"""What one replica sends to all followers that install a snapshot together, by default; answering clients goes on
beside it."""
INSTALL_BYTES_PER_SECOND_MIN = MIB
INSTALL_HOLD_MS = 15_000
"""So long after a follower's last request in an install its leader's core keeps the entries that come after it, and the
WAL its files while less than three quarters of `WAL_BYTES_MAX` are used; a follower that is later fetches the rest."""
INSTALL_MS_MAX = 600_000
"""So long after its last request it may check what it fetched and put it in place, while its link is up, and what comes
after it is kept in the same way: a hundred gigabytes are read in less."""
INSTALL_FILES_MAX = 250_000
"""Of one install: 250 TiB in segments of 1 GiB. A partition of more, in segments too small, is refused in words."""
INSTALL_OFFER_FILES_MAX = 4_000
"""Named in one frame; an offer of more takes several, up to 140 kB each."""
INSTALL_VERIFY_STEP_BYTES = MIB
"""Verified in one go; then the loop can have the interpreter."""
INSTALL_CHECK_BYTES = MIB
"""One range whose checksum is asked for, of a file that both sides have."""

# Storage (decisions 2, 3).
WAL_CARRY_PACE_MS = 50
"""Between two batches that take tails along. Where live tails fill nearly all of the WAL, carrying them frees little:
without a pace it would go round and round, as fast as the disk and the loop can."""
WAL_ROOM_SPREAD_MS = 500
"""Writers get the room that is left in a WAL in no less than this time."""
WAL_PARKED_MS_MAX = 1_000
"""A batch waits so long for room in the WAL: as long as refused clients stay away, so that somebody always waits."""
WAL_PARKED_BYTES_MAX = 8 * MIB
"""Of all batches that wait so for one WAL."""
CHECKPOINT_BYTES = 64 * MIB
"""Applied bytes of a group after which a checkpoint of it is made."""
CHECKPOINT_PACE_MS = 50
"""Between the starts of two checkpoints of one replica: each is a handful of syncs."""
CHECKPOINT_BYTES_MIN = 256 * KIB
"""Less than this is replayed faster than a checkpoint's file is synced."""
DISK_LOW_BYTES = 256 * MIB
"""Below it a replica takes no new data and hands its leaderships away: the next file of each WAL, a checkpoint, and
what leaders elsewhere still send must fit."""
DISK_LOW_WAL_FILES = 3
"""At least so many files of a WAL, whatever is configured: the next one of each, and something besides."""
DISK_FULL_SHARE = 4
"""Below this part of what is low a follower takes no new data of others either: what is left is for votes, for
commands that make room, and for the checkpoints that let the WAL shrink."""
DISK_LOOK_MS = 1_000
"""How often the disk is asked how much is free ..."""
DISK_NEAR_LOOK_MS = 50
"""... and while less than `DISK_NEAR_SHARE` times what is low is left: 256 MiB are written in a second or two."""
DISK_NEAR_SHARE = 4
NO_SPACE_RETRY_MS = 5_000
"""After the disk had no space for something, it counts as full for so long, whatever it says is free: quotas and tables
of files run out too."""

# Retention, scrubbing and repair.
TOPIC_RETENTION_CHECK_MS = 300_000

SCRUB_TICK_MS = 100
SCRUB_FIRST_MS = 60_000
"""After a start; whoever starts has more to do."""
SCRUB_PASS_MS = 24 * 3_600_000
"""From the beginning of one pass over all sealed segments to the next, or longer if a pass takes longer."""
DAMAGED_SEGMENTS_MAX = 1_000
"""Remembered by one replica; those beyond are found again by the next pass, or reader."""
REPAIR_LOOK_MS = 1_000
REPAIR_RETRY_MS = 60_000
"""A segment of which no peer had a whole copy, or that the disk refused, is asked for again after this time."""
REPAIR_SILENCE_MS = 60_000
"""A peer reads a segment from end to end before it offers it."""
REPAIR_CHUNKS_IN_FLIGHT_MAX = 4

assert GROUP_UNCOMMITTED_BYTES_MAX <= HOST_UNCOMMITTED_BYTES_MAX < WAL_BYTES_MAX
assert APPLY_BYTES_PER_VISIT <= APPLY_BYTES_PER_TURN_MAX
assert GROUP_CACHE_FLUSHED_BYTES < GROUP_CACHE_BYTES_MAX < LOG_CACHE_BYTES_MAX
assert INSTALL_CHUNK_BYTES < LINK_BULK_UNSENT_BYTES_MAX
assert CHECKPOINT_BYTES_MIN < CHECKPOINT_BYTES
assert WAL_FILE_BYTES * DISK_LOW_WAL_FILES < DISK_LOW_BYTES
assert DISK_LOOK_MS < NO_SPACE_RETRY_MS
assert INSTALL_CHUNK_BYTES < PEER_FRAME_BYTES_MAX
assert INSTALL_OFFER_FILES_MAX * 40 < PEER_FRAME_BYTES_MAX
assert INSTALLS_MAX * 8 * INSTALL_CHUNK_BYTES <= INSTALL_BYTES_PER_SECOND_MIN <= INSTALL_BYTES_PER_SECOND
