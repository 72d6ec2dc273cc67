"""Forming a cluster, exactly once, from empty data folders (decision 15): a pure state machine.

Problem: replicas that meet for the first time must agree on cluster id, voters and number of offsets partitions. A kill
at any moment must do no harm, no minority may form a second cluster, and a replica whose disk was replaced must not
take its old place. Mechanism: each replica sends its peers its `BootstrapState`: phase, replica uuid, what its
configuration expects, and its record. The transitions:

    EMPTY -> PREPARED    the lowest initial voter writes a record while all others are EMPTY and agree with it
    EMPTY -> PREPARED    a peer has a record that names this replica's uuid and fits its configuration
    PREPARED -> FORMED   all voters are PREPARED or FORMED with the same record, or one of them is FORMED
    FORMED -> FORMED     the controller's image or a peer's record has later states of seats of the same cluster
    any -> LEFT_BEHIND   a peer's record is of the same cluster in a later epoch: it was recovered without this folder

Invariant: a phase is sent only when it is durable. If a peer's record names this broker with another uuid, the data
folder was replaced: the replica stays out and reports it, and forms no cluster while a peer has such a record. When the
controller has declared the folder of a seat gone for good (ADR 38), the seat is unbound: an empty replica with that id
is reported as `Candidate`, and once the controller has bound its folder the records of all replicas name it, and it
joins as in the second transition. It does so once: a folder that has joined and lost its record stays out.

A replica whose configuration names other voters and not itself joins a cluster that is formed (ADR 41): the one whose
id its configuration names. It sends its registration with its state; its peers report it as `Candidate`, and when the
controller has registered it, their records have a seat for it, and it joins in the same way.

Of an initial voter nobody but its configuration can tell whether an empty folder is its first or a lost one, if it was
the only voter, or all of them are empty. Where that says that the cluster is formed (ADR 103), it forms none, and hears
every broker that is a part of the cluster it names, until its seat is bound to it.

A seat only ever changes to later states, so records of one cluster are merged seat by seat, from whichever peer they
come: a replica that was away while others were replaced must learn whom to trust before it trusts them. Records of
different epochs are never merged (ADR 40): whoever holds the earlier one ends its process, and takes part in nothing
any more after the next start. What this does not do: change seats, or touch disk or links; it takes events and returns
effects.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from muster_coordinator.controller.commands import RegisterBroker
from muster_coordinator.ids import BrokerId
from muster_coordinator.replica.bootstrap.identity import UNBOUND, ClusterRecord, Phase, StartRefused, Voter


class Expectation(NamedTuple):
    """What one replica's configuration says about the cluster."""

    cluster_id: str
    """"": any."""
    voters: tuple[BrokerId, ...]
    """The initial voters, ascending. Of a replica that joins later: whom it asks."""
    offsets_partitions: int


class BootstrapState(NamedTuple):
    """What a replica tells its peers about itself."""

    broker: BrokerId
    replica_uuid: bytes
    phase: Phase
    expects: Expectation
    record: ClusterRecord | None
    registration: RegisterBroker | None = None
    """Of a replica that asks to join: with what."""


@dataclass(frozen=True, slots=True)
class Persist:
    """Make this durable, then call `stored`."""

    phase: Phase
    record: ClusterRecord


@dataclass(frozen=True, slots=True)
class Tell:
    """Send this replica's bootstrap state to `peer`; None: to all peers."""

    peer: BrokerId | None


@dataclass(frozen=True, slots=True)
class Formed:
    """This replica belongs to a formed cluster from now on."""

    record: ClusterRecord


@dataclass(frozen=True, slots=True)
class AllFormed:
    """Every voter is known to be FORMED, so elections can succeed. Returned at most once."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """The record names other folders than before; it is durable."""

    record: ClusterRecord


@dataclass(frozen=True, slots=True)
class Candidate:
    """A peer with an empty folder asks for its seat, which is unbound, or for one that does not exist yet. Repeated
    until it has it."""

    broker: BrokerId
    replica_uuid: bytes
    registration: RegisterBroker | None = None
    """With what a broker that has no seat would be registered."""


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """The cluster was recovered without this folder, and that is durable: the process must end, since it may lead Raft
    groups of an epoch that is over."""

    why: str


@dataclass(frozen=True, slots=True)
class Gone:
    """This folder belongs to the cluster by its own record, and was declared gone for good: nobody there listens to it
    as a member any more. Returned at most once."""


Effect = Persist | Tell | Formed | AllFormed | Renewed | Candidate | LeftBehind | Gone


class _Held(NamedTuple):
    """The stored phase and record of a replica that is not EMPTY."""

    phase: Literal[Phase.PREPARED, Phase.FORMED, Phase.LEFT_BEHIND]
    record: ClusterRecord


class _Told(NamedTuple):
    """A peer's phase and record."""

    phase: Phase
    broker: BrokerId
    record: ClusterRecord


