"""Gold `partition_status`: what is wrong with each committed offset at the end of the log, and since when.

The rules of WARN, STOP, STALL and REWIND are Burrow's; the others are ours. A row holds at the end of what was read.
"""

from typing import Final

import pyarrow as pa

from muster_pipeline.schemas.columns import optional, required, schema
from muster_pipeline.schemas.history import LOWER_BOUND, MAY_BE_OLDER, historic

ABANDONED_AFTER_MS: Final = 86_400_000
"""A group that commits by hand has no members in the log: after a day without a commit nobody is assumed to be
there."""

STATUSES: Final = {
    "OK": "nothing to read, or the lag was zero or fell within the last commits",
    "WARN": "commits advance, and the lag has not fallen once in all of the last commits (Burrow's rule 5)",
    "STALL": "commits go on and name the same offset, while there is more to read (Burrow's rule 4)",
    "STOP": "no commit for longer than the last commits took together, while there is more to read (Burrow's rule 3)",
    "REWIND": "a commit went back, and none has reached the offset before it again (Burrow's rule 2)",
    "TRUNCATED": "the committed offset is below the log start: records are lost to retention",
    "EXPIRING": "the committed offset expires within a day",
    "ABANDONED": "the group has no members, or commits by hand and has not for a day",
    "UNKNOWN": "there is no sample of the log end offset, or none from before the last commits; or there is one commit "
    "only; or a clock was wrong",
}
"""By what is told first last; ERR is a group's, of which some partition is STALL, STOP, REWIND or TRUNCATED."""

PARTITION_STATUS: Final = schema(
    (
        required("cluster", pa.string(), "name of the cluster as given to the run"),
        required("log_partition", pa.int32(), "partition of __consumer_offsets that holds the group"),
        required("group_id", pa.string(), "group"),
        required("topic", pa.string(), "topic"),
        required("partition", pa.int32(), "partition of the topic"),
        required("status", pa.string(), "one of STATUSES: " + ", ".join(STATUSES)),
        optional(
            "since_ms",
            pa.int64(),
            historic(
                "since when, ms since 1970: the last commit (STOP, ABANDONED), the commit that reached the offset "
                "(STALL), the one that went back (REWIND), the first of the last commits (WARN), the first of the last "
                "samples that shows it (TRUNCATED), a day before (EXPIRING); null for OK and UNKNOWN",
                MAY_BE_OLDER,
            ),
        ),
        required("committed_offset", pa.int64(), "offset at the end of the log"),
        required("committed_ms", pa.int64(), "the log's clock at that commit, ms since 1970"),
        optional(
            "lag",
            pa.int64(),
            "the last sampled log end offset minus committed_offset, at least 0; null if none, or if it is above 0 and "
            "the topic's offsets have gaps",
        ),
        optional("sampled_ms", pa.int64(), "time of that sample, ms since 1970; null if there is none"),
        required(
            "commits", pa.int32(), historic("seconds with a commit that it is judged by, at most ten", LOWER_BOUND)
        ),
        optional(
            "read_per_s",
            pa.float64(),
            historic("records committed a second over these; null if one only, or with gaps", LOWER_BOUND),
        ),
        optional(
            "written_per_s",
            pa.float64(),
            "records appended a second over the last ten samples; null if one only, or with gaps",
        ),
        optional(
            "drained_in_ms",
            pa.int64(),
            "ms until the lag is gone at these rates; null if it does not fall, or a rate is not known",
        ),
        optional(
            "lost_in_ms",
            pa.int64(),
            "ms until the log start passes the committed offset at the rates of the last samples and commits; null if "
            "it does not come closer, or a rate is not known",
        ),
        optional(
            "has_gaps",
            pa.bool_(),
            "offsets of the topic have gaps by the last sample (it is in Redis): differences of them, in other tables "
            "too, are no numbers of records; null without a sample",
        ),
    ),
    comment="one committed offset at the end of the log, and what is wrong with it",
)
