"""The seats of the cluster: from the controller's image to the cluster record, and candidates for one.

Problem: whom a replica trusts stands in its cluster record, from before it has any image; who is bound to which folder
is decided by the controller's log. Mechanism: after every change of the image the record is told the states of all
seats (`bootstrap.formation` takes the later ones), and the links are told where to find brokers that joined. For an
empty replica that asks for an unbound seat the controller's leader proposes a registration with its uuid and what the
broker had told of itself before, for one that has no seat yet the registration that it asks with, both as start number
0: the first that is applied binds the seat, whoever else asks. The replica registers itself when it has joined.

What this does not do: declare a folder gone (`ReplaceReplica`, an administrator's), or change members of Raft groups.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from muster_coordinator.controller.commands import CommandResult, RegisterBroker
from muster_coordinator.controller.image import PEER_LISTENER, Broker, ClusterImage, observers
from muster_coordinator.controller.transitions import level_refusal
from muster_coordinator.errors import Code
from muster_coordinator.events import BROKER_UNREGISTERED, FOLDER_BOUND, FOLDER_GONE
from muster_coordinator.ids import BrokerId
from muster_coordinator.limits import BROKERS_MAX
from muster_coordinator.ports import Notice, PeerNet
from muster_coordinator.replica.bootstrap.formation import Candidate
from muster_coordinator.replica.bootstrap.identity import UNBOUND, Voter
from muster_coordinator.replica.controller.controller_group import ControllerGroup

NO_REFUSALS = (Code.NONE, Code.REQUEST_TIMED_OUT, Code.STALE_BROKER_EPOCH)
"""The last: it has registered itself meanwhile, since another leader proposed the same."""
NOT_REGISTERED = "a replica asks to join the cluster and cannot be registered"


def seats_of(image: ClusterImage) -> tuple[Voter, ...]:
    """The state of each seat whose broker has ever registered. That of a broker that left is unbound: so its folder is
    trusted by nobody any more, wherever its record is read."""
    known = (image.brokers.get(broker) for broker in (*image.voters, *observers(image)))
    here = tuple(Voter(one.broker, one.replica_uuid, one.binding) for one in known if one is not None)
    left = (Voter(broker, UNBOUND, len(image.unregistered[broker])) for broker in sorted(image.unregistered))
    return (*here, *left)


class Seats:
    """See the module. `told(seats)` is called with the states of the seats when they may have changed."""

    def __init__(
        self, controller: ControllerGroup, net: PeerNet, told: Callable[[tuple[Voter, ...]], None], notice: Notice
    ) -> None:
        self._controller = controller
        self._net = net
        self._told = told
        self._notice = notice
        self._refused: dict[BrokerId, str] = {}
        """Why brokers that asked last were not registered."""
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
            self._meet(before, image)
            if self._controller.group.serves:  # so a restart that applies the same again says nothing
                self._tell_folders(before, image.brokers)
                for broker in sorted(before.keys() - image.brokers.keys()):
                    folder = before[broker].replica_uuid.hex()
                    self._controller.group.tell(BROKER_UNREGISTERED, replica=int(broker), folder=folder)

    def _tell_folders(self, before: Mapping[BrokerId, Broker], after: Mapping[BrokerId, Broker]) -> None:
        group = self._controller.group
        for broker in sorted(before.keys() & after.keys()):
            old, new = before[broker], after[broker]
            for folder in new.gone[len(old.gone) :]:
                group.tell(FOLDER_GONE, replica=int(broker), folder=folder.hex())
            if new.bound and not old.bound:
                group.tell(FOLDER_BOUND, replica=int(broker), folder=new.replica_uuid.hex())

    def _meet(self, before: Mapping[BrokerId, Broker], image: ClusterImage) -> None:
        for broker in sorted(image.brokers):  # only those that joined have such an endpoint
            known, now = before.get(broker), image.brokers[broker]
            if known is None or known.endpoints != now.endpoints:
                for endpoint in now.endpoints:
                    if endpoint.listener == PEER_LISTENER:
                        self._net.meet(broker, endpoint.host, endpoint.port)

    def candidate(self, asking: Candidate) -> None:
        """A peer with an empty folder asks for a seat. It is repeated, so a proposal that is lost does no harm."""
        image = self._controller.machine.cluster
        if image is None or self._proposed or not self._controller.group.serves:
            return
        known = image.brokers.get(asking.broker)
        if known is None:
            if asking.broker in image.voters or asking.registration is None:
                return  # a voter that has not registered yet does so by itself
            registration = replace(asking.registration, incarnation=0)
        elif known.bound:
            return
        else:
            registration = _binding(known, asking.replica_uuid)
        if level_refusal(image, registration) is not None:
            registration = replace(registration, rack="")  # and is refused by the rules of that level, if it joins
        broker = asking.broker

        def answered(result: CommandResult) -> None:
            self._proposed = False
            self._refusal(broker, "" if result.error in NO_REFUSALS else result.message)

        self._proposed = self._controller.propose(registration, answered) is None

    def _refusal(self, broker: BrokerId, why: str) -> None:
        """Tell a refusal once, although it is repeated."""
        if not why:
            self._refused.pop(broker, None)
        elif self._refused.get(broker) != why:
            if len(self._refused) >= BROKERS_MAX:
                self._refused.clear()
            self._refused[broker] = why
            self._notice(NOT_REGISTERED, {"replica": int(broker), "why": why}, None)


def _binding(known: Broker, replica_uuid: bytes) -> RegisterBroker:
    return RegisterBroker(
        broker=known.broker,
        replica_uuid=replica_uuid,
        incarnation=0,
        endpoints=known.endpoints,
        admin=known.admin,
        feature_max=known.feature_max,
        rack=known.rack,
    )
