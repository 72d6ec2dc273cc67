"""Limits of requests: how long one waits, how much one answer may hold."""

from muster_coordinator.limits import MIB, RAFT_GROUPS_MAX

PARTS_AT_ONCE_MAX = 1_000
"""Groups of one DescribeGroups, DeleteGroups or OffsetFetch that are processed at the same time."""
PARTS_IN_A_TURN_MAX = 1_000
"""Parts of any request that are begun in one turn of the loop: some 10 ms."""
HASHED_CHARS_IN_A_TURN_MAX = 128_000
"""Characters of group ids that one request hashes in one turn, some 10 ms: an id may have 32,767."""
METADATA_LEADERLESS_WAIT_MS = 100
"""An answer with a partition without leader waits this long for one: some clients ask again without any pause."""
METADATA_NEW_PARTITION_WAIT_MS = 1_000
"""While a partition of the answer has never had a leader, as far as this replica knows, the answer waits this long:
either the topic was just created or this replica has just started, and some clients believe "no leader" until their
next refresh, minutes later."""
METADATA_ALL_TOPICS_WAIT_MS = 250
"""A list of all topics waits this long for the confirmation that the image is current, then it is sent without. It has
no field to report a doubt, and some clients use it to find the brokers while the controller has no leader."""
METADATA_NO_BROKER_WAIT_MS = 5_000
"""An answer without any broker, as while a cluster forms, waits this long. librdkafka drops such an answer, asks twice
more, and then not again for minutes (rdkafka_metadata.c, "No brokers or topics in metadata: should retry")."""
AUTO_CREATES_AT_ONCE_MAX = 100
"""Topics being created here because a client named them (`auto.create.topics.enable`); further ones come later."""
PRODUCE_TIMEOUT_MS_MAX = 30_000
"""Longest wait of a Produce for its quorum, whatever its timeoutMs; the default of clients is 30 s."""
ADMIN_TIMEOUT_MS_MAX = 60_000
"""Longest wait of an administrator's change, whatever its timeoutMs."""
ELECTION_MS_MAX = 15_000
"""Longest wait of an ElectLeaders, whatever its timeoutMs: longer than the leader waits for the preferred replica."""
ELECTION_LOOK_MS = 20
ELECTION_ASK_MS = 1_000
"""A wanted election is asked for again after this time: the message may be lost, the leader another one by then."""
CONFIG_RETRIES_MAX = 3
"""How often a config change is computed anew after it lost a race against another one."""
DESCRIBED_PARTITIONS_MAX = 2_000
"""Partitions of one DescribeTopicPartitions answer (Kafka: max.request.partition.size.limit)."""
FETCH_WAIT_MS_MAX = 60_000
"""Longest wait of a Fetch, whatever its max_wait_ms; clients ask for 500 ms, some for 5 s."""
LATER_READS_AT_ONCE_MAX = 16
"""Partitions of one Fetch that are read at the same time from a store that is not read at once. Each may have read as
much as the whole answer has room for before the first of them comes back."""
FETCH_RECHECK_MS = 25
"""Shortest pause between two reads of a parked Fetch whose min_bytes is above one."""

OFFSET_FETCH_IMAGES_MAX = 4
"""Evaluations of one OffsetFetch while topics change, each by a newer image."""

# Topics.
PLACEMENTS_MAX = 3
"""How often a change places its partitions: again after a broker left, or lost its folder, before it was applied."""
PARTITIONS_PER_REQUEST_MAX = 10_000
FETCH_BYTES_MAX = 55 * MIB
REFUSED_BATCHES_KEPT = 20_000
"""Idempotent producers, by connection and partition, whose refused batch is kept; some 0.4 KiB each."""
FETCHES_PARKED_MAX = 20_000
NEARER_REPLICA_LAG_ENTRIES_MAX = 1_000
"""A follower that lacks more entries than this is no better place to read from, however near it is."""
FETCH_SESSION_IDLE_MS = 120_000
"""A fetch session that was not used for longer, or is older, may give way to another (Kafka's
MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS)."""
FETCH_SESSION_PARTITIONS_MAX = RAFT_GROUPS_MAX
"""Partitions of one fetch session: there are no more. Who names more has no session."""
FETCH_SESSIONS_PARTITIONS_MAX = 100_000
"""Partitions of all fetch sessions of a replica, at some 400 bytes; Kafka has no such limit. A session that does not
fit is not made."""
SASL_FAILURE_MS_MIN = 100
SASL_FAILURE_MS_MAX = 500
"""After how long a failed authentication is answered; drawn each time."""
DESCRIBED_PRODUCERS_MAX = 100_000
"""Of one DescribeProducers answer, 36 bytes each: five partitions with as many as one may have."""
