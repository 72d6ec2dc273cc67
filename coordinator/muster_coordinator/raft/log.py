"""The log of one core: terms of every entry it still has, payloads of the recent ones, and how much of it is durable.

Problem: the core asks for terms all the time, for payloads mostly of the last few entries, and must know exactly which
entries the disk holds although writes complete late and the log may be cut in between.
Mechanism: terms never fall along a log, so they are kept as runs (a handful of integers a log, however long it is).
Payloads are kept in a list bounded in bytes; older ones come from a `LogReader` (the WAL). Three marks move over the
log: `offered` (handed out to be written), `stable` (known durable here), and `era` (below).

Era: a write is named by (era, last index), where the era is the term in which the log was last cut. A core follows one
leader a term, and after its first cut in a term the log is a prefix of that leader's, so it is cut at most once a
term and the pair is never ambiguous: a completion that names an older era counts only up to where the log was cut
since (raft rule 24), also when the same (index, term) was written, overwritten and written again.

What it does not do: touch a disk, decide what is committed, or know offsets.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

from muster_coordinator.limits import RAFT_ENTRY_OVERHEAD_BYTES
from muster_coordinator.raft import limits
from muster_coordinator.raft.messages import Entry

OVERHEAD = RAFT_ENTRY_OVERHEAD_BYTES


class LogReader(Protocol):
    """Where evicted payloads come from. Sees every entry handed out in a `Ready` at once, durable or not."""

    def read(self, low: int, high: int, max_bytes: int) -> list[Entry]:
        """Entries [low, high), at least one, as many as fit `max_bytes`."""

    def term_at(self, index: int) -> int | None:
        """Term of a stored entry; asked only while the log is built."""


class EmptyReader:
    """The reader of a log that begins in this process; what it is asked for was never stored."""

    def read(self, low: int, high: int, max_bytes: int) -> list[Entry]:
        """Nothing is stored."""
        return []

    def term_at(self, index: int) -> int | None:
        """Nothing is stored."""
        return None


def entries_bytes(entries: Sequence[Entry]) -> int:
    """Size of `entries` as every limit of the core counts it."""
    return sum([len(entry.data) for entry in entries]) + OVERHEAD * len(entries)


class RaftLog:
    """See the module. `compacted` is the (index, term) just before the first entry; (0, 0) for a log from its start.

    At start everything up to `last_index` is durable. `checkpoint` is the newest one that a follower may be offered.
    """

    __slots__ = (
        "_cache",
        "_cuts",
        "_memo",
        "_memo_key",
        "_noticed_era",
        "_reader",
        "_run_firsts",
        "_run_terms",
        "cache_bytes",
        "cache_bytes_max",
        "cache_first",
        "checkpoint",
        "compacted_index",
        "era",
        "last_index",
        "last_term",
        "offered",
        "stable",
    )

    def __init__(
        self,
        reader: LogReader | None = None,
        *,
        compacted: tuple[int, int] = (0, 0),
        last_index: int | None = None,
        checkpoint: tuple[int, int] | None = None,
        cache_bytes_max: int = limits.GROUP_CACHE_BYTES_MAX,
    ) -> None:
        self._reader: LogReader = EmptyReader() if reader is None else reader
        self.compacted_index = compacted[0]
        self.last_index = compacted[0] if last_index is None else last_index
        assert self.last_index >= self.compacted_index, "a log ends at or after its beginning"
        self.checkpoint = max(checkpoint or compacted, compacted)
        self._run_firsts = [compacted[0]]
        self._run_terms = [compacted[1]]
        self._load_runs()
        self.last_term = self._run_terms[-1]
        self.stable = self.offered = self.last_index
        self.era = 0
        self._noticed_era = 0
        self._cuts: list[tuple[int, int]] = []
        self._cache: list[Entry] = []
        self.cache_first = self.last_index + 1
        self.cache_bytes = 0
        self.cache_bytes_max = cache_bytes_max
        self._memo_key = (-1, -1, -1)
        self._memo: tuple[tuple[Entry, ...], int] = ((), 0)

    def _load_runs(self) -> None:
        """Find where the term changes by bisection: a few look-ups a run instead of one an entry."""
        index = self.compacted_index + 1
        while index <= self.last_index:
            term = self._stored_term(index)
            low, high = index, self.last_index
            # Terms never fall along a log, so the entries of one term lie together.
            while low < high:
                middle = (low + high + 1) // 2
                if self._stored_term(middle) == term:
                    low = middle
                else:
                    high = middle - 1
            assert term >= self._run_terms[-1], "terms never fall along a log"
            if term != self._run_terms[-1]:
                self._run_firsts.append(index)
                self._run_terms.append(term)
            index = low + 1

    def _stored_term(self, index: int) -> int:
        term = self._reader.term_at(index)
        assert term is not None, f"entry {index} is inside the log but not stored"
        return term

    @property
    def first_index(self) -> int:
        """Index of the first entry that is not compacted; `last_index + 1` for an empty log."""
        return self.compacted_index + 1

    @property
    def compacted_term(self) -> int:
        """Term of the last compacted entry."""
        return self._run_terms[0]

    def term_at(self, index: int) -> int | None:
        """Term of the entry at `index`, also of the compaction point itself; None below it and above the end."""
        if index > self.last_index or index < self.compacted_index:
            return None
        firsts = self._run_firsts
        if index >= firsts[-1]:
            return self._run_terms[-1]
        return self._run_terms[bisect_right(firsts, index) - 1]

    def up_to_date(self, index: int, term: int) -> bool:
        """Is a log that ends in (index, term) at least as complete as this one?"""
        return term > self.last_term or (term == self.last_term and index >= self.last_index)

    def find_conflict_by_term(self, index: int, term: int) -> tuple[int, int]:
        """The largest index at or below `index` whose entry is of `term` or earlier, with its term (raft rule 26).

        Its term is 0 when that index lies below the compaction point.
        """
        index = min(index, self.last_index)
        while index >= self.compacted_index:
            run = bisect_right(self._run_firsts, index) - 1
            if self._run_terms[run] <= term:
                return index, self._run_terms[run]
            index = self._run_firsts[run] - 1
        return max(index, 0), 0

    def append(self, entries: Sequence[Entry], size: int) -> None:
        """Add `entries` (of `size` bytes by `entries_bytes`) at the end. Their indexes follow the last one."""
        runs = self._run_terms
        if entries[-1].term != runs[-1]:
            for entry in entries:
                if entry.term != runs[-1]:
                    assert entry.term > runs[-1], "terms never fall along a log"
                    self._run_firsts.append(entry.index)
                    runs.append(entry.term)
        self._cache.extend(entries)
        self.cache_bytes += size
        self.last_index += len(entries)
        self.last_term = runs[-1]
        if self.cache_bytes > self.cache_bytes_max:
            self.shrink_cache(self.cache_bytes_max * 3 // 4)

    def cut(self, keep: int, term: int) -> None:
        """Forget all entries above `keep`, on behalf of the leader of `term`."""
        assert self.compacted_index <= keep < self.last_index, "a cut removes something, and nothing compacted"
        assert term > self.era, "a log follows one leader a term, so it is cut at most once in it"
        if keep < self.cache_first:
            self._cache.clear()
            self.cache_first = keep + 1
            self.cache_bytes = 0
        else:
            position = keep + 1 - self.cache_first
            self.cache_bytes -= entries_bytes(self._cache[position:])
            del self._cache[position:]
        while self._run_firsts[-1] > keep:
            self._run_firsts.pop()
            self._run_terms.pop()
        self.last_index = keep
        self.last_term = self._run_terms[-1]
        self._new_era(keep, term)

    def _new_era(self, keep: int, term: int) -> None:
        self.stable = min(self.stable, keep)
        self.offered = min(self.offered, keep)
        self._cuts.append((term, keep))
        self.era = term
        self._memo_key = (-1, -1, -1)

    def unoffered(self) -> tuple[Entry, ...]:
        """Entries that have not been handed out to be written; marks them as handed out."""
        if self.offered == self.last_index:
            return ()
        entries = tuple(self._cache[self.offered + 1 - self.cache_first :])
        self.offered = self.last_index
        return entries

    def written(self, era: int, index: int) -> bool:
        """The write (era, index) and all before it are durable. Did `stable` move?"""
        # Writes complete in the order in which they were handed out: after a completion of a later era an earlier one
        # is no news.
        if era < self._noticed_era:
            return False
        self._noticed_era = era
        cuts = self._cuts
        if cuts:
            while cuts and cuts[0][0] <= era:
                del cuts[0]
            # Of the write only what no later cut removed is still in the log (rule 24).
            for _, keep in cuts:
                index = min(index, keep)
        if index <= self.stable:
            return False
        assert index <= self.offered, "only what was handed out can have been written"
        self.stable = index
        if self.cache_bytes > self.cache_bytes_max:
            self.shrink_cache(self.cache_bytes_max * 3 // 4)
        return True

    def slice(self, low: int, high: int, max_bytes: int) -> tuple[tuple[Entry, ...], int]:
        """Entries [low, high) with their size: at least one, then as many as fit `max_bytes`.

        What is not in memory is read, and then only that part. The last answer is kept: followers in step ask alike.
        """
        key = (low, high, max_bytes)
        if key == self._memo_key:
            return self._memo
        assert self.compacted_index < low < high <= self.last_index + 1
        if low < self.cache_first:
            read = tuple(self._reader.read(low, min(high, self.cache_first), max_bytes))
            assert read, f"entry {low} is inside the log but not stored"
            assert read[0].index == low, "a reader answers from where it was asked"
            return read, entries_bytes(read)
        entries = tuple(self._cache[low - self.cache_first : high - self.cache_first])
        size = entries_bytes(entries)
        if size > max_bytes:
            size = len(entries[0].data) + OVERHEAD
            count = 1
            for entry in entries[1:]:
                more = size + len(entry.data) + OVERHEAD
                if more > max_bytes:
                    break
                size = more
                count += 1
            entries = entries[:count]
        self._memo_key = key
        self._memo = (entries, size)
        return self._memo

    def shrink_cache(self, max_bytes: int) -> None:
        """Drop the oldest durable payloads until at most `max_bytes` are left; what is not durable stays."""
        position = 0
        evictable = self.stable + 1 - self.cache_first
        while position < evictable and self.cache_bytes > max_bytes:
            self.cache_bytes -= len(self._cache[position].data) + OVERHEAD
            position += 1
        if position:
            del self._cache[:position]
            self.cache_first += position
            self._memo_key = (-1, -1, -1)
            self._memo = ((), 0)

    def compact(self, index: int, term: int) -> None:
        """Entries up to `index` (of `term`) are covered by a durable checkpoint: forget them."""
        if index <= self.compacted_index:
            return
        assert index <= self.stable, "only durable entries are compacted"
        assert self.term_at(index) == term, "a checkpoint states the term of its last entry"
        run = bisect_right(self._run_firsts, index) - 1
        del self._run_firsts[:run]
        del self._run_terms[:run]
        self._run_firsts[0] = index
        self.compacted_index = index
        position = index + 1 - self.cache_first
        if position > 0:
            self.cache_bytes -= entries_bytes(self._cache[:position])
            del self._cache[:position]
            self.cache_first = index + 1
        self._memo_key = (-1, -1, -1)
        self._memo = ((), 0)
        self.checkpoint = max(self.checkpoint, (index, term))

    def covered(self, index: int, term: int) -> None:
        """A checkpoint at (index, term), which the log holds, is durable here: so is all it covers. The rest stays."""
        assert self.term_at(index) == term
        self.stable = max(self.stable, index)
        self.offered = max(self.offered, index)
        self.compact(index, term)
        self.checkpoint = max(self.checkpoint, (index, term))

    def restart_at(self, index: int, term: int, current_term: int) -> None:
        """Discard everything: the log begins after a checkpoint at (index, term) (raft rule 22)."""
        assert self.last_index <= index or current_term > self.era, "what follows the current leader is not discarded"
        self._cache.clear()
        self.cache_first = index + 1
        self.cache_bytes = 0
        self._run_firsts = [index]
        self._run_terms = [term]
        self.compacted_index = self.last_index = index
        self.last_term = term
        self.checkpoint = (index, term)
        self._new_era(index, current_term)
        self.stable = self.offered = index
