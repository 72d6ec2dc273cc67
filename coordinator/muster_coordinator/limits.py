"""Every named limit of the coordinator, with unit and reason, and the relations between them asserted below.

A limit that users may set is a default here and a key in `settings.py`; the rest are constants of the design.
"""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# Client frames (decision 24).
FRAME_BYTES_MAX = 8 * MIB
FRAME_BYTES_MAX_LARGE = 16 * MIB
"""Produce, JoinGroup, SyncGroup."""
REQUEST_HEAP_BYTES_MAX = 16 * MIB
"""Estimated Python heap of one decoded request: one wire byte can become 83 heap bytes (decision 34)."""
PIPELINED_REQUESTS_MAX = 100
"""Unanswered requests of one connection; then reading stops (decision 23)."""
CONNECTION_TURN_REQUESTS_MAX = PIPELINED_REQUESTS_MAX
"""Requests of one connection handled in one turn of the loop, and how long they may take; the others wait a turn."""
CONNECTION_TURN_MS_MAX = 2
CLIENTS_TURN_MS_MAX = 3
"""Requests of all connections in one turn, and writing their answers; a group that storms waits for later turns."""
REPEATED_HEARTBEAT_BYTES_MAX = KIB
"""A heartbeat frame up to this size is remembered by its connection, to know its repetition (docs/adr/0012)."""
CONNECTION_UNSENT_BYTES_MAX = 16 * MIB
"""Answers that a slow reader has not taken; above it reading stops, and the connection closes after the next line."""
CONNECTION_UNSENT_MS_MAX = 30_000
CONNECTIONS_MAX = 10_000
ACCEPTS_PER_SECOND_MAX = 2_000
LISTEN_BACKLOG = 512
CONNECTION_IDLE_MS = 600_000
UNAUTHENTICATED_FRAME_BYTES_MAX = 64 * KIB
"""Before a connection has authenticated (Kafka: 512 KiB since KAFKA-3169)."""
CLIENTS_BUFFERED_BYTES_MAX = 256 * MIB
"""Unfinished frames of all connections; the one that exceeds it is closed, so that slow senders cannot add up."""
CLIENTS_UNSENT_BYTES_MAX = 512 * MIB
"""Answers not taken, over all connections; the connection that exceeds it is closed."""
CLIENTS_CLOSE_MS = 2_000
"""A stopping listener closes its connections over this time (architecture "Drain")."""
METADATA_LEADERLESS_WAIT_MS = 100
"""An answer that names a partition without leader waits this long: some clients ask again without any pause."""
METADATA_NEW_PARTITION_WAIT_MS = 1_000
"""As long as one of them has never had a leader, as far as is known here, the answer waits this long: a topic was just
made or this replica has just started, and some clients believe "no leader" until their next refresh, minutes later."""
METADATA_ALL_TOPICS_WAIT_MS = 250
"""A list of all topics waits so long for the proof that none is missing. It has no place for a doubt, and is also how
some clients find the brokers while the controller has no leader."""
METADATA_NO_BROKER_WAIT_MS = 5_000
"""An answer that can name no broker, while a cluster forms, waits this long. librdkafka drops such an answer, asks
twice more, and then not again for minutes (rdkafka_metadata.c, "No brokers or topics in metadata: should retry")."""
AUTO_CREATES_AT_ONCE_MAX = 100
"""Topics in the making here because a client asked for them (`auto.create.topics.enable`); more are made later."""
PRODUCE_TIMEOUT_MS_MAX = 30_000
"""Longest wait of a Produce for its quorum, whatever timeoutMs says; clients default to 30 s."""
ADMIN_TIMEOUT_MS_MAX = 60_000
"""Longest wait of an administrator's change, whatever timeoutMs says."""
CONFIG_RETRIES_MAX = 3
"""A config change that lost a race against another one is computed anew this often."""
DESCRIBED_PARTITIONS_MAX = 2_000
"""Partitions of one DescribeTopicPartitions answer (Kafka: max.request.partition.size.limit)."""
FETCH_WAIT_MS_MAX = 60_000
"""Longest wait of a Fetch, whatever max_wait_ms says; clients ask for 500 ms, some for 5 s."""
FETCH_RECHECK_MS = 25
"""A waiting Fetch with min_bytes above one counts again at most this often."""
ERROR_MESSAGE_CHARS_MAX = 1_024
"""Of the error message of an answer: it may quote what the client sent, and an old string holds 32,767 bytes."""
HTTP_HEAD_MS = 5_000
"""Probe and admin ports: from the first byte, or the accept, to the end of a request's head."""
HTTP_REQUEST_MS = 30_000
"""A request's body and its answer; /v1/transfer waits for some seconds, a page of metrics takes tenths of one."""
HTTP_IDLE_MS = 75_000
"""Between two requests of a connection; Prometheus asks every 15 to 60 s."""
HTTP_LINGER_MS = 1_000
"""After an answer, what is left of the request's body is read and thrown away for so long."""
HTTP_CONNECTIONS_MAX = 64
"""Of one port: kubelet, Prometheus, operator and some people; beyond it the one that has waited longest is closed."""
ANSWER_PARTS_LOOKED_AT = 1_000
"""Of one answer, for the counts of error codes."""
EVENT_WINDOW_MS = 10_000
EVENTS_PER_WINDOW_MAX = 50
RARE_EVENTS_PER_WINDOW_MAX = 100 * EVENTS_PER_WINDOW_MAX
"""Lines of one kind of event in the log, in a window; then repeats are counted in one line at its end."""
EVENT_TEXT_CHARS_MAX = 256
"""Of one field, which a client may have chosen."""
NOTICE_WINDOW_MS = 60_000
NOTICES_PER_WINDOW_MAX = 10
"""Log lines of one kind of notice in one window; the rest are counted (`runtime.notices`)."""

