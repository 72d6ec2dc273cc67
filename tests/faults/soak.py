"""Many short connections, one after the other, and what a replica holds after them.

Each connection is of one kind, by turns: a client that asks and hangs up, one that resets, one that leaves in the
middle of a frame, one that says nothing, one whose bytes are no request. Nothing is to be left of any of them.
"""

import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.raw_group import FIND

CONNECT_TIMEOUT_S = 20
API_VERSIONS, METADATA = 18, 3
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of no seconds: close() sends a reset."""


class Point(NamedTuple):
    """Resident memory after so many connections, or requests."""

    done: int
    rss_bytes: int


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no VmRSS")


def growth_bytes(points: list[Point], warm: int) -> int:
    """The most that was held after `warm` of them, above what was held at `warm` of them."""
    base = next(point.rss_bytes for point in points if point.done >= warm)
    return max(point.rss_bytes for point in points if point.done >= warm) - base


def frame(api_key: int, version: int, body: bytes, client_id: bytes) -> bytes:
    """A request with header version 1."""
    head = struct.pack(">hhih", api_key, version, 1, len(client_id)) + client_id + body
    return struct.pack(">i", len(head)) + head


def _ask(one: socket.socket, data: bytes) -> None:
    one.sendall(data)
    head = one.recv(65_536)
    while len(head) < 4 or len(head) < 4 + int.from_bytes(head[:4], "big"):
        part = one.recv(65_536)
        assert part, "hung up in the middle of an answer"
        head += part


def _polite(one: socket.socket, number: int) -> None:
    """Asks for versions, the cluster and a coordinator, each under a name of its own."""
    name = b"client-%d" % number
    _ask(one, frame(API_VERSIONS, 0, b"", name))
    _ask(one, frame(METADATA, 1, struct.pack(">i", 0), name))
    group = b"group-%d" % (number % 5_000)
    _ask(one, frame(FIND, 0, struct.pack(">h", len(group)) + group, name))


def _resets(one: socket.socket, number: int) -> None:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    one.sendall(frame(METADATA, 1, struct.pack(">i", 0), b"reset-%d" % number))


def _half(one: socket.socket, number: int) -> None:
    one.sendall(frame(METADATA, 1, struct.pack(">i", 0) + bytes(2_000), b"half-%d" % number)[:-700])


def _silent(one: socket.socket, number: int) -> None:
    pass


def _nonsense(one: socket.socket, number: int) -> None:
    one.sendall(b"GET /%d HTTP/1.1\r\n\r\n" % number)


KINDS: tuple[Callable[[socket.socket, int], None], ...] = (_polite, _resets, _half, _silent, _nonsense)


def connect_many(port: int, count: int, every: int, pid: int) -> Iterator[Point]:
    """`count` connections to a replica, and its memory after each `every` of them."""
    for number in range(1, count + 1):
        # Addresses by turns: those that wait for the end of their time must not run out.
        source = (f"127.0.{1 + number // 200 % 50}.{1 + number % 200}", 0)
        with socket.create_connection(("127.0.0.1", port), CONNECT_TIMEOUT_S, source) as one:
            KINDS[number % len(KINDS)](one, number)
        if number % every == 0:
            yield Point(number, resident_bytes(pid))
