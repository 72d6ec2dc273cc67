"""An idempotent producer as librdkafka is one, and a reader that asks whoever may have been deposed.

The producer has up to five batches of a partition on their way, several partitions under one id, connections that it
keeps when it goes to another broker and comes back, and an epoch that it bumps by itself: when a batch behind another
one is out of order, it waits until nothing is on its way and numbers everything that is not acknowledged anew, in all
partitions (docs/adr/0018). So it stores twice whatever it is told to be out of order without need. A success
acknowledges what is in front of it, unless that was said not to be stored.

The reader asks any replica for an offset that some producer has an acknowledgement of: out of range it is nowhere (T1).
"""

from typing import Any

from muster_coordinator.records.batch import encode_batch
from typing_extensions import override

from tests.sim import frames, topic_frames
from tests.sim.client import Line, Steps
from tests.sim.cluster import Cluster
from tests.sim.history import Violation
from tests.sim.producers import DATA, READ_BYTES, RETRIABLE, Sent, TopicClient

OUT_OF_RANGE, OUT_OF_ORDER = 1, 45
IN_FLIGHT = 5
QUEUE = 12
NOT_STORED = frozenset({3, 5, 6, 19})


class Identity:
    """What the partitions of one producer share."""

    def __init__(self) -> None:
        self.producer: int | None = None
        self.epoch = 0
        self.bumping = False
        self.pipelines: list[Pipeline] = []

    def drained(self) -> None:
        """Nothing of one partition is on its way any more: a bump that was waited for happens with the last one."""
        if self.bumping and not any(pipeline.flying for pipeline in self.pipelines):
            self.bumping = False
            self.epoch += 1
            for pipeline in self.pipelines:
                pipeline.renumber()


class _Batch:
    def __init__(self, at: int, values: tuple[bytes, ...], sequence: int) -> None:
        self.at = at
        self.values = values
        self.sequence = sequence
        self.not_stored = False
        """As far as the last answer said."""


