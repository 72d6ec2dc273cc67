"""What a machine does to a replica beside its end: no space on the disk, one I/O thread that stands, a clock that runs
at another speed.

A full disk stays full over restarts, so that a replica may end and start again and again until there is space.
"""

from muster_coordinator.runtime.limits import IO_QUEUES

from tests.sim.cluster import Replica
from tests.sim.loop import Latency

QUEUES = tuple(queue for queue in IO_QUEUES if queue != "clean")
"""One of these stands. Nothing waits for log cleaning, and no topic of these runs is compacted."""
STALLED_US = (200_000, 600_000)
"""A job of a queue that stands."""


def fill_disk(replica: Replica, free_kib: int) -> None:
    """So much is free from now on, and no more."""
    replica.disk.capacity_bytes = replica.disk._used() + free_kib * 1024


def free_disk(replica: Replica) -> None:
    """What failed while it was full may come out later: in this life, as after any other fault of a disk."""
    if replica.disk.capacity_bytes is not None:
        replica.disk.capacity_bytes = None
        replica.disk_faults += 1


def stall_queue(replica: Replica, number: int) -> None:
    if replica.life is not None:
        replica.life.loop.latency[QUEUES[number % len(QUEUES)]] = Latency(*STALLED_US)


def free_queues(replica: Replica) -> None:
    if replica.life is not None:
        replica.life.loop.latency.clear()


def drift(replica: Replica, parts_per_million: int) -> None:
    """The clocks of this machine run so much faster from now on, in this life and the next ones."""
    replica.drift_ppm = parts_per_million
    if replica.life is not None:
        replica.life.loop.drift(parts_per_million)
