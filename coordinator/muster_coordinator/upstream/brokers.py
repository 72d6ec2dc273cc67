"""Answers of the upstream that tell addresses, with ours instead.

Problem: clients go where an answer says, so each address in one must be ours; and an answer may describe 100,000
partitions, which is no reason to make objects of them. Mechanism: the array of brokers is read and written anew where
it stands, and every other byte stays. A broker whose id has no port (`upstream.node_ids`) is left out: its clients are
told a leader that they cannot reach, and ask again, while the replica says so in its log. Our own replicas are added,
because clients forget a coordinator that the list of brokers does not have. What this does not do: know addresses.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from muster_coordinator.errors import WireError
from muster_coordinator.upstream.limits import UPSTREAM_BROKERS_MAX
from muster_coordinator.wire.codecs import BAD_BYTES
from muster_coordinator.wire.heap_budget import Frame
from muster_coordinator.wire.hot.primitives import COMPACT, Form, form
from muster_coordinator.wire.reader import reader
from muster_coordinator.wire.schema import Value
from muster_coordinator.wire.versions import Api, is_flexible, response_header_has_tags
from muster_coordinator.wire.writer import writer

SIZE_BYTES = 4
_CORRELATION_BYTES = 4
_SIZE, _I16, _I32 = struct.Struct(">i"), struct.Struct(">h"), struct.Struct(">i")
_NAMES_HEAP_BYTES = 64 * UPSTREAM_BROKERS_MAX * 8
_RACK_SINCE = {Api.METADATA: 1, Api.DESCRIBE_CLUSTER: 0}
_THROTTLE_SINCE = {Api.METADATA: 3, Api.DESCRIBE_CLUSTER: 0, Api.FIND_COORDINATOR: 1}
_ENDPOINT_TYPE_SINCE = 1
_FENCED_SINCE = 2
_LIST_SINCE = 4
_CLUSTER_ID_SINCE, _CONTROLLER_SINCE = 2, 1
"""Of Metadata."""


class Broker(NamedTuple):
    """One entry of an answer's list."""

    node: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False


class Told(NamedTuple):
    """An answer for the client, and who the upstream's brokers are by it."""

    frame: bytearray
    brokers: tuple[Broker, ...]


Address = Callable[[int], tuple[str, int] | None]
"""Of an upstream broker's id: where its clients are to go; None: nowhere."""


def body_of(api: int, version: int, frame: Frame) -> int:
    """Where the body of an answer begins, in a frame with its size."""
    pos = SIZE_BYTES + _CORRELATION_BYTES
    return COMPACT.tags(frame, pos) if response_header_has_tags(api, version) else pos


def readdressed(api: int, version: int, frame: bytes, address: Address, ours: Iterable[Broker]) -> Told:
    """The answer `frame` (size, header, body) of Metadata or DescribeCluster for our client.

    `ours` are added to its brokers. Raises `WireError` if it is no such answer.
    """
    shape = form(flexible=is_flexible(api, version))
    reading = Frame(frame, len(frame), heap=_NAMES_HEAP_BYTES)
    try:
        start = _brokers_at(api, version, reading, shape)
        brokers, stop = _read(api, version, reading, start, shape)
    except BAD_BYTES as error:
        raise WireError(f"an answer ends early or is no UTF-8: {error}") from error
    told = []
    for broker in brokers:
        place = address(broker.node)
        if place is not None:
            told.append(broker._replace(host=place[0], port=place[1]))
    out = bytearray(frame[:start])
    if brokers:  # An error's answer has none, and gets none.
        told.extend(ours)
    shape.write_count(out, len(told))
    for broker in told:
        _write(out, api, version, broker, shape)
    out += memoryview(frame)[stop:]
    _SIZE.pack_into(out, 0, len(out) - SIZE_BYTES)
    return Told(out, tuple(brokers))


def topics_at(version: int, frame: Frame) -> int:
    """Where the list of topics begins in an answer of Metadata. Raises what `wire.codecs.BAD_BYTES` has, and
    `WireError`."""
    shape = form(flexible=is_flexible(Api.METADATA, version))
    _, pos = _read(Api.METADATA, version, frame, _brokers_at(Api.METADATA, version, frame, shape), shape)
    if version >= _CLUSTER_ID_SINCE:
        _, pos = shape.nullable_text(frame, pos)
    return pos + 4 if version >= _CONTROLLER_SINCE else pos


