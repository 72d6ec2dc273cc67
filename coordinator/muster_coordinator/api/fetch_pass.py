"""One pass of a Fetch over the partitions that it names, in the order of the request.

Problem: a request of 1.7 MB may name 60,000 partitions, a parked one is read again whenever a log moves, and limits of
bytes hold over all its partitions. Mechanism: the pass goes partition by partition, so that whoever runs it may pause
between two; it uses one image throughout. A log that cannot be read at once is noted in `later`; once those are read,
another pass takes what they gave, within the same limits. What this does not do: wait, or answer.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from muster_coordinator.api import limits
from muster_coordinator.api.authorize import Operation
from muster_coordinator.api.doubt import ABSENT
from muster_coordinator.api.nearer_replica import nearer_replica
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.image import EMPTY_ID, ClusterImage, Topic
from muster_coordinator.errors import Code
from muster_coordinator.ids import GroupNo
from muster_coordinator.records.batch import LOG_OVERHEAD
from muster_coordinator.replica.partitions.surface import LocalLog, ReadResult
from muster_coordinator.wire.schema import Value

READ_COMMITTED = 1
"""Isolation level; the other one is 0."""
NOTHING_PROVEN: Mapping[GroupNo, bool] = {}
NOTHING_READ: Mapping[GroupNo, ReadResult] = {}
_LENGTH = struct.Struct(">8xi")
_BY_ID_SINCE = 13
_FOLLOWERS_SINCE = 11
"""KIP-392: from this version on a client knows of preferred replicas."""


class Wanted(NamedTuple):
    """One partition of the request; if it is named twice, the last entry counts."""

    key: str | bytes
    """The topic's name or id, as in the request."""
    asked: Value


class LaterRead(NamedTuple):
    """A partition whose log is not read at once."""

    log: LocalLog
    offset: int
    max_bytes: int
    """Of the partition; the request as a whole may have room for less."""


class Reading(NamedTuple):
    """Result of one pass over all partitions."""

    results: list[tuple[Wanted, ReadResult, GroupNo | None]]
    bytes: int
    urgent: bool
    """There is an error or a diverging epoch, so the request is answered at once."""
    logs: list[LocalLog]
    unproven: list[LocalLog]
    """Logs whose result (an offset out of range, a diverging epoch) must be confirmed by a ReadIndex round."""
    absent: Code
    """The error of a topic or partition that the image does not have; NONE: it has all."""
    later: list[LaterRead]
    """What must be read before this can be answered from; the results of these partitions are none yet."""


def wanted_of(request: Value, version: int) -> list[Wanted]:
    """The partitions of a request, each once."""
    found: dict[tuple[str | bytes, int], Wanted] = {}
    for topic in request.topics:
        key = topic.topic_id if version >= _BY_ID_SINCE else topic.topic
        for one in topic.partitions:
            found[key, one.partition] = Wanted(key, one)
    return list(found.values())


