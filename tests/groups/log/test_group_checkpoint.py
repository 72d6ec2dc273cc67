"""Replay and checkpoints: invariant R8, decision 9, and logs that Kafka itself wrote (protocol notes 5.5, 5.6)."""

import gzip

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.errors import Corruption
from muster_coordinator.groups import limits
from muster_coordinator.groups.effects import AppliedBatch, CheckpointBody, Now
from muster_coordinator.groups.requests import Protocol
from muster_coordinator.groups.shard import GroupShard
from muster_coordinator.groups.state.classic_group import ClassicGroup, State
from muster_coordinator.groups.state.group_records import candidate_record, metadata_record, rebalance_record
from muster_coordinator.groups.state.member import Member
from muster_coordinator.groups.state.stored_group import after_metadata, after_own
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.records.control import EndMarker
from muster_coordinator.records.errors import MalformedError, UnsupportedError
from muster_coordinator.records.keys import encode_group_key, encode_offset_key
from muster_coordinator.records.offsets_log import encode_offset_value

from tests.groups.host import WALL, Host, beat, commit, fetch, join, same_group, stable, state, sync
from tests.made_settings import shard_config
from tests.records.made import encode_end_marker

NOW = Now(0, WALL)


def shard() -> GroupShard:
    return GroupShard(shard_config(), None)


MEMBERS = st.builds(
    Member,
    id=st.sampled_from(["m1", "m2", "m3"]),
    instance=st.none(),
    client_id=st.text(max_size=3),
    client_host=st.just("/h"),
    rebalance_timeout_ms=st.integers(1, 100),
    session_timeout_ms=st.integers(0, 100),
    protocols=st.sampled_from(
        [(Protocol("range", b"r"),), (Protocol("range", b"r"), Protocol("sticky", b"s")), (Protocol("range", b"x"),)]
    ),
    assignment=st.binary(max_size=3),
)
MEMBER_LISTS = st.lists(MEMBERS, min_size=1, max_size=3, unique_by=lambda m: m.id)
GROUPS = st.sampled_from(["g", "h", "ü"])
GENERATIONS = st.integers(0, 3)


def classic(state_: State, generation: int, members) -> ClassicGroup:
    kept = members if state_ is not State.EMPTY else []
    return ClassicGroup(
        state=state_,
        generation=generation,
        protocol_type="consumer",
        protocol="range" if kept else None,
        leader=kept[0].id if kept else None,
        state_timestamp_ms=WALL,
        members=kept,
    )


@st.composite
def record(draw):
    group = draw(GROUPS)
    kind = draw(
        st.sampled_from(
            ["commit", "commit", "tombstone", "stable", "empty", "candidate", "rebalance", "gone", "raw", "raw gone"]
        )
    )
    if kind in ("commit", "tombstone"):
        key = encode_offset_key(group, draw(st.sampled_from(["t", "u"])), draw(st.integers(0, 2)))
        return key, None if kind == "tombstone" else encode_offset_value(draw(st.integers(0, 99)), 1, "m", WALL)
    if kind == "gone":
        return encode_group_key(group), None
    if kind.startswith("raw"):
        return b"\0\3\0\1" + draw(st.sampled_from([b"a", b"b"])), b"value" if kind == "raw" else None
    generation, members = draw(GENERATIONS), draw(MEMBER_LISTS)
    if kind == "candidate":
        return candidate_record(group, classic(State.COMPLETING, generation, members))
    if kind == "rebalance":
        return rebalance_record(group, classic(State.PREPARING, generation, members), "because")
    return metadata_record(group, classic(State.STABLE if kind == "stable" else State.EMPTY, generation, members))


@st.composite
def batches(draw):
    made = []
    for _ in range(draw(st.integers(1, 25))):
        producer = draw(st.sampled_from([-1, -1, 7, 8]))
        if producer > 0 and draw(st.booleans()):
            marker = EndMarker(draw(st.booleans()), 1)
            made.append(encode_end_marker(marker, producer_id=producer, producer_epoch=0, timestamp_ms=WALL))
            continue
        records = draw(st.lists(record(), min_size=1, max_size=3))
        made.append(
            encode_batch(
                records,
                timestamp_ms=WALL,
                producer_id=producer,
                producer_epoch=0 if producer > 0 else -1,
                base_sequence=0 if producer > 0 else -1,
                transactional=producer > 0,
            )
        )
    return made


def feed(target: GroupShard, made, start: int = 0) -> None:
    for number, batch in enumerate(made):
        target.apply(NOW, AppliedBatch(1, start + 10 * number, batch))


