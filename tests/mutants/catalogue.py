"""The product broken on purpose, one rule at a time: each of these must be noticed by the simulator.

A mutant is a set of replacements in the product's source, made while it is imported (`loading`); the product itself
has no switch for any of it. `kinds` aims its seeds: the faults that make the broken rule matter. `first` saves those
that notice nothing; where the product has changed so that it notices nothing either, the others follow.
"""

from typing import NamedTuple

PRODUCT = "muster_coordinator."


class Patch(NamedTuple):
    """`old` must be in `module` exactly once."""

    module: str
    old: str
    new: str


class Mutant(NamedTuple):
    """Noticed within `seeds` seeds, or the simulator is blind."""

    name: str
    patches: tuple[Patch, ...]
    kinds: tuple[str, ...] | None = None
    """Aim at these faults; None: whatever the seed draws."""
    by: tuple[str, ...] = ()
    """Invariants of which one must be the first to be violated; empty: any."""
    seeds: int = 40
    first: int = 0
    """Of the seeds the one that noticed it when last looked at: it is tried before the others."""
    topics: bool = False
    """Producers and readers are what notices it."""
    churn: bool = False
    """So are clients of a topic that is deleted and created again."""
    transactions: bool = False
    """Transactional clients notice it."""
    compaction: bool = False
    """It is noticed by what cleaning leaves of a compacted topic."""

    def clients(self) -> dict[str, bool]:
        """Who is there beside what a seed draws, as `sim.plan.draw` takes it."""
        return {
            "topics": self.topics,
            "churn": self.churn,
            "transactions": self.transactions,
            "compaction": self.compaction,
        }

    def order(self, count: int) -> list[int]:
        """So many seeds as they are tried."""
        found = sorted(range(max(count, self.first + 1)), key=lambda number: (number != self.first, number))
        return found[:count]


ENDS = ("power-all", "power", "power-at-boundary", "kill-at-boundary", "isolate")

