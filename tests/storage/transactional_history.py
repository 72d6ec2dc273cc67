"""Random transactions of a few producers over a few keys, written to a log and told to Kafka's cleaner as an oracle."""

from random import Random

from muster_coordinator.records.batch import DELETE_HORIZON, encode_batch, iter_records, parse_header, stamp
from muster_coordinator.records.control import EndMarker, TransactionMarker, decode_control, marker_batch

from tests.records.made import split_batches
from tests.storage.cleaning_kit import clean
from tests.storage.log_kit import START_MS, flush, open_log
from tests.topics.kafka_cleaner import Batch, Ended, KafkaLog, Kept
from tests.topics.read_committed import batches, delivered

SEGMENT_BYTES = 700
LATER_MS = START_MS + 1_000_000
PLAIN, IDEMPOTENT = -1, 100


class Transactions:
    """`twin` gets the same batches and is never cleaned."""

    def __init__(self, disk, twin_disk, seed, *, producers=4, keys=6):
        self.seed = seed
        self.disk, self.rand, self.keys = disk, Random(seed), keys
        self.log, self.twin = open_log(disk, segment_bytes=SEGMENT_BYTES), open_log(twin_disk)
        self.kafka = KafkaLog()
        self.transactional = range(1, producers + 1)
        self.epochs: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.opened: dict[int, int] = {}
        self.last: dict[int, tuple[int, int]] = {}
        self.now_ms, self.leader_epoch, self.applied = LATER_MS, 1, 0
        self.point = None

    # -- writing -------------------------------------------------------------------------------------------------------

    def _append(self, raw):
        base = self.log.next_offset
        for log in (self.log, self.twin):
            log.append(stamp(raw, base, self.leader_epoch))
        self.applied += 1
        return base

    def data(self, producer):
        epoch, count = self.epochs.setdefault(producer, 0), self.rand.randrange(1, 4)
        records = [
            (
                b"key%d" % self.rand.randrange(self.keys),
                None if self.rand.random() < 0.2 else b"%d.%d" % (self.applied, n),
            )
            for n in range(count)
        ]
        known = producer >= 0
        raw = encode_batch(
            records, timestamp_ms=START_MS + self.applied,
            producer_id=producer, producer_epoch=epoch if known else -1,
            base_sequence=self.sequences.get(producer, 0) if known else -1,
            transactional=producer in self.transactional,
        )  # fmt: skip
        base = self._append(raw)
        if known:
            self.sequences[producer] = self.sequences.get(producer, 0) + count
            self.last[producer] = (epoch, base + count - 1)
        if producer in self.transactional:
            self.opened.setdefault(producer, base)
        kept = tuple(Kept(base + n, *record) for n, record in enumerate(records))
        self.kafka.batches.append(
            Batch(base, base + count - 1, producer, epoch if known else -1, producer in self.transactional, "", kept)
        )

    def end(self, producer, *, commit, bump):
        epoch = self.epochs.get(producer, 0) + bump
        raw = marker_batch(TransactionMarker(producer, epoch, EndMarker(commit, 3), 2 if bump else 1), START_MS)
        base = self._append(raw)
        before = self.last.get(producer)
        self.last[producer] = (epoch, before[1] if before is not None and before[0] == epoch else -1)
        self.epochs[producer] = epoch
        if bump:
            self.sequences[producer] = 0
        first = self.opened.pop(producer, None)
        record = next(iter_records(split_batches(self.log.read(base, 1, True))[0]))
        self.kafka.batches.append(
            Batch(base, base, producer, epoch, True, "COMMIT" if commit else "ABORT", (Kept(base, *record[2:4]),))
        )
        if first is not None and not commit:
            self.kafka.index.append(Ended(producer, first, base))

    def step(self):
        roll, producer = self.rand.random(), self.rand.choice(self.transactional)
        if roll < 0.1:
            self.leader_epoch += self.rand.randrange(2)
            self.data(self.rand.choice((PLAIN, IDEMPOTENT)))
        elif roll < 0.6:
            self.data(producer)
        else:
            # A marker of a producer without an open transaction is written too.
            open_ones = list(self.opened) or [producer]
            self.end(self.rand.choice(open_ones), commit=self.rand.random() < 0.5, bump=self.rand.random() < 0.5)

    def write(self, steps):
        for _ in range(steps):
            self.step()
        self.point = flush(self.log, self.applied)

    @property
    def stable(self):
        return min(self.opened.values(), default=self.log.next_offset)

    # -- cleaning ------------------------------------------------------------------------------------------------------

    def clean(self, **options):
        """A round of both; False when nothing may be cleaned."""
        first_dirty = self.log.cleaned.cleaned_to
        outcome = clean(
            self.disk, self.log, now_ms=self.now_ms, stable_offset=self.stable, producers=self.last, **options
        )
        if outcome is None:
            return False
        assert not outcome.put_aside, outcome
        self.kafka_cleans(first_dirty, outcome.cleaned_to)
        return True

    def kafka_cleans(self, first_dirty, end):
        assert end <= self.stable
        self.kafka.clean(now_ms=self.now_ms, retention_ms=1_000, first_dirty=first_dirty, end=end, producers=self.last)

    def expire(self):
        """Some producers are forgotten, as those are that were silent for long."""
        for producer in [producer for producer in self.last if producer not in self.opened]:
            if self.rand.random() < 0.5:
                del self.last[producer]

    # -- what is there -------------------------------------------------------------------------------------------------

    def batches(self, log=None):
        log = self.log if log is None else log
        found, offset = [], log.log_start_offset
        while offset < log.next_offset:
            some = split_batches(log.read(offset, 1_000, True))
            found += some
            offset = parse_header(some[-1]).next_offset
        return found

    def shown(self):
        """As the oracle shows it; without the empty batches that stand for what was removed."""
        found = []
        for batch in self.batches():
            header = parse_header(batch)
            if header.count == 0 and header.producer_id < 0:
                continue
            records = list(iter_records(batch))
            marker = ""
            if header.is_control:
                marker = "COMMIT" if decode_control(records[0]).commit else "ABORT"
            found.append(
                Batch(
                    header.base_offset, header.next_offset - 1, header.producer_id, header.producer_epoch,
                    header.is_transactional, marker, tuple(Kept(r.offset, r.key, r.value) for r in records),
                    header.base_timestamp_ms if header.attributes & DELETE_HORIZON else None,
                )
            )  # fmt: skip
        return found

    def wanted(self):
        """Where Kafka leaves a header of a live producer's last marker, ours leaves the marker (ADR 75)."""
        there = {batch.base: batch for batch in self.shown() if batch.marker}
        found = []
        for batch in self.kafka.batches:
            if batch.marker and not batch.records:
                assert there[batch.base][:6] == batch[:6]
                found.append(there[batch.base])
            else:
                found.append(batch)
        return found

    def consumed(self, log, offset, most_bytes=(1, 300, 2_000)):
        """What a read_committed consumer gets that begins at `offset`."""
        found, rand = [], Random(self.seed + offset)
        while offset < self.stable:
            data = log.read(offset, rand.choice(most_bytes), True)
            below = [(header, batch) for header, batch in batches(data) if header.base_offset < self.stable]
            end = below[-1][0].next_offset
            some = b"".join(batch for _, batch in below)
            aborted = [(one.producer_id, one.first_offset) for one in log.aborted(offset, end)]
            bases = {header.base_offset for header in delivered(some, aborted)}
            for header, batch in below:
                if header.base_offset in bases:
                    found += [(r.offset, r.key, r.value) for r in iter_records(batch) if r.offset >= offset]
            offset = end
        return found

    def check(self, stride=3):
        """The log is as Kafka would have left it, and nobody can tell it from the twin but by records that are gone."""
        assert self.shown() == self.wanted()
        ahead = self.log.log_start_offset
        for batch in self.batches():
            assert parse_header(batch).base_offset <= ahead < parse_header(batch).next_offset
            ahead = parse_header(batch).next_offset
        there = {record.offset for batch in self.kafka.batches if not batch.marker for record in batch.records}
        for start in range(self.log.log_start_offset, self.stable, stride):
            expected = [one for one in self.consumed(self.twin, start) if one[0] in there]
            assert self.consumed(self.log, start) == expected, f"seed {self.seed}: from {start}"
        table = {key: value for _, key, value in self.consumed(self.twin, self.twin.log_start_offset)}
        mine = {key: value for _, key, value in self.consumed(self.log, self.log.log_start_offset)}
        for key in table.keys() | mine.keys():
            assert mine.get(key) == table.get(key), f"seed {self.seed}: {key}"

    def reopen(self):
        self.log = open_log(self.disk, self.point, self.log.log_start_offset, segment_bytes=SEGMENT_BYTES)