def _brokers_at(api: int, version: int, frame: Frame, shape: Form) -> int:
    pos = body_of(api, version, frame)
    if version >= _THROTTLE_SINCE[Api(api)]:
        pos += 4
    if api == Api.METADATA:
        return pos
    _, pos = shape.nullable_text(frame, pos + 2)  # behind the error's code, its message
    if version >= _ENDPOINT_TYPE_SINCE:
        pos += 1
    _, pos = shape.text(frame, pos)  # the cluster's id
    return pos + 4  # behind the controller's id


def _read(api: int, version: int, frame: Frame, pos: int, shape: Form) -> tuple[list[Broker], int]:
    """The brokers, and the position behind them."""
    count, pos = shape.length(frame, pos)
    if not 0 <= count <= UPSTREAM_BROKERS_MAX:
        raise WireError(f"an answer has {count} brokers")
    found = []
    for _ in range(count):
        node = _I32.unpack_from(frame.data, pos)[0]
        host, pos = shape.text(frame, pos + 4)
        port = _I32.unpack_from(frame.data, pos)[0]
        pos += 4
        rack, fenced = None, False
        if version >= _RACK_SINCE[Api(api)]:
            rack, pos = shape.nullable_text(frame, pos)
        if api == Api.DESCRIBE_CLUSTER and version >= _FENCED_SINCE:
            fenced = bool(frame.data[pos])
            pos += 1
        pos = shape.tags(frame, pos)
        found.append(Broker(node, host, port, rack, fenced))
    return found, pos


def _write(out: bytearray, api: int, version: int, broker: Broker, shape: Form) -> None:
    out += _I32.pack(broker.node)
    shape.write_text(out, broker.host)
    out += _I32.pack(broker.port)
    if version >= _RACK_SINCE[Api(api)]:
        shape.write_text(out, broker.rack)
    if api == Api.DESCRIBE_CLUSTER and version >= _FENCED_SINCE:
        out.append(broker.fenced)
    shape.write_tags(out)


def coordinators_readdressed(version: int, frame: bytes, address: Address) -> bytearray:
    """An answer of FindCoordinator for transactions, with our addresses. One that leads to a broker without a port of
    ours becomes COORDINATOR_NOT_AVAILABLE. Raises `WireError`."""
    reading = Frame(frame, len(frame))
    try:
        start = body_of(Api.FIND_COORDINATOR, version, reading)
    except BAD_BYTES as error:
        raise WireError(f"an answer ends early: {error}") from error
    answer = reader(Api.FIND_COORDINATOR, version, "response")(reading, start)
    out = bytearray(frame[:start])
    if version >= _LIST_SINCE:
        found: Mapping[str, Value] = {
            **answer._asdict(),
            "coordinators": [_placed(one._asdict(), address) for one in answer.coordinators],
        }
    else:
        found = _placed(answer._asdict(), address)
    writer(Api.FIND_COORDINATOR, version)(out, found)
    _SIZE.pack_into(out, 0, len(out) - SIZE_BYTES)
    return out


_NOT_AVAILABLE = 15
"""Kafka's COORDINATOR_NOT_AVAILABLE."""


def _placed(found: Mapping[str, Value], address: Address) -> Mapping[str, Value]:
    if found["error_code"]:
        return {**found, "node_id": -1, "host": "", "port": -1}
    place = address(found["node_id"])
    if place is None:
        return {**found, "error_code": _NOT_AVAILABLE, "node_id": -1, "host": "", "port": -1}
    return {**found, "host": place[0], "port": place[1]}


def asks_for_transactions(version: int, data: bytes, body: int, stop: int) -> bool:
    """Does this FindCoordinator, whose body is at `body`, ask for coordinators of transactions? Raises `WireError`."""
    return bool(reader(Api.FIND_COORDINATOR, version)(Frame(data, stop), body).key_type == 1)


def wants_answer(version: int, frame: Frame, body: int) -> bool:
    """Does this Produce want an answer? With acks=0 there is none. Raises `WireError`."""
    shape = form(flexible=is_flexible(Api.PRODUCE, version))
    try:
        _, pos = shape.nullable_text(frame, body)  # the transactional id, in each version that is served
        return bool(_I16.unpack_from(frame.data, pos)[0])
    except BAD_BYTES as error:
        raise WireError(f"request ends early or is no UTF-8: {error}") from error


def addresses(brokers: Sequence[Broker]) -> dict[int, tuple[str, int]]:
    """Where the upstream's brokers are, by id."""
    return {broker.node: (broker.host, broker.port) for broker in brokers}