@pytest.mark.computes
@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(batches(), st.data())
def test_checkpoint_and_the_rest_of_the_log_equal_the_whole_log(made, data):
    whole = shard()
    feed(whole, made)
    cut = data.draw(st.integers(0, len(made)))
    first = shard()
    feed(first, made[:cut])
    if data.draw(st.booleans()):
        first.image()  # an older snapshot must not matter
    body = first.image().encode()
    second = shard()
    second.restore(body)
    assert second.state_hash() == first.state_hash()
    feed(first, made[cut:], 10 * cut)
    feed(second, made[cut:], 10 * cut)
    assert whole.state_hash() == first.state_hash() == second.state_hash()
    assert sorted(whole.views()) == sorted(second.views())


@pytest.mark.computes
@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(batches())
def test_a_snapshot_is_not_changed_by_what_is_applied_later(made):
    target = shard()
    half = len(made) // 2
    feed(target, made[:half])
    image = target.image()
    before = target.image().encode()
    feed(target, made[half:], 10 * half)
    assert image.encode() == before


@settings(deadline=None)
@given(GENERATIONS, MEMBER_LISTS)
def test_group_records_decode_to_what_was_written(generation, members):
    for state_, make in (
        (State.COMPLETING, candidate_record),
        (State.PREPARING, lambda g, c: rebalance_record(g, c, "")),
    ):
        group = classic(state_, generation, [m._replace(assignment=b"") for m in members])
        _, value = make("g", group)
        assert same_group(after_own(state_, value).decode(), group)
    members = [m for m in members if m.protocols[0].name == "range"]
    group = classic(State.STABLE, generation, members)
    base = after_own(State.COMPLETING, candidate_record("g", classic(State.COMPLETING, generation, members))[1])
    assert same_group(after_metadata(base, metadata_record("g", group)[1]).decode(), group)


def test_metadata_of_another_generation_forgets_the_candidate():
    both = (Protocol("range", b"r"), Protocol("sticky", b"s"))
    member = Member("m", None, "", "", 1, 1, both)
    base = after_own(State.COMPLETING, candidate_record("g", classic(State.COMPLETING, 1, [member]))[1])
    for generation, known in ((1, both), (2, both[:1])):
        after = after_metadata(base, metadata_record("g", classic(State.STABLE, generation, [member]))[1])
        assert after.decode().members["m"].protocols == known
    changed = member._replace(protocols=(Protocol("range", b"other"),))
    after = after_metadata(base, metadata_record("g", classic(State.STABLE, 1, [changed]))[1])
    assert after.decode().members["m"].protocols == changed.protocols


# Logs of a Kafka broker.

KAFKA_STABLE = bytes.fromhex(
    "00030008636f6e73756d657200000001000572616e676500026d310000018bcfe568000000000100026d31ffff000163000a2f3132372e302e30"
    "2e31000493e00000afc80000000d000000000001000174ffffffff00000019000100000001000174000000020000000000000001ffffffff"
)
KAFKA_EMPTY = bytes.fromhex("00030008636f6e73756d657200000002ffffffff0000018bcfe5680000000000")
KAFKA_COMMIT_BATCH = bytes.fromhex(
    "00000000000000000000005dffffffff0268fba4fd0000000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff"
    "00000001560000001800010001670001740000000032000300000000000000640000000500016d0000018bcfe5680000"
)
KAFKA_TOMBSTONE_BATCH = bytes.fromhex(
    "000000000000000000000044ffffffff02aef87f1c0000000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffffffffff"
    "0000000124000000180001000167000174000000000100"
)


def test_kafkas_commit_and_tombstone():
    host = Host()
    host.apply(KAFKA_COMMIT_BATCH)
    found = fetch(host)
    assert (found.offset, found.leader_epoch, found.metadata) == (100, 5, "m")
    host.apply(KAFKA_TOMBSTONE_BATCH)
    assert fetch(host).offset == -1
    assert state(host) == "Dead"


def test_kafkas_groups_are_served():
    host = Host()
    host.apply_records((encode_group_key("g"), KAFKA_STABLE))
    host.check_replicas()
    host.crash()
    assert state(host) == "Stable"
    assert host.ask(beat("m1")).error == 0
    assert host.ask(sync("m1")).assignment.startswith(b"\0\1")
    assert host.ask(commit("m1", 1)).topics[0][1][0][1] == 0
    host.send(join(names=("range",)))
    assert state(host) == "PreparingRebalance"
    host.apply_records((encode_group_key("h"), KAFKA_EMPTY))
    assert state(host, "h") == "Empty"
    assert {v.generation for v in host.leader.views() if v.group == "h"} == {2}


