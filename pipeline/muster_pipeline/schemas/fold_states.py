"""Table `fold_states`: where the rounds of a stream go on. It is the pipeline's own, and can be made again."""

from typing import Final

import pyarrow as pa

from muster_pipeline.schemas.columns import optional, required, schema

FOLD_STATES: Final = schema(
    (
        required("cluster", pa.string(), "name of the cluster as given to the run"),
        required("log_partition", pa.int32(), "partition of the offsets topic"),
        required("end_offset", pa.int64(), "offset behind the last record that the state has seen"),
        required("fingerprint", pa.string(), "of the code and the settings that made it: others make it again"),
        required("files", pa.string(), "JSON, table -> [hash, rows] of each file whose rows will not change"),
        required("tails", pa.string(), "JSON, table -> how many files follow them, which the next round replaces"),
        optional("epochs", pa.string(), "JSON, leader epochs and first offset of each; null without epochs"),
        required("state", pa.binary(), "the state of the fold before the log's end was seen"),
    ),
    comment="the state of one log partition after a round of a stream",
)
