"""The log cleaner: topics whose cleanup.policy has compact, and internal logs, keep the last value of each key.

Problem: every replica must clean its own log in time, without a word to the others, and neither stop requests nor fill
the disk. Mechanism: every `log.cleaner.backoff.ms` all partitions are looked at, some in each turn, and the one with
the largest dirty part of those that are due is cleaned, one at a time (`cleaning_round`), at most
`log.cleaner.io.max.bytes.per.second` together, with at most `log.cleaner.dedupe.buffer.size` of memory for keys. A
segment may be cleaned when it is sealed, undamaged, below the last stable offset, and before two others: the one of the
newest durable recovery point, from which a start continues, and the one of the newest checkpoint, from which a follower
would continue after an install. Where the checkpoint is what forbids it, a newer one is asked for. A round that fails,
also for lack of space, is an event of the log and is tried again later. Replicas clean at different times, so their
files differ byte by byte, but readers are told the same by each.

The offsets log and the transaction log keep their history first (`internal_logs`), and of them only what the newest
checkpoint published since the start covers is cleaned (ADR 76, L1).

What it does not do: say what a log without room, or a damaged one, needs; `disk_space` and `repair` do.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from muster_coordinator.controller.image import ClusterImage, Topic
from muster_coordinator.errors import Corruption, SegmentDamaged, StorageFailed
from muster_coordinator.events import LOG_CLEANED, LOG_NOT_CLEANED
from muster_coordinator.ids import GroupNo
from muster_coordinator.limits import ERROR_MESSAGE_CHARS_MAX
from muster_coordinator.ports import Disk, Loop
from muster_coordinator.replica import limits
from muster_coordinator.replica.group_manager import GroupManager
from muster_coordinator.replica.maintenance.cleaning_round import GONE, CleaningRound, Group, Outcome
from muster_coordinator.replica.maintenance.internal_logs import History, behind_history, cleaning_settings, compacted
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.multiraft.status import CleanerStatus
from muster_coordinator.replica.partitions.topic_logs import LogView, TopicLog
from muster_coordinator.replica.settings import NodeSettings
from muster_coordinator.replica.snapshots.install import SnapshotInstalls
from muster_coordinator.topics.cleaning.plan import Cleanable, cleanable, due
from muster_coordinator.topics.cleaning.rounds import Round
from muster_coordinator.topics.settings import TopicSettings, topic_settings

SLICE_GROUPS = 16
SLICE_MS = 10
"""Time between two slices of a look."""


class _Due(NamedTuple):
    """A partition that is due."""

    number: GroupNo
    log: LogView
    settings: TopicSettings
    plan: Cleanable


class Cleaner:
    """See the module."""

    def __init__(
        self,
        loop: Loop,
        disk: Disk,
        host: Host,
        group_manager: GroupManager,
        installs: SnapshotInstalls,
        settings: NodeSettings,
    ) -> None:
        self._loop = loop
        self._disk = disk
        self._host = host
        self._group_manager = group_manager
        self._installs = installs
        self._settings = settings
        self._tick_bytes = settings.cleaner_rate * limits.CLEAN_TICK_MS // 1_000
        self._history = History(settings.offsets_history_ms, settings.offsets_history_bytes)
        self._walk: list[LogView] = []
        self._best: _Due | None = None
        self._due = 0
        self._looking = False
        """There is, or was, something that is compacted."""
        self._not_before_ms: dict[GroupNo, int] = {}
        self._round: CleaningRound | None = None
        self._began_ms = 0
        self._uncleanable: dict[GroupNo, str] = {}
        self._wanting: set[GroupNo] = set()
        """Groups of which a newer checkpoint was asked for, so that more can be cleaned."""
        self._rounds = self._failures = self._bytes_done = self._bytes_freed = 0

    def moved(self) -> None:
        """The image has changed: look from now on, if anything is compacted. Else this costs nothing."""
        image = self._group_manager.image
        if self._looking or image is None:
            return
        default = self._group_manager.default_policy()
        policies = (dict(topic.configs).get("cleanup.policy", default) for topic in _of_clients(image))
        if compacted(self._settings, image) or any("compact" in policy for policy in policies):
            self._looking = True
            self._later()

    def _later(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + self._settings.cleaner_backoff_ms, self._look)

    def status(self) -> CleanerStatus:
        """Counts since the start, and what is due now."""
        running = 0 if self._round is None else self._round.bytes_done
        return CleanerStatus(
            rounds=self._rounds,
            failures=self._failures,
            done_bytes=self._bytes_done + running,
            freed_bytes=self._bytes_freed,
            due=self._due,
            uncleanable=len(self._uncleanable),
            cleaning="" if self._round is None or self._best is None else self._best.log.raft.name,
        )

    # -- choosing ------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._walk = list(self._group_manager.logs.values())
        self._best, self._due = None, 0
        self._slice()

    def _slice(self) -> None:
        some, self._walk = self._walk[:SLICE_GROUPS], self._walk[SLICE_GROUPS:]
        for log in some:
            found = self._judge(log)
            if found is not None:
                self._due += 1
                if self._best is None or found.plan.ratio > self._best.plan.ratio:
                    self._best = found
        if self._walk:
            self._loop.call_at(self._loop.monotonic_ms() + SLICE_MS, self._slice)
        elif self._best is None or not self._begin(self._best):
            self._later()

    def _judge(self, log: LogView) -> _Due | None:
        number = log.group
        if self._loop.monotonic_ms() < self._not_before_ms.get(number, 0) or not self._present(log):
            return None
        settings = self._settings_of(log)
        newest = self._group_manager.checkpoints.newest(number)
        if not settings.compacts:
            return None
        if self._damaged(number):
            return None
        part = log.state.log
        found = self._due_below(log, settings, part.durable_segment)
        if found is None:
            return None
        covered = None if newest is None or newest[1] is None else newest[1].segment
        if covered is None and isinstance(log, TopicLog):
            return found
        if covered is not None and _end(found) <= covered:
            return found
        # A follower is offered this checkpoint, and with it the segment of its recovery point.
        if number not in self._wanting:
            self._wanting.add(number)
            self._group_manager.checkpoints.want(number, lambda: self._wanting.discard(number))
        return None if covered is None else self._due_below(log, settings, covered)

    def _settings_of(self, log: LogView) -> TopicSettings:
        if isinstance(log, TopicLog):
            return topic_settings(log.configs())
        if not compacted(self._settings, self._group_manager.image):
            return TopicSettings()
        return cleaning_settings((log.state.replicated_roll or log.state.roll)[0])

    def _due_below(self, log: LogView, settings: TopicSettings, durable: int) -> _Due | None:
        """Of the segments that end at or below `durable`."""
        part, now_ms = log.state.log, self._loop.wall_ms()
        flushed = {summary.base for summary in part.sealed()}
        cleaned_to = part.cleaned.cleaned_to
        sealed = [view for view in part.views() if view.next_offset <= durable and view.base_offset in flushed]
        if not isinstance(log, TopicLog):
            size_bytes = part.size_bytes()
            sealed = [*behind_history(now_ms, sealed, self._history, size_bytes=size_bytes, cleaned_to=cleaned_to)]
        plan = cleanable(
            now_ms, sealed, settings.cleaning, cleaned_to=cleaned_to, stable_offset=log.last_stable_offset()
        )
        if plan is None:
            return None
        oldest_ms = -1 if settings.cleaning.max_lag_ms == 2**63 - 1 else part.first_timestamp_ms(plan.first_dirty)
        return _Due(log.group, log, settings, plan) if due(now_ms, plan, settings.cleaning, oldest_ms) else None

    def _present(self, log: LogView) -> bool:
        """Is this partition here, with a state, its files its own?"""
        return (
            self._group_manager.logs.get(log.group) is log
            and not log.state.closed
            and not log.raft.installing
            and not log.raft.trouble
        )

    def _damaged(self, number: GroupNo) -> bool:
        return any(group == number for group, _ in self._group_manager.damage.found)

    # -- cleaning ------------------------------------------------------------------------------------------------------

    def _begin(self, found: _Due) -> bool:
        number, log, settings, plan = found
        part = log.state.log
        if not self._present(log) or part.cleaned.cleaned_to > plan.first_dirty:
            return False

        def present() -> bool:
            return self._present(log) and log.state.log is part and not self._damaged(number)

        def pause() -> Callable[[], None] | None:
            # Who fetches these files must find them as they were offered; who compares them, as they were compared.
            busy = self._installs.source.serves(number) or self._installs.fetches(number)
            return None if busy else self._group_manager.checkpoints.pause(number)

        self._began_ms = self._loop.monotonic_ms()
        round_ = Round(
            now_ms=self._loop.wall_ms(),
            delete_retention_ms=settings.cleaning.delete_retention_ms,
            memory_bytes=self._settings.cleaner_keys_bytes,
            first_dirty=plan.first_dirty,
            producers=log.last_of_producers(),
        )
        self._round = CleaningRound(
            self._loop,
            self._disk,
            Group(number, log.state, present, pause),
            plan,
            round_,
            segment_bytes=settings.segment_bytes,
            tick_bytes=self._tick_bytes,
            spare_bytes=self._settings.disk_low_bytes,
            done=partial(self._ended, found),
        )
        self._round.start()
        return True

    def _ended(self, found: _Due, outcome: Outcome) -> None:
        number, log, _, _ = found
        self._bytes_done += outcome.done_bytes
        self._round = None
        error = outcome.error
        if isinstance(error, StorageFailed) or (error is not None and not isinstance(error, Corruption | OSError)):
            self._host.fatal(error)
        reason = (str(error) if error is not None else outcome.put_aside)[:ERROR_MESSAGE_CHARS_MAX]
        if isinstance(error, SegmentDamaged) and self._present(log):
            self._group_manager.damage.report(number, error)
        if outcome.put_aside == GONE or not self._present(log):
            self._uncleanable.pop(number, None)  # It was deleted, installed anew, or is being repaired.
        elif reason:
            self._failures += error is not None
            self._uncleanable[number] = reason
            self._not_before_ms[number] = self._loop.monotonic_ms() + limits.CLEAN_RETRY_MS
            log.raft.tell(LOG_NOT_CLEANED, reason=reason)
        else:
            self._rounds += 1
            self._bytes_freed += outcome.before_bytes - outcome.after_bytes
            self._uncleanable.pop(number, None)
            self._not_before_ms.pop(number, None)
            log.raft.tell(
                LOG_CLEANED,
                before_bytes=outcome.before_bytes,
                after_bytes=outcome.after_bytes,
                before_segments=outcome.before_segments,
                after_segments=outcome.after_segments,
                keys=outcome.keys,
                cleaned_to=outcome.cleaned_to,
                took_ms=self._loop.monotonic_ms() - self._began_ms,
            )
        self._forget_others()
        self._look()

    def _forget_others(self) -> None:
        """Partitions that are no longer here."""
        for number in [number for number in self._not_before_ms if number not in self._group_manager.logs]:
            del self._not_before_ms[number]
        for number in [number for number in self._uncleanable if number not in self._group_manager.logs]:
            del self._uncleanable[number]
        self._wanting &= self._group_manager.logs.keys()


def _of_clients(image: ClusterImage) -> list[Topic]:
    return [topic for topic in image.topics.values() if not topic.internal]


def _end(found: _Due) -> int:
    return found.plan.segments[-1].next_offset