# Record batches.
BATCH_BYTES_MAX_DEFAULT = MIB + 12
"""max.message.bytes default (Kafka: 1048588)."""
BATCH_BYTES_MAX = 4 * MIB
"""Hard ceiling of a produced batch, whatever a topic says."""
INFLATED_BYTES_MAX = 64 * MIB
INFLATE_RATIO_MAX = 100

# Groups.
GROUP_SIZE_MAX = 2_000
GROUP_STORED_BYTES_MAX = 8 * MIB
"""Metadata plus assignments of one generation; the offsets log takes one batch of this size (decision 24)."""
OFFSETS_BATCH_BYTES_MAX = GROUP_STORED_BYTES_MAX + MIB
PROOF_DECODED_BYTES_MAX = 64 * KIB
"""A group's record up to this size is decoded whole before it is proposed: some 300 members, 3 ms."""
FAULTS_KEPT = 16
"""Contained errors of one shard that wait to be logged; more are only counted."""
PENDING_MEMBERS_MAX = 2 * GROUP_SIZE_MAX
GROUP_WAITING_REQUESTS_MAX = 4 * GROUP_SIZE_MAX
"""Requests of one group that wait for its in-flight membership record."""
OFFSET_METADATA_CHARS_MAX = 4_096
LOG_STRING_BYTES_MAX = 2**15 - 1
"""UTF-8 bytes of a string that the offsets log, and the answers of versions that are not flexible, can hold (an int16
length). Compact strings of newer requests may be longer; whatever is stored must fit here."""
MEMBER_ID_SUFFIX_BYTES = 37
"""What a coordinator appends to a client or instance id to make a member id: "-" and a uuid."""
SESSION_TIMEOUT_MIN_MS = 6_000
SESSION_TIMEOUT_MAX_MS = 1_800_000
INITIAL_REBALANCE_DELAY_MS = 3_000
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
OFFSETS_RETENTION_MS = 7 * 24 * 3_600_000
OFFSETS_RETENTION_CHECK_MS = 600_000
OFFSETS_PARTITIONS = 50

