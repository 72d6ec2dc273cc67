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
"""Answers of one group shard sent in one turn; encoding one takes some 20 us."""
GROUP_VERIFICATIONS_MAX = 1_000
"""Commits of one offsets partition that wait for a transaction coordinator; one more is answered 15."""
READS_ANSWERED_PER_TURN = 200
"""Confirmed reads answered in one turn, over all Raft groups; an OffsetFetch takes some 20 us."""

# Parking of group requests until the no-op of a new term is applied (decision 5).
PARK_MS_MAX = 1_000
PARK_REQUESTS_MAX = 1_000

# Raft groups (raft rules 28, 33).
HOST_UNCOMMITTED_BYTES_MAX = 64 * MIB
APPLY_MS_PER_TURN_MAX = 3
"""After this time a turn applies entries of no further group."""
APPLY_BYTES_PER_VISIT = 64 * KIB
"""Bytes of one group applied before the next group's turn, or one larger entry: some 30 commits of ten partitions,
2 ms."""
STOPPED_GROUP_BACKLOG_BYTES = 64 * MIB
"""Bytes of entries that a group without a state stores at most; they stay in the WAL that all groups share (1 GiB)."""
GROUP_CACHE_FLUSHED_BYTES = 64 * KIB
"""Payloads of one group kept in memory after a flush: followers have the older ones, and one that lags is sent them
from the WAL."""
TRAILING_ENTRIES = 5_000
GOSSIP_FULL_MS = 10_000
FORWARDED_REQUESTS_MAX = 1_000
FORWARD_TIMEOUT_MS = 5_000
BROKER_LISTED_MS = 9_000
"""For so long a broker that is gone stays in the list of brokers that clients are told: the default of Kafka's
`broker.session.timeout.ms`. A client may take one that disappears from it for decommissioned, and drop what it knows of
it: librdkafka 2.12 to 2.16 then wait for ever for such a group coordinator in a transaction (its issues 5511, 5476)."""
CURRENT_IMAGE_WAIT_MS = 1_000
CURRENT_IMAGE_PARKED_MAX = 1_000
"""Commits that wait for the proof that a topic does not exist."""
CURRENT_TOPICS_PARKED_MAX = 2_000
"""Other requests that wait for such a proof; beyond this they are answered at once, as without a proof."""
CURRENT_TOPICS_PACE_MS = 20
"""Least time between two of their requests to the controller's leader, however many clients poll for a missing topic.
"""

# Payloads, and snapshot installs.
HEARTBEAT_ROWS_MAX = 2_000
"""Groups that one heartbeat frame names or drops, or one ack rejects; more need several frames, of 56 kB at most."""
LEADERS_PER_FRAME_MAX = 4_000
"""Rows of gossip, 16 bytes each; a longer table takes several frames."""
INSTALL_CHUNK_BYTES = 64 * KIB
INSTALLS_MAX = 2
INSTALL_BYTES_PER_SECOND = 128 * MIB
"""Default rate at which one replica sends to all followers that install a snapshot, so that clients are still served.
"""
INSTALL_BYTES_PER_SECOND_MIN = MIB
INSTALL_HOLD_MS = 15_000
"""How long after a follower's last request in an install the leader's core keeps the entries after the checkpoint; and
the WAL its files, while less than three quarters of `WAL_BYTES_MAX` are used. A later follower needs a new install."""
INSTALL_MS_MAX = 600_000
"""How long after its last request a follower with an open link may verify the files and put them in place, while the
entries are kept in the same way: a hundred gigabytes are read in less."""
FOLLOWED_ENTRIES = 100
"""A follower that lacks at most this number after its install has caught up, and nothing more is kept for it: an append
or two bring it level. It does not depend on `muster.raft.trailing.entries`, which may be 0: then no leader that is
written to would ever see a follower that lacks nothing."""
INSTALL_FILES_MAX = 250_000
"""Files of one install: 250 TiB in segments of 1 GiB. A partition with more files is refused with an error."""
INSTALL_OFFER_FILES_MAX = 4_000
"""Files named in one frame; an offer of more needs several frames, of 140 kB at most."""
SEGMENT_SYNC_BYTES = MIB
"""A partition's segment is synced when so much was appended to it since, between the flushes that make recovery points
of it. Each 100 ms is looked whether it was."""
INSTALL_SYNC_BYTES = MIB
"""What an install or a repair fetches is synced each time that so much of a file has arrived. What others sync on the
same disk, commits above all, waits for it: with 16 MiB at a time the p99 of commits beside a replacement was 2.4 times
that before it, with 1 MiB 1.7 to 1.95 times, and with the folder of the new one in memory 1.3 times."""
INSTALL_VERIFY_STEP_BYTES = MIB
"""Bytes verified in one step of a job; between steps the loop's thread can run."""
INSTALL_CHECK_BYTES = MIB
"""Size of a range of which a checksum is asked for."""

