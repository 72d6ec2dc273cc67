"""The I/O of forming a cluster: carries out the effects of `formation.Formation`, and decides which peers are trusted.

Files are written in an I/O job; the bootstrap state is sent over the links, and repeated until the cluster is formed. A
peer introduces its data folder by its hello. Invariant: until the formed record names that data folder, only the peer's
bootstrap state is accepted (decisions 14, 15). What it does not do: decide when the cluster is formed (`formation`).
"""

from collections.abc import Callable

from muster_coordinator.errors import StorageFailed, WireError
from muster_coordinator.ids import BrokerId, MemberNo, binding_of
from muster_coordinator.limits import LINK_HELLO_BYTES_MAX
from muster_coordinator.links import channels
from muster_coordinator.ports import Disk, Loop, PeerNet
from muster_coordinator.replica.bootstrap.bootstrap_payload import encode_bootstrap_state
from muster_coordinator.replica.bootstrap.formation import (
    AllFormed,
    BootstrapState,
    Candidate,
    Effect,
    Formation,
    Formed,
    Gone,
    LeftBehind,
    Persist,
    Renewed,
    Tell,
)
from muster_coordinator.replica.bootstrap.identity import (
    ClusterRecord,
    Identity,
    Phase,
    StartRefused,
    Voter,
    store_cluster,
    store_identity,
)
from muster_coordinator.replica.multiraft.payloads import Hello, decode_hello, encode_hello

TELL_MS = 500
"""How often a replica repeats its bootstrap state while it is not in a cluster."""


