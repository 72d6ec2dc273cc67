"""What a link does to a sender beside delay and loss: it refuses messages, and bytes take their time on it."""

from tests.sim.mesh_net import MeshNet
from tests.sim.net import SimNet

Net = SimNet | MeshNet

REFUSED = 0.05
"""Share of sends that a link refuses, as a channel over its high-water mark does."""


def refuse_sends(net: Net) -> None:
    net.refusal = REFUSED


def limit_rate(net: Net, bytes_per_ms: int) -> None:
    """Each direction of each link carries so much, and no more."""
    net.bytes_per_ms = bytes_per_ms


def calm(net: Net) -> None:
    """What waits for a slow link is lost with its connection."""
    net.refusal = 0.0
    if net.bytes_per_ms is not None:
        net.bytes_per_ms = None
        net.reset_busy()
