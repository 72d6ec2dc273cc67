"""The offsets log of a live cluster as an input: from its start, or from where the published tables end.

The range [start, end) of each log partition is fixed when the input is made, so a retried task reads the same records.
The end of a run is in the row of table `runs` that publishes its tables: no record is read twice or left out,
whenever a run dies. Published rows that the log has lost since are withdrawn (`job.truncation`). A run reads the
published records again and then the new ones, so tables do not depend on where a stream was cut; a round of a stream
gives the same tables from a stored state on (`job.rounds`).
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from muster_pipeline.decode.origin import Origin
from muster_pipeline.decode.segment import Account
from muster_pipeline.job.inputs import BronzeInput, FileAccount, Part
from muster_pipeline.job.states import known_epochs
from muster_pipeline.job.truncation import Epochs, finding, kept_account, kept_quarantine, truncated
from muster_pipeline.sources import live
from muster_pipeline.sources.cluster import EARLIEST, LATEST, Cluster
from muster_pipeline.sources.errors import OffsetGone
from muster_pipeline.sources.folder import OFFSETS_TOPIC
from muster_pipeline.store import reader
from muster_pipeline.store.reader import Root, Snapshot
from muster_pipeline.tables.errors import BadInput, NothingPublished

KIND: Final = "live"
Connect = Callable[[str, Mapping[str, str]], Cluster]
"""(bootstrap, properties) -> a connection; pickled by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveInput:
    """[start, end) of every log partition; `known`: what was published, whose records come before `start`, if any."""

    cluster: str
    bootstrap: str
    ranges: Mapping[int, tuple[int, int]]
    properties: Mapping[str, str] = field(default_factory=dict)
    known: Snapshot | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)
    """Log partition -> its published end; used for partitions that this run does not read."""
    withdrawn: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Log partition -> [first, end) of the published offsets that are not in the log any more."""
    topic_id: str | None = None
    """Of the offsets topic; None if the cluster does not tell."""
    connect: Connect = Cluster

    @classmethod
    def whole(
        cls, bootstrap: str, cluster: str, properties: Mapping[str, str] | None = None, *, connect: Connect = Cluster
    ) -> "LiveInput":
        """The whole log that the cluster has now. Raises ClusterUnreachable, NoLog, BadOption."""
        given = dict(properties or {})
        now = _now(connect, bootstrap, given, {})
        ranges = {number: (now.starts[number], end) for number, end in now.ends.items()}
        return cls(
            cluster=cluster, bootstrap=bootstrap, ranges=ranges, properties=given, topic_id=now.topic_id,
            connect=connect,
        )  # fmt: skip

    @classmethod
    def onward(
        cls,
        bootstrap: str,
        cluster: str,
        root: Root,
        properties: Mapping[str, str] | None = None,
        *,
        every: bool = True,
        connect: Connect = Cluster,
    ) -> "LiveInput":
        """The log after the end of the tables in `root`; the whole log if nothing is published there.

        `every`: include log partitions without new records (their tables are made again, for new samples of log ends).
        Raises BadInput if the tables are of another cluster or of files, OffsetGone if the log was created again.
        """
        before = followed(root, cluster)
        if before is None:
            return cls.whole(bootstrap, cluster, properties, connect=connect)
        given, known = dict(properties or {}), published_ends(before)
        epochs = known_epochs(before, known)
        now = _now(connect, bootstrap, given, epochs, before.made_of.get("topic_id"))
        kept = {number: now.cut.get(number, end) for number, end in known.items()}
        for number, end in sorted(now.ends.items()):
            if end < kept.get(number, 0):
                raise OffsetGone(
                    f"log partition {number} ends at {end}, but was read up to {known[number]}: the log was cut or "
                    "created again; give another folder for tables"
                )
        ranges = {number: (kept.get(number, now.starts[number]), end) for number, end in now.ends.items()}
        moved = {number: span for number, span in ranges.items() if every or span[0] < span[1] or number in now.cut}
        return cls(
            cluster=cluster, bootstrap=bootstrap, ranges=moved, properties=given, known=before,
            offsets=known, withdrawn={number: (at, known[number]) for number, at in now.cut.items()},
            topic_id=now.topic_id, connect=connect,
        )  # fmt: skip

    def new(self) -> int:
        """Offsets to be fetched, over all log partitions."""
        return sum(end - start for start, end in self.ranges.values())

    def sizes(self) -> dict[int, int]:
        """Offsets to be fetched; the bytes of a live log are not known before."""
        return {number: end - start for number, (start, end) in self.ranges.items()}

    def parts(self, log_partition: int, *, is_resumed: bool = False) -> Iterator[Part]:
        """`is_resumed`: the fold has seen the published records. Raises ClusterUnreachable, DamagedStore."""
        start, end = self.ranges[log_partition]
        where = live.origin(self.cluster, log_partition)
        before = Account(is_active=True, bytes_in=0)
        if self.known is not None:
            before, first = yield from self._carried(self.known, log_partition, where)
            for part in BronzeInput(known=self.known).parts(log_partition) if not is_resumed else ():
                records = part.records if first is None else _below(part.records, first)
                yield replace(part, records=records, file=FileAccount(where, before), is_carried=True)
        account = Account(is_active=True, bytes_in=0)
        with self.connect(self.bootstrap, self.properties) as cluster:
            for piece in live.pieces(cluster, OFFSETS_TOPIC, where, start, end, strict=False):
                account = piece.account
                yield Part(records=piece.records, damages=piece.damages, file=FileAccount(where, account))
        yield Part(records=None, file=FileAccount(where, summed(before, account)), is_end=True)

    def _carried(
        self, root: Snapshot, log_partition: int, where: Origin
    ) -> Generator[Part, None, tuple[Account, int | None]]:
        """What was published beside records; returns its account, and from which offset on records are withdrawn."""
        before, rows = _account(root, log_partition), _quarantine(root, log_partition)
        if log_partition not in self.withdrawn:
            yield Part(records=None, file=FileAccount(where, before), carried=rows)
            return before, None
        first, end = self.withdrawn[log_partition]
        rows = kept_quarantine(rows, first)
        before, count = kept_account(before, root, log_partition, first, rows)
        told = finding(log_partition, first, end, count)
        yield Part(records=None, file=FileAccount(where, before), carried=rows)
        yield Part(records=None, damages=(told,), file=FileAccount(where, before))
        return before, first

    def makes_bronze(self) -> bool:
        """True: published records are written again, followed by the new ones."""
        return True

    def describe(self) -> dict[str, Any]:
        """The ends of all log partitions: equal however many runs it took to reach them."""
        ends = {**self.offsets, **{number: end for number, (_, end) in self.ranges.items()}}
        told = {"kind": KIND, "ends": {str(number): ends[number] for number in sorted(ends)}}
        return told if self.topic_id is None else told | {"topic_id": self.topic_id}


def followed(root: Root, cluster: str) -> Snapshot | None:
    """What a stream of this cluster goes on with; None if nothing of it is published. Raises BadInput."""
    try:
        found = reader.published(root, cluster)
    except NothingPublished:
        return None
    if found.made_of["kind"] != KIND:
        raise BadInput(
            f"the tables of cluster {cluster} in {found.place} were made from {found.made_of['kind']}, not from a live "
            "cluster: give another folder"
        )
    return found


def published_ends(found: Snapshot) -> dict[int, int]:
    """Log partition -> the offset after the last one read."""
    return {int(number): end for number, end in found.made_of["ends"].items()}


def summed(before: Account, after: Account) -> Account:
    """The sum of two accounts; the second begins where the first ended."""
    found = Account(is_active=True, bytes_in=before.bytes_in + after.bytes_in)
    for name in ("decoded", "quarantined", "pending"):
        setattr(found, f"bytes_{name}", getattr(before, f"bytes_{name}") + getattr(after, f"bytes_{name}"))
    for name in ("batches", "records", "records_quarantined", "offsets_missing"):
        setattr(found, name, getattr(before, name) + getattr(after, name))
    found.first_offset = after.first_offset if before.first_offset is None else before.first_offset
    found.next_offset = before.next_offset if after.next_offset is None else after.next_offset
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Now:
    """The log as the cluster has it now."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]
    topic_id: str | None
    cut: Mapping[int, int]
    """Log partition -> first published offset that is not in the log any more."""


