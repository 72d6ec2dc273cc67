"""One data file: its name, and what Delta's log says of it.

`<cluster>/p<log partition>/<place in the partition>-<hash of the content>-<run>.parquet` below the table's folder. The
last part is new in every run: a file that is being removed can never be one that another run is about to commit.
"""

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from muster_pipeline.store.limits import STATISTICS_BYTES_MAX

DIGEST_DIGITS: Final = 16
PARTITIONING: Final = ("cluster", "log_partition")
_NAME: Final = re.compile(r"^(\d{4,})-([0-9a-f]{16})-[0-9a-z]+\.parquet$")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_]")
_READABLE_MAX: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FileEntry:
    """A file of one cluster. `path` is relative to the table's folder, with slashes; `statistics` is Delta's JSON."""

    table: str
    log_partition: int
    path: str
    rows: int
    bytes: int
    statistics: str = field(default="", compare=False)

    @property
    def number(self) -> int:
        """Its place among the files of the log partition."""
        return int(self._parts()[0])

    @property
    def digest(self) -> str:
        """The first digits of the SHA-256 of its content, as its name tells; empty for a name that is not ours."""
        return self._parts()[1]

    @property
    def content(self) -> tuple[str, int, int, str, int]:
        """Equal for files of equal content at the same place, whichever run wrote them."""
        return (self.table, self.log_partition, self.number, self.digest, self.rows)

    def _parts(self) -> tuple[str, str]:
        found = _NAME.match(self.path.rpartition("/")[2])
        return ("0", "") if found is None else (found[1], found[2])


def folder(cluster: str, log_partition: int) -> str:
    """Where a log partition's files lie in a table's folder."""
    return f"{slug(cluster)}/" + (f"p{log_partition:05}" if log_partition >= 0 else "all")


def file_name(number: int, digest: str, token: str) -> str:
    """`token`: letters and digits, new in every run."""
    return f"{number:04}-{digest[:DIGEST_DIGITS]}-{token}.parquet"


def slug(cluster: str) -> str:
    """A folder name for any cluster name, unique: letters and digits that no file system and no URI changes."""
    safe = _UNSAFE.sub("-", cluster)[:_READABLE_MAX]
    if safe == cluster and cluster and not cluster.startswith("_"):
        return cluster
    return f"c{safe}-{hashlib.sha256(cluster.encode()).hexdigest()[:DIGEST_DIGITS]}"


def partitioning(names: list[str]) -> list[str]:
    """The columns by which a table with these columns is partitioned."""
    return [name for name in PARTITIONING if name in names]


def statistics(metadata: pq.FileMetaData, schema: pa.Schema) -> str:
    """Delta's statistics of a file, from its Parquet footer: numbers and short texts, without partition columns."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    absent: dict[str, int] = {}
    for place in range(metadata.num_columns):
        name = metadata.schema.column(place).path
        if name in PARTITIONING or name not in schema.names:
            continue
        groups = [metadata.row_group(number).column(place).statistics for number in range(metadata.num_row_groups)]
        if any(one is None or not one.has_null_count for one in groups):
            continue
        absent[name] = sum(one.null_count for one in groups)
        type_ = schema.field(name).type
        filled = [one for one in groups if one.num_values]
        if not (pa.types.is_integer(type_) or pa.types.is_string(type_)) or not filled:
            continue
        if all(one.has_min_max and _is_short(one.min) and _is_short(one.max) for one in filled):
            least[name], greatest[name] = min(one.min for one in filled), max(one.max for one in filled)
    told = {"numRecords": metadata.num_rows, "minValues": least, "maxValues": greatest, "nullCount": absent}
    return json.dumps(told, ensure_ascii=False)


def _is_short(value: object) -> bool:
    return not isinstance(value, str) or len(value.encode()) <= STATISTICS_BYTES_MAX
