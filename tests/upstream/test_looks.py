"""A look at a broker: its requests are Kafka's, and its answers are read, against Kafka's schemas as kio has them."""

import io

import pytest
from kio.serial import entity_reader
from muster_coordinator.errors import WireError
from muster_coordinator.upstream.apis import Offered
from muster_coordinator.upstream.brokers import Broker
from muster_coordinator.upstream.frames import CLIENT_ID
from muster_coordinator.upstream.looks import (
    ask_brokers,
    ask_versions,
    metadata_version,
    read_brokers,
    read_versions,
)
from muster_coordinator.wire.versions import VERSIONS, Api

from tests.upstream.test_brokers import framed
from tests.wire.kio_entities import kio_class

VERSIONS_OF_METADATA = range(1, VERSIONS[Api.METADATA].max + 1)


def read_request(api: int, version: int, frame: bytes) -> object:
    """The entity of a whole request, every byte of it used."""
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    cls = kio_class(api, version, "request")
    header, size = entity_reader(cls.__header_schema__)(frame[4:], 0)
    assert header.client_id == CLIENT_ID.decode()
    entity, used = entity_reader(cls)(frame[4 + size :], 0)
    assert 4 + size + used == len(frame)
    return entity


def test_what_a_broker_speaks() -> None:
    read_request(Api.API_VERSIONS, 0, ask_versions(5))
    rows = [{"api_key": 3, "min_version": 0, "max_version": 13}, {"api_key": 999, "min_version": 1, "max_version": 2}]
    assert read_versions(framed(Api.API_VERSIONS, 0, {"error_code": 0, "api_keys": rows})) == {
        3: Offered(0, 13),
        999: Offered(1, 2),
    }
    with pytest.raises(WireError, match="35"):
        read_versions(framed(Api.API_VERSIONS, 0, {"error_code": 35, "api_keys": ()}))


@pytest.mark.parametrize("version", VERSIONS_OF_METADATA)
def test_who_its_brokers_are(version: int) -> None:
    asked = read_request(Api.METADATA, version, ask_brokers(version, 6))
    assert asked.topics == ()  # type: ignore[attr-defined]
    everything = read_request(Api.METADATA, version, ask_brokers(version, 6, topics=True))
    assert everything.topics is None  # type: ignore[attr-defined]
    values = {
        "brokers": [
            {"node_id": 1, "host": "kafka-1", "port": 9092, "rack": "a"},
            {"node_id": 2, "host": "kafka-2", "port": 9093, "rack": None},
        ],
        "error_code": 0,
        "cluster_id": "c",
        "controller_id": 1,
        "topics": (),
    }
    frame = framed(Api.METADATA, version, values)
    assert read_brokers(version, frame) == (Broker(1, "kafka-1", 9092, "a"), Broker(2, "kafka-2", 9093))
    for stop in range(4, frame.index(b"kafka-2") + len("kafka-2") + 4):
        with pytest.raises(WireError):
            read_brokers(version, frame[:stop])


def test_metadata_is_asked_in_a_version_of_both() -> None:
    assert metadata_version({3: Offered(0, 13)}) == 12
    assert metadata_version({3: Offered(0, 5)}) == 5
    assert metadata_version({3: Offered(13, 20)}) == 13
    for theirs in ({}, {3: Offered(14, 20)}):
        with pytest.raises(WireError):
            metadata_version(theirs)


def test_bytes_of_something_else_are_an_error() -> None:
    for junk in (b"", b"\0\0\0\1x", b"HTTP/1.1 400 Bad Request\r\n\r\n", io.DEFAULT_BUFFER_SIZE.to_bytes(4, "big")):
        for read in (read_versions, lambda frame: read_brokers(9, frame)):
            with pytest.raises(WireError):
                read(junk)
