"""Gold tables: answers to an operator's questions. Every row can be traced to log offsets; what the log does not prove
is marked as such.

Minutes are those of the log partition's clock: the running maximum of record timestamps in log order. So the records of
a coordinator whose clock went back count into the current minute, and every commit falls into exactly one minute.
"""

from typing import Final

import pyarrow as pa

from muster_pipeline.schemas.columns import Column, list_of, optional, required, schema
from muster_pipeline.schemas.history import LOWER_BOUND, MAY_BE_OLDER, MAY_MISS, historic

_PLACE = (
    required("cluster", pa.string(), "name of the cluster as given to the run"),
    required("log_partition", pa.int32(), "partition of __consumer_offsets that holds the group"),
    required("group_id", pa.string(), "group"),
)
_PARTITION = (required("topic", pa.string(), "topic"), required("partition", pa.int32(), "partition of the topic"))

LAG_QUALITIES: Final = {
    "exact": "the log end offset was sampled at at_ms",
    "interpolated": "interpolated linearly between two samples of the log end offset",
    "lower_bound": "the log end offset is at least that of an earlier sample, or at least the committed offset",
    "unknown": "no sample bounds it, or it is no number of records; the value is null",
}
LAG_DETAILS: Final = {
    "sampled": "there is a sample at at_ms",
    "between_samples": "there are samples before and after",
    "after_last_sample": "there are only earlier samples, up to a day later",
    "before_first_sample": "there are only later samples, the first within a day",
    "no_samples": "the topic partition was never sampled up to a day later",
    "answer_older_than_commit": "a sample is below the committed offset, one within ten minutes is not: clocks, delay",
    "committed_past_end": "no sample of ten minutes reached the committed offset: data loss, a new topic, a reset",
    "head_went_back": "the later sample is below the earlier one: the topic was created again or truncated",
    "clock": "a coordinator's clock was wrong at that time (table quarantine, reason clock)",
    "gaps": "there is something to read, and offsets of this topic have gaps: their difference is no number of records",
}

LAG: Final = schema(
    (
        *_PLACE,
        *_PARTITION,
        required("minute_ms", pa.int64(), "start of the minute, ms since 1970"),
        required(
            "at_ms",
            pa.int64(),
            "time for which the row holds: the minute's last sample, else its last commit; ms since 1970",
        ),
        required(
            "committed_offset",
            pa.int64(),
            historic("offset that OffsetFetch answered then", "older values only as far as they are still in the log"),
        ),
        optional("log_end_offset", pa.int64(), "log end offset at at_ms, by quality; null if unknown, but for gaps"),
        optional("lag", pa.int64(), "log_end_offset - committed_offset, messages; null if unknown"),
        required("quality", pa.string(), "one of LAG_QUALITIES: " + ", ".join(LAG_QUALITIES)),
        required("detail", pa.string(), "one of LAG_DETAILS: the reason for the quality"),
        optional(
            "time_lag_ms",
            pa.int64(),
            "how long ago the log end offset passed the committed offset, ms; null if unknown",
        ),
        required("time_lag_quality", pa.string(), "quality of time_lag_ms, in the same words; exact only for lag 0"),
        optional("log_start_offset", pa.int64(), "log start offset in the last sample up to at_ms; null if not known"),
        optional(
            "is_below_start",
            pa.bool_(),
            "the committed offset is below the log start offset: messages are lost; null if unknown",
        ),
    ),
    comment="one group and topic partition in one minute that has a commit or a sample",
)

COMMIT_RATE: Final = schema(
    (
        *_PLACE,
        *_PARTITION,
        required("minute_ms", pa.int64(), "start of the minute, ms since 1970"),
        required("commits", pa.int64(), historic("commits that took effect", LOWER_BOUND)),
        required("advancing_commits", pa.int64(), historic("those above the previous one", LOWER_BOUND)),
        required("idle_commits", pa.int64(), historic("those equal to the previous one", LOWER_BOUND)),
        required("rewinds", pa.int64(), historic("those below the previous one", LOWER_BOUND)),
        required("removals", pa.int64(), historic("tombstones", LOWER_BOUND)),
        required(
            "messages",
            pa.int64(),
            historic(
                "sum of the advances, messages; of offsets where partition_status has_gaps; a first commit counts as 0",
                LOWER_BOUND,
            ),
        ),
        required("messages_rewound", pa.int64(), historic("sum of the steps back, as messages", LOWER_BOUND)),
        optional(
            "interval_max_ms",
            pa.int64(),
            historic("longest time since the previous commit, ms; null for a first commit", "an upper bound then"),
        ),
        optional("last_committed_offset", pa.int64(), "offset at the minute's end; null if removed"),
        required("last_log_offset", pa.int64(), "log offset at which that took effect"),
        required(
            "log_offsets_missing",
            pa.int64(),
            "log offsets without record before this minute's records in the log partition: compaction, quarantine or a "
            "hole; above 0 means that the counts are lower bounds",
        ),
    ),
    comment="one group and topic partition in one minute that has commits",
)

