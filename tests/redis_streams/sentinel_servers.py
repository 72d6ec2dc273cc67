"""Three real Redis servers, one of them the primary, and three real Sentinels that make another one the primary."""

import contextlib
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.cluster import CANARY, port_block, wait_until
from tests.redis_streams.redis_server import Connection, RedisError, RedisServer, program

SERVERS = SENTINELS = 3
NAME = "Orders"
"""What Sentinels call the primary; with a capital, which the host of a url would lose."""
PASSWORD = f"{CANARY.decode()}-of-sentinels"
SETTLED_S_MAX = 90.0
DOWN_AFTER_MS, FAIL_OVER_MS = 3_000, 10_000
"""On a busy machine a primary that lives is silent for a second; a fail-over that nobody wanted loses what is not
promised then."""


class Sentinels:
    """Start and end by `with`."""

    def __init__(self, folder: Path, *, keeps: tuple[bool, ...] = (True,) * SERVERS) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.servers: list[RedisServer] = []
        for number in range(SERVERS):
            place = folder / f"server-{number}"
            place.mkdir()
            more = ("--repl-diskless-sync-delay", "0")
            self.servers.append(RedisServer(place, keeps=keeps[number], more=more))
        self._ports = port_block(SENTINELS)
        self.addresses = tuple(("127.0.0.1", self._ports.base + number) for number in range(SENTINELS))
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Sentinels":
        try:
            self._form()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _form(self) -> None:
        first, *others = self.servers
        first.start()
        for server in others:
            server.start()
            server.connect().ask("REPLICAOF", "127.0.0.1", first.port)
        wait_until("replicas", lambda: self._replicas(first) == SERVERS - 1, SETTLED_S_MAX)
        for number, (_, port) in enumerate(self.addresses):
            place = self.folder / f"sentinel-{number}"
            place.mkdir()
            config = place / "sentinel.conf"
            config.write_text(
                f"port {port}\nbind 127.0.0.1\ndir {place}\nrequirepass {PASSWORD}\n"
                f"sentinel sentinel-pass {PASSWORD}\n"
                f"sentinel monitor {NAME} 127.0.0.1 {first.port} 2\n"
                f"sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}\n"
                f"sentinel failover-timeout {NAME} {FAIL_OVER_MS}\n"
            )
            with (place / "log").open("ab") as log:
                started = subprocess.Popen([program(), str(config), "--sentinel"], stdout=log, stderr=log)
            self._processes.append(started)
        wait_until("Sentinels that know each other and the replicas", self._settled, SETTLED_S_MAX)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        self._ports.close()
        for server in self.servers:
            server.close()

    @property
    def settings(self) -> dict[str, Any]:
        """Of a client (`runtime.redis_server.RedisSettings`)."""
        return {
            "url": f"redis://{NAME}/0", "sentinels": self.addresses, "primary": NAME, "sentinel_password": PASSWORD,
        }  # fmt: skip

    @property
    def keys(self) -> dict[str, str]:
        """Of a replica's configuration."""
        return {
            "redis.url": f"redis://{NAME}/0",
            "redis.sentinels": ",".join(f"{host}:{port}" for host, port in self.addresses),
            "redis.sentinel.password": PASSWORD,
        }

    def ask(self, number: int, *command: str) -> Any:
        connection = Connection(self.addresses[number][1])
        try:
            connection.ask("AUTH", PASSWORD)
            return connection.ask(*command)
        finally:
            connection.close()

    def told(self, number: int) -> dict[bytes, bytes]:
        """By one Sentinel, of the primary."""
        flat = self.ask(number, "SENTINEL", "MASTER", NAME)
        return dict(zip(flat[::2], flat[1::2], strict=True))

    def primary(self) -> RedisServer:
        """As more than one Sentinel says."""
        said = [self._said(number) for number in range(SENTINELS)]
        port = max(set(said), key=said.count)
        return next(server for server in self.servers if server.port == port)

    def _said(self, number: int) -> int:
        try:
            return int(self.ask(number, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1])
        except (OSError, RedisError):
            return 0

    def fail_over(self) -> None:
        """Another one becomes the primary, in an orderly way.

        A Sentinel that has not read a replica's role since that one was the primary makes it a replica again while it
        is being promoted; then the first one gives up after `FAIL_OVER_MS`, and is asked again.
        """
        before = self.primary()

        def done() -> bool:
            if self._said(0) == before.port:
                with contextlib.suppress(RedisError):  # INPROG: it is under way
                    self.ask(0, "SENTINEL", "FAILOVER", NAME)
            return self.primary() is not before

        wait_until("another primary", done, SETTLED_S_MAX, every=0.2)

    def owner(self, _: str) -> RedisServer:
        """As `Cluster.owner`: there is one, of everything."""
        return self.primary()

    def wait_other_than(self, before: RedisServer, _: str = "") -> RedisServer:
        wait_until("another primary", lambda: self.primary() is not before, SETTLED_S_MAX)
        return self.primary()

    def wait_whole(self) -> None:
        """All servers are up, and the primary has two replicas that have what it has."""
        wait_until("two replicas", lambda: self._replicas(self.primary()) == SERVERS - 1, SETTLED_S_MAX)
        wait_until("Sentinels that agree", self._settled, SETTLED_S_MAX)

    def _replicas(self, server: RedisServer) -> int:
        info = server.connect().ask("INFO", "replication").decode()
        return info.count("state=online")

    def _settled(self) -> bool:
        for number in range(SENTINELS):
            try:
                told = self.told(number)
            except (OSError, RedisError):
                return False
            if (told[b"num-slaves"], told[b"num-other-sentinels"], told[b"flags"]) != (b"2", b"2", b"master"):
                return False
        return True

    def pause(self, server: RedisServer) -> None:
        server.signal(signal.SIGSTOP)

    def go_on(self, server: RedisServer) -> None:
        server.signal(signal.SIGCONT)
