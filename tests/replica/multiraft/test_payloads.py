"""Everything between replicas survives the way there and back; any other bytes are a WireError and nothing else."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.controller.codec import encode_command
from muster_coordinator.controller.commands import AllocateProducerIds, RegisterBroker
from muster_coordinator.controller.image import Endpoint
from muster_coordinator.errors import WireError
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.limits import BROKERS_MAX, OFFSETS_BATCH_BYTES_MAX, PEER_FRAME_BYTES_MAX
from muster_coordinator.links import limits
from muster_coordinator.raft.members import encode_config
from muster_coordinator.raft.messages import Entry, Message, MsgType
from muster_coordinator.raft.quorum import Config
from muster_coordinator.replica.bootstrap import bootstrap_payload
from muster_coordinator.replica.bootstrap.formation import BootstrapState, Expectation
from muster_coordinator.replica.bootstrap.identity import ClusterRecord, Phase, Voter
from muster_coordinator.replica.maintenance.weight_payload import decode_weights
from muster_coordinator.replica.multiraft import payloads
from muster_coordinator.replica.multiraft.payloads import (
    Hello,
    HostHeartbeat,
    HostHeartbeatAck,
    Kind,
    LeaderNews,
    NamedGroup,
)
from muster_coordinator.replica.multiraft.raft_payload import RaftPacker, unpack_raft
from muster_coordinator.replica.snapshots import install_payload as install
from muster_coordinator.replica.transactions import transaction_payloads
from muster_coordinator.storage.contract import RecoveryPoint

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
i32 = st.integers(-(2**31), 2**31 - 1)
brokers = i32.map(BrokerId)
uuids = st.binary(min_size=16, max_size=16)
names = st.text(max_size=30)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    index = draw(st.integers(0, 2**40))
    entries = tuple(
        Entry(draw(u64), index + 1 + n, draw(st.integers(0, 3)), draw(st.binary(max_size=50)))
        for n in range(draw(st.integers(0, 4)))
    )
    return Message(
        draw(st.sampled_from(list(MsgType))), 1, 2, draw(u64), index, draw(u64), draw(u64), entries,
        draw(st.booleans()), draw(u64), draw(u64),
    )  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.tuples(u32, messages()), max_size=8))
def test_raft_messages_of_many_groups(sent: list[tuple[int, Message]]) -> None:
    got = [item for payload in RaftPacker().pack(sent) for item in unpack_raft(payload, 1, 2)]
    assert got == sent


def test_a_turns_messages_are_cut_into_frames_and_one_large_entry_travels_alone() -> None:
    small = Message(MsgType.APPEND, 1, 2, 1, 0, 0, 0, (Entry(1, 1, 0, bytes(100_000)),))
    large = Message(MsgType.APPEND, 1, 2, 1, 0, 0, 0, (Entry(1, 1, 0, bytes(OFFSETS_BATCH_BYTES_MAX)),))
    packed = list(RaftPacker().pack([(1, small), (2, small), (3, small), (4, large), (5, small)]))
    assert [len(unpack_raft(payload, 1, 2)) for payload in packed] == [2, 1, 1, 1]
    assert all(len(payload) <= PEER_FRAME_BYTES_MAX for payload in packed if len(payload) < 2**20)
    assert max(len(payload) for payload in packed) <= limits.PEER_FRAME_BYTES_HARD_MAX


def test_entries_for_several_followers_are_packed_once() -> None:
    entries = (Entry(1, 1, 0, b"data"),)
    packer = RaftPacker()
    first = list(packer.pack([(1, Message(MsgType.APPEND, 0, 1, 1, 0, 0, 0, entries))]))
    second = list(packer.pack([(1, Message(MsgType.APPEND, 0, 2, 1, 0, 0, 0, entries))]))
    assert first == second
    assert len(packer._packed) == 1


groups = st.lists(u32, max_size=5).map(tuple)
named = st.lists(st.builds(NamedGroup, u32, u64, u64, u64), max_size=5).map(tuple)


@settings(deadline=None)
@given(st.builds(HostHeartbeat, st.booleans(), u64, u64, u32, u64, groups, named))
def test_heartbeats(heartbeat: HostHeartbeat) -> None:
    assert payloads.decode_heartbeat(payloads.encode_heartbeat(heartbeat)) == heartbeat


@settings(deadline=None)
@given(st.builds(HostHeartbeatAck, st.booleans(), u64, u64, st.lists(st.tuples(u32, u64), max_size=5).map(tuple)))
def test_heartbeat_acks(ack: HostHeartbeatAck) -> None:
    assert payloads.decode_heartbeat_ack(payloads.encode_heartbeat_ack(ack)) == ack


@settings(deadline=None)
@given(st.lists(st.builds(LeaderNews, u32.map(GroupNo), u64, brokers), max_size=5))
def test_news_of_leaders(news: list[LeaderNews]) -> None:
    assert [row for payload in payloads.encode_leaders(news) for row in payloads.decode_leaders(payload)] == news


@settings(deadline=None)
@given(u64, u32, st.binary(max_size=50))
def test_commands_and_results(request: int, wait_ms: int, data: bytes) -> None:
    assert payloads.decode_command(payloads.encode_command(request, wait_ms, data)) == (request, wait_ms, data)
    assert payloads.decode_result(payloads.encode_result(request, data)) == (request, data)


epochs = st.one_of(st.just((0, bytes(16))), st.tuples(st.integers(1, 2**32 - 1), uuids))
records = st.builds(
    lambda *rest: ClusterRecord(*rest[:5], *rest[5]),
    names,
    st.lists(st.builds(Voter, brokers, uuids, st.integers(0, 2**31 - 1)), max_size=5).map(tuple),
    st.integers(1, 1000),
    uuids,
    st.lists(st.builds(Voter, brokers, uuids, st.integers(0, 2**31 - 1)), max_size=5).map(tuple),
    epochs,
)
expectations = st.builds(Expectation, names, st.lists(brokers, max_size=5).map(tuple), st.integers(1, 1000))


registrations = st.builds(
    RegisterBroker,
    broker=brokers,
    replica_uuid=uuids,
    incarnation=st.integers(0, 2**63 - 1),
    endpoints=st.lists(st.builds(Endpoint, listener=names, host=names, port=st.integers(0, 2**16 - 1)), max_size=3).map(
        tuple
    ),
    admin=names,
    feature_max=st.integers(0, 2**31 - 1),
)


@settings(deadline=None)
@given(st.one_of(
    st.builds(
        BootstrapState, brokers, uuids, st.just(Phase.EMPTY), expectations, st.none(), st.none() | registrations
    ),
    st.builds(
        BootstrapState,
        brokers,
        uuids,
        st.sampled_from(list(Phase)[1:]),
        expectations,
        records,
        st.none(),
    ),
))  # fmt: skip
def test_bootstrap_state(state: BootstrapState) -> None:
    assert bootstrap_payload.decode_bootstrap_state(bootstrap_payload.encode_bootstrap_state(state)) == state


def test_a_record_with_more_seats_than_a_cluster_has_is_refused() -> None:
    seats = tuple(Voter(BrokerId(n), bytes([n]) * 16) for n in range(BROKERS_MAX + 1))
    for most in (BROKERS_MAX, BROKERS_MAX + 1):
        record = ClusterRecord("c", seats[:3], 1, bytes(16), seats[3:most])
        state = BootstrapState(BrokerId(1), bytes(16), Phase.FORMED, Expectation("", (), 1), record)
        data = bootstrap_payload.encode_bootstrap_state(state)
        if most == BROKERS_MAX:
            assert bootstrap_payload.decode_bootstrap_state(data) == state
        else:
            with pytest.raises(WireError, match="51 seats"):
                bootstrap_payload.decode_bootstrap_state(data)


def test_a_bootstrap_state_that_asks_for_something_else_is_refused() -> None:
    empty = BootstrapState(BrokerId(1), bytes(16), Phase.EMPTY, Expectation("", (), 1), None)
    data = bootstrap_payload.encode_bootstrap_state(empty)
    asks = encode_command(AllocateProducerIds(broker=BrokerId(1)))
    for more in (asks, asks[:1], b"\xff" * 20):
        with pytest.raises(WireError):
            bootstrap_payload.decode_bootstrap_state(data + more)


@settings(deadline=None)
@given(st.builds(lambda *rest: Hello(*rest[:4], *rest[4]), brokers, uuids, u64, names, epochs))
def test_hellos(hello: Hello) -> None:
    assert payloads.decode_hello(payloads.encode_hello(hello)) == hello


def test_installs() -> None:
    files = (
        install.OfferedFile(0, "00000000000000000007-0000000002.ckpt", 99),
        install.OfferedFile(1, "00000000000000000000.log", 12345),
    )
    for recovery_point in (None, RecoveryPoint(7, 5, 0, 12345)):
        offer = install.Offer(3, 4, 7, 2, recovery_point, files)
        for checks in (False, True):
            offer = offer._replace(checks=checks)
            payload = install.encode_offer(offer)
            assert install.decode_offer(payload) == offer
        assert install.decode_offer(payload[:-1]) == offer._replace(checks=False), "of an earlier release"
    assert install.decode_ask(install.encode_ask(1, 2, 3)) == (1, 2, 3)
    assert install.decode_chunk_ask(install.encode_chunk_ask(1, 2, 3, 4)) == (1, 2, 3, 4)
    chunk = install.Chunk(1, 2, 3, 4, b"data")
    assert install.decode_chunk(install.encode_chunk(chunk)) == chunk
    assert install.decode_check_ask(install.encode_check_ask(1, 2, 3, 4)) == (1, 2, 3, 4)
    check = install.Check(1, 2, 3, 4, 5)
    assert install.decode_check(install.encode_check(check)) == check
    assert install.decode_refusal(install.encode_refusal(9, "why")) == (9, "why")


def test_an_offer_with_a_configuration_ends_with_it() -> None:
    files = tuple(install.OfferedFile(1, f"{n:020d}.log", n) for n in range(3))
    files = (install.OfferedFile(0, "00000000000000000007-0000000002.ckpt", 99), *files)
    plain = install.Offer(3, 4, 7, 2, RecoveryPoint(7, 5, 0, 12345), files, True)
    offer = plain._replace(config=Config((1, 2, 1 << 32 | 3), (1, 2, 3), (7,)))
    payload, without = install.encode_offer(offer), install.encode_offer(plain)
    assert install.decode_offer(payload) == offer
    assert payload == without[:-1] + bytes([without[-1] | 4]) + encode_config(offer.config)  # type: ignore[arg-type]
    for broken in (payload[:-1], payload + b"\0", without[:-1] + b"\5"):
        with pytest.raises(WireError):
            install.decode_offer(broken)
    with pytest.raises(WireError, match="different"):
        install.joined(offer._replace(more=True), plain)
    assert all(part.config == offer.config for part in install.parts(offer))


def test_an_install_cannot_name_a_file_elsewhere() -> None:
    for name in ("../identity", "00000000000000000000.log/..", "cluster", "0.log"):
        files = (
            install.OfferedFile(0, "00000000000000000007-0000000002.ckpt", 99),
            install.OfferedFile(1, name, 1),
        )
        payload = install.encode_offer(install.Offer(3, 4, 7, 2, None, files))
        try:
            install.decode_offer(payload)
        except WireError:
            continue
        raise AssertionError(name)


DECODERS = {
    Kind.RAFT: lambda payload: unpack_raft(payload, 1, 2),
    Kind.HEARTBEAT: payloads.decode_heartbeat,
    Kind.HEARTBEAT_ACK: payloads.decode_heartbeat_ack,
    Kind.LEADERS: payloads.decode_leaders,
    Kind.COMMAND: payloads.decode_command,
    Kind.COMMAND_RESULT: payloads.decode_result,
    Kind.BOOTSTRAP_STATE: bootstrap_payload.decode_bootstrap_state,
    Kind.INSTALL_ASK: install.decode_ask,
    Kind.INSTALL_OFFER: install.decode_offer,
    Kind.INSTALL_REFUSAL: install.decode_refusal,
    Kind.CHUNK_ASK: install.decode_chunk_ask,
    Kind.CHUNK: install.decode_chunk,
    Kind.CHECK_ASK: install.decode_check_ask,
    Kind.CHECK: install.decode_check,
    Kind.MARKERS: transaction_payloads.decode_markers,
    Kind.MARKERS_RESULT: transaction_payloads.decode_markers_result,
    Kind.VERIFY: transaction_payloads.decode_verify,
    Kind.VERIFY_RESULT: transaction_payloads.decode_verify_result,
    Kind.WEIGHTS: decode_weights,
    Kind.ELECT: payloads.decode_elect,
}


def test_a_wanted_election_is_its_group() -> None:
    payload = payloads.encode_elect(GroupNo(2**32 - 1))
    assert (payloads.kind_of(payload), payloads.decode_elect(payload)) == (Kind.ELECT, 2**32 - 1)
    assert payload == b"\x01\x14\xff\xff\xff\xff"
    with pytest.raises(WireError):
        payloads.decode_elect(payload[:-1])


def test_every_kind_has_a_decoder() -> None:
    assert set(DECODERS) == set(Kind)


@settings(deadline=None, max_examples=500)
@given(st.sampled_from(list(Kind)), st.binary(max_size=200))
def test_any_bytes_are_a_value_or_a_wire_error(kind: Kind, body: bytes) -> None:
    payload = payloads.HEADS[kind] + body
    assert payloads.kind_of(payload) is kind
    with contextlib.suppress(WireError):
        DECODERS[kind](payload)
    with contextlib.suppress(WireError):
        payloads.decode_hello(body)


@settings(deadline=None)
@given(st.binary(max_size=3))
def test_heads_of_other_versions_and_kinds_are_refused(head: bytes) -> None:
    try:
        kind = payloads.kind_of(head)
    except WireError:
        return
    assert head[0] == payloads.VERSION
    assert head[1] == kind


@given(st.lists(st.tuples(u32, u64), max_size=5).map(tuple))
def test_a_low_disk_is_a_byte_behind_an_ack_that_older_releases_read_as_before(
    rejected: tuple[tuple[int, int], ...],
) -> None:
    ack = HostHeartbeatAck(True, 7, 8, rejected)
    plain, low = payloads.encode_heartbeat_ack(ack), payloads.encode_heartbeat_ack(ack._replace(low=True))
    assert low == plain + b"\x01"
    assert payloads.decode_heartbeat_ack(plain) == ack
    assert payloads.decode_heartbeat_ack(low).low
    assert payloads.decode_heartbeat_ack(low + b"later") == ack._replace(low=True)