def _now(
    connect: Connect,
    bootstrap: str,
    properties: Mapping[str, str],
    epochs: Mapping[int, Epochs],
    topic_id: str | None = None,
) -> _Now:
    """Raises OffsetGone if the topic is not the one that was read."""
    with connect(bootstrap, properties) as cluster:
        told = cluster.topic_id(OFFSETS_TOPIC)
        if topic_id is not None and told is not None and told != topic_id:
            raise OffsetGone(
                f"{OFFSETS_TOPIC} has id {told}, the tables were read from {topic_id}: the log was created again; give "
                "another folder for tables"
            )
        numbers = cluster.partitions(OFFSETS_TOPIC)
        mine = {number: one for number, one in epochs.items() if number in numbers}
        return _Now(
            cut=truncated(mine, lambda asked: cluster.epoch_ends(OFFSETS_TOPIC, asked)),
            starts=cluster.bound(OFFSETS_TOPIC, numbers, EARLIEST),
            ends=cluster.bound(OFFSETS_TOPIC, numbers, LATEST),
            topic_id=told if told is not None else topic_id,
        )


def _below(records: pa.RecordBatch | None, end: int) -> pa.RecordBatch | None:
    return None if records is None else records.filter(pc.less(records["log_offset"], end))


def _account(root: Snapshot, log_partition: int) -> Account:
    rows = reader.read("files", root, log_partitions=[log_partition]).to_pylist()
    found = Account(is_active=True, bytes_in=0)
    for row in rows:
        values = {name: row[name] for name in Account.__dataclass_fields__}
        found = summed(found, Account(**values))
    return found


def _quarantine(root: Snapshot, log_partition: int) -> pa.Table:
    return reader.read("quarantine", root, log_partitions=[log_partition])