STALL_ENDS: Final = {
    "advance": "a commit above it",
    "rewind": "a commit below it",
    "removal": "a tombstone",
    "log_end": "still in progress at the end of the log that was read",
}
STALL_EVIDENCE: Final = {
    "behind": "a sample proves that there was more to read",
    "nothing_to_read": "the last sample within the stall shows no more to read",
    "unknown": "no sample of the log end offset decides it",
}

STALLS: Final = schema(
    (
        *_PLACE,
        *_PARTITION,
        required("started_at_ms", pa.int64(), historic("commit that reached the offset, ms since 1970", MAY_BE_OLDER)),
        optional("ended_at_ms", pa.int64(), "time of its end, ms since 1970; null if in progress"),
        required(
            "duration_ms", pa.int64(), historic("up to its end, or the end of the log, ms", "an upper bound then")
        ),
        required("ended_by", pa.string(), "one of STALL_ENDS: " + ", ".join(STALL_ENDS)),
        required("committed_offset", pa.int64(), "offset that did not move"),
        required(
            "idle_commits",
            pa.int64(),
            historic("commits of the same offset during the stall; 0: there was no commit", LOWER_BOUND),
        ),
        required("evidence", pa.string(), "one of STALL_EVIDENCE: " + ", ".join(STALL_EVIDENCE)),
        required("started_log_offset", pa.int64(), "log offset where it began"),
        optional("ended_log_offset", pa.int64(), "log offset where it ended; null if in progress"),
    ),
    comment="a time, at least as long as the run's threshold, in which a committed offset did not move",
)

TRIGGERS: Final = {
    "first": "no earlier generation of the group is known",
    "join": "there are new members, and none left",
    "leave": "members left, as the log says; there are no new ones",
    "session_timeout": "members left, because their sessions expired, as the log says",
    "leave_or_expiry": "members left or their sessions expired, the log does not say which; there are no new ones",
    "join_and_leave": "there are new members, and others left",
    "rebalance_timeout": "the log says that members did not rejoin in time",
    "sync_timeout": "the log says that the leader's assignment did not come in time",
    "static_replace": "a static member came back under a new member id",
    "subscription_change": "same members, other topics",
    "assignor_change": "same members, other assignor",
    "partition_change": "same members and topics, partitions appeared or disappeared",
    "cooperative_followup": "same members; second step of a cooperative rebalance",
    "rejoin": "same members, and no other change: a member asked for the rebalance",
    "group_full": "the log says that the group exceeded its size limit",
    "unknown": "generations are missing between the two records",
}
DURATION_CLASSES: Final = {
    "exact": "start and end are in the log",
    "bounded": "the end is in the log, the start lies between duration_min_ms and duration_max_ms before it",
    "unknown": "no bound",
}

_STRINGS = list_of(pa.string())


def _count(name: str, comment: str) -> Column:
    return optional(
        name,
        pa.int32(),
        historic(
            f"{comment}; null if an assignment is not readable, or several members share partitions", MAY_BE_OLDER
        ),
    )


