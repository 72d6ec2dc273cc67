"""The append script's oracle: a function on values, from Kafka's rules for producers and Redis' for ids."""

from dataclasses import dataclass, field

from muster_coordinator.redis_streams.entry_ids import EntryId


@dataclass
class Model:
    """One partition."""

    sequence_max: int
    owner: int = -1
    last: EntryId = field(default_factory=lambda: EntryId(0, 0))
    producers: dict[int, tuple[int, list[tuple[int, int, EntryId]]]] = field(default_factory=dict)
    """Producer -> its epoch, and its last five batches: first and last sequence, and the first entry's id."""
    entries: list[tuple[EntryId, bytes]] = field(default_factory=list)
    """(id, value)"""

    def append(
        self, epoch: int, producer: int, producer_epoch: int, base: int, values: list[bytes], now_ms: int
    ) -> tuple[str, str]:
        if epoch < self.owner:
            return "FENCED", str(self.owner)
        final = (base + len(values) - 1) % 2**31
        batches: list[tuple[int, int, EntryId]] = []
        if producer in self.producers:
            known_epoch, known = self.producers[producer]
            if producer_epoch < known_epoch:
                return "EPOCH", str(known_epoch)
            if producer_epoch == known_epoch:
                again = [one for one in known if one[:2] == (base, final)]
                if again:
                    self.owner = epoch
                    return "DUPLICATE", again[0][2].text
                batches = known
            wanted = (batches[-1][1] + 1) % 2**31 if batches else 0
            if base != wanted:
                return "SEQUENCE", str(wanted)
        self.owner = epoch
        found = [self._add(value, now_ms) for value in values]
        if producer >= 0:
            self.producers[producer] = producer_epoch, [*batches, (base, final, found[0])][-5:]
        return "OK", found[0].text

    def _add(self, value: bytes, now_ms: int) -> EntryId:
        if now_ms > self.last.milliseconds:
            entry = EntryId(now_ms, 0)
        elif self.last.sequence < self.sequence_max:
            entry = EntryId(self.last.milliseconds, self.last.sequence + 1)
        else:
            entry = EntryId(self.last.milliseconds + 1, 0)
        self.last = entry
        self.entries.append((entry, value))
        return entry
