"""A link with a bounded rate between two TCP ports of this machine: a slow network between replicas.

Problem: loopback carries gigabytes a second, and the kernel's own traffic shaping needs privileges. Mechanism: for each
forwarded port this process listens; accepted connections are connected to the target, and one thread per direction
copies bytes, which wait for the direction's budget, shared by all connections. Small socket buffers stand for a
router's queue. What it does not do: add delay, lose or reorder anything.
"""

import contextlib
import socket
import threading
import time

PIECE_BYTES = 16 * 1024
BUFFER_BYTES = 64 * 1024
"""The kernel doubles this value."""
BURST_S = 0.02
"""Share of the rate, in seconds, that may be sent at once after a pause."""
CONNECT_S = 2.0


class Budget:
    """Bytes per second; `take` waits for them."""

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
    """Call `forward(target, listen)` once per port; `there` is the direction to the targets, `back` the direction from
    them."""

    def __init__(self, there: Budget, back: Budget) -> None:
        self.there = there
        self.back = back
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._closed = False

    def forward(self, target: int, listen: int = 0) -> int:
        """Returns the port that it listens on; `listen` 0: any free port."""
        listener = socket.create_server(("127.0.0.1", listen))
        self._keep(listener)
        threading.Thread(target=self._accept, args=(listener, target), daemon=True).start()
        port: int = listener.getsockname()[1]
        return port

    def close(self) -> None:
        """Close all connections."""
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
    """Close a socket, also for threads that wait in it."""
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
