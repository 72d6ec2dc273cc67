"""The row of TLS: both sides' servers have a listener with the same kind of certificate beside the open one, and the
generator measures connections of it."""

import ipaddress
import shutil
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest
from cryptography import x509

from bench import generator
from bench.catalogue import select
from bench.compare import MUSTER
from bench.errors import RunFailed
from bench.kafka_cluster import KafkaCluster
from bench.lab import Lab
from bench.muster_side import Muster
from bench.rows import tls
from bench.sides import Disk
from bench.tls import TlsFiles
from tests.machine_parts import give_up


def test_one_word_chooses_loads_handshakes_and_memory_and_memory_has_its_target() -> None:
    rows = {row.name: row for row in select(["tls"])}
    assert set(rows) == {"tls_load", "tls_handshakes", "tls_memory"}
    (target,) = rows["tls_memory"].targets
    assert (target.side, target.figure, target.at_most) == (MUSTER, "TLS", 64)
    assert rows["tls_memory"].units["TLS"] == "KiB a connection"
    assert tls.IDLE_CONNECTIONS == 10_000


def settings(cluster: KafkaCluster) -> dict[str, str]:
    lines = [line for line in cluster.settings(1).splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_kafkas_settings_differ_by_its_listener_with_tls_alone(tmp_path: Path) -> None:
    plain = KafkaCluster(tmp_path / "plain")
    files = TlsFiles.make(tmp_path / "files")
    both = KafkaCluster(tmp_path / "both", tls=files)
    without, with_tls = settings(plain), settings(both)
    port, tls_port = both.ports[1], both.tls_ports[1]
    assert with_tls["advertised.listeners"] == f"PLAINTEXT://127.0.0.1:{port},ENCRYPTED://127.0.0.1:{tls_port}"
    assert with_tls["listener.security.protocol.map"].endswith(",ENCRYPTED:SSL")
    assert with_tls["ssl.keystore.type"] == "PEM"
    assert "${" not in both.settings(1).partition("process.roles")[2]
    more = {"ssl.keystore.type", "ssl.keystore.location"}
    assert with_tls.keys() - without.keys() == more
    assert without["listener.security.protocol.map"] == "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"


def test_the_certificate_is_for_loopback_and_both_forms_have_the_same_one(tmp_path: Path) -> None:
    files = TlsFiles.make(tmp_path / "files")
    made = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("127.0.0.1")]
    assert files.certificate.read_text() in files.both.read_text()
    assert files.key.read_text() in files.both.read_text()
    files.remove()
    assert not files.folder.exists()


def test_a_side_without_such_a_listener_is_no_figure(tmp_path: Path) -> None:
    cluster = Muster(tmp_path / "data")
    with Lab(print, tmp_path / "lab") as lab:
        try:
            with pytest.raises(RunFailed, match="has no listener with TLS"):
                tls.connections(cluster, lab)
            with pytest.raises(AssertionError):
                tls.connections(Disk(), lab)
        finally:
            cluster.stop()


class Found(StreamRequestHandler):
    """Answers any request with four bytes of correlation and nothing else."""

    def handle(self) -> None:
        size = int.from_bytes(self.rfile.read(4), "big")
        frame = self.rfile.read(size)
        self.wfile.write(b"\x00\x00\x00\x04" + frame[4:8])
        self.server.answered += 1  # type: ignore[attr-defined]


class Answering(ThreadingTCPServer):
    daemon_threads = True
    answered = 0

    def __init__(self, files: TlsFiles) -> None:
        super().__init__(("127.0.0.1", 0), Found)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(files.certificate, files.key)
        self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: object, client_address: object) -> None:
        """One that was refused, or that the end of the run met half-way."""


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[tuple[Answering, TlsFiles]]:
    files = TlsFiles.make(tmp_path / "files")
    with Answering(files) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server, files
        server.shutdown()
        thread.join()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_generator_counts_connections_with_their_handshakes_and_refuses_another_ca(
    answering: tuple[Answering, TlsFiles], tmp_path: Path
) -> None:
    if shutil.which("go") is None:
        give_up("go", "no Go on PATH (it builds the benchmark's load generator)")
    server, files = answering
    where = f"127.0.0.1:{server.server_address[1]}"
    options = {"bootstrap": where, "at_once": 2, "warmup": "100ms", "window": "500ms"}
    result = generator.run("connect", ca=str(files.ca), **options)
    assert 0 < result["good"] <= server.answered
    assert result["rate"] == pytest.approx(result["good"] / 0.5)
    other = TlsFiles.make(tmp_path / "other")
    with pytest.raises(RunFailed, match="certificate"):
        generator.run("connect", ca=str(other.ca), **options)
