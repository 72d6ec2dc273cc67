"""Group metadata, Muster's own record types and KIP-848 records: published vectors, a real log, and broken values."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_pipeline.decode.consumer_groups import decode_consumer_groups
from muster_pipeline.decode.generations import decode_generations
from muster_pipeline.decode.subscriptions import assignment, subscription
from muster_pipeline.schemas.records import CONSUMER_TYPES, RECORDS

from tests.pipeline import logs
from tests.pipeline.decoding import decode

REAL = Path(__file__).parents[2] / "golden" / "kip848_offsets_log.bin"
EMPTY = bytes.fromhex("00030008636f6e73756d657200000002ffffffff0000018bcfe5680000000000")
STABLE = bytes.fromhex(
    "00030008636f6e73756d657200000001000572616e676500026d310000018bcfe568000000000100026d31ffff000163000a2f3132372e302e30"
    "2e31000493e00000afc80000000d000000000001000174ffffffff00000019000100000001000174000000020000000000000001ffffffff"
)
SUBSCRIPTION = bytes.fromhex("000300000001000174ffffffff000000010001740000000200000000000000010000000700027231")


def records(*pairs: tuple[bytes, bytes | None]) -> pa.Table:
    batch = logs.Batch(records=[logs.Record(key=key, value=value) for key, value in pairs])
    return decode(logs.log_of([batch])).table


def own_value(*, rebalance: bool) -> bytes:
    """docs/format.md, types 1000 and 1001."""
    member = logs.compact("m1") + logs.compact("pod-0") + logs.compact("c") + logs.compact("/10.0.0.7")
    member += (300_000).to_bytes(4, "big") + (45_000).to_bytes(4, "big")
    member += logs.uvarint(3) + logs.compact("sticky") + logs.compact(b"other")
    member += logs.compact("range") + logs.compact(SUBSCRIPTION)
    member += logs.compact(b"") + b"\x00"
    head = b"\x00\x00" + logs.compact("consumer") + (8).to_bytes(4, "big") + logs.compact("range") + logs.compact("m1")
    tail = logs.compact("session expired") if rebalance else b""
    return head + (1234).to_bytes(8, "big") + logs.uvarint(2) + member + tail + b"\x01\x05\x02zz"


def one(key: bytes, value: bytes | None) -> dict[str, Any]:
    found = decode_generations(records((key, value)))
    assert found.damages == ()
    (row,) = found.rows.to_pylist()
    return dict(row)


GROUP_KEY = b"\x00\x02\x00\x01g"


def test_published_vectors_of_group_metadata() -> None:
    empty = one(GROUP_KEY, EMPTY)
    assert (empty["stage"], empty["generation"], empty["protocol"], empty["members"]) == ("empty", 2, None, [])
    stable = one(GROUP_KEY, STABLE)
    assert (stable["stage"], stable["generation"], stable["protocol"], stable["leader"]) == (
        "completed",
        1,
        "range",
        "m1",
    )
    assert stable["state_timestamp_ms"] == 1_700_000_000_000
    (member,) = stable["members"]
    assert (member["instance_id"], member["client_host"], member["session_timeout_ms"]) == (None, "/127.0.0.1", 45_000)
    assert (member["subscribed_topics"], member["owned"]) == (["t"], None)
    assert member["assigned"] == [{"topic": "t", "partitions": [0, 1]}]
    assert one(GROUP_KEY, None)["stage"] == "deleted"


@pytest.mark.parametrize(("kind", "stage"), [(1000, "candidate"), (1001, "rebalance")])
def test_own_types(kind: int, stage: str) -> None:
    key = kind.to_bytes(2, "big") + b"\x00\x01g"
    row = one(key, own_value(rebalance=kind == 1001))
    assert (row["stage"], row["generation"], row["protocol"], row["state_timestamp_ms"]) == (stage, 8, "range", 1234)
    assert row["reason"] == ("session expired" if kind == 1001 else None)
    (member,) = row["members"]
    assert (member["instance_id"], member["rebalance_timeout_ms"]) == ("pod-0", 300_000)
    assert member["subscription"] == SUBSCRIPTION, "of the chosen protocol"
    assert (member["subscription_generation"], member["rack_id"], member["assigned"]) == (7, "r1", [])
    assert one(key, None)["stage"] == "settled"


@pytest.mark.parametrize("kind", [2, 1000, 1001])
def test_a_value_that_ends_early_or_goes_on_is_quarantined_wherever_it_is_cut(kind: int) -> None:
    value = STABLE if kind == 2 else own_value(rebalance=kind == 1001)
    key = kind.to_bytes(2, "big") + b"\x00\x01g"
    cuts = [value[:end] for end in range(len(value))] + [
        value + b"\x00",
        b"\x00\x63" + value[2:],
        b"\xff\xff" + value[2:],
    ]
    found = decode_generations(records(*((key, cut) for cut in cuts), (key, value)))
    assert found.rows["log_offset"].to_pylist() == [len(cuts)]
    assert [damage.first_offset for damage in found.damages] == list(range(len(cuts)))
    assert {damage.reason for damage in found.damages} == {"value_schema"}


@given(st.binary(max_size=80))
def test_a_clients_own_bytes_never_fail(data: bytes) -> None:
    assert set(subscription(data)) == {"subscribed_topics", "owned", "subscription_generation", "rack_id"}
    assert assignment(data) is None or isinstance(assignment(data), list)


def test_subscriptions_of_every_version() -> None:
    whole = {"subscribed_topics": ["t"], "owned": [{"topic": "t", "partitions": [0, 1]}]}
    whole |= {"subscription_generation": 7, "rack_id": "r1"}
    assert subscription(SUBSCRIPTION) == whole
    assert subscription(b"\x00\x09" + SUBSCRIPTION[2:] + b"future") == whole
    assert subscription(b"\x00\x00" + SUBSCRIPTION[2:]) == dict.fromkeys(whole) | {"subscribed_topics": ["t"]}
    assert subscription(b"\xff\xff" + SUBSCRIPTION[2:])["subscribed_topics"] is None
    assert assignment(b"") == []
    assert assignment(b"not one") is None


def real_rows() -> list[dict[str, Any]]:
    """Four logs back to back (two partitions of two releases): each begins at offset 0."""
    data = REAL.read_bytes()
    starts, at, last = [], 0, 1 << 62
    while at < len(data):
        base = int.from_bytes(data[at : at + 8], "big")
        if base < last:
            starts.append(at)
        last, at = base + 1, at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    rows = []
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        found = decode(data[start:end])
        assert found.damages == []
        decoded = decode_consumer_groups(found.table)
        assert decoded.damages == ()
        rows += decoded.rows.to_pylist()
    return rows


def test_a_real_log_of_two_releases_decodes_whole() -> None:
    rows = real_rows()
    values = [row for row in rows if not row["is_tombstone"]]
    assert {row["record_type"] for row in values} == set(CONSUMER_TYPES)
    assert {row["member_state"] for row in values if row["record_type"] == 8} <= {0, 1, 2}
    members = [row for row in values if row["kind"] == "member"]
    assert {row["instance_id"] for row in members} == {None, "static-two"}
    assert {row["subscribed_regex"] for row in members} - {None}
    topics = {one["topic"]: one["partition_count"] for row in values for one in row["topics_metadata"] or []}
    assert topics == {"flights": 3, "weather": 2}
    assert any(row["metadata_hash"] for row in values if row["kind"] == "group_epoch"), "Kafka 4.1 and later"
    owned = [row for row in values if row["kind"] == "current_assignment" and row["assigned"]]
    assert all(len(part["topic_id"]) == 22 for row in owned for part in row["assigned"])
    assert any(row["is_tombstone"] for row in rows)


def test_broken_kip_848_values_are_quarantined() -> None:
    key = b"\x00\x03\x00\x01g"
    good = b"\x00\x00" + (5).to_bytes(4, "big") + b"\x00"
    broken = [good[:4], good + b"!", b"\x00\x01" + good[2:], good[:-1] + b"\x01\x00\x09"]
    found = decode_consumer_groups(records((key, good), *((key, value) for value in broken)))
    assert [row["group_epoch"] for row in found.rows.to_pylist()] == [5]
    assert [damage.first_offset for damage in found.damages] == [1, 2, 3, 4]


def test_other_kinds_are_passed_over() -> None:
    table = records((logs.commit_key("g", "t", 0), logs.commit_value(1)), (b"\x00\x18??", b"?"))
    assert table.schema == RECORDS
    assert decode_generations(table).rows.num_rows == decode_consumer_groups(table).rows.num_rows == 0
