"""The first frame: what makes a peer, and what is refused before anything else is believed."""

import pytest
from muster_coordinator.errors import WireError
from muster_coordinator.ids import BrokerId
from muster_coordinator.links.handshake import VERSION_MAX, Handshake, decode_handshake, encode_handshake

RECORD = Handshake(BrokerId(1), BrokerId(2), 0xDEADBEEF12345678, b"cluster, uuid, incarnation")


def test_a_record_comes_back_as_it_was() -> None:
    assert decode_handshake(encode_handshake(RECORD)) == RECORD


def test_what_a_later_version_appends_is_ignored() -> None:
    later = RECORD._replace(version_max=VERSION_MAX + 1)
    assert decode_handshake(encode_handshake(later) + b"more") == later


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (RECORD._replace(version_min=VERSION_MAX + 1, version_max=VERSION_MAX + 3), "speaks protocol"),
        (RECORD._replace(version_min=0, version_max=0), "speaks protocol"),
        (RECORD._replace(auth=7), "authentication method 7"),
    ],
)
def test_what_this_version_cannot_speak_is_refused(record: Handshake, why: str) -> None:
    with pytest.raises(WireError, match=why):
        decode_handshake(encode_handshake(record))


def test_another_protocol_is_refused() -> None:
    with pytest.raises(WireError, match="not a Muster peer"):
        decode_handshake(b"GET / HTTP/1.1\r\nHost: somebody who is lost\r\n\r\n")


@pytest.mark.parametrize("length", range(len(encode_handshake(RECORD))))
def test_a_record_cut_anywhere_is_refused(length: int) -> None:
    with pytest.raises(WireError):
        decode_handshake(encode_handshake(RECORD)[:length])
