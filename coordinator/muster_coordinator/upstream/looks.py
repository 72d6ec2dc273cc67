"""A look at a broker of the upstream: what it speaks, who its brokers are, its topics. Bytes in, bytes out.

Problem: a replica has to know where the upstream's brokers are before a client asks for one, and which versions they
speak before it tells any. Mechanism: two requests on a connection, ApiVersions in version 0, which every broker
answers, and Metadata of no topic, or of all. What this does not do: connect, or decide whom to ask
(`runtime.upstream`).
"""

from collections.abc import Mapping
from typing import NamedTuple

from muster_coordinator.errors import WireError
from muster_coordinator.upstream.apis import Offered, versions_of
from muster_coordinator.upstream.brokers import Broker, readdressed
from muster_coordinator.upstream.frames import framed, read_answer
from muster_coordinator.upstream.remembered import Remembered
from muster_coordinator.wire.versions import VERSIONS, Api

_PREFERRED = 12
"""Of Metadata: with topic ids, and from then on nothing is new that is used."""


class Seen(NamedTuple):
    """What one broker said."""

    versions: Mapping[int, Offered]
    brokers: tuple[Broker, ...]
    remembered: Remembered | None
    """None: it was not asked for topics, or has more than are kept."""


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


def read_brokers(version: int, frame: bytes) -> tuple[Broker, ...]:
    """Of its answer; topics in it are not looked at. Raises `WireError`."""
    return readdressed(Api.METADATA, version, frame, lambda _: None, ()).brokers