def test_compressed_batches_of_another_broker_are_read():
    host = Host()
    plain = KAFKA_COMMIT_BATCH
    covered = bytearray(plain[21:61] + gzip.compress(plain[61:]))
    covered[1] |= 1
    host.apply(
        plain[:8]
        + (len(covered) + 9).to_bytes(4, "big")
        + plain[12:17]
        + crc32c(bytes(covered)).to_bytes(4, "big")
        + covered
    )
    assert fetch(host).offset == 100


def test_kafkas_group_tombstone_ends_the_group_and_keeps_its_offsets():
    """Offsets go by their own tombstones only (GroupMetadataManager and OffsetMetadataManager replay apart); Kafka
    writes such a tombstone when it makes a group one of the newer protocol."""
    host = Host()
    host.apply_records((encode_group_key("g"), KAFKA_EMPTY))
    host.apply(KAFKA_COMMIT_BATCH)
    host.apply_records((encode_group_key("g"), None))
    assert state(host) == "Empty"
    host.apply_records((encode_offset_key("g", "t", 1), encode_offset_value(3, -1, "", WALL)))
    assert [fetch(host).offset, fetch(host, partition=1).offset] == [100, 3]
    host.apply_records((encode_offset_key("g", "t", 0), None), (encode_offset_key("g", "t", 1), None))
    assert state(host) == "Dead"
    host.check_replicas()


def test_record_types_of_later_kafkas_are_kept_through_checkpoints():
    host = Host()
    host.apply_records((b"\0\3\0\1g", b"epoch"), (b"\0\x10\0\1g\0\1r", b"regex"))
    host.check_replicas()
    assert dict(host.leader.image().encode().blobs) == {b"r\0\3\0\1g": b"epoch", b"r\0\x10\0\1g\0\1r": b"regex"}
    host.apply_records((b"\0\3\0\1g", None))
    assert dict(host.leader.image().encode().blobs) == {b"r\0\x10\0\1g\0\1r": b"regex"}


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (b"\3\xea\0\1g", b"x", UnsupportedError),
        (b"\3\xe8\0\1g", b"\0\1", MalformedError),
        (b"\0\2\0\1g", b"\0\5", MalformedError),
        (b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\5" + bytes(30), UnsupportedError),
        (b"\0\1\0\1g", b"", MalformedError),
        (b"", b"", MalformedError),
        (None, b"", MalformedError),
    ],
)
def test_what_this_release_cannot_hold_refuses_to_start(key, value, error):
    with pytest.raises(error):
        feed(shard(), [encode_batch([(key, value)], timestamp_ms=WALL)])


# Checkpoint files.


def test_damaged_checkpoints_are_corruption():
    host = Host()
    stable(host, 1)
    body = host.leader.image().encode()
    (key, blob), *_ = body.blobs
    for bad in (
        CheckpointBody(b"\0\2" + body.head[2:], body.blobs),
        CheckpointBody(body.head[:-1], body.blobs),
        CheckpointBody(body.head + b"x", body.blobs),
        CheckpointBody(body.head, ((key, blob[:-1]),)),
        CheckpointBody(body.head, ((key, blob + b"x"),)),
        CheckpointBody(body.head, ((key, b""),)),
        CheckpointBody(body.head, ((b"x" + key, blob),)),
        CheckpointBody(body.head, ((b"g\xff", blob),)),
    ):
        with pytest.raises(Corruption):
            shard().restore(bad)


def test_empty_shard_has_an_empty_checkpoint():
    body = shard().image().encode()
    assert body.blobs == ()
    restored = shard()
    restored.restore(body)
    assert restored.state_hash() == shard().state_hash()


def test_producer_table_is_bounded_equally_everywhere(monkeypatch):
    monkeypatch.setattr(limits, "OFFSETS_PRODUCERS_MAX", 20)
    made = [
        encode_end_marker(EndMarker(True, 1), producer_id=n, producer_epoch=0, timestamp_ms=WALL + n) for n in range(50)
    ]
    first, second = shard(), shard()
    feed(first, made[:30])
    second.restore(first.image().encode())
    feed(first, made[30:], 300)
    feed(second, made[30:], 300)
    assert first.state_hash() == second.state_hash()
    assert len(first._core.state.producers) <= 20
    assert first._core.state.producers.get(49) is not None
