"""Where groups are in topics in Redis, shown as consumer groups of Redis (`redis.groups.mirror`).

Problem: people look at a stream by XINFO GROUPS, and Kafka's offsets are in another log; showing them must not slow a
commit, must end when the offset does, and must be right after a fail-over, of which Redis may have missed any part.
Mechanism: the group's coordinator, which knows all its offsets, notes each that has changed, once however often; a
round later sends them, a few at a time, each with the offset of that moment, so nothing is shown that was not applied.
What fails comes again in a later round. A walk when a leadership begins, now and then, and after the notes were too
many, goes over all offsets of the groups led here, and over all groups that are shown: what a predecessor has left is
found by either. `mirror.lua` refuses an earlier term, and groups that others have made. What this does not do: read
anything of a group out of Redis, or answer to a commit.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from muster_coordinator.controller.image import ClusterImage, Topic
from muster_coordinator.ids import GroupNo
from muster_coordinator.ports import Loop, Notice, Timer
from muster_coordinator.redis_streams import limits
from muster_coordinator.redis_streams.mirror import Caller, mirror_arguments, mirrored, mirrored_arguments
from muster_coordinator.redis_streams.server import MIRROR, MIRRORED, Answer, Failure, StreamServer, Trouble
from muster_coordinator.replica.partitions.shards import ShardGroup
from muster_coordinator.replica.partitions.stream_place import StreamPlace
from muster_coordinator.topics.stores import REDIS, STORE_CONFIG

NOT_SHOWN = "a group cannot be shown in Redis"
_WHY = {
    b"FOREIGN": "there is a consumer group of this name that was not made by this cluster",
    b"USED": "consumers of Redis use it",
    b"TYPE": "the key is no stream",
}
_NOBODYS_FAULT = (Trouble.AWAY, Trouble.UNKNOWN)


class Shown(NamedTuple):
    """A group's offset in one partition."""

    shard: GroupNo
    group: str
    topic: str
    partition: int