class Bootstrap:
    """See the module. `formed(record, peers)` and `all_formed` are called at most once each; `peers`: the trusted peers
    whose links are up already. `renewed()` is called when other folders are trusted than before, `candidate(asking)`
    when the empty folder of a peer may get a seat; it is repeated. `gone()` is called once, when this folder is known
    to be no member any more."""

    def __init__(
        self,
        loop: Loop,
        disk: Disk,
        net: PeerNet,
        identity: Identity,
        formation: Formation,
        *,
        formed: Callable[[ClusterRecord, list[BrokerId]], None],
        all_formed: Callable[[], None],
        renewed: Callable[[], None],
        candidate: Callable[[Candidate], None],
        gone: Callable[[], None],
        fatal: Callable[[BaseException], None],
    ) -> None:
        self._loop = loop
        self._disk = disk
        self._net = net
        self._identity = identity
        self.formation = formation
        self._formed = formed
        self._all_formed = all_formed
        self._renewed = renewed
        self._candidate = candidate
        self._gone = gone
        self._fatal = fatal
        self._peers: dict[BrokerId, Hello] = {}
        """Peers whose link is up -> their hello."""
        self._proven: dict[BrokerId, tuple[ClusterRecord, Hello]] = {}
        """Peers that were found to be trusted -> by which record, with which hello: each message asks for it."""

    def start(self) -> None:
        """Set the hello for new links, and carry out the first effects. Links may be opened afterwards."""
        self._set_hello()
        self._run(self.formation.start())
        self._loop.call_at(self._loop.monotonic_ms() + TELL_MS, self._repeat)

    def peer_up(self, peer: BrokerId, hello: bytes) -> None:
        """A link is new. A peer whose hello cannot be decoded is not trusted."""
        try:
            told = decode_hello(hello)
        except WireError:
            self._peers.pop(peer, None)
            return
        if told.broker == peer:
            self._peers[peer] = told
            self._tell(peer)

    def peer_down(self, peer: BrokerId) -> None:
        self._peers.pop(peer, None)
        self._run(self.formation.lost(peer))

    def heard(self, peer: BrokerId, state: BootstrapState) -> None:
        hello = self._peers.get(peer)
        if hello is None or hello.replica_uuid != state.replica_uuid:
            raise WireError(f"broker {peer} tells about a data folder that is not its own")
        self._run(self.formation.heard(peer, state))

    def seats_told(self, seats: tuple[Voter, ...]) -> None:
        """The controller's image tells these states of the cluster's seats."""
        self._run(self.formation.seats_told(seats))

    def linked(self) -> list[BrokerId]:
        """Peers whose link is up, trusted or not."""
        return list(self._peers)

    def trusts(self, peer: BrokerId) -> bool:
        """Does the formed record name the data folder that the peer has introduced?"""
        hello, record = self._peers.get(peer), self.formation.formed()
        if hello is None or record is None:
            return False
        proven = self._proven.get(peer)
        if proven is not None and proven[0] is record and proven[1] is hello:
            return True
        if not self._of_this_epoch(hello) or not self.formation.trusts(peer, hello.replica_uuid):
            return False
        self._proven[peer] = (record, hello)
        return True

    def _of_this_epoch(self, hello: Hello) -> bool:
        """False: the peer's folder was left behind when the cluster was recovered, or this one was (ADR 40). A folder
        that was empty when it greeted is of whichever epoch it joins."""
        record = self.formation.formed()
        mine = None if record is None else (record.epoch, record.epoch_id)
        return hello.cluster_id == "" or mine == (hello.epoch, hello.epoch_id)

    def will_trust(self, peer: BrokerId) -> bool:
        """Will the record name that folder as soon as it is stored? A folder that is new to the cluster speaks when it
        knows that it has joined, and not everybody knows by then."""
        hello = self._peers.get(peer)
        return hello is not None and self._of_this_epoch(hello) and self.formation.will_trust(peer, hello.replica_uuid)

    def member_of(self, peer: BrokerId) -> MemberNo | None:
        """The member that a trusted peer is; None for any other."""
        record = self.formation.formed()
        return record.member_of(peer) if record is not None and self.trusts(peer) else None

    def refused(self) -> list[str]:
        """Why linked peers are not trusted, in words. Empty while this replica belongs to no cluster."""
        record = self.formation.formed()
        if record is None:
            return []
        reasons = []
        for peer, hello in sorted(self._peers.items()):
            if hello.cluster_id not in ("", record.cluster_id):
                reasons.append(
                    f"broker {peer} belongs to cluster {hello.cluster_id}, "
                    f"this data to cluster {record.cluster_id}: refused"
                )
            elif not self._of_this_epoch(hello):
                reasons.append(
                    f"broker {peer} has a data folder of epoch {hello.epoch}, this one is of epoch {record.epoch}: "
                    f"cluster {record.cluster_id} was recovered without one of them: refused"
                )
            elif not self.trusts(peer):
                reasons.append(f"broker {peer} has another data folder than cluster {record.cluster_id} knows: refused")
        return reasons

    def _repeat(self) -> None:
        self._loop.call_at(self._loop.monotonic_ms() + TELL_MS, self._repeat)
        if self.formation.formed() is None:
            for peer in self._peers:
                self._tell(peer)

    def _tell(self, peer: BrokerId) -> None:
        self._net.send(peer, channels.CONTROL, encode_bootstrap_state(self.formation.state()))

    def _set_hello(self) -> None:
        record = self.formation.formed()
        identity = self._identity
        plain = Hello(identity.broker, identity.replica_uuid, identity.incarnation, "")
        if record is not None:
            plain = plain._replace(cluster_id=record.cluster_id, epoch=record.epoch, epoch_id=record.epoch_id)
        hello = encode_hello(plain)
        assert len(hello) < LINK_HELLO_BYTES_MAX
        self._net.set_hello(hello)

    def _run(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Persist():
                    self._persist(effect)
                case Tell():
                    for peer in list(self._peers) if effect.peer is None else [effect.peer]:
                        self._tell(peer)
                case Formed():
                    self._set_hello()
                    self._formed(effect.record, [peer for peer in self._peers if self.trusts(peer)])
                case AllFormed():
                    self._all_formed()
                case Renewed():
                    self._renewed()
                case Candidate():
                    self._candidate(effect)
                case Gone():
                    self._gone()
                case LeftBehind():
                    self._fatal(StartRefused(effect.why))

    def _persist(self, wanted: Persist) -> None:
        def stored(result: BaseException | None) -> None:
            if isinstance(result, BaseException):
                self._fatal(StorageFailed(str(result)) if isinstance(result, OSError) else result)
            else:
                self._run(self.formation.stored(wanted.phase, wanted.record))

        broker = self._identity.broker
        later = binding_of(wanted.record.member_of(broker)) > 0 or broker not in wanted.record.brokers()
        joins = wanted.phase is Phase.FORMED and later
        if joins and not self._identity.joined:
            self._identity = self._identity._replace(joined=True)
            identity = self._identity
        else:
            identity = None

        def store() -> None:
            # The identity first: a folder that knows it has joined goes on from the prepared record; one that has
            # formed and does not know would join a second time if its record were lost.
            if identity is not None:
                store_identity(self._disk, identity)
            store_cluster(self._disk, wanted.phase, wanted.record)

        self._loop.submit("checkpoint", store, stored)
