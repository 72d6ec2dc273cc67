"""The seats of the cluster: from the controller's image to the cluster record, and candidates for one that is unbound.

Problem: whom a replica trusts stands in its cluster record, from before it has any image; who is bound to which folder
is decided by the controller's log. Mechanism: after every change of the image the record is told the states of all
seats (`bootstrap.formation` takes the later ones). For an empty replica that asks for an unbound seat the controller's
leader proposes a registration with its uuid and what the broker had told of itself before, as start number 0: the first
that is applied binds the seat, whoever else asks. The replica registers itself when it has joined.

What this does not do: declare a folder gone (`ReplaceReplica`, an administrator's), or change members of Raft groups.
"""

from collections.abc import Callable, Mapping

from muster_coordinator.controller.commands import CommandResult, RegisterBroker
from muster_coordinator.controller.image import Broker, ClusterImage
from muster_coordinator.events import FOLDER_BOUND, FOLDER_GONE
from muster_coordinator.ids import BrokerId
from muster_coordinator.replica.bootstrap.identity import Voter
from muster_coordinator.replica.controller.controller_group import ControllerGroup


def seats_of(image: ClusterImage) -> tuple[Voter, ...]:
    """The state of each seat whose broker has ever registered."""
    known = (image.brokers.get(voter) for voter in image.voters)
    return tuple(Voter(one.broker, one.replica_uuid, one.binding) for one in known if one is not None)


class Seats:
    """See the module. `told(seats)` is called with the states of the seats when they may have changed."""

    def __init__(self, controller: ControllerGroup, told: Callable[[tuple[Voter, ...]], None]) -> None:
        self._controller = controller
        self._told = told
        self._seats: tuple[Voter, ...] = ()
        self._brokers: Mapping[BrokerId, Broker] = {}
        self._proposed = False

    def start(self) -> None:
        """Tell what the controller's checkpoint held, and all that follows."""
        self._controller.watch(self._moved)
        self._moved()

    def _moved(self) -> None:
        image = self._controller.machine.cluster
        seats = () if image is None else seats_of(image)
        if seats != self._seats:
            self._seats = seats
            self._told(seats)
        if image is not None and image.brokers is not self._brokers:
            before, self._brokers = self._brokers, image.brokers
            if self._controller.group.serves:  # so a restart that applies the same again says nothing
                self._tell_folders(before, image.brokers)

    def _tell_folders(self, before: Mapping[BrokerId, Broker], after: Mapping[BrokerId, Broker]) -> None:
        group = self._controller.group
        for broker in sorted(before.keys() & after.keys()):
            old, new = before[broker], after[broker]
            for folder in new.gone[len(old.gone) :]:
                group.tell(FOLDER_GONE, replica=int(broker), folder=folder.hex())
            if new.bound and not old.bound:
                group.tell(FOLDER_BOUND, replica=int(broker), folder=new.replica_uuid.hex())

    def candidate(self, peer: BrokerId, replica_uuid: bytes) -> None:
        """A peer with this empty folder asks for its seat. It is repeated, so a proposal that is lost does no harm."""
        image = self._controller.machine.cluster
        known = None if image is None else image.brokers.get(peer)
        if known is None or known.bound or self._proposed or not self._controller.group.serves:
            return
        self._proposed = self._controller.propose(_binding(known, replica_uuid), self._answered) is None

    def _answered(self, _result: CommandResult) -> None:
        self._proposed = False


def _binding(known: Broker, replica_uuid: bytes) -> RegisterBroker:
    return RegisterBroker(
        broker=known.broker,
        replica_uuid=replica_uuid,
        incarnation=0,
        endpoints=known.endpoints,
        admin=known.admin,
        feature_max=known.feature_max,
    )
