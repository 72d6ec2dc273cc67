"""`make operator-bench`, row of many Kafka clusters: 100 of them, 10 dead, over real sockets.

90 addresses lead to one real Muster cluster, each through a socket of its own, so the operator knows nothing of their
being one; 5 addresses take connections and never say a word, 5 refuse them. The operator's core runs as it does in
production, with the real Kafka adapter, for a minute, on an API server held in memory. Said is how old an answer of a
cluster that is well ever got; 1 is the exit status when that is more than the target.
"""

import asyncio
import os
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from muster_operator.app import Core
from muster_operator.kafka.adapter import KafkaAdapter
from muster_operator.kafka.clients import Clients
from muster_operator.runtime.clock import SystemClock, SystemRand
from muster_operator.runtime.metrics import Metrics
from muster_operator.world.group import Leaver, ObservedGroup
from muster_operator.world.views import Unknown

from tests.cluster import MusterCluster
from tests.operator.fakes.bench import SETTINGS, group
from tests.operator.fakes.fake_kube import FakeKube
from tests.operator.fakes.fake_services import FakeAdmin

CLUSTERS, MUTE, REFUSING = 100, 5, 5
GROUPS_PER_CLUSTER = 3
RUN_S = 60.0
TARGET_S = 15.0


class Watched:
    """`ports.Kafka` that notes when each address was last answered for, and the longest time between."""

    def __init__(self, kafka: KafkaAdapter) -> None:
        self._kafka = kafka
        self.last_s: dict[str, float] = {}
        self.oldest_s: dict[str, float] = {}
        self.unknown: dict[str, str] = {}

    def expect(self, addresses: Sequence[str]) -> None:
        self.last_s = dict.fromkeys(addresses, time.monotonic())
        self.oldest_s = dict.fromkeys(addresses, 0.0)

    async def group(self, *, bootstrap: str, group_id: str, topics: Sequence[str]) -> ObservedGroup | Unknown:
        answer = await self._kafka.group(bootstrap=bootstrap, group_id=group_id, topics=topics)
        if isinstance(answer, Unknown):
            self.unknown[bootstrap] = answer.message
        elif bootstrap in self.last_s:
            self.seen(bootstrap)
        return answer

    async def remove_members(self, *, bootstrap: str, group_id: str, members: Sequence[Leaver]) -> None:
        raise AssertionError("nothing is removed here")

    def seen(self, bootstrap: str) -> None:
        now = time.monotonic()
        self.oldest_s[bootstrap] = max(self.oldest_s[bootstrap], now - self.last_s[bootstrap])
        self.last_s[bootstrap] = now

    def end(self) -> None:
        """What is not answered by now counts as it stands."""
        for bootstrap in self.last_s:
            age = time.monotonic() - self.last_s[bootstrap]
            self.oldest_s[bootstrap] = max(self.oldest_s[bootstrap], age)


async def forward(target: int) -> tuple[asyncio.Server, str]:
    """A socket of its own that leads to `target`."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(pump(reader, back), pump(there, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def dead(stack: ExitStack) -> list[str]:
    """Addresses of which some take connections in silence and some refuse them."""
    found = []
    for number in range(MUTE + REFUSING):
        one = stack.enter_context(socket.socket())
        one.bind(("127.0.0.1", 0))
        if number < MUTE:
            one.listen(16)
        found.append(f"127.0.0.1:{one.getsockname()[1]}")
    return found


async def measure(cluster: MusterCluster, stack: ExitStack) -> Watched:
    """A minute of the operator's core."""
    servers = [await forward(cluster.port) for _ in range(CLUSTERS - MUTE - REFUSING)]
    well = [address for _, address in servers]
    kube, clock = FakeKube(), SystemClock()
    for at, address in enumerate((*dead(stack), *well)):
        for number in range(GROUPS_PER_CLUSTER):
            kube.put(group(f"c{at}-g{number}", template=False, bootstrapServers=address))
    adapter = KafkaAdapter(Clients(clock))
    watched = Watched(adapter)
    core = Core(
        kube=kube, admin=FakeAdmin(kube), kafka=watched, clock=clock, rand=SystemRand(), metrics=Metrics(),
        plan_settings=SETTINGS,
    )  # fmt: skip
    await core.resync.list_all()
    core.resync.wake_all()
    watched.expect(well)
    running = asyncio.create_task(core.runner.run())
    try:
        await asyncio.wait({running}, timeout=RUN_S)
        watched.end()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await adapter.close()
        for server, _ in servers:
            server.close()
    return watched


def main() -> int:
    """Exit status."""
    with (
        tempfile.TemporaryDirectory() as folder,
        MusterCluster(Path(folder) / "m", replicas=1, partitions=4) as cluster,
        ExitStack() as stack,
    ):
        before = os.times()
        watched = asyncio.run(measure(cluster, stack))
        spent = os.times().user + os.times().system - before.user - before.system
    oldest = sorted(watched.oldest_s.values())
    wrong = {one: watched.unknown[one] for one in watched.oldest_s if one in watched.unknown}
    print(f"{CLUSTERS} Kafka clusters, {MUTE + REFUSING} dead, {GROUPS_PER_CLUSTER} groups each, {RUN_S:g} s:")
    print(f"oldest answer of a cluster that is well {oldest[-1]:.1f} s, median {oldest[len(oldest) // 2]:.1f} s "
          f"(target {TARGET_S:g} s); told Unknown of those: {len(wrong)}")  # fmt: skip
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; processor time {spent:.1f} s")
    return 0 if oldest[-1] <= TARGET_S and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