class GroupMirror:
    """See the module. One for a replica; all calls are made on its loop."""

    def __init__(
        self,
        loop: Loop,
        server: StreamServer,
        cluster: str,
        prefix: str,
        image: Callable[[], ClusterImage | None],
        notice: Notice,
    ) -> None:
        self._loop, self._server, self._notice = loop, server, notice
        self._cluster, self._prefix, self._image = cluster, prefix, image
        self._led: dict[GroupNo, ShardGroup] = {}
        self._due: dict[Shown, None] = {}
        """For the next round."""
        self._round: deque[Shown] = deque()
        self._under_way = 0
        self._failed = False
        self._pause_ms = 0
        self._timer: Timer | None = None
        """Of the next round, while there is none."""
        self._number = 0
        self._left_out = False
        """Something was not noted for want of room."""
        self._unknown: set[str] = set()
        """Topics with offsets of which this replica's image did not know enough."""
        self._walking = False
        self._again = False
        """Another walk is wanted behind the one that goes on."""
        self._walk_timer: Timer | None = None

    # -- coordinators ----------------------------------------------------------------------------------------------

    def began(self, shard: ShardGroup) -> None:
        """A leadership began, and what its predecessors have applied is applied here."""
        self._led[shard.group.number] = shard
        self._walk_in(limits.MIRROR_DELAY_MS)

    def ended(self, shard: ShardGroup) -> None:
        """It is over."""
        self._led.pop(shard.group.number, None)

    def changed(self, shard: ShardGroup, offsets: Iterable[tuple[str, str, int]]) -> None:
        """These offsets (group, topic, partition) of a shard led here were committed or removed."""
        number = shard.group.number
        for one in offsets:
            self._want(Shown(number, *one))

    def topics_changed(self, topics: Iterable[Topic]) -> None:
        """These are new in this replica's image, or others than before: it may have been behind what it applied of the
        groups."""
        if any(topic.name in self._unknown for topic in topics):
            self._unknown.clear()
            self._walk_in(limits.MIRROR_DELAY_MS)

    def _missed(self, topic: str) -> None:
        if len(self._unknown) < limits.MIRROR_UNKNOWN_MAX:
            self._unknown.add(topic)

    def _want(self, shown: Shown) -> None:
        if self._in_redis(shown.topic, shown.partition) is None or shown in self._due:
            return
        if len(self._due) >= limits.MIRROR_QUEUED_MAX:
            self._left_out = True
            return
        self._due[shown] = None
        self._rest()

    def _in_redis(self, topic: str, partition: int) -> Topic | None:
        """None: it is not a partition in Redis."""
        image = self._image()
        found = None if image is None else image.topics.get(topic)
        if found is None or partition >= len(found.partitions):
            self._missed(topic)
            return None
        return found if (STORE_CONFIG, REDIS.name) in found.configs else None

    def _place(self, topic: Topic, partition: int) -> StreamPlace:
        return StreamPlace.of(self._prefix, topic.name, dict(topic.configs), partition)

    # -- rounds ----------------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        """Have the next round begin, unless one goes on."""
        if self._timer is None and not self._round and not self._under_way:
            when_ms = self._loop.monotonic_ms() + max(limits.MIRROR_DELAY_MS, self._pause_ms)
            self._timer = self._loop.call_at(when_ms, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._round, self._due, self._failed = deque(self._due), {}, False
        self._send()

    def _send(self) -> None:
        """The next few; the last answer to them goes on."""
        some = [self._round.popleft() for _ in range(min(limits.MIRROR_AT_ONCE, len(self._round)))]
        self._under_way = len(some)
        for shown in some:
            self._show(shown)

    def _show(self, shown: Shown) -> None:
        shard, topic = self._led.get(shown.shard), self._in_redis(shown.topic, shown.partition)
        if shard is None or not shard.group.serves or topic is None:
            self._ended()
            return
        committed = shard.shard.committed_offset(shown.group, shown.topic, shown.partition, topic.topic_id)
        if committed is None:  # it is deleted, or of a later topic of this name, whose stream may be another
            self._missed(shown.topic)
        place, incarnation = self._place(topic, shown.partition), topic.partitions[shown.partition].group
        self._number += 1
        caller = Caller(self._cluster, incarnation, shown.shard, shard.group.core.term, self._number)
        asked = mirror_arguments(caller, shown.group, committed, place.offsets, keep=place.keep)
        self._server.run(MIRROR, place.keys, asked, partial(self._answered, shown, place.stream))

    def _answered(self, shown: Shown, stream: str, answer: Answer) -> None:
        if isinstance(answer, Failure) and answer.trouble in _NOBODYS_FAULT:
            self._failed = True
            self._round.append(shown)
        else:
            why = answer.message if isinstance(answer, Failure) else _WHY.get(answer[0], "")
            if not isinstance(answer, Failure) and answer[0] == b"FENCED":
                self._missed(shown.topic)
            self._pause_ms = 0
            if why:
                self._notice(NOT_SHOWN, {"stream": stream, "consumer_group": shown.group, "why": why}, None)
        self._ended()

    def _ended(self) -> None:
        self._under_way -= 1
        if self._under_way:
            return
        if self._failed:  # Redis is away: what is left of the round is asked for by the next one
            self._pause_ms = min(2 * self._pause_ms or limits.MIRROR_RETRY_MS, limits.MIRROR_RETRY_MS_MAX)
            unsent, self._round = self._round, deque()
            for shown in unsent:
                self._want(shown)
        elif self._round:
            self._loop.call_at(self._loop.monotonic_ms() + limits.MIRROR_PACE_MS, self._send)
            return
        if self._due:
            self._rest()
        elif self._left_out:
            self._left_out = False
            self._walk_in(limits.MIRROR_DELAY_MS)

    # -- walks -----------------------------------------------------------------------------------------------------

    def _walk_in(self, delay_ms: int) -> None:
        """Have a walk begin; one that goes on ends first."""
        if self._walking:
            self._again = True
            return
        if self._walk_timer is not None:
            self._walk_timer.cancel()
        self._walk_timer = self._loop.call_at(self._loop.monotonic_ms() + delay_ms, self._begin_walk)

    def _begin_walk(self) -> None:
        self._walk_timer = None
        if self._image() is None:
            self._walk_in(limits.MIRROR_RETRY_MS)
            return
        self._walking = True
        self._step(self._over_offsets())

    def _step(self, offsets: Iterator[None]) -> None:
        """A walk makes room for rounds: it goes on when there are few notes."""
        if 2 * len(self._due) < limits.MIRROR_QUEUED_MAX:
            try:
                next(offsets)
            except StopIteration:
                self._look(self._partitions())
                return
        self._loop.call_at(self._loop.monotonic_ms() + limits.MIRROR_PACE_MS, lambda: self._step(offsets))

    def _over_offsets(self) -> Iterator[None]:
        """Note all offsets of the groups led here, some in each step."""
        for number, shard in list(self._led.items()):
            offsets = (
                Shown(number, group, topic, partition)
                for group in shard.shard.groups_with_offsets()
                for topic, partition, _ in shard.shard.committed(group)
            )
            while some := list(islice(offsets, limits.MIRROR_WALK_ROWS)):
                for shown in some:
                    self._want(shown)
                yield

    def _partitions(self) -> deque[tuple[Topic, int]]:
        image = self._image()
        return deque(
            (topic, index)
            for topic in (image.topics.values() if image is not None else ())
            if (STORE_CONFIG, REDIS.name) in topic.configs
            for index in range(len(topic.partitions))
        )

    def _look(self, left: deque[tuple[Topic, int]], cursor: bytes = b"0") -> None:
        """Note the groups that are shown and have no offset any more, a page at a time."""
        if not left or not self._led:
            self._end_walk(limits.MIRROR_WALK_MS)
            return
        topic, index = left[0]

        def listed(answer: Answer) -> None:
            if isinstance(answer, Failure) and answer.trouble in _NOBODYS_FAULT:
                self._end_walk(limits.MIRROR_RETRY_MS_MAX)
                return
            following = b"0"
            if not isinstance(answer, Failure):  # what a right is missing for is told by the calls that show
                _, following, fields = answer
                self._orphans(topic.name, index, fields)
            if following == b"0":
                left.popleft()
            when_ms = self._loop.monotonic_ms() + limits.MIRROR_PACE_MS
            self._loop.call_at(when_ms, lambda: self._look(left, following))

        asked = mirrored_arguments(self._cluster, topic.partitions[index].group, cursor)
        self._server.run(MIRRORED, self._place(topic, index).keys, asked, listed)

    def _orphans(self, topic: str, index: int, fields: Sequence[bytes]) -> None:
        found = self._in_redis(topic, index)
        for group, number in mirrored(fields):
            shard = self._led.get(number)
            if shard is None or found is None:
                continue
            if shard.shard.committed_offset(group, topic, index, found.topic_id) is None:
                self._want(Shown(number, group, topic, index))

    def _end_walk(self, next_ms: int) -> None:
        again, self._again, self._walking = self._again, False, False
        self._walk_in(limits.MIRROR_DELAY_MS if again else next_ms)
