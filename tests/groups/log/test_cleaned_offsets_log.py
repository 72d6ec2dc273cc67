"""The offsets log as groups' lives write it, and what the cleaner leaves of it: who reads either finds the same groups
and the same offsets (ADR 76, L3). The oracle is the replay of the whole log."""

from collections.abc import Iterator
from random import Random

import pytest
from muster_coordinator.records.batch import check, parse_header, stamp
from muster_coordinator.records.keys import encode_offset_key
from muster_coordinator.records.offsets_log import encode_offset_value
from muster_coordinator.storage.aborted import OpenTransactions
from muster_coordinator.topics.cleaning.transactions import AbortedTransaction

from tests.groups.folding import folded, meaning
from tests.groups.host import WALL, Host, Member, commit, delete, leave, settle, stable
from tests.made_settings import shard_config
from tests.topics.cleaning_model import assert_whole, cleaned, records_of

DAY_MS = 24 * 3_600_000
GROUPS = ("g", "h", "i")


class Life:
    """Groups that form, rebalance, commit with and without transactions, empty, are deleted and begin anew."""

    def __init__(self, seed: int) -> None:
        self.rand = Random(seed)
        self.host = Host(
            shard_config(
                initial_rebalance_delay_ms=0, offsets_retention_ms=DAY_MS, offsets_retention_check_ms=DAY_MS // 4
            )
        )
        self.members: dict[str, list[Member]] = {}
        self.open: set[int] = set()

    def step(self) -> None:
        rand, group = self.rand, self.rand.choice(GROUPS)
        here = self.members.get(group, [])
        what = rand.choices(
            ("form", "again", "leave", "commit", "delete", "pass", "pending", "end"), (2, 2, 2, 9, 2, 1, 4, 4)
        )[0]
        if what == "form" and not here:
            self.members[group] = stable(self.host, rand.randint(1, 3), group)
        elif what == "again" and here:
            self._together(group, here)
        elif what == "leave" and here:
            self.host.ask(leave(here.pop(rand.randrange(len(here))).id, group=group))
            if here:
                self._together(group, here)
        elif what == "commit":
            member = rand.choice(here) if here else None
            topic, partition = rand.choice(("t", "u")), rand.randrange(3)
            self.host.send(
                commit(
                    member.id if member else "",
                    member.generation if member else -1,
                    rand.randrange(1_000),
                    group=group,
                    topic=topic,
                    partition=partition,
                )
            )
        elif what == "delete" and not here:
            delete(self.host, group)
        elif what == "pass":
            self.host.advance(rand.choice((DAY_MS // 3, 2 * DAY_MS)))
            self.members.clear()  # Nobody has sent a heartbeat.
        elif what == "pending":
            producer = rand.randrange(3)
            self.open.add(producer)
            key = encode_offset_key(group, rand.choice(("t", "u")), rand.randrange(3))
            self.host.apply_records(
                (key, encode_offset_value(rand.randrange(1_000), -1, "", WALL)), producer_id=producer
            )
        elif what == "end" and self.open:
            self.host.end_transaction(self.open.pop(), commit=rand.random() < 0.5)

    def _together(self, group: str, here: list[Member]) -> None:
        for member in here:
            member.join(data=self.rand.randbytes(2))
        settle(self.host, here)


def aborted_of(batches: list[bytes]) -> tuple[list[AbortedTransaction], int]:
    """The aborted transactions of a log, cleaned or not, and how many of its batches lie below the last stable
    offset."""
    opened, found = OpenTransactions(), []
    for batch in batches:
        if parse_header(batch).is_transactional:
            one = opened.note(batch)
            if one is not None:
                found.append(AbortedTransaction(one.first_offset, one.producer_id))
    stable_offset = opened.oldest()
    if stable_offset < 0:
        return found, len(batches)
    return found, sum(check(batch).next_offset <= stable_offset for batch in batches)


def rounds_of(seed: int) -> Iterator[tuple[list[bytes], list[bytes], list[bytes]]]:
    """(the whole log, what was there of it, what a round has left), for each round of a life."""
    life = Life(seed)
    log: list[bytes] = []
    whole: list[bytes] = []
    clean_to = 0
    for _ in range(6):
        for _ in range(25):
            life.step()
        new = [stamp(entry.batch, entry.base_offset, 1) for entry in life.host.log[len(whole) :]]
        whole += new
        log += new
        aborted, stable_batches = aborted_of(log)
        upto = min(life.rand.randrange(len(log) // 2, len(log) + 1), stable_batches)
        if upto == 0 or parse_header(log[upto - 1]).next_offset <= clean_to:
            continue
        before = log
        log, round_ = cleaned(
            log, now_ms=life.host.wall, upto=upto, first_dirty=clean_to, retention_ms=DAY_MS, aborted=aborted
        )
        clean_to = round_.mapped_to
        yield whole, before, log
    assert len(log) < len(whole), "nothing was removed"


@pytest.mark.parametrize("seed", range(12))
def test_the_cleaned_log_means_what_the_whole_one_does(seed: int) -> None:
    for whole, before, after in rounds_of(seed):
        assert_whole(before, after)
        assert meaning(folded(after)) == meaning(folded(whole)), f"seed {seed}, {len(whole)} batches"


def test_an_own_record_of_a_deleted_group_is_gone_before_what_deleted_it() -> None:
    """A tombstone of Kafka's record alone would leave the own one, which brings the group back once that is dropped."""
    host = Host(shard_config(initial_rebalance_delay_ms=0))
    (member,) = stable(host, 1)
    host.ask(leave(member.id))
    assert delete(host) == 0
    stable(host, 1, "other")
    whole = [stamp(entry.batch, entry.base_offset, 1) for entry in host.log]
    once, round_ = cleaned(whole, now_ms=host.wall, retention_ms=1_000)
    assert meaning(folded(once)) == meaning(folded(whole))
    twice, _ = cleaned(once, now_ms=host.wall + 2_000, first_dirty=round_.mapped_to, retention_ms=1_000)
    assert not [record for record in records_of(twice) if record.value is None], "the tombstones are gone"
    assert meaning(folded(twice)) == meaning(folded(whole))
    assert folded(twice).groups.keys() == {"other"}
