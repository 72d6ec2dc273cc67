"""Clients without a library, many on one loop: a frame out, its answer back, or an error and no connection."""

import asyncio
import contextlib
import itertools
import threading
from abc import abstractmethod
from collections.abc import Sequence
from random import Random

from typing_extensions import override

from tests.sim.frames import Dialect, Found, Request

ASK_TIMEOUT_S = 2.5
REFUSED = (OSError, EOFError, TimeoutError)
"""What is raised when the fate of a request is unknown, or when there is nobody to ask."""


def addresses_of(bootstrap: str) -> list[tuple[str, int]]:
    return [(host, int(port)) for host, _, port in (one.rpartition(":") for one in bootstrap.split(","))]


class AsyncLine:
    """At most one request is in flight."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._correlation = itertools.count(1)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @property
    def up(self) -> bool:
        return self._streams is not None

    async def connect(self, host: str, port: int) -> None:
        self._streams = await asyncio.wait_for(asyncio.open_connection(host, port), ASK_TIMEOUT_S)

    async def to_coordinator(
        self, addresses: Sequence[tuple[str, int]], rand: Random, dialect: Dialect, key: str, kind: int = 0
    ) -> None:
        """Connect to who coordinates a group (`kind` 0) or a transactional id (1), by the word of any server."""
        await self.connect(*rand.choice(addresses))
        found = await self.ask(dialect.find(key, kind))
        assert isinstance(found, Found)
        self.hang_up()
        if found.error != 0:
            raise EOFError(f"error {found.error} looking for it")
        await self.connect(found.host, found.port)

    def hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def ask(self, request: Request) -> object:
        assert self._streams is not None
        reader, writer = self._streams
        correlation = next(self._correlation)
        writer.write(request.frame(correlation, self.name))
        async with asyncio.timeout(ASK_TIMEOUT_S):
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        assert int.from_bytes(frame[:4], "big") == correlation
        return request.answer(frame)


class LoopThread(threading.Thread):
    """Clients on a loop of their own, until `finish`."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.ended = threading.Event()
        self._failure: BaseException | None = None

    @abstractmethod
    async def all_clients(self) -> None:
        """Until `ended` is set."""

    @override
    def run(self) -> None:
        try:
            asyncio.run(self.all_clients())
        except BaseException as error:  # noqa: BLE001 - raised in finish, on the driver's thread
            self._failure = error

    def finish(self) -> None:
        """Raises what ended the clients."""
        self.ended.set()
        with contextlib.suppress(RuntimeError):
            self.join(30)
        assert not self.is_alive(), f"{self.name} do not end"
        if self._failure is not None:
            raise self._failure
