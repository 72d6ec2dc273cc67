"""Requests to a live cluster for the sources: partitions, log end offsets, and raw batches by Fetch.

kafka-python's connection manager speaks the protocol (versions negotiated, TLS and SASL by its settings); its consumer
is not used, because it would decode records. Requests are repeated while a leader moves; after a bounded number of
attempts they raise ClusterUnreachable. Unknown is never reported as empty.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID

from kafka import errors
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest

from muster_pipeline.decode.limits import BATCH_BYTES_MAX, MIB, WINDOW_BYTES
from muster_pipeline.sources.errors import BadOption, ClusterUnreachable, NoLog, RequestUnsupported

Untyped = Any
"""An object of kafka-python, which ships no types for its connection layer."""

EARLIEST: Final = -2
LATEST: Final = -1
MAX_TIMESTAMP: Final = -3
REQUEST_TIMEOUT_MS: Final = 15_000
ATTEMPTS_MAX: Final = 40
RETRY_PAUSE_MS: Final = 250
FETCH_WAIT_MS: Final = 500
RECEIVE_BYTES_MAX: Final = BATCH_BYTES_MAX + 2 * WINDOW_BYTES + MIB
PROPERTY_PREFIX: Final = "kafka."

_NONE, _OUT_OF_RANGE, _UNKNOWN_TOPIC = 0, 1, 3
_FETCH_VERSION_MAX: Final = 12
"""Later versions name topics by id."""
_LIST_OFFSETS_VERSION_MAX: Final = 7
_METADATA_VERSION_MAX: Final = 9
_METADATA_WITH_IDS_MAX: Final = 12
_TOPIC: Final = 2
"""DescribeConfigs' type of a resource."""
_ASKED_AT_ONCE_MAX: Final = 1_000
"""Topics in one DescribeConfigs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Answer of a Fetch. `out_of_range`: the offset is not in the log, which now begins at `log_start`."""

    data: bytes
    high_watermark: int
    log_start: int
    out_of_range: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Answer of ListOffsets for one partition; values are None where Kafka answers -1 or an error."""

    offset: int | None
    timestamp_ms: int | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """Answer of OffsetForLeaderEpoch: the largest epoch up to the requested one, and where it ends; -1 if none is
    known."""

    epoch: int
    end_offset: int


def client_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """`security.protocol` and the like as kafka-python's settings. Raises BadOption for an unknown one."""
    settings: dict[str, Any] = {}
    for name, text in properties.items():
        key = name.replace(".", "_")
        if key not in KafkaConnectionManager.DEFAULT_CONFIG or key == "bootstrap_servers":
            raise BadOption(f"unknown client setting {name!r}")
        default = KafkaConnectionManager.DEFAULT_CONFIG[key]
        if isinstance(default, bool):
            settings[key] = text.lower() == "true"
        else:
            settings[key] = int(text) if isinstance(default, int) else text
    return settings