class Fresh(NamedTuple):
    """Random values for the record, if this replica is the one to write it."""

    cluster_id: str
    offsets_topic_id: bytes


class Formation:
    """One replica's part in forming. `status`: why this replica is not in a cluster yet, in words."""

    def __init__(
        self,
        *,
        broker: BrokerId,
        replica_uuid: bytes,
        expects: Expectation,
        phase: Phase,
        record: ClusterRecord | None,
        fresh: Fresh,
        joined: bool = False,
        registration: RegisterBroker | None = None,
        formed_before: bool = False,
    ) -> None:
        """`joined`: see `Identity`. `registration`: with what a replica asks that joins later. `formed_before`: the
        cluster that `expects` names is formed. Raises `StartRefused` if the stored record and the configuration
        contradict each other."""
        self._comes_later = broker not in expects.voters
        if self._comes_later and not expects.cluster_id:
            raise StartRefused(
                f"broker {broker} is not among the initial voters {list(expects.voters)}; to join a formed cluster, "
                "the configuration must name its id"
            )
        if formed_before and not expects.cluster_id:
            raise StartRefused("of a cluster that is formed the configuration must name its id")
        if record is not None:
            check_record(record, broker, replica_uuid, expects)
        self.broker = broker
        self.replica_uuid = replica_uuid
        self.expects = expects
        self._held = _held(phase, record)
        """None: EMPTY."""
        self.out = False
        """True: the cluster is formed and this data folder cannot join it; the replica takes part in nothing."""
        self.status = ""
        self._fresh = fresh
        self._joined = joined
        self._registration = registration
        self._formed_before = formed_before
        self._seats: tuple[Voter, ...] = ()
        """As the controller's image tells them."""
        self._heard: dict[BrokerId, BootstrapState] = {}
        self._persisting = False
        self._told_all_formed = False
        self._gone = False
        """Invariant: stays so, also when the peer that told it is heard no more."""

    @property
    def phase(self) -> Phase:
        return Phase.EMPTY if self._held is None else self._held.phase

    @property
    def record(self) -> ClusterRecord | None:
        """None as long as this replica is EMPTY."""
        return None if self._held is None else self._held.record

    def formed(self) -> ClusterRecord | None:
        """The record of the cluster that this replica belongs to, or None."""
        return self._held.record if self._held is not None and self._held.phase is Phase.FORMED else None

    def state(self) -> BootstrapState:
        """The state to send. Invariant: its phase is durable."""
        asks = self._registration if self._comes_later and self._held is None else None
        return BootstrapState(self.broker, self.replica_uuid, self.phase, self.expects, self.record, asks)

    def start(self) -> list[Effect]:
        """The first effects after a start."""
        record = self.formed()
        if record is not None:
            return [Formed(record), Tell(None), *self._decide()]
        return [Tell(None), *self._decide()]

    def heard(self, peer: BrokerId, state: BootstrapState) -> list[Effect]:
        """A peer has sent its bootstrap state."""
        if state.broker != peer:
            return []
        record = self.formed()
        if not self._is_known(record, state):
            return [] if record is None or state.phase is Phase.FORMED else self._newcomer(record, state)
        self._heard[peer] = state
        effects: list[Effect] = []
        if record is not None and state.phase is not Phase.FORMED:
            effects.append(Tell(peer))
            if (
                state.phase is Phase.EMPTY
                and record.uuid_of(peer) == UNBOUND
                and not record_misfit(record, peer, state.expects)
            ):
                effects.append(Candidate(peer, state.replica_uuid, _own_registration(state)))
        return effects + self._decide()

    def _is_known(self, record: ClusterRecord | None, state: BootstrapState) -> bool:
        """An initial voter, or a broker with a seat: by the record here, or by its own of the same cluster, as it may
        have joined before this replica was told."""
        its = state.record
        if state.broker in self.expects.voters:
            return True
        if record is None:
            there = self._formed_before and state.phase is Phase.FORMED
            return there and its is not None and its.cluster_id == self.expects.cluster_id
        if record.uuid_of(state.broker) is not None:
            return True
        if state.phase is not Phase.FORMED or its is None or not its.is_same_cluster(record):
            return False
        return its.uuid_of(state.broker) == state.replica_uuid

    @staticmethod
    def _newcomer(record: ClusterRecord, state: BootstrapState) -> list[Effect]:
        """A replica without a seat asks to join this cluster, or some other one."""
        tell, asks = Tell(state.broker), _own_registration(state)
        if state.phase is not Phase.EMPTY or asks is None or record_misfit(record, state.broker, state.expects):
            return [tell]
        return [tell, Candidate(state.broker, state.replica_uuid, asks)]

    def seats_told(self, seats: tuple[Voter, ...]) -> list[Effect]:
        """The controller's image tells these states of the cluster's seats."""
        self._seats = seats
        return self._decide()

    def lost(self, peer: BrokerId) -> list[Effect]:
        """The link to a peer is down: the state that it sent no longer counts."""
        self._heard.pop(peer, None)
        return self._decide()

    def stored(self, phase: Phase, record: ClusterRecord) -> list[Effect]:
        """A `Persist` is durable."""
        assert self._persisting, "stored follows Persist"
        renewed = phase is self.phase is Phase.FORMED
        assert renewed or phase > self.phase, "a phase never goes back"
        self._persisting = False
        self._held = _held(phase, record)
        effects: list[Effect] = [Tell(None)]
        if phase is Phase.FORMED:
            effects.insert(0, Renewed(record) if renewed else Formed(record))
        elif phase is Phase.LEFT_BEHIND:
            effects.append(LeftBehind(_left_behind(record)))
        return effects + self._decide()

    def trusts(self, peer: BrokerId, replica_uuid: bytes) -> bool:
        """Does the formed record name `replica_uuid` as the data folder of `peer`?"""
        record = self.formed()
        return record is not None and replica_uuid != UNBOUND and record.uuid_of(peer) == replica_uuid

    def will_trust(self, peer: BrokerId, replica_uuid: bytes) -> bool:
        """Is a later state of the seats known, which names `replica_uuid`, and not durable here yet?"""
        record = self.formed()
        return record is not None and replica_uuid != UNBOUND and self._latest(record).uuid_of(peer) == replica_uuid

    # -- decisions -------------------------------------------------------------------------------------------------

    def _decide(self) -> list[Effect]:
        if self._persisting:
            return []
        if self._held is not None and self._is_left_behind(self._held.record):
            return self._leave(self._held)
        record = self.formed()
        if record is not None:
            return self._decide_formed(record)
        apart = self._recovered_apart()
        if apart:
            self.status = apart
            return []
        named = self._record_told()
        if self.out and named is None:
            return []  # the cluster exists, whoever of it can be reached now
        self.out = False
        if named is not None and named.uuid_of(self.broker) != self.replica_uuid:
            self._stay_out(named)
            return []
        return self._decide_empty(named) if self._held is None else self._decide_prepared(self._held.record)

    def _record_told(self) -> ClusterRecord | None:
        """A record that a peer has: of the latest epoch, a formed one rather than a prepared one, with the latest
        states of its seats."""
        told = [(_rank(state.record, state.phase), state.broker, state.record) for state in self._told()]
        if not told:
            return None
        rank, _, record = min(told)
        for other_rank, _, other in told:
            if other_rank == rank and record.is_same_cluster(other):
                record = record.merged(other.seats)
        return record

    def _told(self) -> Iterator["_Told"]:
        """What peers with a record have told."""
        for state in self._heard.values():
            if state.record is not None:
                yield _Told(state.phase, state.broker, state.record)

    def _recovered_apart(self) -> str:
        """Two folders of one cluster were both recovered: which one goes on, nobody here can know. "" otherwise."""
        last = max((told.record.epoch for told in self._told()), default=0)
        of_last = {told.record.epoch_id: told for told in self._told() if told.record.epoch == last > 0}
        if len({told.record.cluster_id for told in of_last.values()}) == len(of_last):
            return ""
        brokers = sorted(told.broker for told in of_last.values())
        return (
            f"the folders of the brokers {brokers} were recovered apart from each other, each as epoch {last}: stop "
            "all but one of them, and remove their folders"
        )

    def _is_left_behind(self, held: ClusterRecord) -> bool:
        return self.phase is Phase.LEFT_BEHIND or any(told.record.was_recovered_after(held) for told in self._told())

    def _leave(self, held: "_Held") -> list[Effect]:
        self.out = True
        if held.phase is Phase.LEFT_BEHIND:
            self.status = _left_behind(held.record)
            return []
        later = max((t.record for t in self._told() if t.record.was_recovered_after(held.record)), key=_epoch_of)
        return self._persist(Phase.LEFT_BEHIND, held.record._replace(epoch=later.epoch, epoch_id=later.epoch_id))

    def _formed_records(self, record: ClusterRecord) -> Iterator[ClusterRecord]:
        """The records of peers that have formed this cluster."""
        for state in self._heard.values():
            if state.phase is Phase.FORMED and state.record is not None and state.record.is_same_cluster(record):
                yield state.record

    def _stay_out(self, named: ClusterRecord) -> None:
        formed = any(True for _ in self._formed_records(named))
        seat = named.uuid_of(self.broker)
        if seat is None and self._comes_later:
            misfit = record_misfit(named, self.broker, self.expects)
            self.status = misfit or (
                f"waiting for the controller of cluster {named.cluster_id} to register broker {self.broker}"
            )
        elif seat is None:
            self.status = f"cluster {named.cluster_id} has no seat for broker {self.broker}"
        elif seat == UNBOUND:
            self.status = f"waiting for the controller to bind this data folder to the seat of broker {self.broker}"
        else:
            self.status = (
                f"the seat of broker {self.broker} in cluster {named.cluster_id} belongs to the data folder "
                f"{seat.hex()}, this one is {self.replica_uuid.hex()}: this replica was emptied and stays out"
            )
        # A record that is only prepared may still be given up (if its owners' folders are emptied): decide again then.
        self.out = formed

    def _decide_empty(self, named: ClusterRecord | None) -> list[Effect]:
        if named is not None:
            misfit = record_misfit(named, self.broker, self.expects)
            if misfit:
                self.status = misfit
                return []
            came_later = self._comes_later or next(s.binding for s in named.seats if s.broker == self.broker) > 0
            if came_later and not self._joined:
                return self._persist(Phase.PREPARED, named)
            if any(t.phase is Phase.FORMED for t in self._heard.values()):
                self.status = "the cluster is formed, and this replica has lost its own record of it: it stays out"
                self.out = True
                return []
            return self._persist(Phase.PREPARED, named)
        if self._comes_later:
            self.status = (
                f"waiting for a replica of cluster {self.expects.cluster_id} among {list(self.expects.voters)}"
            )
            return []
        if self._formed_before:
            self.status = (
                f"cluster {self.expects.cluster_id} was formed before, and this data folder is empty: waiting for "
                "another replica of it"
            )
            return []
        missing = [peer for peer in self.expects.voters if peer != self.broker and peer not in self._heard]
        if missing:
            self.status = f"waiting for the initial replicas {missing}"
            return []
        for state in self._heard.values():
            misfit = _disagreement(self.state(), state)
            if misfit:
                self.status = misfit
                return []
        if self.broker != min(self.expects.voters):
            self.status = f"waiting for broker {min(self.expects.voters)} to write the cluster record"
            return []
        return self._persist(Phase.PREPARED, self._new_record())

    def _new_record(self) -> ClusterRecord:
        wanted = {self.expects.cluster_id, *(t.expects.cluster_id for t in self._heard.values())} - {""}
        assert len(wanted) <= 1
        voters = {self.broker: self.replica_uuid, **{t.broker: t.replica_uuid for t in self._heard.values()}}
        return ClusterRecord(
            cluster_id=min(wanted, default=self._fresh.cluster_id),
            voters=tuple(Voter(broker, voters[broker]) for broker in self.expects.voters),
            offsets_partitions=self.expects.offsets_partitions,
            offsets_topic_id=self._fresh.offsets_topic_id,
        )

    def _decide_prepared(self, record: ClusterRecord) -> list[Effect]:
        for told in self._formed_records(record):
            return self._persist(Phase.FORMED, record.merged(told.seats))
        unprepared = []
        for voter in record.voters:
            if voter.broker == self.broker:
                continue
            state = self._heard.get(voter.broker)
            if state is None or state.phase is Phase.EMPTY:
                unprepared.append(voter.broker)
                if state is not None and state.replica_uuid != voter.replica_uuid:
                    self.status = (
                        f"broker {voter.broker} came back with another data folder while cluster "
                        f"{record.cluster_id} was being formed"
                    )
                    return []
            elif state.record is None or not state.record.is_same_cluster(record):
                self.status = f"broker {voter.broker} belongs to another cluster record"
                return []
        if unprepared:
            self.status = f"prepared for cluster {record.cluster_id}, waiting for {unprepared}"
            return []
        return self._persist(Phase.FORMED, record)

    def _decide_formed(self, record: ClusterRecord) -> list[Effect]:
        latest = self._latest(record)
        was_gone, self._gone = self._gone, self._gone or latest.uuid_of(self.broker) != self.replica_uuid
        self.out = self._gone
        if self._gone:
            # Its own record stays as it is: with another one, this folder could not even start to say so.
            self.status = (
                f"the data folder {self.replica_uuid.hex()} of broker {self.broker} was declared gone for good and "
                f"replaced or unregistered in cluster {record.cluster_id}: this replica stays out, remove its folder"
            )
            return [] if was_gone else [Gone()]
        if latest != record:
            return self._persist(Phase.FORMED, latest)
        return self._watch_others_form(record)

    def _latest(self, record: ClusterRecord) -> ClusterRecord:
        latest = record.merged(self._seats)
        for told in self._formed_records(record):
            latest = latest.merged(told.seats)
        return latest

    def _watch_others_form(self, record: ClusterRecord) -> list[Effect]:
        self.status = ""
        if self._told_all_formed:
            return []
        for voter in record.voters:
            state = self._heard.get(voter.broker)
            if voter.broker != self.broker and (
                state is None
                or state.phase is not Phase.FORMED
                or state.record is None
                or not state.record.is_same_cluster(record)
            ):
                return []
        self._told_all_formed = True
        return [AllFormed()]

    def _persist(self, phase: Phase, record: ClusterRecord) -> list[Effect]:
        self._persisting = True
        self.status = f"writing the record of cluster {record.cluster_id}"
        return [Persist(phase, record)]


