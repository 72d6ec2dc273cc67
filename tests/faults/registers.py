"""Clients that commit and fetch offsets of groups without members, in single frames, and write down each of them.

No library: one would send a commit again by itself, which is two writes of one value, and no register. Here every value
is sent once; without an answer its fate is unknown. Several clients share each key, so that writes and reads overlap.
"""

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Sequence
from random import Random

from tests.sim import frames
from tests.sim.frames import Dialect, Fetched, Found, Request
from tests.sim.history import CommitAsk, FetchAsk, History

CLIENTS_PER_GROUP = 3
GROUPS = 8
PARTITIONS = 2
"""Keys of each group."""
ASK_TIMEOUT_S = 2.5
PAUSE_S = 0.002
RETRY_S = 0.05
TOPIC = "registers"


def now_us() -> int:
    return time.monotonic_ns() // 1_000


class _Client:
    def __init__(self, load: "RegisterLoad", name: str, group: str, seed: int) -> None:
        self.load, self.name, self.group = load, name, group
        self.rand = Random(seed)
        self.dialect = Dialect(new=seed % 2 == 0)
        self.served_us = 0
        self._correlation = itertools.count(1)
        self._line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self) -> None:
        while not self.load.ended.is_set():
            try:
                if self._line is None:
                    await self._find()
                if self.rand.random() < 0.5:
                    await self._commit()
                else:
                    await self._read()
                await asyncio.sleep(self.rand.uniform(0, 2 * self.load.pause_s))
            except (OSError, EOFError, TimeoutError):
                self._hang_up()
                await asyncio.sleep(self.rand.uniform(0, 2 * RETRY_S))
        self._hang_up()

    async def _find(self) -> None:
        await self._connect(*self.rand.choice(self.load.addresses))
        found = await self._ask(self.dialect.find(self.group))
        assert isinstance(found, Found)
        self._hang_up()
        if found.error != 0:
            raise EOFError
        await self._connect(found.host, found.port)

    async def _connect(self, host: str, port: int) -> None:
        self._line = await asyncio.wait_for(asyncio.open_connection(host, port), ASK_TIMEOUT_S)

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line[1].transport.abort()
            self._line = None

    async def _ask(self, request: Request) -> object:
        assert self._line is not None
        reader, writer = self._line
        correlation = next(self._correlation)
        writer.write(request.frame(correlation, self.name))
        async with asyncio.timeout(ASK_TIMEOUT_S):
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        assert int.from_bytes(frame[:4], "big") == correlation
        return request.answer(frame)

    async def _commit(self) -> None:
        history = self.load.history
        uid = history.uid()
        key = (TOPIC, self.rand.randrange(PARTITIONS))
        rows = ((*key, uid, uid % 5 - 1, f"u{uid}"),)
        request = self.dialect.commit(self.group, -1, "", None, rows)
        op = history.begin(self.name, frames.COMMIT, self.group, CommitAsk(-1, "", None, rows), now_us())
        answer = await self._ask(request)
        assert isinstance(answer, dict)
        op.answer, op.answered_us = answer, now_us()
        self._served(answer[key])

    async def _read(self) -> None:
        keys = tuple((TOPIC, partition) for partition in range(PARTITIONS))
        request = self.dialect.fetch(self.group, keys)
        op = self.load.history.begin(self.name, frames.FETCH, self.group, FetchAsk(keys), now_us())
        answer = await self._ask(request)
        assert isinstance(answer, Fetched)
        op.answer, op.answered_us = answer, now_us()
        self._served(answer.error)

    def _served(self, code: int) -> None:
        if code != 0:
            raise EOFError  # look for the coordinator again
        self.served_us = now_us()
        self.load.done += 1


class RegisterLoad(threading.Thread):
    """All of them, on one loop of their own. After `finish` the history is at rest."""

    def __init__(self, bootstrap: str, seed: int, *, pause_s: float = PAUSE_S) -> None:
        """`pause_s`: of each client between two requests, on average."""
        super().__init__(name="registers", daemon=True)
        self.pause_s = pause_s
        self.addresses: Sequence[tuple[str, int]] = [
            (host, int(port)) for host, _, port in (one.rpartition(":") for one in bootstrap.split(","))
        ]
        self.history = History()
        self.ended = threading.Event()
        self.done = 0
        """Commits and reads that succeeded."""
        self.failure: BaseException | None = None
        self.clients = [
            _Client(self, f"c{group}-{n}", f"registers-{group}", seed * 1_000 + group * 100 + n)
            for group in range(GROUPS)
            for n in range(CLIENTS_PER_GROUP)
        ]

    def run(self) -> None:
        try:
            asyncio.run(self._all())
        except BaseException as error:  # noqa: BLE001 - raised in finish, on the driver's thread
            self.failure = error

    async def _all(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for client in self.clients:
                tasks.create_task(client.run())

    def unserved(self, since_us: int) -> list[str]:
        """Who had no success after that moment."""
        return [client.name for client in self.clients if client.served_us < since_us]

    def finish(self) -> None:
        self.ended.set()
        with contextlib.suppress(RuntimeError):
            self.join(30)
        assert not self.is_alive(), "clients of registers do not end"
        if self.failure is not None:
            raise self.failure
