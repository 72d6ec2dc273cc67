"""Draining and undraining of replicas, by the product's own code, while anything else happens to them.

A drain belongs to a life: the next start registers the replica anew, and that clears the mark. An undrain that finds no
controller is asked for again, as an operator does. Who is drained leads nothing that another could.
"""

from muster_coordinator.admin.drain import DrainPhase
from muster_coordinator.controller.commands import CommandResult
from muster_coordinator.errors import Code
from muster_coordinator.ids import BrokerId

from tests.sim.cluster import Cluster, Life
from tests.sim.history import Violation

AGAIN_MS = 300


def begin(life: Life) -> None:
    """Drain it; harmless while it is being drained."""
    life.loop.call_soon(lambda: life.drain.start(lambda: _drained(life)))


def _drained(life: Life) -> None:
    cluster, broker = life.cluster, life.replica.broker
    cluster.marks.add("a replica was drained")
    image = life.node.image()
    assert image is not None
    brokers = image.brokers

    def may_lead(voter: int) -> bool:
        return voter != broker and voter in brokers and not brokers[BrokerId(voter)].draining

    host = life.node.host
    kept = [number for number in host.heartbeats.led() if any(map(may_lead, host.groups[number].voters))]
    if kept:
        cluster.violations.append(Violation("drain", f"{broker} is drained, and leads the groups {kept}"))


def end(life: Life) -> None:
    """Undo what `begin` did, until it is done or the life is over. A process that is paused may have to begin it yet:
    it looks in its own turn, after that."""

    def undo() -> None:
        if life.drain.phase != DrainPhase.IDLE or _is_marked(life):
            life.drain.undo(lambda result: _undone(life, result))

    life.loop.call_soon(undo)


def _undone(life: Life, result: CommandResult) -> None:
    if result.error == Code.NONE:
        life.cluster.marks.add("a drain was undone")
    else:
        life.loop.call_at(life.loop.monotonic_ms() + AGAIN_MS, lambda: end(life))


def _is_marked(life: Life) -> bool:
    image = life.node.image()
    own = None if image is None else image.brokers.get(life.replica.broker)
    return own is not None and own.draining


def marked(cluster: Cluster) -> list[str]:
    """Replicas that nobody drains any more, and that somebody takes for draining. The mark of one whose disk was lost
    stays: it does not come back to take it away."""
    emptied = {replica.broker for replica in cluster.replicas if replica.emptied}
    found = []
    for replica in cluster.up():
        image = replica.node.image()
        for broker in () if image is None else image.brokers.values():
            if broker.draining and broker.broker not in emptied:
                found.append(f"{replica.broker} takes {broker.broker} for draining")
    return found
