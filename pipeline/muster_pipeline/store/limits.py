"""Limits of written files. Rows per row group and per file are part of the format: other values give other bytes for
equal rows."""

from typing import Final

ROW_GROUP_ROWS: Final = 65_536
"""Rows are buffered and cut at exactly this number, whatever chunks they came in, so equal rows give equal files."""

FILE_ROWS: Final = 64 * ROW_GROUP_ROWS
"""A file is closed at so many rows."""

CLOSING_THREADS: Final = 8
"""Files of one task that are made durable at the same time; no part of the format."""

NO_LOG_PARTITION: Final = -1
"""`log_partition` of files that belong to no log partition (log end offsets)."""