# A group shard's turns (decision 21); pure code counts work instead of time.
GROUP_TIMERS_PER_TURN = 512
"""Deadlines that one `on_timer` fires or moves on."""
GROUP_WAITING_PER_TURN = 256
"""Waiting requests of one group that are judged in one turn when its record is applied."""
GROUP_ANSWERS_PER_TURN = 100
"""Answers of one group shard that leave in one turn; encoding one costs some 20 us."""
READS_ANSWERED_PER_TURN = 200
"""Reads that a confirmed round answers in one turn, over all Raft groups; an OffsetFetch costs some 20 us."""
GROUP_SLICE_WORK = 500
"""Groups plus members or offsets looked at in one slice of a background job: about 1 ms."""
GROUP_TOMBSTONES_PER_BATCH = 1_000
GROUP_DELETE_BATCH = 10_000
"""Tombstones of one DeleteGroups batch; a group with more offsets takes several."""
GROUP_SWEEP_IN_FLIGHT_MAX = 8
"""Batches of tombstones that one background job has in flight."""
STATIC_MEMBERS_LOOK_MS = 1_000
"""A join phase in which only absent static members are left looks again at most this often, however short their
rebalance timeouts are; their sessions, or their return, end it."""
APPEND_RETRY_MS = 250
"""Pause before a change that nobody asked for (an expulsion, a pending rebalance) is proposed again."""
PAUSE_SUSPECTED_MS = 1_000
"""A session that is found over this late was probably not heard: its member gets a new one (invariant G14)."""
CLOCK_JUMP_SUSPECTED_MS = 60_000
"""Wall against monotonic clock between two expiry sweeps; beyond it the sweep is left out (invariant O11)."""
OFFSET_FETCH_IMAGES_MAX = 4
"""Tries of one OffsetFetch while topics come and go under it, each by a younger image."""
UNPACKED_OFFSETS_MAX = 5_000
"""Of one shard: above it, groups that nobody touches are packed again (decision 20)."""
OFFSETS_PRODUCERS_MAX = 10_000
"""Producer ids remembered by one offsets partition."""
TOPIC_DELETIONS_REMEMBERED = 1_000
"""Deleted topic ids that a follower keeps in case it leads before the leader is done with them."""

# Parking of group requests until the no-op of a new term is applied (decision 5).
PARK_MS_MAX = 1_000
PARK_REQUESTS_MAX = 1_000
COORDINATOR_LOOKUP_WAIT_MS = 250

# Raft: times (raft rule 28) and bounds (raft rule 33).
HEARTBEAT_MS = 100
ELECTION_TIMEOUT_MIN_MS = 1_000
ELECTION_TIMEOUT_MAX_MS = 2_000
LINK_REDIAL_GRACE_MS = 150
LINK_DIAL_TIMEOUT_MS = 100
LINK_LOSS_STAGGER_MS = 50
"""Spreads the campaigns of one dead process' groups over both survivors (decision 17)."""
GROUP_UNCOMMITTED_BYTES_MAX = 16 * MIB
GROUP_UNCOMMITTED_ENTRIES_MAX = 4_096
HOST_UNCOMMITTED_BYTES_MAX = 64 * MIB
INFLIGHT_APPENDS_MAX = 128
INFLIGHT_APPEND_BYTES_MAX = 2 * MIB
APPEND_BYTES_MAX = 192 * KIB
"""Entries of one append message; a larger single entry travels alone."""
APPLY_BYTES_PER_TURN_MAX = MIB
APPLY_MS_PER_TURN_MAX = 3
"""No further group is visited in this turn."""
APPLY_BYTES_PER_VISIT = 64 * KIB
"""Of one group at a stretch, or one entry: some 30 commits of ten partitions, 2 ms."""
STOPPED_GROUP_BACKLOG_BYTES = 64 * MIB
"""Entries that a group without a state goes on storing; they stay in the WAL that all groups share (1 GiB)."""
UNAPPLIED_BYTES_MAX = 8 * MIB
"""Handed out for applying and not reported applied, per group; one oversize entry passes."""
READS_PENDING_MAX = 4_096
"""ReadIndex requests of one group that wait for their round; the host asks once a turn, not once a client."""
RAFT_ENTRY_OVERHEAD_BYTES = 32
"""Counted for every entry on top of its data, so that many empty entries are bounded too."""
GROUP_CACHE_BYTES_MAX = MIB
"""Payloads of one group kept in memory."""
GROUP_CACHE_FLUSHED_BYTES = 64 * KIB
"""What is left of them after a flush: followers have the rest, and a late one is sent it from the WAL."""
RAFT_GROUPS_MAX = 2_000
PROPOSAL_TIMEOUT_MS = 5_000
TRAILING_ENTRIES = 5_000
LOG_CACHE_BYTES_MAX = 16 * MIB
"""Payloads that one WAL keeps of all its groups together; behind it is the page cache."""
LEADERSHIP_TAKEBACK_MS = 30_000
FEATURE_FINALIZE_MS = 3_600_000
"""Time to go back to the release before, once all replicas run the new one."""
GOSSIP_FULL_MS = 10_000
FORWARDED_REQUESTS_MAX = 1_000
FORWARD_TIMEOUT_MS = 5_000
CURRENT_IMAGE_WAIT_MS = 1_000
CURRENT_IMAGE_WAITING_MAX = 1_000
"""Commits that wait for the proof that a topic is not there."""
CURRENT_TOPICS_WAITING_MAX = 2_000
"""All other requests that do; beyond it they are told at once what is told without a proof."""
CURRENT_TOPICS_PACE_MS = 20
"""Between two of their questions to the controller's leader, however many clients poll for a mistyped topic."""

