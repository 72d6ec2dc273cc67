"""Limits of requests: how long one waits, how much one answer holds."""

from muster_coordinator.limits import MIB

PARTS_AT_ONCE_MAX = 1_000
"""Groups of one DescribeGroups, DeleteGroups or OffsetFetch that are looked for at the same time."""
PARTS_IN_A_TURN_MAX = 1_000
"""... and that are begun in one turn of the loop, some 10 ms."""
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

OFFSET_FETCH_IMAGES_MAX = 4
"""Tries of one OffsetFetch while topics come and go under it, each by a younger image."""

# Topics.
PARTITIONS_PER_REQUEST_MAX = 10_000
FETCH_BYTES_MAX = 55 * MIB
REFUSED_BATCHES_KEPT = 20_000
"""Idempotent producers, by connection and partition, whose refused batch is remembered; some 0.4 KiB each."""
FETCH_WAITERS_MAX = 20_000
