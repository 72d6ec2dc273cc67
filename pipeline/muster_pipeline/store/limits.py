"""Sizes of what is written. Part of the format: other sizes give other bytes for equal rows."""

from typing import Final

ROW_GROUP_ROWS: Final = 65_536
"""Rows are buffered and cut exactly here, whatever chunks they came in, so equal rows give equal files."""

FILE_ROWS: Final = 64 * ROW_GROUP_ROWS
"""A file is closed at so many rows."""

NO_LOG_PARTITION: Final = -1
"""`log_partition` of files that are not of one (heads)."""