# Peer frames.
PEER_FRAME_BYTES_MAX = 256 * KIB
PEER_FRAME_BYTES_HARD_MAX = PEER_FRAME_BYTES_MAX + OFFSETS_BATCH_BYTES_MAX
"""One entry larger than a frame travels in a frame of its own."""
PEER_UNSENT_BYTES_MAX = 16 * MIB
LINK_CONTROL_UNSENT_BYTES_MAX = MIB
"""Votes, heartbeats and gossip that a peer has not taken: seconds of them, so the peer is stuck."""
LINK_BULK_UNSENT_BYTES_MAX = MIB
LINK_BULK_SHARE_BYTES = MIB
"""A waiting bulk frame goes after this many bytes of other channels."""
LINK_WRITE_BYTES = 256 * KIB
"""Handed to the transport at once; what a control message waits behind at most, plus one frame."""
HEARTBEAT_ROWS_MAX = 2_000
"""Groups that one heartbeat names or drops, or one of its answers rejects; more take several frames, up to 56 kB
each."""
LEADERS_PER_FRAME_MAX = 4_000
"""Rows of gossip, 16 bytes each; a longer table takes several frames."""
LINK_HELLO_BYTES_MAX = 64 * KIB
"""All that a stranger can make us buffer."""
LINK_HANDSHAKE_TIMEOUT_MS = 1_000
LINK_PENDING_MAX = 64
"""Accepted peer connections that have not said who they are."""
LINK_SECOND_DIAL_MS = 40
"""The higher broker id dials this much later, so that two dials seldom cross."""
LINK_BACKOFF_MIN_MS = 20
LINK_BACKOFF_MAX_MS = 1_000
LINK_DIAL_TIMEOUT_SLOW_MS = 1_000
"""Of dials after the grace of decision 17 has passed: a slow host must still be reachable."""
LINK_UNACKNOWLEDGED_MS = 2_000
"""A connection whose bytes the peer's kernel has not taken for so long ends, and is dialled anew: TCP waits twice as
long each time before it sends again, so after a partition of seconds the link would stand for as long once more."""
LINK_CROSSING_MS = 2_000
"""A younger link of the same two processes is a dial that crossed; an older one is dead at the dialler's side."""
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
WAL_FILE_BYTES = 64 * MIB
WAL_BYTES_MAX = GIB
WAL_FILES_MIN = 4
"""The bound is at least so many files."""
WAL_OPENING_SHARE = 8
"""What a file begins with, the state of every group, is at most this part of it: with many groups files are larger."""
WAL_STATES_PER_BATCH = 128
"""Groups whose state one batch repeats, some 6 us each, until a file has the states of all. Twice as many are asked by
one batch whether they need the oldest file, or let go of what lies in it."""
WAL_TRAILING_FILES = 1
"""Full WAL files kept although checkpoints cover them: a slow follower needs no install; recovery reads them."""
WAL_CARRY_BYTES_MAX = MIB
"""Live entries of one group that are written again rather than checkpointed (`storage.wal_carry`)."""
WAL_CARRY_SHARE = 16
"""At most this part of a file is one such tail."""
WAL_CARRY_MUST_BYTES_MAX = 2 * GROUP_UNCOMMITTED_BYTES_MAX
"""The same of a group that no checkpoint can free, because nothing of it commits."""
WAL_CARRY_ENTRIES_MAX = 1_000
"""Each costs the loop some 10 us."""
WAL_CARRY_BATCH_BYTES = 128 * KIB
"""Taken along by one batch, or one tail: under load there are a hundred batches a second."""
WAL_CARRY_PACE_MS = 50
"""Between two batches that take tails along. Where live tails fill nearly all of the WAL, carrying them frees little:
without a pace it would go round and round, as fast as the disk and the loop can."""
WAL_CARRY_LOOKS_MAX = 256
"""Groups looked at for one batch, a few microseconds each."""
WAL_CARRY_GAIN_SHARE = 2
"""At most this part of what the end of a file frees is written again for it; so much is set aside below the bound."""
WAL_ROOM_SPREAD_MS = 500
"""Writers get the room that is left in a WAL in no less than this time."""
WAL_PARKED_MS_MAX = 1_000
"""A batch waits so long for room in the WAL: as long as refused clients stay away, so that somebody always waits."""
WAL_PARKED_BYTES_MAX = 8 * MIB
"""Of all batches that wait so for one WAL."""
WAL_READ_AHEAD_BYTES = 256 * KIB
"""One read of older entries: the loop waits for it, and the page cache usually has it."""
SEGMENT_BYTES = 100 * MIB
SEGMENT_MS = 7 * 24 * 3_600_000
"""segment.ms default; counted in record time."""
SEGMENT_INDEX_INTERVAL_BYTES = 4_096
SEGMENT_WRITE_BYTES = 64 * KIB
"""Appended batches gather in memory up to here before one write to the page cache."""
SEGMENTS_LOADED_MAX = 4
"""Sealed segments of one partition whose index and file stay open after a read; an index takes up to 400 KB."""
SIDECARS_LEFT_OUT_MAX = 4
"""Of one partition, for which the disk had no space: held to be written with a later flush, up to 400 KB each."""
SEGMENT_FLUSH_MS = 30_000
SEGMENT_FLUSH_BYTES = 64 * MIB
OFFSETS_HISTORY_MS = 7 * 24 * 3_600_000
OFFSETS_HISTORY_BYTES = GIB
CHECKPOINT_BYTES = 64 * MIB
"""Applied bytes of a group after which a checkpoint of it is made."""
CHECKPOINT_PACE_MS = 50
"""Between the starts of two checkpoints of one replica: each is a handful of syncs."""
CHECKPOINT_BYTES_MIN = 256 * KIB
"""Less than this is replayed faster than a checkpoint's file is synced."""
CHECKPOINT_WRITE_BYTES = MIB
"""One write of a checkpoint, synced at once: a sync at the end would have all of it before the WAL's next."""
CHECKPOINT_STEP_BYTES = 16 * KIB
"""Encoded in one go, about half a millisecond; then the loop can have the interpreter for `PACED_PAUSE_MS`."""
PACED_PAUSE_MS = 0.5
CHECKPOINTS_KEPT = 2
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

