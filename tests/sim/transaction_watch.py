"""What transactions do inside, seen at each entry that a replica applies: decisions, markers, and who died in between.

A marker stands in no log before its decision is applied somewhere (E5), since its coordinator may lose what is only
proposed. The watch also ends coordinators where it matters most: at the next boundary after an outcome was decided,
after some markers, after all, or after an epoch was raised, before anybody hears of it (`deaths` of the plan).
"""

import random
from collections import defaultdict
from typing import NamedTuple

from muster_coordinator.controller.image import TRANSACTIONS_TOPIC
from muster_coordinator.ids import FIRST_OFFSETS_GROUP, GroupNo
from muster_coordinator.raft.messages import Entry, EntryKind
from muster_coordinator.records.batch import HEADER_BYTES, iter_records, parse_header
from muster_coordinator.records.control import decode_control
from muster_coordinator.records.transaction_log import TopicPartition
from muster_coordinator.replica.partitions.surface import partition_of
from muster_coordinator.transactions.metadata import Transaction
from muster_coordinator.transactions.states import PREPARED, State

from tests.sim import topic_frames
from tests.sim.cluster import Cluster, Replica
from tests.sim.history import Op, Violation
from tests.sim.oracle import Oracle
from tests.sim.plan import Death
from tests.sim.transactors import TxnAsk

_CONTROL_BIT, _ATTRIBUTES_AT = 0x20, 22
Decision = tuple[int, int, bool]
"""(producer id, epoch of the markers, commit)"""


class _Decided(NamedTuple):
    group: GroupNo
    """Of the transaction log."""
    wanted: frozenset[int]
    """Raft groups of the partitions that get the marker."""


