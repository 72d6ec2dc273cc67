"""Hostile requests through the sockets of a real replica.

What may be closed at its first bytes goes by a connection of its own, the rest by one that stays; nobody waits for an
answer.
"""

import contextlib
import socket
import struct
import threading
from collections import deque
from random import Random

from muster_coordinator.wire.schema import schema

from tests.fuzz import extremes
from tests.fuzz.campaign import BENT, SPOILT
from tests.fuzz.sane import MAKERS, Known, plain

SILENCE_MAX_S = 300.0
"""The replica runs at the suite's low priority, and may get no processor for minutes."""
OPEN_MAX = 200
"""Connections that stay open for their answers."""


class Wires:
    """To one replica: one connection for what is sane, and one each for what it may close."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._steady = self._connect()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._once: deque[socket.socket] = deque()

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), timeout=SILENCE_MAX_S)

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while self._steady.recv(1 << 16):
                pass

    def send(self, frame: bytes, *, sane: bool) -> None:
        if sane:
            self._steady.sendall(frame)
            return
        sock = self._connect()
        self._once.append(sock)
        with contextlib.suppress(OSError):  # closed at its first bytes
            sock.sendall(frame)
        if len(self._once) > OPEN_MAX:
            self._once.popleft().close()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the other end may have closed it
            self._steady.shutdown(socket.SHUT_RDWR)
        self._reader.join(10)
        for sock in (self._steady, *self._once):
            sock.close()


def frame(rand: Random, known: Known, api: int, version: int) -> tuple[bytes, bool] | None:
    """(bytes, whether nothing is wrong with them)"""
    values = plain(schema(api, version, "request"))
    values.update(MAKERS[api](rand, known))
    kind = rand.random()
    if kind < BENT:
        extremes.bend(rand, api, version, values)
    try:
        whole = extremes.frame(api, version, values, rand.randrange(2**31), "c")
    except (struct.error, AssertionError, OverflowError):
        return None
    if kind >= 1 - SPOILT:
        return extremes.spoil(rand, whole), False
    return whole, kind >= BENT
