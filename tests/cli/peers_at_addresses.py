"""Peers at addresses of their own, which answer a dial as a test says."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from muster_coordinator.links.channels import HANDSHAKE
from muster_coordinator.links.frames import FrameSplitter, frame_header
from muster_coordinator.links.handshake import Handshake, decode_handshake, encode_handshake
from muster_coordinator.replica.multiraft.payloads import Hello, encode_hello


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[tuple[str, int]]:
    """A peer's address, where each connection is answered so."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            answer(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(10)


def greeting(hello: Hello) -> Callable[[socket.socket], None]:
    """As a replica greets that accepts the link."""

    def answer(connection: socket.socket) -> None:
        splitter, dialled = FrameSplitter(), None
        while dialled is None:
            for channel, body in splitter.feed(connection.recv(4_096)):
                assert channel == HANDSHAKE
                dialled = decode_handshake(body)
        assert dialled.sender == 0
        body = encode_handshake(Handshake(hello.broker, dialled.sender, 1, encode_hello(hello)))
        connection.sendall(frame_header(HANDSHAKE, body) + body)
        connection.close()

    return answer