MUTANTS = (
    Mutant(
        "reply before own fsync",
        (
            Patch(
                "replica.multiraft.wal_writer",
                "        self._loop.submit(self.name, job, partial(self._done, batch))\n",
                "        batch.durable = True\n"
                "        for group, (era, index) in batch.persisted.items():\n"
                "            group.persisted(era, index)\n"
                "        for group, messages in batch.promises:\n"
                "            self._release(group, messages)\n"
                "        batch.persisted.clear()\n"
                "        batch.promises.clear()\n"
                "        self._turn_wanted()\n"
                "        self._loop.submit(self.name, job, partial(self._done, batch))\n",
            ),
        ),
        kinds=ENDS,
    ),
    Mutant(
        "reply before quorum",
        (Patch("raft.quorum", "    return values[(len(values) - 1) // 2]\n", "    return values[-1]\n"),),
        kinds=ENDS,
        first=3,
    ),
    Mutant(
        "vote not persisted",
        (
            Patch(
                "replica.multiraft.wal_writer",
                "self.wal.stage(GroupWrites(group.number, ready.hard_state, ready.entries))",
                "self.wal.stage(GroupWrites(group.number, "
                "ready.hard_state and ready.hard_state._replace(vote=-1), ready.entries))",
            ),
        ),
        kinds=ENDS,
        by=("R2",),
    ),
    Mutant(
        "truncate past commit",
        (
            Patch("raft.following", "        if log.term_at(entry.index) == entry.term:\n            continue\n", ""),
            Patch(
                "raft.following",
                '            assert entry.index > state.commit, "a committed entry is never overwritten"\n'
                "            if state.term <= log.era:\n"
                "                return None\n"
                "            log.cut(entry.index - 1, state.term)\n",
                "            log.cut(entry.index - 1, state.term)\n",
            ),
            Patch(
                "raft.log",
                '        assert term > self.era, "a log follows one leader a term, so it is cut at most once in it"\n',
                "",
            ),
            Patch(
                "raft.following",
                "    if previous < state.commit:\n"
                "        _acknowledge(state, message.sender, state.commit)\n"
                "        return\n",
                "",
            ),
        ),
        kinds=("replaying-links", "kill", "power", "isolate"),
        by=("R1", "R2", "R3", "R8", "O1", "O1/O5", "O4", "process"),
        first=3,
    ),
    Mutant(
        "answer before the no-op is applied",
        (
            Patch(
                "replica.multiraft.raft_group",
                "            self._led_term = leading_term\n",
                "            self._led_term = leading_term\n"
                "            self.ready_term = leading_term\n"
                "            self.machine.lead(leading_term)\n",
            ),
            Patch("replica.multiraft.raft_group", "                machine.lead(entry.term)\n", ""),
            Patch(
                "replica.multiraft.raft_group",
                "        core = self.core\n        heartbeats = self._host.heartbeats\n        reads = self._joining\n",
                "        if self.leads:\n            done(True)\n            return\n"
                "        core = self.core\n        heartbeats = self._host.heartbeats\n        reads = self._joining\n",
            ),
        ),
        kinds=("kill", "kill-at-boundary", "power", "transfer"),
        first=1,
    ),
    Mutant(
        "generation checked before an await",
        (
            Patch(
                "groups.offsets.commit",
                "    refused = _judge(core, live, request)\n",
                "    refused = Code.NONE if request.generation >= 0 else _judge(core, live, request)\n",
            ),
            Patch(
                "replica.partitions.shards",
                "        else:\n            self._handle(request, done)\n\n    def _read(",
                "        else:\n            self._checked_early(request, done)\n\n"
                "    def _checked_early(self, request, done):\n"
                "        from muster_coordinator.groups.membership import waking\n"
                "        from muster_coordinator.groups.offsets import commit\n"
                "        if type(request).__name__ != 'OffsetCommit' or request.generation < 0:\n"
                "            return self._handle(request, done)\n"
                "        core = self.shard._core\n"
                "        code = commit._judge(core, waking.find(core, self._now(), request.group), request)\n"
                "        if code:\n"
                "            return done(refusal(request, code))\n"
                "        def then():\n"
                "            if self.group.serves:\n"
                "                self._handle(request, done)\n"
                "            else:\n"
                "                done(refusal(request, Code.NOT_COORDINATOR))\n"
                "        self._loop.call_at(self._loop.monotonic_ms() + 20, then)\n\n"
                "    def _read(",
            ),
        ),
        by=("G7",),
        first=4,
    ),
    Mutant(
        "what is missing is said without a proof",
        (Patch("replica.partitions.topic_logs", "unproven=offset > end", "unproven=False"),),
        kinds=("depose",),
        by=("T1",),
        topics=True,
    ),
    Mutant(
        "a batch behind a refused one is told of a gap",
        (
            Patch(
                "api.refused_batches",
                "            return before.code if before is not None else code\n",
                "            return code\n",
            ),
        ),
        kinds=("transfer", "isolate", "kill", "reset-links"),
        by=("D1", "D2", "D4"),
        topics=True,
        first=2,
    ),
    Mutant(
        "an unknown producer begins behind a refused batch",
        (Patch("api.produce", "behind = None if before is None else before.sequence\n", "behind = None\n"),),
        kinds=("transfer", "isolate", "kill", "reset-links"),
        by=("D1", "D2", "D4"),
        topics=True,
        first=236,
    ),
    Mutant(
        "an offset is its topic's name's",
        (
            Patch(
                "groups.offsets.fetch", "            if ids.names.get(topic_id) != topic:\n", "            if False:\n"
            ),
            Patch(
                "groups.offsets.topic_deletion",
                "        return topic_id_of(row) in self._ids\n",
                "        return False\n",
            ),
        ),
        kinds=("kill", "transfer"),
        by=("O14",),
        churn=True,
        seeds=6,
    ),
    Mutant(
        "an emptied replica takes its seat again and votes",
        (
            Patch(
                "replica.bootstrap.formation",
                "        if named is not None and named.uuid_of(self.broker) != self.replica_uuid:\n",
                "        if False:\n",
            ),
            Patch(
                "replica.bootstrap.formation",
                "            if any(t.phase is Phase.FORMED for t in self._heard.values()):\n",
                "            if False:\n",
            ),
            Patch("replica.bootstrap.formation", " and record.uuid_of(peer) == replica_uuid\n", "\n"),
            Patch("replica.bootstrap.formation", "    if record.uuid_of(broker) != replica_uuid:\n", "    if False:\n"),
            # Else it says nothing to anybody, since its folder is none of the cluster's.
            Patch("replica.member_net", "        self._silent = True\n", "        pass\n"),
        ),
        kinds=("lost-disk", "isolate"),
        by=("R7",),
    ),
    Mutant(
        "a new folder is the member that was lost",
        (
            Patch(
                "replica.bootstrap.identity",
                "                return member_no(broker, seat.binding)\n",
                "                return member_no(broker, 0)\n",
            ),
        ),
        kinds=("lost-disk", "kill"),
        by=("R7",),
        first=1,
    ),
    Mutant(
        "a restart forgets how the members changed",
        (
            Patch(
                "replica.snapshots.group_making",
                "    return (first, *(one for one in known.configs if one.at > meta.index))\n",
                "    return (first,)\n",
            ),
        ),
        kinds=("lost-disk", "kill", "power-all"),
        first=1,
    ),
    Mutant(
        "a checkpoint does not say who the members are",
        (
            Patch(
                "replica.snapshots.group_making",
                "    first = Placed(0, beginning) if config is None else Placed(meta.index, config)\n",
                "    first = Placed(meta.index, beginning)\n",
            ),
        ),
        kinds=("lost-disk", "kill", "power-all"),
        by=("R9",),
        first=97,
    ),
    Mutant(
        "damaged batches are served",
        (
            Patch(
                "storage.soundness",
                "        if position >= end or (self._low <= position and end <= self._high):\n",
                "        if True:\n",
            ),
        ),
        kinds=("bit-rot",),
        by=("R1", "R4", "D1", "D2", "D3", "T1"),
        topics=True,
        first=3,
    ),
    Mutant(
        "a damaged last batch is taken for a torn one",
        (
            Patch(
                "storage.wal_proof",
                "            self.batch = max(batches)\n            self.chain = found[batches.index(self.batch)][1]\n",
                "            self.batch, self.chain = 0, None\n",
            ),
        ),
        kinds=("bit-rot", "power-all", "kill"),
        first=55,
    ),
    Mutant(
        "a dial that ran into its time-out is the last",
        (
            Patch(
                "links.mesh",
                "        self._stop_dialling(record)\n        self._retry(record)\n",
                "        self._stop_dialling(record)\n",
            ),
        ),
        kinds=("isolate", "halves"),
        by=("L1",),
    ),
    Mutant(
        "what a frame lacks is not waited for",
        (
            Patch(
                "links.frames",
                "                self._wanted = HEADER_BYTES + body_bytes\n                break\n",
                "                return\n",
            ),
        ),
        by=("link", "L1"),
    ),
    Mutant(
        "a link that another replaced is left open",
        (Patch("links.mesh", "            replaced.close()\n", "            pass\n"),),
        kinds=("slow-links", "power"),
        by=("link",),
        first=22,
    ),
    Mutant(
        "a marker leaves before its decision is durable",
        (
            Patch(
                "transactions.coordinator",
                "        self._append(now, flight, ((key, value),))\n",
                "        self._append(now, flight, ((key, value),))\n"
                "        if change.transaction.state in PREPARED:\n"
                "            self._send_markers(now, transactional_id, change.transaction)\n",
            ),
        ),
        kinds=("slow-disk", "stalled-thread", "isolate"),
        by=("E5",),
        seeds=6,
        transactions=True,
    ),
    Mutant(
        "the last stable offset ignores open transactions",
        (
            Patch(
                "topics.partition",
                "        return self._next if first_open == NO_OFFSET else max(first_open, self._log_start)\n",
                "        return max(self._next, first_open)\n",
            ),
        ),
        kinds=(),
        by=("D7",),
        seeds=6,
        transactions=True,
    ),
    Mutant(
        "a producer is fenced by its id only",
        (
            Patch(
                "transactions.adding",
                "    if known.producer_epoch != request.producer_epoch:\n        return Code.PRODUCER_FENCED\n",
                "",
            ),
            Patch(
                "transactions.ending",
                "        mine, again = known.producer_epoch == request.producer_epoch, False\n",
                "        mine, again = True, False\n",
            ),
        ),
        kinds=(),
        by=("E1", "E3"),
        seeds=6,
        first=2,
        transactions=True,
    ),
    Mutant(
        "a pending offset is shown early",
        (
            Patch(
                "groups.log.replay",
                "            row = _row(value, record.offset + shift)\n",
                "            row = _row(value, record.offset + shift)\n"
                "            state.offsets.put(group, topic, partition, row)\n",
            ),
        ),
        kinds=(),
        by=("E2", "E4"),
        seeds=6,
        transactions=True,
    ),
    Mutant(
        "a tombstone goes before its time",
        (
            Patch(
                "topics.cleaning.batches",
                "    passed = horizon_ms is not None and horizon_ms <= keeps.now_ms\n",
                "    passed = horizon_ms is not None\n",
            ),
        ),
        kinds=(),
        by=("C3",),
        seeds=6,
        compaction=True,
    ),
    Mutant(
        "cleaning goes past the last stable offset",
        (
            Patch(
                "topics.cleaning.plan",
                "        if segment.next_offset > stable_offset or (dirty and young):\n",
                "        if dirty and young:\n",
            ),
        ),
        kinds=(),
        by=("C1", "C4"),
        seeds=6,
        first=1,
        transactions=True,
        compaction=True,
    ),
)

CANARY = Mutant(
    "canary: acknowledges and forgets",
    (
        Patch(
            "groups.offsets.commit",
            "    return core.append(now, inflight, tuple(records))\n",
            "    core.answer(ticket, answer)\n",
        ),
    ),
    by=("O1", "O4", "O1/O5"),
    seeds=1,
)


def by_name(name: str) -> Mutant:
    """Of all, the canary included."""
    return next(mutant for mutant in (*MUTANTS, CANARY) if mutant.name == name)