REBALANCES: Final = schema(
    (
        *_PLACE,
        required("group_kind", pa.string(), "one of GROUP_KINDS"),
        optional("started_at_ms", pa.int64(), "start, ms since 1970; null unless duration_class is exact"),
        required("ended_at_ms", pa.int64(), "record that completed it, ms since 1970"),
        optional("started_log_offset", pa.int64(), "record that began it; null if there is none"),
        required("ended_log_offset", pa.int64(), "record that completed it"),
        optional(
            "generation_from", pa.int32(), historic("generation or epoch before; null if none is known", MAY_BE_OLDER)
        ),
        required("generation_to", pa.int32(), historic("generation or epoch after", MAY_MISS)),
        required("is_completed", pa.bool_(), "false: a newer epoch began before every member had reached this one"),
        required(
            "is_avoided", pa.bool_(), "a static member's new process took over its assignment without a new generation"
        ),
        required(
            "history_complete",
            pa.bool_(),
            "generation_to follows generation_from directly; false: the differences span more than one rebalance",
        ),
        required("trigger", pa.string(), "one of TRIGGERS, as far as the log proves it: " + ", ".join(TRIGGERS)),
        required("evidence", pa.string(), "the evidence in the log, as text for people"),
        optional("protocol_from", pa.string(), historic("assignor before; null if unknown", MAY_BE_OLDER)),
        optional("protocol_to", pa.string(), "assignor after; null if none or not in the log"),
        _count("members_before", "members before"),
        required("members_after", pa.int32(), "members after"),
        required(
            "members_in",
            _STRINGS,
            historic("new members: instance ids, or member ids of dynamic members", MAY_BE_OLDER),
        ),
        required("members_out", _STRINGS, historic("members that left, named in the same way", MAY_BE_OLDER)),
        _count("partitions_kept", "partitions with the same owner before and after"),
        _count("partitions_moved", "partitions with another owner than before"),
        _count("partitions_gained", "partitions without an owner before"),
        _count("partitions_lost", "partitions without an owner after"),
        optional("duration_ms", pa.int64(), "start to end, ms; null unless duration_class is exact"),
        required("duration_class", pa.string(), "one of DURATION_CLASSES: " + ", ".join(DURATION_CLASSES)),
        optional("duration_min_ms", pa.int64(), "not shorter than this, ms; null if unknown"),
        optional(
            "duration_max_ms",
            pa.int64(),
            "not longer than this, ms: since the generation before, and no longer than sync plus the longest rebalance "
            "timeout; null if unknown",
        ),
        optional(
            "sync_ms",
            pa.int64(),
            "classic: from the end of the join phase to the leader's assignment, ms; null if not in the log",
        ),
    ),
    comment="one change of a group's generation or epoch",
)

BALANCE: Final = schema(
    (
        *_PLACE,
        required("group_kind", pa.string(), "one of GROUP_KINDS"),
        required("generation", pa.int32(), historic("generation or epoch", MAY_MISS)),
        required("at_ms", pa.int64(), "when it was completed, ms since 1970"),
        required("log_offset", pa.int64(), "record that completed it"),
        required("members", pa.int32(), "members"),
        required("members_idle", pa.int32(), "members without a partition"),
        required("partitions", pa.int32(), "assigned partitions"),
        required("partitions_min", pa.int32(), "partitions of the member with the fewest"),
        required("partitions_max", pa.int32(), "partitions of the member with the most"),
        required(
            "balance_score", pa.int64(), "sum over pairs of members of the difference in partitions; 0 is perfect"
        ),
        optional("max_over_mean", pa.float64(), "partitions_max divided by the mean; null without partitions"),
        optional("gini", pa.float64(), "Gini coefficient of partitions per member, 0 to 1; null without partitions"),
        optional(
            "is_balanced",
            pa.bool_(),
            "no partition could go to a subscribed member with at least 2 fewer; null if a subscription is not known",
        ),
    ),
    comment="how evenly one generation shares its partitions",
)

EXPIRY_RULES: Final = {
    "explicit": "the commit names its expiry",
    "simple_group": "no group protocol: commit time plus retention",
    "empty_group": "no members: time of becoming empty (else commit) plus retention",
    "not_subscribed": "members, but none subscribes to the topic: commit time plus retention",
    "subscribed": "never: a member subscribes to the topic",
    "rebalancing": "never while the group rebalances; decided again afterwards",
    "not_consumer": "never: members of another protocol type, or a subscription that cannot be read",
    "pending_transaction": "never while a transactional commit of the partition is open",
    "unknown": "not known: the group has records that this release cannot read (table quarantine)",
}

EXPIRY: Final = schema(
    (
        *_PLACE,
        *_PARTITION,
        required("committed_offset", pa.int64(), "offset that would be lost"),
        required("commit_timestamp_ms", pa.int64(), "coordinator's clock at the commit, ms since 1970"),
        required(
            "group_kind",
            pa.string(),
            "one of GROUP_KINDS, simple (no group record), or unknown (not all of its records could be read)",
        ),
        required(
            "group_state",
            pa.string(),
            "state at the end of the log: stable, empty; preparing, completing (classic); assigning, reconciling, "
            "not_ready (the others, as Kafka names them); simple, unknown",
        ),
        required("rule", pa.string(), "one of EXPIRY_RULES: Kafka's rule that applies (KIP-211)"),
        optional("base_timestamp_ms", pa.int64(), "time from which retention counts, ms since 1970; null if none"),
        optional("retention_ms", pa.int64(), "offsets.retention.minutes as given to the run, in ms; null if not used"),
        optional(
            "expires_at_ms",
            pa.int64(),
            "base + retention, ms since 1970: the first check after it removes the offset; null: not currently",
        ),
    ),
    comment="one committed offset at the end of the log, and when Kafka's rules remove it",
)
