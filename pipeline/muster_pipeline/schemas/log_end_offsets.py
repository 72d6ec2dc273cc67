"""Table `log_end_offsets`: samples of topic partitions' log end offsets. Lag needs them, and the offsets log does not
contain them."""

from typing import Final

import pyarrow as pa

from muster_pipeline.schemas.columns import optional, required, schema

LOG_END_OFFSETS: Final = schema(
    (
        required("cluster", pa.string(), "name of the cluster as given to the run"),
        required("topic", pa.string(), "topic"),
        required("partition", pa.int32(), "partition"),
        required("sample_timestamp_ms", pa.int64(), "when the answer arrived, sampler's clock, ms since 1970"),
        optional("start_offset", pa.int64(), "log start offset (ListOffsets -2); null if not answered"),
        optional("end_offset", pa.int64(), "log end offset, read uncommitted (ListOffsets -1); null if not answered"),
        optional(
            "max_timestamp_offset", pa.int64(), "offset of the record with the largest timestamp (-3); null if none"
        ),
        optional("max_timestamp_ms", pa.int64(), "that timestamp, ms since 1970; null if none"),
        optional("error", pa.string(), "why a value is null: Kafka's error name; null if all were answered"),
        optional(
            "has_gaps",
            pa.bool_(),
            "offsets ascend with gaps (topic.store=redis), so that a difference of two is no number of records; null: "
            "the topic's settings were not told",
        ),
    ),
    comment="one sample of one partition",
)
