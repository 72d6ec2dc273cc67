"""The mesh over TCP on virtual time: after a partition has healed, every pair hears one another again soon.

Whatever was cut, in one direction or both, however long, and whatever the links had to say meanwhile: within a lost
dial and a back-off. Bytes that a kernel sends ever later would take as long again as the partition lasted.
"""

import random
from itertools import permutations

import pytest
from muster_coordinator.ids import BrokerId
from muster_coordinator.links import limits
from muster_coordinator.links.channels import APPEND, CONTROL

from tests.sim import streams
from tests.sim.loop import SimLoop, World
from tests.sim.mesh_net import MeshNet, MeshPort

BROKERS = (BrokerId(0), BrokerId(1), BrokerId(2))
HEALED_MS_MAX = 1_000 + limits.LINK_BACKOFF_MAX_MS
SEEDS = range(8)


class Sink:
    """Hears; and says something now and then, as a leader does."""

    def __init__(self) -> None:
        self.heard_us: dict[BrokerId, int] = {}
        self.port: MeshPort | None = None

    def peer_up(self, peer: BrokerId, hello: bytes) -> None: ...
    def peer_down(self, peer: BrokerId) -> None: ...

    def peer_message(self, peer: BrokerId, channel: int, payload: bytes) -> None:
        assert self.port is not None
        self.heard_us[peer] = self.port.loop.world.now_us


class Meshes:
    """Three replicas, linked. `every_ms_of_each`: how often each speaks to the others; 0: never."""

    def __init__(self, seed: str, every_ms_of_each: tuple[int, ...]) -> None:
        self.world = World(seed)
        self.net = MeshNet(self.world, BROKERS, delay_us=(50, 2_000))
        self.sinks = {broker: Sink() for broker in BROKERS}
        for broker, own_ms in zip(BROKERS, every_ms_of_each, strict=True):
            port = self.net.port(broker, SimLoop(self.world))
            self.sinks[broker].port = port
            port.start(self.sinks[broker])
            if own_ms:
                self._speak(port, own_ms)
        self.world.run_until("linked", self.linked, 5_000)

    def _speak(self, port: MeshPort, every_ms: int) -> None:
        for peer in BROKERS:
            if peer != port.broker:
                port.send(peer, CONTROL, b"\0\0here")
        port.loop.call_at(port.loop.monotonic_ms() + every_ms, lambda: self._speak(port, every_ms))

    def linked(self) -> bool:
        return all(self.net.link_up(a, b) for a in BROKERS for b in BROKERS if a < b)

    def heard_since(self, since_us: int) -> list[tuple[int, int]]:
        """Pairs (sender, receiver) that got through after `since_us`; everybody tries."""
        for a, b in permutations(BROKERS, 2):
            port = self.sinks[a].port
            assert port is not None
            port.send(b, APPEND, b"\0\0are you there")
        return [(a, b) for a, b in permutations(BROKERS, 2) if self.sinks[b].heard_us.get(a, 0) > since_us]


def healed_ms(seed: str, cut_ms: int, both_ways: bool, every_ms_of_each: tuple[int, ...]) -> float:
    """Until everybody heard everybody after a random cut healed."""
    meshes = Meshes(seed, every_ms_of_each)
    world, rand = meshes.world, random.Random(seed)
    world.run_for(rand.uniform(0, 4_000))
    pairs = list(permutations(BROKERS, 2))
    chosen = rand.sample(pairs, rand.randint(1, len(pairs)))
    chosen += [(b, a) for a, b in chosen] if both_ways else []
    for a, b in chosen:
        meshes.net.cut(a, b)
    world.run_for(cut_ms)
    meshes.net.heal()
    healed_us = world.now_us
    for _ in range(2_000):
        world.run_for(5)
        if len(meshes.heard_since(healed_us)) == len(pairs):
            return (world.now_us - healed_us) / 1_000
    raise AssertionError("never heard again")


@pytest.mark.parametrize("cut_ms", [50, 150, 300, 700, 1_200, 2_100, 3_000, 7_000, 11_000])
@pytest.mark.parametrize("both_ways", [True, False])
def test_after_a_partition_every_pair_hears_one_another_soon(cut_ms: int, both_ways: bool) -> None:
    for seed in SEEDS:
        every_ms_of_each = random.Random(f"every/{seed}").choice(((50, 50, 50), (50, 0, 0), (0, 0, 50), (400, 0, 0)))
        took_ms = healed_ms(f"{seed}/{cut_ms}/{both_ways}", cut_ms, both_ways, every_ms_of_each)
        assert took_ms <= HEALED_MS_MAX, f"seed {seed} took {took_ms} ms"


def test_a_connection_that_a_kernel_would_keep_through_the_partition_stays_silent_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What TCP_USER_TIMEOUT is for, and that the test above would notice if it was missing."""
    monkeypatch.setattr(streams, "UNACKNOWLEDGED_US", 60_000_000)
    took_ms = [healed_ms(f"{seed}/kept", 7_000, both_ways=True, every_ms_of_each=(50, 50, 50)) for seed in SEEDS[:3]]
    assert max(took_ms) > 2 * HEALED_MS_MAX
