"""A `LocalLog` whose batches are judged by the real machine of a topic's partition, and stored at once."""

from collections.abc import Callable, Mapping

from muster_coordinator.errors import Code
from muster_coordinator.groups.effects import AppliedBatch
from muster_coordinator.ids import GroupNo
from muster_coordinator.topics.machine import Accepted, Duplicate, ProduceResult, Refused, refusal
from muster_coordinator.topics.partition import TopicPartition
from typing_extensions import override

from tests.api.fake_surface import FakeLog, FakeSurface
from tests.topics.batch_bytes import stamped
from tests.topics.leader import NOW


class JudgingLog(FakeLog):
    """Takes what follows; `produce_result` with an error, or None, is what becomes of a batch without a look at it."""

    def __init__(self, group: GroupNo) -> None:
        super().__init__(group)
        self.machine = TopicPartition()
        self.produce_result = ProduceResult(Code.NONE)
        self.stored: list[bytes] = []
        self.verification_now: int | None = None

    @classmethod
    def of(cls, surface: FakeSurface, name: str) -> "JudgingLog":
        """Put in the place of partition 0's log."""
        log = cls(surface.log_of(name, 0).group)
        surface.logs[log.group] = log
        return log

    @override
    def produce(
        self,
        batch: bytes,
        *,
        configs: Mapping[str, str],
        deadline_ms: int,
        done: Callable[[ProduceResult], None],
        behind: int | None = None,
        verification: int | None = None,
    ) -> bool:
        if self.produce_result is None or self.produce_result.code is not Code.NONE:
            return super().produce(batch, configs=configs, deadline_ms=deadline_ms, behind=behind, done=done)
        self.verification_now = verification
        return self.judge(batch, behind, done)

    @override
    def verify(self, producer_id: int, epoch: int, sequence: int, *, implicit: bool) -> int | Refused | None:
        return self.machine.verify(NOW, producer_id, epoch, sequence, implicit=implicit)

    def judge(self, batch: bytes, behind: int | None, done: Callable[[ProduceResult], None]) -> bool:
        judged = self.machine.offer(NOW, batch, configs={}, behind=behind, verification=self.verification_now)
        if isinstance(judged, Refused):
            done(refusal(judged, 0))
            return False
        if isinstance(judged, Duplicate) and judged.base_offset >= 0:
            done(ProduceResult(Code.NONE, judged.base_offset))
        else:
            self.accepted(judged, done)
        return True

    def accepted(self, judged: Accepted | Duplicate, done: Callable[[ProduceResult], None]) -> None:
        """A batch, or the repeat of one in flight."""
        assert isinstance(judged, Accepted), "nothing stays in flight"
        base = self.apply(judged.batch)
        self.machine.applied(judged.token)
        done(ProduceResult(Code.NONE, base))

    def apply(self, batch: bytes) -> int:
        """It is committed: its base offset."""
        base = self.machine.next_offset()
        self.machine.apply_batch(AppliedBatch(1, base, stamped(batch, base, 1)))
        self.stored.append(batch)
        return base
