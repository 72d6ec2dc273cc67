"""Every served version of every API: what kio writes we read, what we write kio reads (invariant P3)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader
from muster_coordinator.context import RequestContext
from muster_coordinator.errors import WireError
from muster_coordinator.wire.codecs import decoder
from muster_coordinator.wire.heap_budget import Frame
from muster_coordinator.wire.reader import reader
from muster_coordinator.wire.schema import all_fields, schema
from muster_coordinator.wire.versions import VERSIONS, Api
from muster_coordinator.wire.writer import writer

from tests.wire.kio_entities import build, encode, kio_class, plain
from tests.wire.schema_values import as_mapping, entity_values

SERVED = [(int(api), v) for api, r in sorted(VERSIONS.items()) for v in range(r.min, r.max + 1)]
CONTEXT = RequestContext(
    principal="", listener="", connection_id=1, client_id="", client_host="", api_key=0, api_version=0, deadline_ms=0
)
FEW = settings(max_examples=6, deadline=None)


@pytest.mark.parametrize(("api", "version"), SERVED)
def test_a_request_that_kio_encoded_is_read_field_by_field(api: int, version: int) -> None:
    @FEW
    @given(entity_values(schema(api, version, "request")))
    def check(values: dict[str, Any]) -> None:
        body = encode(build(kio_class(api, version, "request"), values))
        frame = Frame(b"head" + body + b"tail", 4 + len(body))
        assert as_mapping(reader(api, version)(frame, 4)) == values

    check()


@pytest.mark.parametrize(("api", "version"), SERVED)
def test_an_answer_that_we_encoded_is_read_by_kio_to_the_last_byte(api: int, version: int) -> None:
    cls = kio_class(api, version, "response")

    @FEW
    @given(entity_values(schema(api, version, "response")))
    def check(values: dict[str, Any]) -> None:
        out = bytearray()
        writer(api, version)(out, values)
        entity, used = entity_reader(cls)(bytes(out), 0)
        assert used == len(out)
        assert plain(entity) == values

    check()


@pytest.mark.parametrize(("api", "version"), SERVED)
def test_every_prefix_of_a_request_is_refused_or_read_but_nothing_else(api: int, version: int) -> None:
    @settings(max_examples=3, deadline=None)
    @given(entity_values(schema(api, version, "request")), st.binary(max_size=40))
    def check(values: dict[str, Any], noise: bytes) -> None:
        body = encode(build(kio_class(api, version, "request"), values))
        for size in range(0, len(body), max(1, len(body) // 24)):
            for data in (body[:size], body[:size] + noise, noise + body[size:]):
                try:
                    reader(api, version)(Frame(data, len(data)), 0)
                except WireError:
                    continue

    check()


@pytest.mark.parametrize(("api", "version"), SERVED)
def test_a_request_never_reads_into_the_next_frame(api: int, version: int) -> None:
    @settings(max_examples=3, deadline=None)
    @given(entity_values(schema(api, version, "request")))
    def check(values: dict[str, Any]) -> None:
        body = encode(build(kio_class(api, version, "request"), values))
        if body:
            with pytest.raises(WireError):
                decoder(api, version)(Frame(body + bytes(40), len(body) - 1), 0, CONTEXT)

    check()


def test_fields_of_other_versions_have_their_defaults() -> None:
    """Handlers ask for any field whatever the version: Metadata v0 counts as allowing auto-creation."""
    read = reader(Api.METADATA, 0)(Frame(bytes(4), 4), 0)
    assert read.allow_auto_topic_creation is True
    assert read.include_topic_authorized_operations is False


def test_every_structure_of_an_api_has_its_fields_in_all_versions() -> None:
    for api, versions in VERSIONS.items():
        names = all_fields(api, "request")
        assert schema(api, versions.max, "request").name in names
