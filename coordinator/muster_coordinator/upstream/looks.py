"""A look at a broker of the upstream: what it speaks, who its brokers are, its topics. Bytes in, bytes out.

Problem: a replica has to know where the upstream's brokers are before a client asks for one, and which versions they
speak before it tells any. Mechanism: two requests on a connection, ApiVersions in version 0, which every broker
answers, and Metadata of no topic, or of all. What this does not do: connect, or decide whom to ask
(`runtime.upstream`).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from muster_coordinator.errors import WireError
from muster_coordinator.upstream.apis import Offered, versions_of
from muster_coordinator.upstream.brokers import Broker, readdressed
from muster_coordinator.upstream.deleted_topics import Listed
from muster_coordinator.upstream.frames import framed, read_answer
from muster_coordinator.upstream.remembered import Remembered
from muster_coordinator.upstream.topic_counts import counts_of
from muster_coordinator.wire.schema import EMPTY_UUID
from muster_coordinator.wire.versions import VERSIONS, Api

BY_ID = 12
"""The first version of Metadata that asks by id."""
_PREFERRED = BY_ID
"""Of Metadata: with topic ids, and from then on nothing is new that is used."""


class Seen(NamedTuple):
    """What one broker said."""

    versions: Mapping[int, Offered]
    brokers: tuple[Broker, ...]
    remembered: Remembered | None
    """None: it was not asked for topics, or has more than are kept."""
    deleted: Mapping[str, int]
    """Topics that are known to be deleted by now (`deleted_topics`)."""


def ask_versions(correlation: int) -> bytes:
    """The request for what a broker speaks."""
    return framed(Api.API_VERSIONS, 0, correlation, {})


def read_versions(frame: bytes) -> dict[int, Offered]:
    """Of its answer. Raises `WireError`."""
    answer = read_answer(Api.API_VERSIONS, 0, frame)
    if answer.error_code:
        raise WireError(f"ApiVersions is answered with error {answer.error_code}")
    return versions_of((row.api_key, row.min_version, row.max_version) for row in answer.api_keys)


def metadata_version(versions: Mapping[int, Offered]) -> int:
    """The version in which to ask. Raises `WireError` if we have none in common."""
    theirs = versions.get(Api.METADATA)
    if theirs is None:
        raise WireError("it does not serve Metadata")
    version = min(max(_PREFERRED, theirs.low), theirs.high)
    if not VERSIONS[Api.METADATA].min <= version <= VERSIONS[Api.METADATA].max:
        raise WireError(f"it serves Metadata in versions {theirs.low} to {theirs.high} only")
    return version


def ask_brokers(version: int, correlation: int, *, topics: bool = False) -> bytes:
    """The request for the brokers, without a topic (version 0 has no such request: there none means all), or with all
    topics."""
    asked = {
        "topics": None if topics and version else (),
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    return framed(Api.METADATA, version, correlation, asked)


def ask_topics(correlation: int, ids: Iterable[bytes]) -> bytes:
    """The request for topics by their ids, which only `BY_ID` and later versions can ask."""
    asked = {
        "topics": [{"topic_id": topic_id, "name": None} for topic_id in ids],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    return framed(Api.METADATA, BY_ID, correlation, asked)


def read_topics(frame: bytes) -> list[tuple[bytes, int]]:
    """Of its answer: (id, error). Raises `WireError`."""
    return [(topic.topic_id, topic.error_code) for topic in read_answer(Api.METADATA, BY_ID, frame).topics]


def read_listed(version: int, frame: bytes) -> Listed:
    """Of an answer about all topics: those with an id. Raises `WireError`."""
    answer = read_answer(Api.METADATA, version, frame)
    ids = ((getattr(topic, "topic_id", EMPTY_UUID), topic) for topic in answer.topics)
    names = {topic_id: topic.name for topic_id, topic in ids if topic_id != EMPTY_UUID and not topic.error_code}
    return Listed(getattr(answer, "cluster_id", None), names, counts_of(answer))


def read_brokers(version: int, frame: bytes) -> tuple[Broker, ...]:
    """Of its answer; topics in it are not looked at. Raises `WireError`."""
    return readdressed(Api.METADATA, version, frame, lambda _: None, ()).brokers