def _rank(record: ClusterRecord, phase: Phase) -> tuple[int, int]:
    """The lower, the rather a record is believed."""
    return -record.epoch, (Phase.FORMED, Phase.PREPARED, Phase.LEFT_BEHIND).index(phase)


def _epoch_of(record: ClusterRecord) -> int:
    return record.epoch


def _left_behind(record: ClusterRecord) -> str:
    return (
        f"cluster {record.cluster_id} was recovered without this data folder, and is in epoch {record.epoch}: this "
        "replica stays out for good, remove its folder"
    )


def _own_registration(state: BootstrapState) -> RegisterBroker | None:
    """With what the replica asks to join, unless that is another one's."""
    asks = state.registration
    own = asks is not None and (asks.broker, asks.replica_uuid) == (state.broker, state.replica_uuid)
    return asks if own else None


def _held(phase: Phase, record: ClusterRecord | None) -> _Held | None:
    if phase is Phase.EMPTY or record is None:
        assert phase is Phase.EMPTY, "a phase is stored with its record"
        assert record is None, "a record is stored with its phase"
        return None
    return _Held(phase, record)


def check_record(record: ClusterRecord, broker: BrokerId, replica_uuid: bytes, expects: Expectation) -> None:
    """Raises `StartRefused` if a stored record contradicts this replica's identity or configuration."""
    if record.uuid_of(broker) != replica_uuid:
        raise StartRefused(f"the stored cluster record does not name this data folder for broker {broker}")
    misfit = record_misfit(record, broker, expects)
    if misfit:
        raise StartRefused(misfit)