# Storage (decisions 2, 3).
WAL_CARRY_PACE_MS = 50
"""Least time between two batches that carry tails. When live tails fill nearly all of the WAL, carrying them frees
little: without a pace they would be carried again and again, as fast as the disk and the loop allow."""
WAL_ROOM_SPREAD_MS = 500
"""Least time over which the room that is left in a WAL is spread."""
WAL_PARKED_MS_MAX = 1_000
"""How long a batch waits for room in the WAL: as long as refused clients stay away, so that a batch is always waiting.
"""
WAL_PARKED_BYTES_MAX = 8 * MIB
"""Bytes of all batches that wait for room in one WAL."""
CHECKPOINT_BYTES = 64 * MIB
"""Applied bytes of a group after which a checkpoint of it is made."""
CHECKPOINT_PACE_MS = 50
"""Least time between the starts of two checkpoints of one replica: each takes a handful of syncs."""
CHECKPOINT_BYTES_MIN = 256 * KIB
"""Applied bytes below which replay is faster than the sync of a checkpoint's file."""
DISK_LOW_BYTES = 256 * MIB
"""Free bytes below which a replica refuses new data and hands its leaderships away: the next file of each WAL, a
checkpoint, and the data that other leaders still send must fit."""
DISK_LOW_WAL_FILES = 3
"""Least value of the above, in WAL files, whatever is configured: the next file of each WAL, and some more."""
DISK_FULL_SHARE = 4
"""With free bytes below `DISK_LOW_BYTES` / this a follower refuses new data of other leaders too: the rest is for
votes, for commands that free space, and for checkpoints that let the WAL shrink."""
DISK_LOOK_MS = 1_000
"""How often the free bytes are measured, ..."""
DISK_NEAR_LOOK_MS = 50
"""... and how often while they are below `DISK_NEAR_SHARE` * `DISK_LOW_BYTES`: 256 MiB are written in a second or two.
"""
DISK_NEAR_SHARE = 4
NO_SPACE_RETRY_MS = 5_000
"""How long the disk counts as full after it refused a write that can be retried, whatever number of bytes is free:
quotas and inodes can run out too."""

# Scrubbing and repair.
SCRUB_TICK_MS = 100
SCRUB_FIRST_MS = 60_000
"""Time from a start to the first pass; a starting replica has more urgent work."""
SCRUB_PASS_MS = 24 * 3_600_000
"""Time from the start of one pass over all sealed segments to the start of the next, unless a pass takes longer."""
DAMAGED_SEGMENTS_MAX = 1_000
"""Damaged segments listed by one replica; further ones are found again by the next pass, or reader."""
REPAIR_LOOK_MS = 1_000
REPAIR_RETRY_MS = 60_000
"""How long after a failed repair a segment is asked for again."""
REPAIR_SILENCE_MS = 60_000
"""How long a repair waits for a peer's answer: a peer reads the whole segment before it offers it."""
REPAIR_CHUNKS_IN_FLIGHT_MAX = 4

# Cleaning.
CLEAN_TICK_MS = 100
CLEAN_PAUSE_RETRY_MS = 50
"""A cleaned segment waits for a flush, a checkpoint or a follower's fetch of the group to end."""
CLEAN_RETRY_MS = 60_000
"""How long after a round that failed its partition is looked at again."""

assert GROUP_UNCOMMITTED_BYTES_MAX <= HOST_UNCOMMITTED_BYTES_MAX < WAL_BYTES_MAX
assert APPLY_BYTES_PER_VISIT <= APPLY_BYTES_PER_TURN_MAX
assert GROUP_CACHE_FLUSHED_BYTES < GROUP_CACHE_BYTES_MAX < LOG_CACHE_BYTES_MAX
assert INSTALL_CHUNK_BYTES < LINK_BULK_UNSENT_BYTES_MAX
assert FOLLOWED_ENTRIES < TRAILING_ENTRIES, "what it lacks then, a checkpoint does not take by default"
assert CHECKPOINT_BYTES_MIN < CHECKPOINT_BYTES
assert WAL_FILE_BYTES * DISK_LOW_WAL_FILES < DISK_LOW_BYTES
assert DISK_LOOK_MS < NO_SPACE_RETRY_MS
assert INSTALL_CHUNK_BYTES < PEER_FRAME_BYTES_MAX
assert INSTALL_OFFER_FILES_MAX * 40 < PEER_FRAME_BYTES_MAX
assert INSTALLS_MAX * 8 * INSTALL_CHUNK_BYTES <= INSTALL_BYTES_PER_SECOND_MIN <= INSTALL_BYTES_PER_SECOND