class TransactionWatch:
    """Attach it before the cluster starts. `ids`: all transactional ids."""

    def __init__(self, cluster: Cluster, oracle: Oracle, ids: list[str], deaths: tuple[Death, ...]) -> None:
        self.cluster = cluster
        self.ids = ids
        self.over = False
        self._rand = random.Random(f"{cluster.setup.seed}/deaths")
        self._began_us = cluster.world.now_us
        self._deaths = list(deaths)
        self._decided: dict[Decision, _Decided] = {}
        """A producer whose epoch stays uses one key again: a new transaction forgets the decision before."""
        self._complete: set[Decision] = set()
        self._marked: dict[Decision, set[int]] = defaultdict(set)
        self._seen: dict[int, int] = {}
        """Raft group -> the highest index that anybody applied"""
        self._led_by: dict[int, int] = {}
        """Raft group of the transaction log -> who led it when it was last looked at"""
        self._epochs: dict[str, tuple[int, int]] = {}
        """The newest producer of an id, and the newest of which anybody was told."""
        self._heard: dict[str, tuple[int, int]] = {}
        oracle.on_entry.append(self._entry)
        cluster.on_ended.append(self._ended)
        cluster.on_answered.append(self._answered)

    # -- entries ---------------------------------------------------------------------------------------------------

    def _entry(self, replica: Replica, group: int, entry: Entry) -> None:
        manager = replica.node.group_manager
        if entry.kind != EntryKind.NORMAL or manager is None or entry.index <= self._seen.get(group, 0):
            return  # whoever applies it first counts
        self._seen[group] = entry.index
        machine = manager.coordinators.get(GroupNo(group))
        if machine is not None:
            leads = machine.group.leads
            if leads:
                self._led_by[group] = replica.broker
            for name in self.ids:
                known = machine.coordinator._state.transactions.get(name)
                if known is not None:
                    self._known(replica, GroupNo(group), name, known, leads=leads)
        elif len(entry.data) >= HEADER_BYTES and entry.data[_ATTRIBUTES_AT] & _CONTROL_BIT:
            self._marker(group, entry.data)

    def _known(self, replica: Replica, group: GroupNo, name: str, known: Transaction, *, leads: bool) -> None:
        decision = (
            known.producer_id,
            known.producer_epoch,
            known.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT),
        )
        if known.state is State.ONGOING:
            for commit in (True, False):
                self._decided.pop((known.producer_id, known.producer_epoch, commit), None)
                self._marked.pop((known.producer_id, known.producer_epoch, commit), None)
                self._complete.discard((known.producer_id, known.producer_epoch, commit))
        elif known.state in PREPARED:
            if decision not in self._decided:
                self._decided[decision] = _Decided(group, self._groups(known.partitions))
            if leads and not self._marked[decision] and known.partitions:
                self._strike("decided", replica)
        elif known.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
            self._complete.add(decision)
        elif known.state is State.EMPTY and leads:
            producer = (known.producer_id, known.producer_epoch)
            if self._epochs.get(name) != producer:
                self._epochs[name] = producer
                self._strike("epoch", replica)

    def _marker(self, group: int, batch: bytes) -> None:
        header = parse_header(batch)
        marker = decode_control(next(iter_records(batch)))
        if marker is None:
            return
        decision = (header.producer_id, header.producer_epoch, marker.commit)
        decided = self._decided.get(decision)
        if decided is None:
            word = "commit" if marker.commit else "abort"
            text = f"a marker to {word} {decision[:2]} is in group {group}, and that is not decided"
            self.cluster.violations.append(Violation("E5", text))
            return
        self._marked[decision].add(group)
        coordinator = self.cluster.leader_of(decided.group)
        if coordinator is not None and decision not in self._complete:
            whole = decided.wanted <= self._marked[decision]
            self._strike("all markers" if whole else "some markers", coordinator)

    def _groups(self, places: frozenset[TopicPartition]) -> frozenset[int]:
        image = self.cluster.image()
        assert image is not None, "somebody has just applied an entry"
        return frozenset(
            image.topics[topic].partitions[partition].group
            if topic in image.topics
            else FIRST_OFFSETS_GROUP + partition
            for topic, partition in places
        )

    # -- deaths ----------------------------------------------------------------------------------------------------

    def _strike(self, stage: str, replica: Replica) -> None:
        """End `replica` at its next boundary, if the plan has that now."""
        now_ms = (self.cluster.world.now_us - self._began_us) // 1000
        due = next((death for death in self._deaths if death.stage == stage and death.at_ms <= now_ms), None)
        if due is not None and not self.over and replica in self.cluster.replicas:
            self._deaths.remove(due)
            replica.end_at_boundary(due.boundaries, power=due.power)

    def _answered(self, op: Op) -> None:
        if op.api == topic_frames.INIT_PRODUCER_ID and isinstance(op.ask, TxnAsk) and op.answer.error == 0:
            self._heard[op.ask.seat] = (op.answer.producer_id, op.answer.epoch)

    def _ended(self, replica: Replica, _power: bool) -> None:
        marks = self.cluster.marks
        led = {group for group, broker in self._led_by.items() if broker == replica.broker}
        for decision, decided in self._decided.items():
            if decision in self._complete or decided.group not in led or not decided.wanted:
                continue
            done = len(self._marked.get(decision, set()) & decided.wanted)
            if done == 0:
                marks.add("a coordinator died with a decision and no marker")
            elif done < len(decided.wanted):
                marks.add("a coordinator died with some of the markers")
            else:
                marks.add("a coordinator died with all markers and no completion")
        for name, producer in self._epochs.items():
            if self._group_of(name) in led and self._heard.get(name) != producer:
                marks.add("a coordinator died with an epoch that nobody heard of")

    def _group_of(self, name: str) -> int:
        image = self.cluster.image()
        topic = None if image is None else image.topics.get(TRANSACTIONS_TOPIC)
        return -1 if topic is None else topic.partitions[partition_of(name, len(topic.partitions))].group

    # -- the end ---------------------------------------------------------------------------------------------------

    def unfinished(self) -> list[str]:
        """Ids whose transactions are open or undone, and partitions where one is open."""
        image = self.cluster.image()
        if image is None or TRANSACTIONS_TOPIC not in image.topics:
            return []
        found = []
        for partition in image.topics[TRANSACTIONS_TOPIC].partitions:
            leader = self.cluster.leader_of(partition.group)
            if leader is None or leader.node.group_manager is None:
                found.append(f"group {partition.group} has no leader")
                continue
            state = leader.node.group_manager.coordinators[partition.group].coordinator._state
            found += [
                f"{name} is {state.transactions[name].state.name}" for name in sorted(state.ongoing | state.prepared)
            ]
        for name, topic in image.topics.items():
            for number, one in enumerate(topic.partitions if not topic.internal else ()):
                leader = self.cluster.leader_of(one.group)
                manager = None if leader is None else leader.node.group_manager
                log = None if manager is None else manager.logs.get(one.group)
                if log is None:
                    found.append(f"{name}/{number} has no leader")
                elif log.topic.machine.first_open_offset() >= 0:
                    found.append(f"{name}/{number} has an open transaction")
        return found
