"""Offsets logs in folders: finds the segments itself and reads them by position, from a disk or an object store.

It looks below the given path, at any depth, for folders named `<topic>-<partition>`: Kafka's
`log.dirs/__consumer_offsets-N` and Muster's `segments/<group>/__consumer_offsets-N` (docs/format.md). Spark's own file
listing is not used, because it silently skips names that begin with `_`. Only files named `<20 digits>.log` are read,
not `.deleted`, `.cleaned`, `.swap` or indexes. A listing is a snapshot: the newest segment of a partition is read up to
the size that it had then.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from pyarrow import fs

from muster_pipeline.decode.origin import Origin
from muster_pipeline.decode.segment import Piece, Segment, decode_segment
from muster_pipeline.sources.errors import AmbiguousLog, BadOption, LogChanged, NoLog

OFFSETS_TOPIC: Final = "__consumer_offsets"
Untyped = Any
"""An object of pyarrow, which ships no types."""
_SEGMENT: Final = re.compile(r"^(\d{20})\.log$")


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """One `.log` file as it was listed. Picklable: workers open it. `path` is within the file system of `root`."""

    root: str
    path: str
    file: str
    """Relative to the root, for humans and tables."""
    log_partition: int
    base: int
    size: int
    next_base: int | None
    """Base of the partition's next segment; None for the newest one."""

    def pieces(self, cluster: str, columns: frozenset[str] | None = None) -> Iterator[Piece]:
        """Decode the file. Raises LogChanged when it has changed since it was listed."""
        segment = self.segment(cluster)
        system, _ = filesystem(self.root)
        try:
            with system.open_input_file(self.path) as file:
                yield from decode_segment(lambda at, size: _read(file, self.file, at, size), segment, columns)
        except FileNotFoundError as error:
            raise LogChanged(
                f"{self.file} is gone since it was listed: run again, or read a copy of the log"
            ) from error

    def origin(self, cluster: str) -> Origin:
        """The origin that its rows record."""
        return Origin(cluster=cluster, log_partition=self.log_partition, file=self.file, segment_base=self.base)

    def segment(self, cluster: str) -> Segment:
        """The segment for the decoder."""
        return Segment(origin=self.origin(cluster), size=self.size, next_base=self.next_base)


def _read(file: Untyped, name: str, at: int, size: int) -> bytes:
    data: bytes = file.read_at(size, at)
    if len(data) != size:
        raise LogChanged(
            f"{name} ends at {at + len(data)}, it was longer when it was listed: run again, or read a copy"
        )
    return data


def filesystem(root: str) -> tuple[Untyped, str]:
    """(Arrow file system, path within it) of a local path or a URI such as s3://bucket/prefix; s3a, Hadoop's name for
    it, is none that Arrow knows."""
    if "://" not in root:
        return fs.LocalFileSystem(), os.path.abspath(root)
    try:
        system, path = fs.FileSystem.from_uri(re.sub("^s3a://", "s3://", root))
    except (OSError, ValueError, TypeError) as error:
        raise BadOption(f"path {root!r}: {error}") from error
    return system, path


def list_segments(root: str, topic: str = OFFSETS_TOPIC) -> dict[int, tuple[SegmentFile, ...]]:
    """Segments by log partition, each partition's in offset order.

    Raises NoLog when there is none (an empty answer would look like a cluster without groups), AmbiguousLog when two
    folders hold the same partition, such as the folders of two replicas.
    """
    system, path = filesystem(root)
    try:
        found = system.get_file_info(fs.FileSelector(path, recursive=True))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoLog(f"{root} is no folder: {error}") from error
    name = re.compile(rf"^{re.escape(topic)}-(\d+)$")
    folders: dict[int, dict[str, list[tuple[int, str, int]]]] = {}
    for info in found:
        parent = PurePosixPath(info.path).parent
        folder, file = name.match(parent.name), _SEGMENT.match(PurePosixPath(info.path).name)
        if folder and file and info.type == fs.FileType.File:
            files = folders.setdefault(int(folder[1]), {}).setdefault(str(parent), [])
            files.append((int(file[1]), info.path, info.size))
    if not folders:
        raise NoLog(f"no folder {topic}-N with <20 digits>.log files below {root}")
    return {partition: _files(root, path, partition, places) for partition, places in sorted(folders.items())}


def _files(
    root: str, path: str, partition: int, places: dict[str, list[tuple[int, str, int]]]
) -> tuple[SegmentFile, ...]:
    if len(places) > 1:
        raise AmbiguousLog(
            f"partition {partition} lies in {len(places)} folders: {', '.join(sorted(places))}; name one"
        )
    (files,) = places.values()
    files.sort()
    bases = [base for base, _, _ in files]
    return tuple(
        SegmentFile(
            root=root,
            path=file,
            file=os.path.relpath(file, path),
            log_partition=partition,
            base=base,
            size=size,
            next_base=following,
        )
        for (base, file, size), following in zip(files, [*bases[1:], None], strict=True)
    )
