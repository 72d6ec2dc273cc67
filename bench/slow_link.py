"""A link of so many bytes a second between two TCP ports of this machine: what a replica's network is when it is slow.

Problem: loopback carries gigabytes a second, and the kernel's own shaping needs privileges. Mechanism: each forwarded
port is listened on here; what is accepted is connected to the target, and one thread a direction copies bytes, which
wait for their turn in the direction's budget, shared by all connections. Small socket buffers on the way stand for a
router's queue. What it does not do: add delay, lose or reorder anything.
"""

import contextlib
import socket
import threading
import time

PIECE_BYTES = 16 * 1024
BUFFER_BYTES = 64 * 1024
"""The kernel doubles it."""
BURST_S = 0.02
"""So much of the rate may go at once after a silence."""
CONNECT_S = 2.0


class Budget:
    """Bytes a second; `take` waits for them."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.taken = 0
        self._free_s = 0.0
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        with self._lock:
            self.taken += count
            self._free_s = max(self._free_s, time.monotonic() - BURST_S) + count / self.rate
            wait_s = self._free_s - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)


class SlowLink:
    """`forward(listen, target)` as often as needed; `there` is the way to the targets, `back` the way from them."""

    def __init__(self, there: Budget, back: Budget) -> None:
        self.there = there
        self.back = back
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._closed = False

    def forward(self, target: int, listen: int = 0) -> int:
        """The port that is listened on; 0: any."""
        listener = socket.create_server(("127.0.0.1", listen))
        self._keep(listener)
        threading.Thread(target=self._accept, args=(listener, target), daemon=True).start()
        port: int = listener.getsockname()[1]
        return port

    def close(self) -> None:
        """All connections end."""
        with self._lock:
            self._closed = True
            sockets, self._sockets = self._sockets, []
        for one in sockets:
            _end(one)

    def _keep(self, one: socket.socket) -> bool:
        with self._lock:
            if not self._closed:
                self._sockets.append(one)
                return True
        _end(one)
        return False

    def _accept(self, listener: socket.socket, target: int) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", target), timeout=CONNECT_S)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            if not (self._keep(near) and self._keep(far)):
                return
            for one in (near, far):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, sink, budget in ((near, far, self.there), (far, near, self.back)):
                threading.Thread(target=_copy, args=(source, sink, budget), daemon=True).start()


def _copy(source: socket.socket, sink: socket.socket, budget: Budget) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(PIECE_BYTES):
            budget.take(len(data))
            sink.sendall(data)
    for one in (source, sink):
        _end(one)


def _end(one: socket.socket) -> None:
    """Also for whoever waits in it."""
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