# Topics.
PARTITIONS_PER_REQUEST_MAX = 10_000
DELETED_TOPIC_IDS_MAX = 20_000
"""Deletions the controller remembers (decision 27): shards act on one within minutes; older ones go."""
CONFIG_VALUE_CHARS_MAX = 4_096
"""One topic config value; the image of every replica holds all of them."""
RECORD_ERRORS_MAX = 100
"""Bad records named in one Produce answer: a 1 MiB batch of 7 byte records would otherwise be answered with 12 MiB."""
TOPIC_PRODUCERS_MAX = 20_000
"""Idempotent producers that one topic partition remembers, some 0.7 KiB each; the longest silent goes first."""
PRODUCERS_EXPIRED_PER_COMMAND_MAX = 10_000
PRODUCER_UNSEEN_MS_MIN = 3_600_000
"""A producer that this leader heard of within the last hour is not expired, however old its records' timestamps are."""
FETCH_BYTES_MAX = 55 * MIB
REFUSED_BATCHES_KEPT = 20_000
"""Idempotent producers, by connection and partition, whose refused batch is remembered; some 0.4 KiB each."""
FETCH_WAITERS_MAX = 20_000
TOPIC_RETENTION_CHECK_MS = 300_000
PRODUCER_ID_EXPIRATION_MS = 86_400_000
PRODUCER_ID_BLOCK = 1_000
PRODUCER_BATCHES_KEPT = 5

# Loop (decision 21).
SLICE_MS_MAX = 1
SLICE_WAIT_MS_MAX = 20

# Drain (architecture "Drain").
DRAIN_TRANSFERS_AT_ONCE = 4
SHUTDOWN_GRACE_MS = 60_000

# Metrics.
METRIC_GROUPS_MAX = 1_000

