"""Inputs: values that say where a log partition's records come from. Spark sends them to workers, which open them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from muster_pipeline.decode.origin import Damage, Origin
from muster_pipeline.decode.segment import Account
from muster_pipeline.schemas.records import RECORDS
from muster_pipeline.sources.folder import SegmentFile, list_segments
from muster_pipeline.store.reader import Root, Snapshot, published
from muster_pipeline.tables.errors import DamagedStore, NothingPublished

BRONZE_ROWS: int = 65_536
"""Rows of table `records` that are read at once."""


class FileAccount(NamedTuple):
    """What table `files` says of one origin."""

    origin: Origin
    account: Account


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The result of one step of reading."""

    records: pa.RecordBatch | None
    damages: tuple[Damage, ...] = ()
    file: FileAccount | None = None
    """None: the input is published bronze."""
    is_end: bool = False
    """The last part of this origin: its account is final."""
    is_carried: bool = False
    """The records were published before: quarantine and the account contain their damage already."""
    carried: pa.Table | None = None
    """Published rows of quarantine, to be kept."""


class Input(Protocol):
    """An input; picklable. Workers call `parts`, the driver the other methods."""

    def sizes(self) -> Mapping[int, int]:
        """Log partition -> how much of it there is to read: bytes, or offsets for a live cluster."""

    def parts(self, log_partition: int) -> Iterator[Part]:
        """Records and damage, in log order; chunks of a few megabytes."""

    def makes_bronze(self) -> bool:
        """Must the run write bronze tables?"""

    def describe(self) -> Mapping[str, Any]:
        """The input as the run's row records it: plain JSON values, equal for equal inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentInput:
    """Segment files below a folder or URI: Muster's, or Kafka's `__consumer_offsets-N`. Listed once, by `listed`."""

    cluster: str
    segments: Mapping[int, tuple[SegmentFile, ...]]

    @classmethod
    def listed(cls, path: str, cluster: str) -> "SegmentInput":
        """The segments that exist now. Raises NoLog, AmbiguousLog, BadOption."""
        return cls(cluster=cluster, segments=list_segments(path))

    def sizes(self) -> dict[int, int]:
        """Bytes of segments."""
        return {number: sum(one.size for one in files) for number, files in self.segments.items()}

    def parts(self, log_partition: int) -> Iterator[Part]:
        """Raises LogChanged."""
        for one in self.segments[log_partition]:
            segment = one.segment(self.cluster)
            account = Account(is_active=segment.is_active, bytes_in=segment.size)
            for piece in one.pieces(self.cluster):
                account = piece.account
                file = FileAccount(segment.origin, account)
                yield Part(records=piece.records, damages=piece.damages, file=file)
            yield Part(records=None, file=FileAccount(segment.origin, account), is_end=True)

    def makes_bronze(self) -> bool:
        """True: nothing of it is published yet."""
        return True

    def describe(self) -> dict[str, Any]:
        """Files and sizes as listed."""
        files = {one.file: one.size for files in self.segments.values() for one in files}
        return {"kind": "segments", "files": dict(sorted(files.items()))}


@dataclass(frozen=True, slots=True, kw_only=True)
class BronzeInput:
    """The published table `records`: silver and gold are made again from it, without the log."""

    known: Snapshot

    @classmethod
    def published(cls, root: Root, cluster: str | None = None, run: int | None = None) -> "BronzeInput":
        """What the newest run published, or that run. Raises NothingPublished, RunExpired, DamagedStore."""
        known = published(root, cluster, run)
        if "records" not in known.tables:
            raise NothingPublished(f"table records is not published in {known.place}: ingest first")
        return cls(known=known)

    def sizes(self) -> dict[int, int]:
        """Bytes of Parquet. Raises DamagedStore."""
        sizes: dict[int, int] = {}
        for entry in self.known.of("records"):
            sizes[entry.log_partition] = sizes.get(entry.log_partition, 0) + entry.bytes
        return sizes

    def parts(self, log_partition: int) -> Iterator[Part]:
        """Raises DamagedStore."""
        system = self.known.place.files("records")
        for entry in self.known.of("records"):
            if entry.log_partition != log_partition:
                continue
            try:
                with system.open_input_file(entry.path) as source:
                    for batch in pq.ParquetFile(source).iter_batches(batch_size=BRONZE_ROWS):
                        yield Part(records=batch.cast(RECORDS))
            except (OSError, pa.ArrowInvalid) as error:
                raise DamagedStore(f"records/{entry.path}: {error}") from error

    def makes_bronze(self) -> bool:
        """False: bronze is the input."""
        return False

    def describe(self) -> dict[str, Any]:
        """The hashes of the files read, and the input that these files were made from."""
        files = [entry.digest for entry in self.known.of("records")]
        return {"kind": "bronze", "files": files, "of": dict(self.known.made_of)}
