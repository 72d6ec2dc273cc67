"""Advertised = implemented (decision 33)."""

import re
from pathlib import Path

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS
from kio.index import load_request_schema, load_response_schema
from kio.static.primitive import i16
from muster_coordinator.wire.codecs import decoder, encoder, preload
from muster_coordinator.wire.versions import VERSIONS, Api, is_flexible, response_header_has_tags

from tests.fuzz.sane import MAKERS

TESTS = Path(__file__).resolve().parents[1]
INTER_BROKER = {4, 5, 6, 7}
DECISION_33 = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4),
    13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 4), 19: (2, 7), 20: (1, 6), 21: (0, 2),
    22: (0, 5), 23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 2), 28: (0, 5), 29: (1, 3), 30: (1, 3),
    31: (1, 3), 32: (1, 4), 33: (0, 2), 35: (1, 4), 36: (0, 2), 37: (0, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1),
    45: (0, 1), 46: (0, 0), 47: (0, 0), 48: (0, 1), 49: (0, 1), 50: (0, 0), 51: (0, 0), 55: (0, 2), 57: (0, 2),
    60: (0, 2), 61: (0, 0), 64: (0, 0), 65: (0, 0), 66: (0, 1), 75: (0, 0),
}  # fmt: skip


def test_the_advertised_table_is_decision_33() -> None:
    assert {int(api): (v.advertised_min, v.max) for api, v in VERSIONS.items()} == DECISION_33, (
        "what is served changed: DECISION_33 in this file says what was decided"
    )


def test_the_table_in_the_documentation_is_the_one_that_is_served() -> None:
    text = (TESTS.parent / "docs" / "clients.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)-(\d+) \|", text, flags=re.MULTILINE)
    told = {int(key): (name.upper(), (int(low), int(high))) for key, name, low, high in rows}
    served = {int(api): (Api(api).name.replace("_", ""), (v.advertised_min, v.max)) for api, v in VERSIONS.items()}
    assert told == served, "the table of docs/clients.md is written by hand"


@pytest.mark.parametrize("release", [(0, 9), (0, 10, 0), (0, 10, 1), (0, 10, 2)])
def test_no_api_is_missing_by_which_tools_tell_a_release(release: tuple[int, ...]) -> None:
    """Some compare the keys with those of each release, oldest first: without SaslHandshake they guess a 0.9 and hide
    what came later. The next release has the APIs of transactions, which do not exist here."""
    asked_by_clients = BROKER_API_VERSIONS[release].keys() - INTER_BROKER
    assert asked_by_clients <= VERSIONS.keys()


def test_the_suites_that_run_later_ask_every_api() -> None:
    """Told here in a second, and not there after minutes."""
    questions = (TESTS / "integration" / "test_every_version.py").read_text()
    unasked = {Api(api).name for api in VERSIONS if f"def ask_{Api(api).name.lower()}(" not in questions}
    assert not unasked, "write ask_… for them in tests/integration/test_every_version.py"
    assert MAKERS.keys() == VERSIONS.keys(), "MAKERS in tests/fuzz/sane.py makes requests for every API, and no other"


def test_only_produce_advertises_versions_that_it_refuses() -> None:
    assert {api: v.min for api, v in VERSIONS.items() if v.min != v.advertised_min} == {Api.PRODUCE: 3}


def test_after_preloading_no_request_compiles_anything() -> None:
    decoder.cache_clear()
    encoder.cache_clear()
    preload()
    for api, versions in VERSIONS.items():
        for version in range(versions.min, versions.max + 1):
            decoder(api, version)
            encoder(api, version)
    served = sum(v.max - v.min + 1 for v in VERSIONS.values())
    assert decoder.cache_info().misses == encoder.cache_info().misses == served


@pytest.mark.parametrize("api", sorted(VERSIONS))
def test_flexible_versions_agree_with_kafkas_schemas(api: int) -> None:
    for version in range(VERSIONS[api].min, VERSIONS[api].max + 1):
        request, response = load_request_schema(i16(api), version), load_response_schema(i16(api), version)
        assert request.__flexible__ is is_flexible(api, version)
        assert (request.__header_schema__.__version__ == 2) is is_flexible(api, version)
        assert (response.__header_schema__.__version__ == 1) is response_header_has_tags(api, version)
