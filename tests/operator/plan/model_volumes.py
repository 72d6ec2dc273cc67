"""The volumes of a model cluster: claims, what lies on them, which data folder is bound to which id, and which Raft
groups know it.

The truth that tests judge by (`lost`, `is_member`) is read from here, never from what the product is shown.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from muster_operator.world.cluster import Seat
from muster_operator.world.views import Unknown
from muster_operator.world.volumes import ClaimView, NodeView, StorageView, VolumeView


@dataclass(slots=True)
class Claim:
    uid: str
    volume: str
    folder: str | None = None
    """What lies on it; None: it is empty."""
    volume_gone: bool = False
    node: str = "ready"
    """ready, not ready or gone: the only node where the volume can be used."""
    terminating: bool = False
    ours: bool = True

    @property
    def usable(self) -> bool:
        return not self.volume_gone and self.node == "ready" and not self.terminating


@dataclass(slots=True)
class Volumes:
    uids: Iterator[int]
    claims: dict[int, Claim] = field(default_factory=dict)
    seats: dict[int, Seat] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Folders that were declared gone for good, or left the cluster."""
    left: dict[int, int] = field(default_factory=dict)
    """Broker that left → the binding of its next folder."""
    members: dict[tuple[int, int], int] = field(default_factory=dict)
    """(Raft group, broker) → which of the broker's folders votes in it, by its binding."""
    forbidden: bool = False
    """PersistentVolumes and Nodes may not be read."""
    unreadable: bool = False
    """The API server answers with an error."""
    provides: bool = True
    """There is room for new volumes."""

    # The world's part.

    def provide(self, ordinal: int) -> bool:
        """A claim for a new pod, as the StatefulSet's controller makes it. False: the old one has to go first."""
        claim = self.claims.get(ordinal)
        if claim is not None:
            return not claim.terminating
        if self.provides:
            number = next(self.uids)
            self.claims[ordinal] = Claim(uid=f"claim-{number}", volume=f"pv-{number}")
        return self.provides

    def mount(self, ordinal: int) -> str | None:
        """The folder that a starting process finds or makes; None: it cannot start."""
        claim = self.claims.get(ordinal)
        if claim is None or not claim.usable:
            return None
        if claim.folder is None:
            claim.folder = f"{next(self.uids):032x}"
        return claim.folder

    def join(self, broker: int, folder: str) -> None:
        """A newcomer is registered with its folder, unless that has left the cluster before."""
        if broker not in self.seats and folder not in self.gone:
            self.seats[broker] = Seat(folder=folder, binding=self.left.get(broker, 0))

    def leave(self, broker: int) -> None:
        """Unregistered: its folder takes part no more, and the next one under its id is another member."""
        assert all(one != broker for _, one in self.members), "it holds replicas"
        seat = self.seats.pop(broker)
        self.left[broker] = seat.binding + (seat.folder is not None)
        if seat.folder is not None:
            self.gone.add(seat.folder)

    def form(self, brokers: int, groups: int) -> None:
        self.seats = {broker: Seat(folder=self.claims[broker].folder, binding=0) for broker in range(brokers)}
        self.members = {(group, broker): 0 for group in range(groups) for broker in range(brokers)}

    def bind(self, broker: int, folder: str) -> None:
        """The controller's leader has a candidate."""
        seat = self.seats.get(broker)
        if seat is not None and seat.folder is None and folder not in self.gone:
            self.seats[broker] = replace(seat, folder=folder)

    # What the product does.

    def declare_gone(self, broker: int, folder: str) -> None:
        if folder in self.gone:
            return
        seat = self.seats[broker]
        assert seat.folder == folder, "another folder is bound"
        assert all(other.folder is not None for other in self.seats.values()), "one at a time"
        self.gone.add(folder)
        self.seats[broker] = replace(seat, folder=None, binding=seat.binding + 1)

    def delete(self, name: str, uid: str) -> None:
        claim = self.claims.get(int(name.rpartition("-")[2]))
        if claim is None or claim.uid != uid:
            return
        assert claim.ours, "a claim of somebody else's was deleted"
        assert claim.folder in self.gone, "a claim was deleted that the coordinators have not given up"
        claim.terminating = True

    # The truth.

    def lost(self) -> set[int]:
        """Brokers whose bound folder is nowhere any more, or that have none."""
        found = set()
        for broker, seat in self.seats.items():
            claim = self.claims.get(broker)
            if claim is None or claim.volume_gone or claim.node == "gone" or claim.folder != seat.folder:
                found.add(broker)
        return found

    def takes_part(self, broker: int, folder: str | None) -> bool:
        return folder is not None and broker in self.seats and self.seats[broker].folder == folder

    def is_member(self, group: int, broker: int) -> bool:
        seat = self.seats.get(broker)
        return seat is not None and self.members.get((group, broker)) == seat.binding

    def bindings(self, group: int) -> dict[int, int | None]:
        return {broker: binding for (one, broker), binding in self.members.items() if one == group}

    def to_change(self, groups: list[int]) -> int:
        late = {group for group, broker in self.members if not self.is_member(group, broker)}
        return len(late & set(groups))

    # What the product sees.

    def view(self, ordinal: int, *, volume_read: bool, pod_uid: str | None) -> StorageView:
        claim = self.claims.get(ordinal)
        if self.unreadable:
            return StorageView(claim=Unknown(reason="Http500", message="no answer"), volume=None)
        if claim is None:
            return StorageView(claim=None, volume=None, pod_uid=pod_uid)
        shown = ClaimView(
            name=f"data-c-{ordinal}", uid=claim.uid, ours=claim.ours, terminating=claim.terminating,
            phase="Lost" if claim.volume_gone and not self.forbidden else "Bound", volume=claim.volume,
        )  # fmt: skip
        if not volume_read:
            return StorageView(claim=shown, volume=None, pod_uid=pod_uid)
        return StorageView(claim=shown, volume=self._volume(claim), volume_read=True, pod_uid=pod_uid)

    def _volume(self, claim: Claim) -> VolumeView | Unknown | None:
        if self.forbidden:
            return Unknown(reason="Forbidden", message="get PersistentVolume: HTTP 403 Forbidden")
        if claim.volume_gone:
            return None
        nodes = () if claim.node == "gone" else (NodeView(name="node-7", ready=claim.node == "ready"),)
        return VolumeView(name=claim.volume, claim_uid=claim.uid, nodes=nodes)
