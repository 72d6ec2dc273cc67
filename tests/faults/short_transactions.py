"""Transactions of nothing but their end: ids that add partitions and end, in bursts, so that whoever dies coordinates
some that are just ending.

An end takes some milliseconds in three steps, and one copier is seldom in one of them when its coordinator is killed.
No library: what EndTxn was answered is kept, to be compared with what the logs say (`transactions`).
"""

import asyncio
import threading
from random import Random

from tests.faults.lines import REFUSED, AsyncLine, LoopThread, addresses_of
from tests.sim import transaction_frames as frames
from tests.sim.frames import Dialect
from tests.sim.transaction_frames import Named

TOPIC = "tx-short"
PARTITIONS = 3
IDS = 24
NAMES = [f"short-{n}" for n in range(IDS)]
TIMEOUT_MS = 20_000
RETRY_S = 0.05
LOOK_S = 0.02
"""How soon an id notices that a burst has begun."""
COMMITTED_SHARE = 0.7


class ShortTransactions(LoopThread):
    """All ids, on one loop. `told`: (producer id, epoch of the markers) -> committed, for each end that succeeded."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        super().__init__("short-transactions")
        self._addresses = addresses_of(bootstrap)
        self._seed = seed
        self.burst = threading.Event()
        """Set: the ids go on as fast as they can. Else they rest."""
        self.told: dict[tuple[int, int], bool] = {}

    async def all_clients(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number, name in enumerate(NAMES):
                tasks.create_task(self._go_on(name, Random(self._seed * 1_000 + number)))

    async def _go_on(self, name: str, rand: Random) -> None:
        line, dialect = AsyncLine(name), Dialect(new=True)
        producer: tuple[int, int] | None = None
        while not self.ended.is_set():
            if not self.burst.is_set():
                await asyncio.sleep(LOOK_S)
                continue
            try:
                if not line.up:
                    producer = None
                    await line.to_coordinator(self._addresses, rand, dialect, name, 1)
                if producer is None:
                    producer = _named(await line.ask(frames.init(name, TIMEOUT_MS)))
                producer = await self._transaction(line, name, producer, rand)
            except REFUSED:
                line.hang_up()
                await asyncio.sleep(rand.uniform(0, 2 * RETRY_S))
        line.hang_up()

    async def _transaction(
        self, line: AsyncLine, name: str, producer: tuple[int, int], rand: Random
    ) -> tuple[int, int]:
        """The producer of the next one."""
        partitions = rand.sample(range(PARTITIONS), rand.randint(2, PARTITIONS))
        if await line.ask(frames.add_partitions(name, producer, TOPIC, partitions)) != 0:
            raise EOFError
        commit = rand.random() < COMMITTED_SHARE
        after = _named(await line.ask(frames.end(name, producer, commit=commit, second=True)))
        assert after not in self.told, f"{name} was given {after} twice"
        self.told[after] = commit
        return after


def _named(answer: object) -> tuple[int, int]:
    """Raises `EOFError`: refused."""
    assert isinstance(answer, Named)
    if answer.error != 0:
        raise EOFError
    return answer.producer_id, answer.epoch
