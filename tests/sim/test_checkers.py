"""Every checker of promises fails a history in which its promise is broken: none of them is blind."""

from dataclasses import replace
from typing import Any

import pytest
from muster_coordinator.records.batch import encode_batch
from muster_coordinator.records.keys import encode_candidate_key, encode_group_key, encode_offset_key
from muster_coordinator.records.offsets_log import GroupMetadataValue, encode_group_value, encode_offset_value
from muster_coordinator.records.own import CandidateGeneration, OwnMember, encode_candidate

from tests.sim import frames
from tests.sim.audit import Audit
from tests.sim.check_groups import check_calm, check_groups
from tests.sim.check_offsets import check_offsets
from tests.sim.frames import Fetched, FetchedOffset, Joined, Synced
from tests.sim.history import CommitAsk, FetchAsk, History, JoinAsk, MemberAsk, Op, SyncAsk
from tests.sim.members import GroupPlan, make_plan

PLAN = GroupPlan(
    name="g", topic="t", partitions=2, session_ms=1_000, rebalance_ms=1_000, heartbeat_ms=100, commit_ms=100, calm=True
)


class Told:
    """Builds a history, one operation after the other, 100 us apart."""

    def __init__(self) -> None:
        self.history = History()
        self.now_us = 0

    def op(self, api: int, ask: Any, answer: Any, *, client: str = "c", broker: int = 0, term: int = 1) -> Op:
        self.now_us += 100
        op = self.history.begin(client, api, "g", ask, self.now_us)
        if answer is not None:
            self.now_us += 100
            op.answered_us, op.answer, op.broker, op.term = self.now_us, answer, broker, term
        return op

    def commit(
        self, uid: int, code: int | None = 0, *, partition: int = 0, generation: int = -1, member: str = "", **more: Any
    ) -> Op:
        row = ("t", partition, uid, 0, f"u{uid}")
        answer = None if code is None else {("t", partition): code}
        return self.op(frames.COMMIT, CommitAsk(generation, member, None, (row,)), answer, **more)

    def fetch(self, uid: int, *, partition: int = 0, offset: int | None = None) -> Op:
        got = FetchedOffset(-1, -1, "", 0) if uid < 0 else FetchedOffset(offset or uid, 0, f"u{uid}", 0)
        return self.op(frames.FETCH, FetchAsk((("t", partition),)), Fetched(0, {("t", partition): got}))

    def join(
        self,
        generation: int,
        member: str,
        members: tuple[str, ...] = (),
        *,
        leader: str = "m1",
        instance: str | None = None,
    ) -> Op:
        rows = tuple((name, None, b"") for name in members)
        answer = Joined(0, generation, "range", leader, False, member, rows)
        return self.op(frames.JOIN, JoinAsk("", instance, 1_000, 1_000), answer, client=member)

    def sync(
        self, generation: int, member: str, assignment: bytes, plan: tuple[tuple[str, bytes], ...] = (), **more: Any
    ) -> Op:
        return self.op(frames.SYNC, SyncAsk(generation, member, None, plan), Synced(0, assignment), **more)

    def heartbeat(self, generation: int, member: str, code: int) -> Op:
        return self.op(frames.HEARTBEAT, MemberAsk(generation, member, None), code)


def names(told: Told) -> set[str]:
    return {v.invariant for v in (*check_offsets(told.history), *check_groups(told.history, {"g": PLAN}))}


def two_members(told: Told, generation: int = 1) -> dict[str, bytes]:
    told.join(generation, "m2")
    told.join(generation, "m1", ("m1", "m2"))
    plan = tuple(make_plan(PLAN, ["m1", "m2"]))
    told.sync(generation, "m1", dict(plan)["m1"], plan)
    told.sync(generation, "m2", dict(plan)["m2"])
    return dict(plan)


def test_a_sound_history_passes() -> None:
    told = Told()
    two_members(told)
    told.commit(1)
    told.fetch(1)
    told.commit(2, None)
    told.fetch(2)
    told.commit(3, 22)
    told.fetch(2)
    assert names(told) == set()


@pytest.mark.parametrize(
    ("breach", "name"),
    [
        (lambda t: (t.commit(1), t.fetch(-1)), "O4"),
        (lambda t: (t.commit(1), t.commit(2), t.fetch(1)), "O1/O5"),
        (lambda t: (t.commit(1), t.commit(2, 22), t.fetch(2)), "O3"),
        (lambda t: (t.commit(1), t.fetch(1, partition=1)), "O10"),
        (lambda t: (t.commit(1), t.fetch(1, offset=7)), "O12"),
        (lambda t: t.fetch(5), "O12"),
        (lambda t: (two_members(t), t.join(1, "m1", ("m1", "m3"))), "G2"),
        (lambda t: (two_members(t, 2), t.join(1, "m2")), "G2"),
        (lambda t: (two_members(t), t.join(1, "m2", leader="m2")), "G3"),
        (lambda t: (two_members(t), t.sync(1, "m2", b"other")), "G4"),
        (lambda t: (p := two_members(t), t.sync(1, "m3", p["m1"], (("m3", p["m1"]),))), "G5"),
        (lambda t: (two_members(t, 1), t.join(2, "m1", ("m1",)), t.commit(9, 0, generation=1, member="m1")), "G7"),
        (lambda t: (t.heartbeat(1, "m1", 82), t.heartbeat(1, "m1", 0)), "G7"),
        (lambda t: (t.op(frames.LEAVE, MemberAsk(1, "m1", None), 0), t.heartbeat(1, "m1", 0)), "G7"),
        (lambda t: (t.commit(1, broker=0, term=3), t.commit(2, broker=1, term=3)), "G1"),
        (lambda t: (t.commit(1, broker=0, term=3), t.commit(2, broker=1, term=2)), "G1"),
    ],
)
def test_a_broken_promise_is_noticed(breach: Any, name: str) -> None:
    told = Told()
    breach(told)
    assert name in names(told)


