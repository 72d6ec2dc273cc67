"""Table `runs`: what was published when, which versions of the tables belong together, and who holds them."""

from typing import Final

import pyarrow as pa

from muster_pipeline.schemas.columns import optional, required, schema

RUN_EVENTS: Final = {
    "published": "the run's tables are published: read each of them at the version in `versions`",
    "expired": "its versions are pinned no more, files of it may be gone",
    "leased": "a reader holds the run until `until_ms`",
    "released": "that reader holds it no more",
}

RUNS: Final = schema(
    (
        required("cluster", pa.string(), "name of the cluster as given to the run"),
        required("run", pa.int64(), "number of the run, unique and rising within the folder"),
        required("event", pa.string(), "see below; a run's first row is `published`"),
        required("at_ms", pa.int64(), "when, the driver's clock, ms since 1970"),
        optional(
            "until_ms",
            pa.int64(),
            "published, leased: files are kept at least until then, ms since 1970; null otherwise",
        ),
        optional("holder", pa.string(), "leased, released: who; null otherwise"),
        optional(
            "versions",
            pa.string(),
            "published: JSON, table -> version of the Delta table; null if the table has never had a row; else null",
        ),
        optional("rows", pa.string(), "published: JSON, table -> rows of the cluster at that version; null otherwise"),
        optional("settings", pa.string(), "published: JSON, the settings of the run; null otherwise"),
        optional(
            "input",
            pa.string(),
            "published: JSON, what was read: files and sizes, or the offset behind the last record of each log "
            "partition, from which a stream goes on; null otherwise",
        ),
    ),
    comment="one event of a run",
)
