"""The file that names the clusters of a fleet: one JSON object a line.

    {"cluster": "prod-eu", "segments": "s3://logs/prod-eu"}
    {"cluster": "prod-us", "log_partitions": {"0": 73400320, "1": 1024}}

`segments` is what `ingest --segments` takes. `log_partitions` are sizes in bytes that are known from elsewhere
(`kafka-log-dirs.sh` tells them), of a cluster that is planned and not read. A folder that cannot be listed is no reason
to leave out the others: it is told beside them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.job.limits import (
    FLEET_CLUSTERS_MAX,
    FLEET_LINE_BYTES_MAX,
    FLEET_LOG_PARTITIONS_MAX,
    LISTING_THREADS,
)
from muster_pipeline.sources.errors import SourceError
from muster_pipeline.tables.errors import BadInput, LimitReached

SIZE_MAX: Final = (1 << 63) - 1
LOG_PARTITION_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Named:
    """One line: a folder, or sizes."""

    cluster: str
    segments: str | None
    sizes: Mapping[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What there is to read, and what cannot be."""

    sizes: Mapping[str, Mapping[int, int]]
    """Cluster -> log partition -> bytes."""
    inputs: Mapping[str, SegmentInput]
    """Of those that were listed."""
    failed: Mapping[str, str]
    """Cluster -> why it is left out."""


def named(path: str) -> tuple[Named, ...]:
    """The clusters of a file. Raises BadInput, LimitReached, OSError."""
    found: dict[str, Named] = {}
    with Path(path).open("rb") as file:
        number = 0
        while line := file.readline(FLEET_LINE_BYTES_MAX + 1):
            number += 1
            if len(line) > FLEET_LINE_BYTES_MAX:
                raise LimitReached(f"{path}, line {number}: more than FLEET_LINE_BYTES_MAX = {FLEET_LINE_BYTES_MAX}")
            if not line.strip():
                continue
            one = _of_line(line, f"{path}, line {number}")
            if one.cluster in found:
                raise BadInput(f"{path}, line {number}: cluster {one.cluster} is named twice")
            found[one.cluster] = one
            if len(found) > FLEET_CLUSTERS_MAX:
                raise LimitReached(f"{path} names more than FLEET_CLUSTERS_MAX = {FLEET_CLUSTERS_MAX} clusters")
    if not found:
        raise BadInput(f"{path} names no cluster")
    return tuple(found.values())


def listed(clusters: Iterable[Named]) -> Fleet:
    """List the folders. Raises LimitReached."""
    sizes: dict[str, Mapping[int, int]] = {}
    inputs: dict[str, SegmentInput] = {}
    failed: dict[str, str] = {}
    count = 0
    with ThreadPoolExecutor(LISTING_THREADS) as pool:
        for one, found in _listings(pool, clusters):
            if isinstance(found, str):
                failed[one.cluster] = found
                continue
            if isinstance(found, SegmentInput):
                inputs[one.cluster] = found
                found = found.sizes()
            sizes[one.cluster] = found
            count += len(found)
            if count > FLEET_LOG_PARTITIONS_MAX:
                raise LimitReached(
                    f"the fleet has more than FLEET_LOG_PARTITIONS_MAX = {FLEET_LOG_PARTITIONS_MAX} log partitions: "
                    "name its clusters in several files"
                )
    return Fleet(sizes=sizes, inputs=inputs, failed=failed)


def _listings(
    pool: ThreadPoolExecutor, clusters: Iterable[Named]
) -> Iterator[tuple[Named, SegmentInput | Mapping[int, int] | str]]:
    asked = list(clusters)
    yield from zip(asked, pool.map(_listing, asked), strict=True)


def _listing(one: Named) -> SegmentInput | Mapping[int, int] | str:
    if one.segments is None:
        return one.sizes or {}
    try:
        return SegmentInput.listed(one.segments, one.cluster)
    except (SourceError, OSError) as error:
        return str(error)


def _of_line(line: bytes, where: str) -> Named:
    try:
        told = json.loads(line)
    except ValueError as error:
        raise BadInput(f"{where} is no JSON: {error}") from error
    except RecursionError as error:
        raise BadInput(f"{where} is nested too deeply") from error
    if not isinstance(told, dict):
        raise BadInput(f"{where} is no object")
    unknown = sorted(set(told) - {"cluster", "segments", "log_partitions"})
    if unknown:
        raise BadInput(f"{where}: unknown field {unknown[0]!r}")
    cluster, segments = told.get("cluster"), told.get("segments")
    if not isinstance(cluster, str) or not cluster:
        raise BadInput(f"{where} needs `cluster`, a text")
    if ("segments" in told) == ("log_partitions" in told):
        raise BadInput(f"{where} needs one of `segments` and `log_partitions`")
    if "segments" in told:
        if not isinstance(segments, str) or not segments:
            raise BadInput(f"{where}: `segments` is a folder or URI")
        return Named(cluster, segments, None)
    return Named(cluster, None, _sizes(told["log_partitions"], where))


def _sizes(told: object, where: str) -> dict[int, int]:
    if not isinstance(told, dict) or not told:
        raise BadInput(f"{where}: `log_partitions` is an object of sizes by log partition")
    found: dict[int, int] = {}
    for name, size in told.items():
        if not (name.isascii() and name.isdigit() and str(int(name[:20])) == name and int(name) <= LOG_PARTITION_MAX):
            raise BadInput(f"{where}: {name[:40]!r} is no number of a log partition")
        if type(size) is not int or not 0 <= size <= SIZE_MAX:
            raise BadInput(f"{where}: the size of log partition {name} is no number of bytes")
        found[int(name)] = size
    return found