SCRUB_BYTES_PER_SECOND = 2 * MIB
"""Sealed segments read and checked in the background: 0.5 % of a processor with batches of 1 kB, 5 % with 90 B."""
SCRUB_TICK_MS = 100
SCRUB_FIRST_MS = 60_000
"""After a start; whoever starts has more to do."""
SCRUB_PASS_MS = 24 * 3_600_000
"""From the beginning of one pass over all sealed segments to the next, or longer if a pass takes longer."""
SEGMENT_CHECK_STEP_BYTES = 64 * KIB
"""Checked in one go, 1.6 ms with batches of 90 bytes; then the loop can have the interpreter."""
DAMAGED_SEGMENTS_MAX = 1_000
"""Remembered by one replica; those beyond are found again by the next pass, or reader."""
REPAIR_LOOK_MS = 1_000
REPAIR_RETRY_MS = 60_000
"""A segment of which no peer had a whole copy, or that the disk refused, is asked for again after this time."""
REPAIR_SILENCE_MS = 60_000
"""A peer reads a segment from end to end before it offers it."""
REPAIR_CHUNKS_IN_FLIGHT_MAX = 4
UNCHECKED_READ_BYTES = 256 * KIB
"""What one read checks at most on the loop, but for a single larger batch: 2,600 batches of 100 bytes take 3 ms."""
IO_QUEUES = (
    "wal-offsets",
    "wal-topics",
    "flush",
    "checkpoint",
    "lookup",
    "transfer",
    "transfer-source",
    "folders",
    "scrub",
)
"""One worker thread each. The WALs' two queues carry one fdatasync per turn; nothing slow may share them."""

assert CONNECTION_TURN_MS_MAX <= CLIENTS_TURN_MS_MAX
assert FRAME_BYTES_MAX <= FRAME_BYTES_MAX_LARGE
assert BATCH_BYTES_MAX_DEFAULT <= BATCH_BYTES_MAX < FRAME_BYTES_MAX_LARGE
assert GROUP_STORED_BYTES_MAX < OFFSETS_BATCH_BYTES_MAX <= GROUP_UNCOMMITTED_BYTES_MAX
assert GROUP_UNCOMMITTED_BYTES_MAX <= HOST_UNCOMMITTED_BYTES_MAX < WAL_BYTES_MAX
assert OFFSETS_BATCH_BYTES_MAX <= PEER_FRAME_BYTES_HARD_MAX <= PEER_UNSENT_BYTES_MAX
assert APPEND_BYTES_MAX < PEER_FRAME_BYTES_MAX
assert PAUSE_SUSPECTED_MS < SESSION_TIMEOUT_MIN_MS
assert CLOCK_JUMP_SUSPECTED_MS < OFFSETS_RETENTION_CHECK_MS < OFFSETS_RETENTION_MS
assert APPLY_BYTES_PER_VISIT <= APPLY_BYTES_PER_TURN_MAX
assert APPLY_BYTES_PER_TURN_MAX <= UNAPPLIED_BYTES_MAX <= GROUP_UNCOMMITTED_BYTES_MAX
assert GROUP_CACHE_FLUSHED_BYTES < GROUP_CACHE_BYTES_MAX < LOG_CACHE_BYTES_MAX
assert LINK_LOSS_STAGGER_MS < HEARTBEAT_MS
assert HEARTBEAT_MS * 5 <= ELECTION_TIMEOUT_MIN_MS < ELECTION_TIMEOUT_MAX_MS
assert LINK_DIAL_TIMEOUT_MS < LINK_REDIAL_GRACE_MS < ELECTION_TIMEOUT_MIN_MS
assert LINK_SECOND_DIAL_MS < LINK_REDIAL_GRACE_MS
assert LINK_DIAL_TIMEOUT_MS < LINK_DIAL_TIMEOUT_SLOW_MS < LINK_CROSSING_MS
assert INSTALL_CHUNK_BYTES < LINK_BULK_UNSENT_BYTES_MAX
assert WAL_FILE_BYTES * WAL_FILES_MIN <= WAL_BYTES_MAX
assert WAL_CARRY_BATCH_BYTES < WAL_CARRY_BYTES_MAX <= WAL_FILE_BYTES // WAL_CARRY_SHARE
assert CHECKPOINT_BYTES_MIN < CHECKPOINT_BYTES
assert WAL_FILE_BYTES * DISK_LOW_WAL_FILES < DISK_LOW_BYTES
assert DISK_LOOK_MS < NO_SPACE_RETRY_MS
assert INSTALL_CHUNK_BYTES < PEER_FRAME_BYTES_MAX
assert INSTALL_OFFER_FILES_MAX * 40 < PEER_FRAME_BYTES_MAX
assert INSTALLS_MAX * 8 * INSTALL_CHUNK_BYTES <= INSTALL_BYTES_PER_SECOND_MIN <= INSTALL_BYTES_PER_SECOND
