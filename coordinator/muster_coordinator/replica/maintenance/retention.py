"""Retention: leaders propose to drop old segments and silent producers of topics, and old history of internal logs
that are not cleaned.

Problem: all replicas must drop the same segments. Mechanism: the leader decides and proposes a new log start (protocol
notes 17.1); each replica drops whole segments when it applies that. Topics follow their configs. Offsets and
transaction partitions are cleaned (decision 3). Where they are not, below feature level 3 and if the configuration says
so, they drop sealed segments below this leader's newest checkpoint, the oldest first, while they are older than
`offsets_history_ms` or the partition is larger than `offsets_history_bytes`. Followers do not need these segments:
their state comes from their own checkpoint and WAL, or from an install. One walk at a time checks `SLICE_GROUPS`
groups every `SLICE_MS`. What it does not do: remove files; applying the log start does.
"""

from collections.abc import Mapping
from typing import Any

from muster_coordinator.groups.effects import Now
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Loop
from muster_coordinator.replica.group_manager import GroupManager
from muster_coordinator.replica.maintenance.internal_logs import compacted
from muster_coordinator.replica.multiraft.host import Host
from muster_coordinator.replica.partitions.coordinator_group import CoordinatorGroup
from muster_coordinator.replica.partitions.redis_log import RedisLog
from muster_coordinator.replica.partitions.topic_logs import TopicLog
from muster_coordinator.replica.settings import NodeSettings
from muster_coordinator.topics.log_commands import MoveLogStart, encode_log_command
from muster_coordinator.topics.machine import RetentionView
from muster_coordinator.topics.retention import retained_from
from muster_coordinator.topics.settings import TopicSettings

SLICE_GROUPS = 16
SLICE_MS = 10
"""Time between two slices of a walk."""


class Retention:
    """See the module."""

    def __init__(self, loop: Loop, host: Host, group_manager: GroupManager, settings: NodeSettings) -> None:
        self._loop = loop
        self._host = host
        self._group_manager = group_manager
        self._settings = settings
        self._walk: list[GroupNo] = []

    def start(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + self._settings.retention_check_ms, self._begin)

    def _begin(self) -> None:
        now_ms = self._loop.monotonic_ms()
        self._loop.call_at(now_ms + self._settings.retention_check_ms, self._begin)
        if not self._walk:  # else a slice of the last walk is still to come: the interval may be shorter than a walk
            self._walk = list(self._host.heartbeats.led())
            self._slice()

    def _slice(self) -> None:
        now = Now(self._loop.monotonic_ms(), self._loop.wall_ms())
        some, self._walk = self._walk[:SLICE_GROUPS], self._walk[SLICE_GROUPS:]
        for number in some:
            group = self._host.groups.get(number)
            log = self._group_manager.logs.get(number)
            if group is None or log is None or not group.serves:
                continue
            if isinstance(log, TopicLog):
                self._topic(now, log)
            elif isinstance(log, RedisLog):
                log.retain()
            elif isinstance(group.machine, CoordinatorGroup):
                self._offsets(now, group.machine)
        if self._walk:
            self._loop.call_at(now.monotonic_ms + SLICE_MS, self._slice)

    def _topic(self, now: Now, log: TopicLog) -> None:
        configs: Mapping[str, str] = log.configs()
        machine = log.topic.machine
        for command in (machine.retention(now, log.state.log.views(), configs=configs), machine.expire_producers(now)):
            if command is not None:
                log.topic.propose_command(command, _proposed)

    def _offsets(self, now: Now, internal: CoordinatorGroup[Any]) -> None:
        internal.rolls.said()
        newest = self._group_manager.checkpoints.newest(internal.group.number)
        if newest is None or compacted(self._settings, self._group_manager.image):
            return
        views = covered(internal.state.log.views(), newest[0].next_offset)
        bounds = TopicSettings(
            retention_ms=self._settings.offsets_history_ms, retention_bytes=self._settings.offsets_history_bytes
        )
        start = retained_from(now.wall_ms, views, bounds, internal.state.log_start)
        if start is not None:
            internal.propose_command(encode_log_command(MoveLogStart(start)), _proposed)


def covered(views: tuple[RetentionView, ...], next_offset: int) -> tuple[RetentionView, ...]:
    """The sealed segments, oldest first, that end at or below a checkpoint's next offset."""
    return tuple(view for view in views if view.next_offset <= next_offset)


def _proposed(applied: bool) -> None:
    """Whatever the result is, the next walk checks again."""
