"""What holds the data of one coordinator: its volume claim, the volume, and the nodes where that can be used.

As everywhere, None is an absence that was read from the API server, and `Unknown` is no absence.
"""

from dataclasses import dataclass

from muster_operator.world.views import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimView:
    name: str
    uid: str
    ours: bool
    """It has the labels of the StatefulSet's claim template, and no controller but the StatefulSet."""
    terminating: bool
    phase: str
    """Pending, Bound or Lost."""
    volume: str | None
    """Name of the PersistentVolume that it is bound to; None: it is bound to none yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    name: str
    ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeView:
    """A PersistentVolume."""

    name: str
    claim_uid: str | None
    """Of the claim that it is bound to; None: to none."""
    nodes: tuple[NodeView, ...] | Unknown | None
    """The existing nodes with a host name that its node affinity names; None: it names none, so any node may do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageView:
    """The storage of one ordinal, read in this pass after its replica was asked."""

    claim: ClaimView | Unknown | None
    volume: VolumeView | Unknown | None
    """Of a claim that is bound, if it was looked at (`volume_read`)."""
    volume_read: bool = False
    pod_uid: str | None = None
    """The ordinal's pod, read after the claim; None: there is none, it is being deleted, or it was not looked at."""
