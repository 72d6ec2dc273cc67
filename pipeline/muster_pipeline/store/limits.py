"""Limits of what is stored. Rows per row group and per file are part of the format: other values give other bytes for
equal rows."""

from typing import Final

ROW_GROUP_ROWS: Final = 65_536
"""Rows are buffered and cut at exactly this number, whatever chunks they came in, so equal rows give equal files."""

FILE_ROWS: Final = 64 * ROW_GROUP_ROWS
"""A file is closed at so many rows."""

CLOSING_THREADS: Final = 8
"""Files of one task that are made durable at the same time; no part of the format."""

STORE_THREADS: Final = 8
"""Requests of the driver to the store at the same time: files to look at, tables to commit."""

NO_LOG_PARTITION: Final = -1
"""`log_partition` of files that belong to no log partition (log end offsets, runs)."""

LOG_END_FILES_MAX: Final = 50
"""Files of table `log_end_offsets` of a cluster, of which a stream adds one a round; then they become one."""

MERGED_BELOW_ROWS: Final = 4_096
"""A round of a stream writes a file again, with its new rows, if it has fewer rows than this ..."""

MERGED_RATIO: Final = 8
"""... or fewer than so many times the new ones: each row is written again a few times in its life, and a table has a
few files a log partition."""

CHECKPOINT_EVERY: Final = 50
"""Versions of a table from one checkpoint of its log to the next."""

COMMIT_TRIES_MAX: Final = 20
"""How often a commit is made anew on top of what runs of other clusters have committed meanwhile."""

RUNS_FILE_BYTES_MAX: Final = 1 << 20
"""A file of table `runs` is replaced by a longer one until it has this size; then the next one is begun."""

KEPT_MS: Final = 7 * 86_400_000
"""How long a run pins the versions of its tables."""

ROUND_KEPT_MS: Final = 600_000
"""The same for a round of a stream, which the next round follows within seconds."""

ORPHANS_KEPT_HOURS: Final = 24
"""How old a file that no version names must be before it is removed: a run may still be about to commit it."""

STATISTICS_BYTES_MAX: Final = 32
"""Longest text of which a file's least and greatest value are told."""

PROBE_COMMITS: Final = 4
"""Commits of one version that race when a store is asked whether it lets all but one fail."""

PROBE_RACES: Final = 2
"""How often: 12 of 12 single races showed a store that ignores the header, on a loaded machine of two cores."""

VERSIONS_KNOWN_MAX: Final = 256
"""Versions of tables whose files a process remembers: those of the last ten runs of a cluster, or more."""
