"""The product broken on purpose, one Raft rule at a time, above and below the core; one test must notice each.

As `catalogue`, but nothing is drawn: the test that is to notice a mutant is named, takes no arguments and is run alone.
Mutants of single functions of the core are in `tests/raft/mutants.txt`. `docs/raft-rules.md` lists both by rule.
"""

from typing import NamedTuple

from tests.mutants.catalogue import Mutant, Patch


class RuleMutant(NamedTuple):
    """Noticed by `noticed_by` = "room.module.test" under `tests`."""

    mutant: Mutant
    noticed_by: str


def _one(name: str, module: str, old: str, new: str, noticed_by: str) -> RuleMutant:
    return RuleMutant(Mutant(name, (Patch(module, old, new),)), noticed_by)


RULE_MUTANTS = (
    _one(
        "r16 a group is heard of in acks from before it was covered",
        "replica.beats",
        "                if covered is not None and covered[0] == term and covered[1] <= outgoing.confirmed_round:\n",
        "                if covered is not None and covered[0] == term:\n",
        "replica.test_beats_contact.test_an_ack_of_a_round_from_before_the_cover_is_no_contact",
    ),
    _one(
        "r14 a deserter goes on hearing its leader",
        "replica.beats",
        "        if incoming is None or incoming.table.get(number) != term or number in incoming.deserted:\n",
        "        if incoming is None or incoming.table.get(number) != term:\n",
        "replica.test_beats_contact.test_a_follower_that_deserted_hears_its_leader_again_when_it_is_named_anew",
    ),
    _one(
        "r18 an ack counts from when it came",
        "replica.beats",
        "            outgoing.confirmed_ms = max(outgoing.confirmed_ms, ack.sent_ms)\n",
        "            outgoing.confirmed_ms = now_ms\n",
        "replica.test_beats_contact.test_an_ack_counts_from_when_its_beat_was_sent_however_late_it_comes",
    ),
    _one(
        "r18 an ack that a group waits for counts from when it came",
        "replica.beats",
        "            self._confirm(peer, outgoing, ack.round, ack.sent_ms)\n",
        "            self._confirm(peer, outgoing, ack.round, now_ms)\n",
        "replica.test_beats_contact."
        "test_a_group_that_waits_for_single_acks_counts_them_from_when_their_beat_was_sent_too",
    ),
    _one(
        "r32 what was agreed on survives the link it was agreed over",
        "replica.beats",
        "        self._outgoing[peer] = _Outgoing()\n",
        "        self._outgoing.setdefault(peer, _Outgoing())\n",
        "replica.test_beats_contact.test_nothing_is_covered_over_a_new_link_before_it_is_named_there",
    ),
    _one(
        "r32 what a peer agreed to survives the link it was agreed over",
        "replica.beats",
        "        self._incoming[peer] = _Incoming()\n",
        "        self._incoming.setdefault(peer, _Incoming())\n",
        "replica.test_beats_contact.test_a_leader_is_not_heard_over_a_new_link_before_it_named_the_group_there",
    ),
    _one(
        "decision 7: a leader that hears nobody lets sessions expire",
        "replica.shards",
        "        if group.transferring or not group.quorum_heard(now_ms - self._timing.election_min_ms):\n",
        "        if group.transferring:\n",
        "replica.test_leadership.test_sessions_expire_only_at_a_leader_that_hears_a_quorum",
    ),
)