class Pass:
    """The first partition with data returns a whole batch whatever the limits (KIP-74). `proven`: results of ReadIndex
    rounds; where one failed, this replica counts as no leader. `read`: what logs that are not read at once gave."""

    __slots__ = (
        "_absent", "_context", "_followers", "_got", "_image", "_later", "_left", "_logs", "_proven", "_read_before",
        "_request", "_results", "_services", "_topics", "_unproven", "_urgent", "_wanted",
    )  # fmt: skip

    def __init__(
        self,
        services: Services,
        context: RequestContext,
        request: Value,
        wanted: Sequence[Wanted],
        proven: Mapping[GroupNo, bool],
        read: Mapping[GroupNo, ReadResult] = NOTHING_READ,
    ) -> None:
        self._services = services
        self._context = context
        self._request = request
        self._wanted = wanted
        self._proven = proven
        self._read_before = read
        self._followers = services.settings.followers_serve and context.api_version >= _FOLLOWERS_SINCE
        self._image = services.surface.image()
        self._results: list[tuple[Wanted, ReadResult, GroupNo | None]] = []
        self._logs: list[LocalLog] = []
        self._unproven: list[LocalLog] = []
        self._later: list[LaterRead] = []
        self._left = max(0, min(request.max_bytes, limits.FETCH_BYTES_MAX))
        self._got = 0
        self._urgent = False
        self._absent = Code.NONE
        self._topics: dict[str | bytes, Topic | Code] = {}

    def whole(self) -> Reading:
        """All partitions in this turn."""
        for index in range(len(self._wanted)):
            self.step(index)
        return self.reading()

    def step(self, index: int) -> int:
        """Read the partition of this index; to be called for each once, in their order. Returns 0: it hashes nothing
        (`gather.in_turns`)."""
        one = self._wanted[index]
        topic = self._topics.get(one.key)
        if topic is None:
            topic = self._topics[one.key] = self._topic(one.key, self._image)
        code, group = _partition(topic, one.asked)
        if group is not None:
            result = self._read(one, group)
        else:
            result = ReadResult(code)
            self._absent = code if code in ABSENT else self._absent
        self._got += len(result.records)
        self._left = max(0, self._left - len(result.records))
        waits = result.code in (Code.NONE, Code.OFFSET_NOT_AVAILABLE)
        elsewhere = result.diverging_epoch >= 0 or result.preferred_replica >= 0
        self._urgent = self._urgent or not waits or elsewhere
        self._results.append((one, result, group))
        return 0

    def reading(self) -> Reading:
        """What was read, once every partition was."""
        return Reading(self._results, self._got, self._urgent, self._logs, self._unproven, self._absent, self._later)

    def _read(self, one: Wanted, group: GroupNo) -> ReadResult:
        log = self._services.surface.local_log(group)
        if log is None or not self._proven.get(group, True):
            return ReadResult(Code.NOT_LEADER_OR_FOLLOWER)
        self._logs.append(log)
        if not log.reads_at_once:
            return self._take(log, one.asked, group)
        committed = self._request.isolation_level == READ_COMMITTED
        first, followers = self._got == 0, self._followers
        result = _read_one(log, one.asked, self._left, first=first, followers=followers, committed=committed)
        if result.code is Code.NONE and followers and self._request.rack_id and result.diverging_epoch < 0:
            result = self._nearer(log, group, result)
        if result.unproven:
            self._unproven.append(log)
        return result

    def _take(self, log: LocalLog, asked: Value, group: GroupNo) -> ReadResult:
        """What was read of this log, cut to what there is room for; if nothing was yet, that is noted."""
        code = log.serving(asked.current_leader_epoch)
        if code is not Code.NONE:
            return ReadResult(code)
        result = self._read_before.get(group)
        if result is None:
            self._later.append(LaterRead(log, asked.fetch_offset, asked.partition_max_bytes))
            return ReadResult(Code.NONE)
        most = min(asked.partition_max_bytes, self._left)
        if len(result.records) <= most:
            return result
        return result._replace(records=_whole_batches(result.records, most, whole_first=self._got == 0))

    def _nearer(self, log: LocalLog, group: GroupNo, result: ReadResult) -> ReadResult:
        """At the leader: nothing but the name of a follower in the client's rack, if there is one."""
        if self._image is None or log.serving(-1) is not Code.NONE:
            return result
        nearer = nearer_replica(self._services.surface, self._image, group, self._request.rack_id)
        return result if nearer is None else result._replace(records=b"", aborted=(), preferred_replica=nearer)

    def _topic(self, key: str | bytes, image: ClusterImage | None) -> Topic | Code:
        """The topic, or its error by rows 3 and 4 of protocol notes 13.1."""
        name = key
        if isinstance(name, bytes):
            found = None if image is None or name == EMPTY_ID else image.names_by_id.get(name)
            if found is None:
                return Code.UNKNOWN_TOPIC_ID
            name = found
        if not self._services.may_topic(self._context, Operation.READ, name):
            return Code.TOPIC_AUTHORIZATION_FAILED
        topic = None if image is None else image.topics.get(name)
        return Code.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic


def _whole_batches(records: bytes, most: int, *, whole_first: bool) -> bytes:
    """The batches that fit; with `whole_first` at least one (KIP-74)."""
    end = 0
    while end < len(records):
        after = end + LOG_OVERHEAD + _LENGTH.unpack_from(records, end)[0]
        if after > most and not (whole_first and end == 0):
            break
        end = after
    return records[:end]


def _partition(topic: Topic | Code, asked: Value) -> tuple[Code, GroupNo | None]:
    """The partition's Raft group, or the error why there is none."""
    if isinstance(topic, Code):
        return topic, None
    if not 0 <= asked.partition < len(topic.partitions):
        return Code.UNKNOWN_TOPIC_OR_PARTITION, None
    if asked.partition_max_bytes < 0:
        return Code.INVALID_REQUEST, None
    return Code.NONE, topic.partitions[asked.partition].group


def _read_one(log: LocalLog, asked: Value, left: int, *, first: bool, followers: bool, committed: bool) -> ReadResult:
    code = log.serving(asked.current_leader_epoch)
    if code is Code.NOT_LEADER_OR_FOLLOWER and followers and asked.last_fetched_epoch == -1:
        most = min(asked.partition_max_bytes, left)
        return log.read_following(asked.fetch_offset, most, whole_first_batch=first, committed=committed)
    if code is not Code.NONE:
        return ReadResult(code)
    if asked.last_fetched_epoch != -1:
        end = log.epoch_end(asked.last_fetched_epoch)
        if end.epoch < 0:
            return ReadResult(Code.OFFSET_OUT_OF_RANGE, unproven=True)
        if end.epoch < asked.last_fetched_epoch or end.end_offset < asked.fetch_offset:
            here = log.read(asked.fetch_offset, 0, whole_first_batch=False)
            if here.code is Code.NONE or here.code is Code.OFFSET_OUT_OF_RANGE:
                return here._replace(
                    code=Code.NONE,
                    records=b"",
                    diverging_epoch=end.epoch,
                    diverging_end_offset=end.end_offset,
                    unproven=True,
                )
            return here
    most = min(asked.partition_max_bytes, left)
    return log.read(asked.fetch_offset, most, whole_first_batch=first, committed=committed)