def test_a_generation_that_nobody_needed_is_noticed() -> None:
    told = Told()
    two_members(told)
    assert check_calm(told.history, PLAN, 2) == []
    told.join(2, "m1", ("m1", "m2"))
    assert {v.invariant for v in check_calm(told.history, PLAN, 2)} == {"G15"}
    assert check_calm(told.history, replace(PLAN, name="other"), 2) == []


# The log.


def batch(offset: int, *records: tuple[bytes, bytes], epoch: int = 1) -> bytes:
    return encode_batch(records, timestamp_ms=1, base_offset=offset, leader_epoch=epoch)


def committed(uid: int, partition: int = 0) -> tuple[bytes, bytes]:
    return encode_offset_key("g", "t", partition), encode_offset_value(uid, 0, f"u{uid}", 1)


def candidate(generation: int, *members: str) -> tuple[bytes, bytes]:
    people = tuple(OwnMember(m, None, "c", "/h", 1, 1, (("range", b""),)) for m in members)
    return encode_candidate_key("g"), encode_candidate(
        CandidateGeneration("consumer", generation, "range", members[0], 1, people)
    )


def stable(generation: int, *members: str) -> tuple[bytes, bytes]:
    from muster_coordinator.records.offsets_log import MetadataMember

    people = tuple(MetadataMember(m, None, "c", "/h", 1, 1, b"", b"") for m in members)
    return encode_group_key("g"), encode_group_value(
        GroupMetadataValue("consumer", generation, "range", members[0] if members else None, 1, people)
    )


def audit(told: Told, *batches: bytes) -> set[str]:
    judge = Audit(told.history)
    judge.partition(batches)
    return {violation.invariant for violation in judge.finish()}


def test_a_sound_log_passes() -> None:
    told = Told()
    told.commit(1)
    told.commit(2, generation=1, member="m1")
    told.commit(3, None)
    told.commit(4, 22)
    log = [
        batch(0, committed(1)),
        batch(1, candidate(1, "m1")),
        batch(2, stable(1, "m1")),
        batch(3, committed(2)),
        batch(4, candidate(2, "m1", "m2"), epoch=2),
    ]
    assert audit(told, *log) == set()


@pytest.mark.parametrize(
    ("log", "name"),
    [
        ([], "O1"),
        ([batch(0, committed(1)), batch(1, committed(1))], "O7"),
        ([batch(0, committed(1)), batch(1, committed(2))], "O3"),
        ([batch(0, committed(1)), batch(1, committed(77))], "O12"),
        ([batch(0, committed(1)), batch(2, candidate(1, "m1"))], "R1"),
        ([batch(0, committed(1), epoch=2), batch(1, candidate(1, "m1"), epoch=1)], "R1"),
        ([batch(0, candidate(1, "m1")), batch(1, committed(1))], "G8"),
        ([batch(0, committed(1)), batch(1, candidate(2, "m1"))], "G2"),
        ([batch(0, committed(1)), batch(1, candidate(1, "m1")), batch(2, candidate(1, "m2"))], "G2"),
        ([batch(0, committed(1)), batch(1, candidate(1, "m1")), batch(2, stable(1, "m9"))], "G2"),
    ],
)
def test_a_log_that_breaks_a_promise_is_noticed(log: list[bytes], name: str) -> None:
    told = Told()
    told.commit(1)
    told.commit(2, 22)
    assert name in audit(told, *log)


def test_a_commit_behind_the_end_of_its_generation_is_noticed() -> None:
    told = Told()
    told.commit(1, generation=1, member="m1")
    good = [batch(0, candidate(1, "m1")), batch(1, stable(1, "m1"))]
    assert audit(told, *good, batch(2, committed(1))) == set()
    assert "G7" in audit(told, *good, batch(2, candidate(2, "m1")), batch(3, stable(2, "m1")), batch(4, committed(1)))
    assert "G7" in audit(told, good[0], batch(1, committed(1)))


def test_rows_of_one_commit_that_come_apart_are_noticed() -> None:
    told = Told()
    rows = (("t", 0, 1, 0, "u1"), ("t", 1, 2, 0, "u2"))
    told.op(frames.COMMIT, CommitAsk(-1, "", None, rows), {("t", 0): 0, ("t", 1): 0})
    assert audit(told, batch(0, committed(1), committed(2, 1))) == set()
    assert "O9" in audit(told, batch(0, committed(1)), batch(1, committed(2, 1)))
