"""Clients that commit and fetch offsets of groups without members, in single frames, and write down each of them.

No library: one would send a commit again by itself, which is two writes of one value, and no register. Here every value
is sent once; without an answer its fate is unknown. Several clients share each key, so that writes and reads overlap.
"""

import asyncio
import time
from random import Random

from tests.faults.lines import REFUSED, AsyncLine, LoopThread, addresses_of
from tests.sim import frames
from tests.sim.frames import Dialect, Fetched
from tests.sim.history import CommitAsk, FetchAsk, History

CLIENTS_PER_GROUP = 3
GROUPS = 8
PARTITIONS = 2
"""Keys of each group."""
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
        self._line = AsyncLine(name)

    async def run(self) -> None:
        while not self.load.ended.is_set():
            try:
                if not self._line.up:
                    await self._line.to_coordinator(self.load.addresses, self.rand, self.dialect, self.group)
                if self.rand.random() < 0.5:
                    await self._commit()
                else:
                    await self._read()
                await asyncio.sleep(self.rand.uniform(0, 2 * self.load.pause_s))
            except REFUSED as error:
                self.load.refusals.append((now_us(), self.group, f"{self.name}: {error!r}"))
                self._line.hang_up()
                await asyncio.sleep(self.rand.uniform(0, 2 * RETRY_S))
        self._line.hang_up()

    async def _commit(self) -> None:
        history = self.load.history
        uid = history.uid()
        key = (TOPIC, self.rand.randrange(PARTITIONS))
        rows = ((*key, uid, uid % 5 - 1, f"u{uid}"),)
        request = self.dialect.commit(self.group, -1, "", None, rows)
        op = history.begin(self.name, frames.COMMIT, self.group, CommitAsk(-1, "", None, rows), now_us())
        answer = await self._line.ask(request)
        assert isinstance(answer, dict)
        op.answer, op.answered_us = answer, now_us()
        self._served(answer[key])

    async def _read(self) -> None:
        keys = tuple((TOPIC, partition) for partition in range(PARTITIONS))
        request = self.dialect.fetch(self.group, keys)
        op = self.load.history.begin(self.name, frames.FETCH, self.group, FetchAsk(keys), now_us())
        answer = await self._line.ask(request)
        assert isinstance(answer, Fetched)
        op.answer, op.answered_us = answer, now_us()
        self._served(answer.error)

    def _served(self, code: int) -> None:
        if code != 0:
            raise EOFError(f"error {code}")  # look for the coordinator again
        self.served_us = now_us()
        self.load.done += 1


class RegisterLoad(LoopThread):
    """All of them, on one loop of their own. After `finish` the history is at rest."""

    def __init__(self, bootstrap: str, seed: int, *, pause_s: float = PAUSE_S) -> None:
        """`pause_s`: of each client between two requests, on average."""
        super().__init__("registers")
        self.pause_s = pause_s
        self.addresses = addresses_of(bootstrap)
        self.history = History()
        self.done = 0
        """Commits and reads that succeeded."""
        self.refusals: list[tuple[int, str, str]] = []
        """When, of which group, and what: why a client looks for its coordinator again."""
        self.clients = [
            _Client(self, f"c{group}-{n}", f"registers-{group}", seed * 1_000 + group * 100 + n)
            for group in range(GROUPS)
            for n in range(CLIENTS_PER_GROUP)
        ]

    async def all_clients(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for client in self.clients:
                tasks.create_task(client.run())

    def unserved(self, since_us: int) -> list[str]:
        """Who had no success after that moment."""
        return [client.name for client in self.clients if client.served_us < since_us]
