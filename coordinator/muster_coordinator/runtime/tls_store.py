"""The TLS context of one listener or of the peer links, made anew when its files change.

Files are read off the loop every `limits.TLS_LOOK_MS` and compared by content: a Secret's volume changes by a link, and
a copy may keep its times. A set is used only if `security.certificates` finds nothing against it; else the one before
stays, and an event, /v1/status and a metric say why. Connections keep the context that they began with, so a reload
drops none.

A context resumes no TLS 1.3 session: what a certificate may is decided at each connection. What it does not do: revoke
(no CRL, no OCSP), or end connections whose certificate expires.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from muster_coordinator.errors import MusterError
from muster_coordinator.events import TLS_LOADED, TLS_REFUSED, Event, Tell
from muster_coordinator.ports import Loop, Timer
from muster_coordinator.runtime import limits
from muster_coordinator.runtime.tls_material import Material, TlsRefused
from muster_coordinator.security.certificates import expires_s, problem_of
from muster_coordinator.security.tls_config import ClientAuth, TlsConfig

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_SUITES_OF_13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""OpenSSL offers all three whatever is set: Python has no call for them. The others are TLS 1.2's."""


@dataclass(frozen=True, slots=True)
class TlsStatus:
    """For /v1/status and metrics."""

    name: str
    subject: str
    not_after_s: int
    """Of the first certificate of the chain to expire."""
    left_s: int
    """Until then; negative: it has expired."""
    loaded: int
    """Sets that were taken since the start."""
    refused: int
    """Sets that were not."""
    problem: str | None
    """Why the newest files are not used; None: they are."""


class TlsStore:
    """`load` once before anything listens, then `start`; `server` and `client` are the contexts of new connections."""

    def __init__(
        self,
        loop: Loop,
        config: TlsConfig,
        *,
        name: str,
        hosts: Sequence[str],
        tell: Tell,
        client_auth: ClientAuth | None = None,
        both_ways: bool = False,
    ) -> None:
        """`hosts`: names that the certificate must cover. `both_ways`: it is shown to servers as well, and the
        truststore has the CA that issued it."""
        self.name = name
        self._loop = loop
        self._config = config
        self._hosts = tuple(hosts)
        self._tell = tell
        self._client_auth = client_auth or config.client_auth
        self._both_ways = both_ways
        self._timer: Timer | None = None
        self._stopped = False
        self._seen: Material | None = None
        """What the files held at the last look, used or not."""
        self._used = Material()
        self._loaded = self._refused = 0
        self._problem: str | None = None
        self.server: ssl.SSLContext
        self.client: ssl.SSLContext | None = None

    def load(self) -> None:
        """Read the files now. Blocking. Raises `TlsRefused`."""
        self._take(_read(self._config))

    def start(self) -> None:
        """Look at the files from now on."""
        self._timer = self._loop.call_at(self._loop.monotonic_ms() + limits.TLS_LOOK_MS, self._look)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def status(self) -> TlsStatus:
        chain = self._used.chain
        not_after_s = expires_s(chain)
        left_s = not_after_s - self._loop.wall_ms() // 1_000
        return TlsStatus(self.name, chain[0].shown, not_after_s, left_s, self._loaded, self._refused, self._problem)

    # -- reloading -------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        config = self._config
        self._loop.submit(limits.TLS_QUEUE, lambda: _read(config), self._looked)

    def _looked(self, found: Material | BaseException) -> None:
        if self._stopped:
            return
        self.start()
        if isinstance(found, MusterError):
            self._refuse(str(found))
        elif isinstance(found, BaseException):
            self._refuse(f"the files cannot be read: {type(found).__name__}: {found}")
        elif found == self._used:
            self._seen, self._problem = found, None
        elif found != self._seen:
            try:
                self._take(found)
            except TlsRefused as error:
                self._refuse(str(error))
            else:
                self._tell(
                    Event(
                        TLS_LOADED,
                        {
                            "listener": self.name,
                            "subject": found.chain[0].shown,
                            "expires_s": expires_s(found.chain),
                        },
                    )
                )
            self._seen = found

    def _refuse(self, why: str) -> None:
        if why == self._problem:
            return
        self._problem = why
        self._refused += 1
        self._tell(Event(TLS_REFUSED, {"listener": self.name, "why": why}))

    def _take(self, found: Material) -> None:
        if not found.chain:
            raise TlsRefused(
                f"{self.name}: no key is configured: set ssl.keystore.location, or ssl.keystore.certificate.chain and "
                "ssl.keystore.key"
            )
        asks = self._client_auth is not ClientAuth.NONE
        if asks and not found.trusted:
            raise TlsRefused(f"{self.name}: ssl.client.auth asks for certificates: set ssl.truststore.location")
        # A truststore that is there for clients' certificates may be of another CA than the server's own.
        issuers = found.trusted if self._both_ways or not asks else ()
        now_s = self._loop.wall_ms() // 1_000
        problem = problem_of(found.chain, found.key, hosts=self._hosts, now_s=now_s, issuers=issuers)
        if problem is not None:
            raise TlsRefused(f"{found.where}: {problem}")
        try:
            server = self._context(ssl.PROTOCOL_TLS_SERVER, found)
            client = self._context(ssl.PROTOCOL_TLS_CLIENT, found) if self._both_ways else None
        except (ssl.SSLError, ValueError) as error:
            raise TlsRefused(
                f"{found.where}: OpenSSL does not take it: {getattr(error, 'reason', None) or error}"
            ) from error
        self.server, self.client, self._used, self._problem = server, client, found, None
        self._loaded += 1

    def _context(self, kind: int, found: Material) -> ssl.SSLContext:
        config = self._config
        context = ssl.SSLContext(kind)
        context.minimum_version = min(_VERSIONS[name] for name in config.protocols)
        context.maximum_version = max(_VERSIONS[name] for name in config.protocols)
        context.options = (
            context.options | ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        )
        old = [name for name in config.cipher_suites if name not in _SUITES_OF_13]
        if old:
            context.set_ciphers(":".join(map(openssl_name, old)))
        elif config.cipher_suites:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
        with _as_file(found.pem) as path:
            context.load_cert_chain(path)
        if found.trusted_pem:
            context.load_verify_locations(cadata=found.trusted_pem)
        if kind == ssl.PROTOCOL_TLS_SERVER:
            context.num_tickets = 0
            context.verify_mode = {
                ClientAuth.NONE: ssl.CERT_NONE,
                ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
                ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
            }[self._client_auth]
        return context


def openssl_name(java: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 -> ECDHE-RSA-AES128-GCM-SHA256; OpenSSL's own names stay."""
    name = java.removeprefix("TLS_").replace("_WITH_", "_")
    name = name.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("POLY1305_SHA256", "POLY1305")
    return name.replace("_", "-").removeprefix("RSA-")


@contextmanager
def _as_file(pem: bytes) -> Iterator[str]:
    """A path under which OpenSSL reads this; it never reaches a disk where the kernel has files in memory."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("muster-tls", os.MFD_CLOEXEC)
        with os.fdopen(number, "wb") as file:
            file.write(pem)
            file.flush()
            yield f"/proc/self/fd/{number}"
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        yield file.name


def _read(config: TlsConfig) -> Material:
    from muster_coordinator.runtime.tls_files import read_material

    return read_material(config)
