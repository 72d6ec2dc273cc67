"""Whatever a server sends to the one who asks why it is not let in: no exception escapes, and it takes its time and no
more. What a real cluster answers is in tests/integration/test_users_and_topics.py."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from muster_operator.errors import Transient
from muster_operator.kafka import diagnosis
from muster_operator.kafka.diagnosis import why_not
from muster_operator.runtime.clock import SystemClock
from muster_operator.world.login import Endpoint, Login

CANARY = "canary-password"
SCRAM = Login(mechanism="SCRAM-SHA-512", username="admin", password=CANARY)
Serve = Callable[[socket.socket], None]


@contextmanager
def server(serve: Serve) -> Iterator[str]:
    """One connection on loopback, handled by `serve`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            link, _ = listening.accept()
            with link:
                link.settimeout(5)
                try:
                    serve(link)
                except OSError:
                    return

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            thread.join(10)


def answer(body: bytes) -> Serve:
    """To the first request, `body` as a frame."""

    def serve(link: socket.socket) -> None:
        (size,) = struct.unpack(">i", link.recv(4))
        link.recv(size)
        link.sendall(struct.pack(">i", len(body)) + body)
        link.recv(1)

    return serve


def handshake(code: int) -> bytes:
    """SaslHandshake v1: correlation id, error code, no mechanisms."""
    return struct.pack(">ihi", 1, code, 0)


def ask(serve: Serve, login: Login = SCRAM) -> Transient | None:
    with server(serve) as address:
        return why_not(Endpoint(address, login), SystemClock())


@pytest.mark.parametrize(
    "serve",
    [
        pytest.param(lambda link: link.close(), id="closed"),
        pytest.param(lambda link: link.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), id="another protocol"),
        pytest.param(lambda link: link.sendall(struct.pack(">i", 2**31 - 1)), id="a frame of 2 GiB"),
        pytest.param(lambda link: link.sendall(struct.pack(">i", -1)), id="a negative frame"),
        pytest.param(answer(b""), id="an empty answer"),
        pytest.param(answer(b"\xff" * 9), id="garbage of the right length"),
        pytest.param(answer(handshake(0)[:-1]), id="cut off"),
        pytest.param(answer(struct.pack(">ihi", 1, 0, 2**31 - 1)), id="two thousand million mechanisms"),
    ],
)
def test_what_is_no_answer_is_no_reason(serve: Serve) -> None:
    assert ask(serve) is None


def test_one_that_says_nothing_costs_its_time_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "KAFKA_DIAGNOSIS_TIMEOUT_MS", 200)
    done = threading.Event()

    def serve(link: socket.socket) -> None:
        while not done.is_set():
            link.sendall(b"\x00")  # a byte now and then is no answer either
            done.wait(0.05)

    clock = SystemClock()
    started = clock.monotonic_ms()
    with server(serve) as address:
        assert why_not(Endpoint(address, SCRAM), clock) is None
        done.set()
    assert clock.monotonic_ms() - started < 5_000


def test_a_mechanism_that_is_not_offered_is_told_and_no_password_is() -> None:
    found = ask(answer(handshake(33)))
    assert found is not None
    assert (found.reason, CANARY in str(found)) == ("MechanismNotOffered", False)


def test_a_port_without_tls_is_told_apart_from_one_that_is_not_there() -> None:
    login = Login(tls=True, mechanism="PLAIN", username="a", password=CANARY)
    found = ask(lambda link: link.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), login)
    assert found is not None
    assert found.reason == "TlsFailed"
    assert why_not(Endpoint("127.0.0.1:1", login), SystemClock()) is None
