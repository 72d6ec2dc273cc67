"""The links as a member of the cluster uses them: silent for good from when its folder is known to be gone.

Problem: a process goes on after its broker was decommissioned, or its folder replaced by another. By its own record it
still belongs to the cluster, and its groups have members to speak to; by theirs it does not, and each word of it closes
the link, which is made anew at once. Mechanism: what is left is what forming says, so that it hears that it is gone
(`bootstrap.bootstrap`, over the links themselves). What it does not do: close links, or stop the groups, which find no
majority and no leader any more.
"""

from muster_coordinator.ids import BrokerId
from muster_coordinator.ports import PeerNet, PeerSink


class MemberNet:
    """A `ports.PeerNet` over the links of this replica."""

    __slots__ = ("_net", "_silent")

    def __init__(self, net: PeerNet) -> None:
        self._net = net
        self._silent = False

    def fall_silent(self) -> None:
        """Nothing is sent from now on."""
        self._silent = True

    def send(self, peer: BrokerId, channel: int, payload: bytes) -> bool:
        return not self._silent and self._net.send(peer, channel, payload)

    def start(self, sink: PeerSink) -> None:
        self._net.start(sink)

    def is_up(self, peer: BrokerId) -> bool:
        return self._net.is_up(peer)

    def meet(self, peer: BrokerId, host: str, port: int) -> None:
        self._net.meet(peer, host, port)

    def set_hello(self, hello: bytes) -> None:
        self._net.set_hello(hello)