class Cluster:
    """A connection, used by one thread. Every request may raise ClusterUnreachable."""

    def __init__(self, bootstrap: str, properties: Mapping[str, str] | None = None) -> None:
        self._bootstrap = bootstrap
        self._settings = client_settings(properties or {})
        self._client: Untyped = None
        self._leaders: dict[str, dict[int, int]] = {}
        self._stale: set[str] = set()
        """Topics whose leaders were known, and are to be asked for again: all by one request."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """May be called more than once."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def partitions(self, topic: str) -> tuple[int, ...]:
        """Partition numbers. Raises NoLog if the cluster has no such topic."""
        return tuple(sorted(self._topic_leaders(topic)))

    def all_partitions(self, topics: Iterable[str] | None = None) -> dict[str, tuple[int, ...]]:
        """Partitions of these topics, or of all but internal ones, by one request. Raises NoLog for one that is not
        there."""
        return {name: tuple(sorted(leaders)) for name, leaders in sorted(self._learn(topics).items())}

    def list_offsets(self, topic: str, partitions: Iterable[int], timestamp: int) -> dict[int, Listed]:
        """EARLIEST, LATEST or MAX_TIMESTAMP of partitions. Retried while leaders move; then `Listed.error` is set."""
        found = self.list_all_offsets({topic: partitions}, timestamp)
        return {partition: listed for (_, partition), listed in found.items()}

    def list_all_offsets(
        self, partitions: Mapping[str, Iterable[int]], timestamp: int
    ) -> dict[tuple[str, int], Listed]:
        """The same for partitions of many topics: each leader is asked once for all that it leads."""
        left = {(topic, number) for topic, numbers in partitions.items() for number in numbers}
        found = dict[tuple[str, int], Listed]()
        for attempt in range(ATTEMPTS_MAX):
            for place, answer in self._list_once(left, timestamp).items():
                name = "" if answer.error_code == _NONE else errors.for_code(answer.error_code).__name__
                if name and errors.for_code(answer.error_code).retriable and attempt < ATTEMPTS_MAX - 1:
                    continue
                found[place] = _listed(answer, name)
                left.discard(place)
            if not left:
                return found
            self._pause(*{topic for topic, _ in left})
        return found | {place: Listed(offset=None, timestamp_ms=None, error="no answer") for place in left}

    def bound(self, topic: str, partitions: Iterable[int], timestamp: int) -> dict[int, int]:
        """Offsets of all these partitions. Raises ClusterUnreachable if one is not known."""
        listed = self.list_offsets(topic, partitions, timestamp)
        for partition, answer in sorted(listed.items()):
            if answer.offset is None:
                raise ClusterUnreachable(f"{topic}-{partition} has no offset for {timestamp}: {answer.error}")
        return {partition: answer.offset for partition, answer in listed.items() if answer.offset is not None}

    def topic_id(self, topic: str) -> str | None:
        """The topic's id as text; None if the brokers are too old to tell (before 2.8)."""
        message = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic)],
            allow_auto_topic_creation=False,
            max_version=_METADATA_WITH_IDS_MAX,
        )
        (found,) = self._ask(None, message, "metadata").topics
        told = getattr(found, "topic_id", None)
        return None if told is None or not UUID(str(told)).int else str(told)

    def configs(self, topics: Sequence[str], name: str) -> dict[str, str | None]:
        """What one config of these topics is; None where it will not be told: the topic is gone, the right to describe
        configs is missing, or the server has no such request. A broker that has no such config says "". Raises
        ClusterUnreachable where it may be told later."""
        found = dict[str, str | None]()
        for first in range(0, len(topics), _ASKED_AT_ONCE_MAX):
            left = set(topics[first : first + _ASKED_AT_ONCE_MAX])
            for _ in range(ATTEMPTS_MAX):
                answer = self._configs_once(sorted(left), name)
                found |= answer
                left -= answer.keys()
                if not left:
                    break
                self._pause()
            else:
                raise ClusterUnreachable(f"configs of {len(left)} topics from {self._bootstrap}, such as {min(left)}")
        return found

    def _configs_once(self, topics: Sequence[str], name: str) -> dict[str, str | None]:
        """Of those about which the answer is final."""
        resource = DescribeConfigsRequest.DescribeConfigsResource
        asked = [resource(resource_type=_TOPIC, resource_name=topic, configuration_keys=[name]) for topic in topics]
        message = DescribeConfigsRequest(resources=asked, include_synonyms=False, include_documentation=False)
        try:
            results = self._ask(None, message, "configs of topics").results
        except RequestUnsupported:
            return dict.fromkeys(topics)
        return {
            told.resource_name: None
            if told.error_code
            else "".join(one.value or "" for one in told.configs if one.name == name)
            for told in results
            if told.error_code in (_NONE, _UNKNOWN_TOPIC) or not errors.for_code(told.error_code).retriable
        }

    def epoch_ends(self, topic: str, epochs: Mapping[int, int]) -> dict[int, EpochEnd]:
        """What the leaders say of these epochs, by partition (KIP-320). Raises ClusterUnreachable unless all do."""
        left, found, last = dict(epochs), dict[int, EpochEnd](), "no leader"
        for _ in range(ATTEMPTS_MAX):
            for leader, numbers in self._by_leader(topic, left).items():
                for got in self._epochs_once(leader, topic, {number: left[number] for number in numbers}):
                    if got.error_code == _NONE:
                        found[got.partition] = EpochEnd(epoch=got.leader_epoch, end_offset=got.end_offset)
                        left.pop(got.partition, None)
                    else:
                        last = errors.for_code(got.error_code).__name__
            if not left:
                return found
            self._pause(topic)
        raise ClusterUnreachable(f"leader epochs of {topic}-{min(left)}: {last}")

    def _epochs_once(self, leader: int, topic: str, epochs: Mapping[int, int]) -> list[Untyped]:
        one = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        asked = [
            one.OffsetForLeaderPartition(partition=number, current_leader_epoch=-1, leader_epoch=epoch)
            for number, epoch in epochs.items()
        ]
        message = OffsetForLeaderEpochRequest(replica_id=-1, topics=[one(topic=topic, partitions=asked)])
        answer = self._ask(leader, message, "leader epochs", once=True)
        return [] if answer is None else [got for entry in answer.topics for got in entry.partitions]

    def _by_leader(self, topic: str, partitions: Iterable[int]) -> dict[int, list[int]]:
        """Partitions by their leader; those without one are left out."""
        found: dict[int, list[int]] = {}
        for partition in sorted(partitions):
            leader = self._topic_leaders(topic).get(partition, -1)
            if leader >= 0:
                found.setdefault(leader, []).append(partition)
        return found

    def fetch(self, topic: str, partition: int, offset: int, bytes_max: int = WINDOW_BYTES) -> Fetched:
        """Batches from the one that holds `offset` on, up to the high watermark (read uncommitted)."""
        place = {
            "partition": partition,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": bytes_max,
        }
        wanted = [FetchRequest.FetchTopic(topic=topic, partitions=[FetchRequest.FetchTopic.FetchPartition(**place)])]
        last = "no leader"
        for _ in range(ATTEMPTS_MAX):
            request = FetchRequest(
                replica_id=-1,
                max_wait_ms=FETCH_WAIT_MS,
                min_bytes=1,
                max_bytes=bytes_max,
                isolation_level=0,
                session_id=0,
                session_epoch=-1,
                topics=wanted,
                forgotten_topics_data=[],
                rack_id="",
                max_version=_FETCH_VERSION_MAX,
            )
            leader = self._topic_leaders(topic).get(partition, -1)
            if leader >= 0:
                answer = self._ask(leader, request, "fetch", once=True)
                if answer is not None and answer.error_code == _NONE and answer.responses:
                    got = answer.responses[0].partitions[0]
                    if got.error_code in (_NONE, _OUT_OF_RANGE):
                        return Fetched(
                            data=bytes(got.records or b""),
                            high_watermark=got.high_watermark,
                            log_start=got.log_start_offset,
                            out_of_range=got.error_code == _OUT_OF_RANGE,
                        )
                    last = errors.for_code(got.error_code).__name__
            self._pause(topic)
        raise ClusterUnreachable(f"fetch of {topic}-{partition} at {offset}: {last}")

    def _list_once(self, partitions: Iterable[tuple[str, int]], timestamp: int) -> dict[tuple[str, int], Untyped]:
        one = ListOffsetsRequest.ListOffsetsTopic
        by_leader: dict[int, dict[str, list[int]]] = {}
        for topic, number in sorted(partitions):
            leader = self._topic_leaders(topic).get(number, -1)
            if leader >= 0:
                by_leader.setdefault(leader, {}).setdefault(topic, []).append(number)
        found: dict[tuple[str, int], Untyped] = {}
        for leader, topics in by_leader.items():
            asked = [
                one(
                    name=topic,
                    partitions=[
                        one.ListOffsetsPartition(partition_index=number, current_leader_epoch=-1, timestamp=timestamp)
                        for number in numbers
                    ],
                )
                for topic, numbers in topics.items()
            ]
            message = ListOffsetsRequest(
                replica_id=-1, isolation_level=0, topics=asked, max_version=_LIST_OFFSETS_VERSION_MAX
            )
            answer = self._ask(leader, message, "list offsets", once=True)
            if answer is not None:
                found |= {(entry.name, got.partition_index): got for entry in answer.topics for got in entry.partitions}
        return found

    def _topic_leaders(self, topic: str) -> dict[int, int]:
        if topic not in self._leaders:
            self._learn((topic, *self._stale))
        return self._leaders[topic]

    def _learn(self, topics: Iterable[str] | None) -> dict[str, dict[int, int]]:
        """Partitions and their leaders, of all topics but internal ones with None. One that is gone has none, unless
        it was never known: then NoLog is raised."""
        named = None if topics is None else tuple(dict.fromkeys(topics))
        message = MetadataRequest(
            topics=None if named is None else [MetadataRequest.MetadataRequestTopic(name=one) for one in named],
            allow_auto_topic_creation=False,
            max_version=_METADATA_VERSION_MAX,
        )
        found: dict[str, dict[int, int]] = {}
        for told in self._ask(None, message, "metadata").topics:
            if named is None and (told.is_internal or told.error_code):
                continue
            if told.error_code == _UNKNOWN_TOPIC and told.name not in self._stale:
                raise NoLog(f"{self._bootstrap} has no topic {told.name}")
            found[told.name] = {one.partition_index: one.leader_id for one in told.partitions}
        self._leaders |= found
        self._stale -= set(found)
        return found

    def _pause(self, *topics: str) -> None:
        """Before a request is repeated: forget the topics' leaders, and let the client do its I/O."""
        for topic in topics:
            self._leaders.pop(topic, None)
            self._stale.add(topic)
        if self._client is not None:
            self._client.poll(timeout_ms=RETRY_PAUSE_MS)

    def _ask(self, node: int | None, request: Untyped, what: str, *, once: bool = False) -> Untyped:
        """The answer of a node (None: any); `once`: None instead of a second attempt."""
        last = "no connection"
        for _ in range(1 if once else ATTEMPTS_MAX):
            try:
                client = self._connected()
                at = client.least_loaded_node() if node is None else node
                if at is not None:
                    return client.send_and_receive(at, request, timeout_ms=REQUEST_TIMEOUT_MS)
            except errors.KafkaError as error:
                last = f"{type(error).__name__}: {error}"
                self.close()
                if isinstance(error, errors.UnsupportedVersionError) and not once:
                    raise RequestUnsupported(f"{what} from {self._bootstrap}: {last}") from error
                if not error.retriable:
                    break
            if self._client is not None:
                self._client.poll(timeout_ms=RETRY_PAUSE_MS)
        if once:
            return None
        raise ClusterUnreachable(f"{what} from {self._bootstrap}: {last}")

    def _connected(self) -> Untyped:
        if self._client is None:
            logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)  # Errors reach the caller as exceptions.
            self._client = KafkaNetClient(
                bootstrap_servers=[one.strip() for one in self._bootstrap.split(",") if one.strip()],
                client_id="muster-pipeline",
                receive_message_max_bytes=RECEIVE_BYTES_MAX,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                **self._settings,
            )
            self._client.get_broker_version(timeout_ms=REQUEST_TIMEOUT_MS)
        return self._client


def _listed(answer: Untyped, error: str) -> Listed:
    return Listed(
        offset=answer.offset if not error and answer.offset >= 0 else None,
        timestamp_ms=answer.timestamp if not error and answer.timestamp >= 0 else None,
        error=error or None,
    )