class Pipeline(TopicClient):
    """One partition of the producer; `sent` holds every batch, in order."""

    def __init__(self, cluster: Cluster, name: str, partition: int, identity: Identity) -> None:
        super().__init__(cluster, name, partition)
        self.identity = identity
        self.sent: list[Sent] = []
        self._made = 0
        """Records in `sent`."""
        self.flying = False
        self._queue: list[_Batch] = []
        self._sequence = 0
        self._lines: dict[int, Line] = {}
        """To each broker that it ever asked; a refusal ends none of them."""
        identity.pipelines.append(self)

    def renumber(self) -> None:
        self._sequence = 0
        for batch in self._queue:
            batch.sequence = self._sequence
            self._sequence += len(batch.values)

    @override
    def connect(self, broker: int) -> Line:
        known = self._lines.get(broker)
        if known is None or not known.open:
            known = self._lines[broker] = Line(self, broker)
        return known

    @override
    def hang_up(self) -> None:
        for line in self._lines.values():
            line.close()

    def steps(self) -> Steps:
        identity = self.identity
        while True:
            yield from self.sleep(self.rand.uniform(1, 60))
            if identity.producer is None:
                given, _ = yield from self.producer_id()
                # The other partitions asked, too: the first answer counts, as what it numbered may be stored already.
                if identity.producer is None:
                    identity.producer = given
            self._fill()
            line = yield from self.leader()
            if identity.bumping:
                continue
            self.flying = True
            try:
                yield from self._flight(line, self._queue[:IN_FLIGHT])
            finally:
                self.flying = False
                identity.drained()

    def _fill(self) -> None:
        while len(self._queue) < QUEUE and self.rand.random() < 0.7:
            count = self.rand.randint(1, 3)
            at = self._made
            values = tuple(b"%b/%d" % (self.name.encode(), at + n) for n in range(count))
            self._made += count
            self._queue.append(_Batch(len(self.sent), values, self._sequence))
            self._sequence += count
            self.sent.append(Sent(values, None))

    def _flight(self, line: Line, batches: list[_Batch]) -> Steps:
        """Send them one after the other without waiting, and take in all answers."""
        answers: list[Any] = [None] * len(batches)
        left = len(batches)
        if not left:
            return
        epoch = self.identity.epoch

        def wait(resume: Any) -> None:
            at_us = self.world.now_us
            for index, batch in enumerate(batches):
                self.world.at(at_us, lambda index=index, batch=batch: send(index, batch))
                at_us += self.rand.choice((1, 300, 20_000))
            self.world.at(at_us + self.timeout_ms * 1000, lambda: resume(None))

            def send(index: int, batch: _Batch) -> None:
                if not line.open:
                    arrived(index, None)
                    return
                data = encode_batch(
                    [(None, value) for value in batch.values],
                    timestamp_ms=1_699_990_000_000,
                    producer_id=self.identity.producer,
                    producer_epoch=epoch,
                    base_sequence=batch.sequence,
                )
                request = topic_frames.produce(DATA, self.partition, data)
                api = topic_frames.PRODUCE
                op = self.cluster.history.begin(self.name, api, "", None, self.world.now_us)
                line.send(op, request, lambda answer: arrived(index, answer))

            def arrived(index: int, answer: Any) -> None:
                nonlocal left
                answers[index] = answer
                left -= 1
                if left == 0:
                    resume(None)

        yield wait
        if left:
            line.close()
        for batch, answer in zip(batches, answers, strict=True):
            self._answered(batch, answer)
        if any(answer is None or answer[0] != 0 for answer in answers):
            self.line = None  # whoever leads is asked for again

    def _answered(self, batch: _Batch, answer: tuple[int, int] | None) -> None:
        error = None if answer is None else answer[0]
        if answer is not None and error == 0:
            self.sent[batch.at] = Sent(batch.values, answer[1])
            self.last_success_us = self.world.now_us
            before = self._queue.index(batch)
            kept = [one for one in self._queue[:before] if one.not_stored]
            self._queue[: before + 1] = kept
        elif error == OUT_OF_ORDER:
            # It leaves no gap, so there is none, whatever was refused before.
            words = f"{self.name}: {batch.sequence} was said to be out of order"
            self.cluster.violations.append(Violation("D4", words))
            self.cluster.marks.add("an epoch was bumped")
            self.identity.bumping = True
        elif error is not None:
            assert error in RETRIABLE, f"Produce answered {error}"
            batch.not_stored = batch.not_stored or error in NOT_STORED
        else:
            batch.not_stored = False


class EdgeReader(TopicClient):
    """Reads, from any replica, the last record that is acknowledged."""

    def __init__(self, cluster: Cluster, name: str, partition: int, producers: list[Any]) -> None:
        super().__init__(cluster, name, partition)
        self.producers = [producer for producer in producers if producer.partition == partition]

    def _acknowledged(self) -> int:
        known = [
            sent.base_offset + len(sent.values)
            for producer in self.producers
            for sent in producer.sent[-IN_FLIGHT - QUEUE :]
            if sent.base_offset is not None
        ]
        return max(known, default=0)

    def steps(self) -> Steps:
        end = 0
        while True:
            yield from self.sleep(self.rand.uniform(20, 150))
            end = max(end, self._acknowledged())
            line = Line(self, self.rand.randrange(len(self.cluster.everyone)))
            offset = self.rand.choice((end, max(0, end - 1)))
            request = topic_frames.fetch_log(DATA, self.partition, offset, READ_BYTES, wait_ms=10)
            part = yield from self.ask(line, frames.FETCH_LOG, "", None, request)
            line.close()
            if part is None:
                continue
            if part.error == 0:
                self.last_success_us = self.world.now_us
            elif part.error == OUT_OF_RANGE:
                self.cluster.violations.append(
                    Violation("T1", f"{self.name}: {offset} is out of range, and {end} is acknowledged")
                )
