"""Few large files instead of many small ones: rows and their order stay, and the result is published as a run."""

from muster_pipeline.store.files import FileEntry
from muster_pipeline.store.limits import FILE_ROWS, KEPT_MS
from muster_pipeline.store.publish import Publication, publish, writing
from muster_pipeline.store.reader import Published, Snapshot, published
from muster_pipeline.store.writer import TableWriter


def optimize(root: Snapshot, now_ms: int, token: str) -> tuple[Snapshot, int]:
    """Merge small files of a cluster; returns what is published then, and how many files fewer there are.

    Raises StoreBusy if another run of the cluster writes or has published since `root`.
    """
    place, cluster = root.place, root.cluster
    with writing(place, cluster):
        before = published(place, cluster)
        wanted = {name: _merged(before, name, token) for name in before.tables}
        fewer = len(before.files) - sum(len(entries) for entries in wanted.values())
        if not fewer:
            return before, 0
        run = Publication(
            place=place, cluster=cluster, before=before, settings=before.settings, input=before.input, now_ms=now_ms,
            kept_ms=KEPT_MS, token=token,
        )  # fmt: skip
        return publish(run, wanted), fewer


def _merged(before: Snapshot, name: str, token: str) -> tuple[FileEntry, ...]:
    by_partition: dict[int, list[FileEntry]] = {}
    for entry in before.of(name):
        by_partition.setdefault(entry.log_partition, []).append(entry)
    found: list[FileEntry] = []
    for number, entries in by_partition.items():
        rows = sum(entry.rows for entry in entries)
        if -(-rows // FILE_ROWS) >= len(entries):
            found += entries
            continue
        writer = TableWriter(before.place, name, before.cluster, number, f"merge-{token}", token)
        try:
            for rows_read in Published(before).rows_of(name, number):
                writer.write(rows_read)
            found += writer.close()
        finally:
            writer.abort()
    return tuple(sorted(found))