def record_misfit(record: ClusterRecord, broker: BrokerId, expects: Expectation) -> str:
    """How a record and the configuration of this broker contradict each other, naming both values; "" if they do not.
    A broker that joins later does not name the initial voters, but replicas that it asks."""
    if expects.cluster_id not in ("", record.cluster_id):
        return f"this data belongs to cluster {record.cluster_id}, the configuration says {expects.cluster_id}"
    if record.offsets_partitions != expects.offsets_partitions:
        return (
            f"cluster {record.cluster_id} was formed with {record.offsets_partitions} offsets partitions, "
            f"the configuration says {expects.offsets_partitions}"
        )
    if broker in expects.voters and record.brokers() != expects.voters:
        return (
            f"cluster {record.cluster_id} was formed by the replicas {list(record.brokers())}, "
            f"the configuration says {list(expects.voters)}"
        )
    return ""


def _disagreement(own: BootstrapState, other: BootstrapState) -> str:
    mine, theirs = own.expects, other.expects
    if mine.voters != theirs.voters:
        return f"broker {other.broker} expects the replicas {list(theirs.voters)}, this one {list(mine.voters)}"
    if mine.offsets_partitions != theirs.offsets_partitions:
        return (
            f"broker {other.broker} expects {theirs.offsets_partitions} offsets partitions, "
            f"this one {mine.offsets_partitions}"
        )
    if mine.cluster_id and theirs.cluster_id and mine.cluster_id != theirs.cluster_id:
        return f"broker {other.broker} expects cluster {theirs.cluster_id}, this one {mine.cluster_id}"
    return ""
