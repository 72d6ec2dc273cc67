"""How long a peer link needs after a silent partition: run in a network namespace of its own, as root.

`python -m tests.integration.link_after_partition SECONDS`. Two meshes on loopback talk every 100 ms, then the kernel
drops every packet for so long; printed is the time from the end of that until both hear each other again, in ms.
"""

import random
import subprocess
import sys
import time

from muster_coordinator.ids import BrokerId
from muster_coordinator.links.channels import CONTROL
from muster_coordinator.links.mesh import Mesh
from muster_coordinator.runtime.loop import AsyncLoop, new_event_loop
from muster_coordinator.runtime.peers import TcpPeers

BEAT_MS = 100
WAIT_SECONDS = 30.0
DROP = ("INPUT", "-p", "tcp", "-j", "DROP")


class End:
    """One replica's mesh; remembers when it last heard something."""

    def __init__(self, loop: AsyncLoop, broker: int, ports: list[int]) -> None:
        self.other = BrokerId(1 - broker)
        self.heard_at = 0.0
        self._loop = loop
        brokers, rand = [BrokerId(0), BrokerId(1)], random.Random(1)
        tcp = TcpPeers(
            loop.asyncio_loop,
            {BrokerId(n): ("127.0.0.1", port) for n, port in enumerate(ports)},
            lambda dialler: Mesh(BrokerId(broker), brokers, run=broker + 1, loop=loop, rand=rand, dialler=dialler),
        )
        self.mesh = tcp.mesh
        loop.asyncio_loop.run_until_complete(tcp.listen("127.0.0.1", ports[broker]))
        self.mesh.start(self)
        self._beat()

    def peer_up(self, peer: BrokerId, hello: bytes) -> None: ...
    def peer_down(self, peer: BrokerId) -> None: ...

    def peer_message(self, peer: BrokerId, channel: int, payload: bytes) -> None:
        self.heard_at = time.monotonic()

    def _beat(self) -> None:
        self.mesh.send(self.other, CONTROL, b"beat")
        self._loop.call_at(self._loop.monotonic_ms() + BEAT_MS, self._beat)


def run_until(loop: AsyncLoop, ends: list[End], since: float) -> float:
    """Until both have heard something after `since`; the time it took in ms."""
    done = loop.asyncio_loop.create_future()

    def look() -> None:
        late = time.monotonic() - since > WAIT_SECONDS
        if late or all(end.heard_at > since for end in ends):
            done.set_result(None)
        else:
            loop.call_at(loop.monotonic_ms() + 5, look)

    look()
    loop.asyncio_loop.run_until_complete(done)
    return (time.monotonic() - since) * 1000


def main() -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    loop = AsyncLoop(new_event_loop(), on_fatal=lambda error, where: sys.exit(f"{where}: {error}"))
    ends = [End(loop, broker, [29_092, 29_093]) for broker in range(2)]
    run_until(loop, ends, time.monotonic())
    subprocess.run(["iptables", "-A", *DROP], check=True)
    pause = loop.asyncio_loop.create_future()
    loop.call_at(loop.monotonic_ms() + int(float(sys.argv[1]) * 1000), lambda: pause.set_result(None))
    loop.asyncio_loop.run_until_complete(pause)
    subprocess.run(["iptables", "-D", *DROP], check=True)
    sys.stdout.write(f"{run_until(loop, ends, time.monotonic()):.0f}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
