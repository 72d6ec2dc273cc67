"""The product broken on purpose, one Raft rule at a time, above and below the core; one test must notice each.

As `catalogue`, but nothing is drawn: the test that is to notice a mutant is named, takes no arguments and is run alone.
Mutants of single functions of the core are in `tests/raft/mutants.txt`. `docs/raft-rules.md` lists both by rule.
"""

from tests.mutants.of_balancer import BALANCER_MUTANTS
from tests.mutants.of_bindings import BINDING_MUTANTS
from tests.mutants.of_cleaning import CLEANING_MUTANTS
from tests.mutants.of_departures import DEPARTURE_MUTANTS
from tests.mutants.of_growth import GROWTH_MUTANTS
from tests.mutants.of_joining import JOINING_MUTANTS
from tests.mutants.of_moves import MOVES_MUTANTS
from tests.mutants.of_passed_logins import PASSED_LOGIN_MUTANTS
from tests.mutants.of_placement import PLACEMENT_MUTANTS
from tests.mutants.of_recovery import RECOVERY_MUTANTS
from tests.mutants.of_rights import RIGHTS_MUTANTS
from tests.mutants.of_topic_transactions import TOPIC_TRANSACTION_MUTANTS
from tests.mutants.of_transaction_coordinator import COORDINATOR_MUTANTS
from tests.mutants.of_transactions import TRANSACTION_MUTANTS
from tests.mutants.of_wal_holes import HOLE_MUTANTS
from tests.mutants.rule_mutant import one

RULE_MUTANTS = (
    one(
        "r16 a group is heard of in acks from before it was covered",
        "replica.multiraft.heartbeats",
        "                if covered is not None and covered[0] == term and covered[1] <= outgoing.confirmed_round:\n",
        "                if covered is not None and covered[0] == term:\n",
        "replica.multiraft.test_heartbeats_contact.test_an_ack_of_a_round_from_before_the_cover_is_no_contact",
    ),
    one(
        "r14 a deserter goes on hearing its leader",
        "replica.multiraft.heartbeats",
        "        if incoming.table.get(number) != term or number in incoming.deserted:\n",
        "        if incoming.table.get(number) != term:\n",
        "replica.multiraft.test_heartbeats_contact."
        "test_a_follower_that_deserted_hears_its_leader_again_when_it_is_named_anew",
    ),
    one(
        "r18 an ack counts from when it came",
        "replica.multiraft.heartbeats",
        "            outgoing.confirmed_ms = max(outgoing.confirmed_ms, ack.sent_ms)\n",
        "            outgoing.confirmed_ms = now_ms\n",
        "replica.multiraft.test_heartbeats_contact."
        "test_an_ack_counts_from_when_its_heartbeat_was_sent_however_late_it_comes",
    ),
    one(
        "r18 an ack that a group waits for counts from when it came",
        "replica.multiraft.heartbeats",
        "            self._confirm(outgoing, ack.round, ack.sent_ms)\n",
        "            self._confirm(outgoing, ack.round, now_ms)\n",
        "replica.multiraft.test_heartbeats_contact."
        "test_a_group_that_waits_for_single_acks_counts_them_from_when_their_heartbeat_was_sent_too",
    ),
    one(
        "r32 what was agreed on survives the link it was agreed over",
        "replica.multiraft.heartbeats",
        "        self._outgoing[peer] = _Outgoing(member)\n",
        "        self._outgoing.setdefault(peer, _Outgoing(member))\n",
        "replica.multiraft.test_heartbeats_contact.test_nothing_is_covered_over_a_new_link_before_it_is_named_there",
    ),
    one(
        "r32 what a peer agreed to survives the link it was agreed over",
        "replica.multiraft.heartbeats",
        "        self._incoming[peer] = _Incoming(member)\n",
        "        self._incoming.setdefault(peer, _Incoming(member))\n",
        "replica.multiraft.test_heartbeats_contact."
        "test_a_leader_is_not_heard_over_a_new_link_before_it_named_the_group_there",
    ),
    one(
        "r32 an ack counts for a term that it was not given in",
        "replica.multiraft.heartbeats",
        "                if covered is not None and covered[0] == term and covered[1] <= outgoing.confirmed_round:\n",
        "                if covered is not None and covered[1] <= outgoing.confirmed_round:\n",
        "replica.multiraft.test_heartbeats_contact.test_an_ack_of_one_term_says_nothing_of_the_next",
    ),
    one(
        "r32 an ack confirms reads of a term that it was not given in",
        "replica.multiraft.heartbeats",
        "            if covered is not None and covered[0] == core.term and covered[1] <= round_no:\n",
        "            if covered is not None and covered[1] <= round_no:\n",
        "replica.multiraft.test_heartbeats_contact.test_an_ack_of_one_term_says_nothing_of_the_next",
    ),
    one(
        "r32 a heartbeat counts for a term that it was not sent in",
        "replica.multiraft.heartbeats",
        "incoming.table.get(number) != term or number in incoming.deserted:\n",
        "number not in incoming.table or number in incoming.deserted:\n",
        "replica.multiraft.test_heartbeats_contact.test_a_heartbeat_of_one_term_says_nothing_of_the_next",
    ),
    one(
        "r32 the number of a deleted group is given again",
        "controller.topics",
        "        return first_partitions(members_of(cluster, cluster.voters), first, end, cluster.next_group)\n",
        "        again = 1 + max(one.group for known in cluster.topics.values() for one in known.partitions)\n"
        "        return first_partitions(members_of(cluster, cluster.voters), first, end, again)\n",
        "controller.test_transitions.test_groups_and_ids_of_a_deleted_topic_are_never_used_again",
    ),
    one(
        "r05 a batch counts although not all of it was written",
        "storage.wal_recovery",
        "    return crc32c(memoryview(data)[position:stop], scan.chain) == end.chain\n",
        "    return True\n",
        "storage.test_wal_crash.test_a_batch_of_which_one_sector_is_missing_is_cut_whole",
    ),
    one(
        "r16 heartbeats leave while the disk is stuck",
        "replica.multiraft.heartbeats",
        "        if not self._may_heartbeat():\n",
        "        if False:\n",
        "replica.multiraft.test_heartbeats.test_no_heartbeats_leave_while_the_disk_is_stuck",
    ),
    one(
        "r16 who is stuck names no heir",
        "replica.multiraft.raft_group",
        "            self.core.abdicate(self._host.now_ms())\n",
        "            self.core.step_down(self._host.now_ms())\n",
        "replica.test_leadership.test_who_is_stuck_names_an_heir_for_what_waits_for_nothing",
    ),
    one(
        "r16 a slow disk keeps what waits for it",
        "replica.multiraft.host",
        "            if stuck_ms < self.timing.slow_disk_ms:\n",
        "            if stuck_ms < self.timing.election_min_ms:\n",
        "replica.test_leadership.test_what_waits_for_a_slow_disk_is_handed_over_within_a_second",
    ),
    one(
        "r16 a freeze is taken for a slow disk",
        "replica.multiraft.wal_writer",
        "        if still_ms > apart_ms:\n",
        "        if False:\n",
        "replica.test_leadership.test_a_freeze_of_a_leader_is_not_taken_for_a_slow_disk",
    ),
    one(
        "r16 a freeze excuses a write that began after it",
        "replica.multiraft.wal_writer",
        "        self._excused_ms += min(still_ms, self.stuck_ms(now_ms))\n",
        "        self._excused_ms += still_ms\n",
        "replica.test_leadership.test_no_write_is_excused_for_longer_than_it_runs",
    ),
    one(
        "r23 a checkpoint erases the suffix from the WAL",
        "storage.wal_recovery",
        "    if kind == ANEW or log.term_at(index) != term:\n",
        "    if True:\n",
        "storage.test_wal.test_an_installed_checkpoint_keeps_the_suffix_of_a_log_that_holds_it",
    ),
    one(
        "r29 who waits is not told that leadership is lost",
        "replica.multiraft.raft_group",
        "        proposals, self._proposals = self._proposals, {}\n",
        "        proposals: dict[int, tuple[object, int]] = {}\n",
        "replica.test_cluster_life.test_a_proposal_whose_place_another_leaders_entry_took_is_lost_and_not_applied",
    ),
    one(
        "r30 a sync that failed is tried again",
        "storage.wal_file",
        "                _write(self._file, self._position, self._data)\n                self._file.sync()\n",
        "                _write(self._file, self._position, self._data)\n"
        "                try:\n"
        "                    self._file.sync()\n"
        "                except OSError:\n"
        "                    self._file.sync()\n",
        "replica.snapshots.test_recovery.test_a_failed_sync_ends_the_process",
    ),
    one(
        "r30 the name of a new WAL file is not synced",
        "storage.wal_file",
        "        self._disk.rename(spare_path, rotation.path)\n        self._disk.sync_dir(self._folder)\n",
        "        self._disk.rename(spare_path, rotation.path)\n",
        "storage.test_wal_carry.test_a_power_loss_at_every_effect_of_carrying_loses_no_tail_and_no_vote",
    ),
    one(
        "r30 damage is taken for a torn tail",
        "storage.wal_recovery",
        "    return later_end(data, end, header.seed, scan.batch + 2) is not None\n",
        "    return False\n",
        "storage.test_wal_hole.test_without_a_proof_nothing_behind_a_hole_is_believed_and_everybody_is_suspended",
    ),
    one(
        "r31 a lost WAL is a beginning",
        "replica.group_manager",
        '            if born and not any(file.endswith(".wal") for file in self._disk.listdir(name)):\n',
        "            if False:\n",
        "replica.snapshots.test_recovery.test_a_lost_wal_is_no_beginning",
    ),
    one(
        "r31 an emptied replica takes its old seat again",
        "replica.bootstrap.formation",
        "        if named is not None and named.uuid_of(self.broker) != self.replica_uuid:\n",
        "        if False:\n",
        "replica.bootstrap.test_formation.test_emptied_replicas_never_form_a_second_cluster_not_even_as_a_majority",
    ),
    *HOLE_MUTANTS,
    *BINDING_MUTANTS,
    *JOINING_MUTANTS,
    *MOVES_MUTANTS,
    *PASSED_LOGIN_MUTANTS,
    *RIGHTS_MUTANTS,
    *PLACEMENT_MUTANTS,
    *DEPARTURE_MUTANTS,
    *BALANCER_MUTANTS,
    *GROWTH_MUTANTS,
    *RECOVERY_MUTANTS,
    *TOPIC_TRANSACTION_MUTANTS,
    *TRANSACTION_MUTANTS,
    *COORDINATOR_MUTANTS,
    *CLEANING_MUTANTS,
    one(
        "decision 7: a leader that hears nobody lets sessions expire",
        "replica.partitions.coordinator_group",
        "        if group.transferring or not group.quorum_heard(now_ms - self._timing.election_min_ms):\n",
        "        if group.transferring:\n",
        "replica.test_leadership.test_sessions_expire_only_at_a_leader_that_hears_a_quorum",
    ),
    one(
        "ADR 77: a transfer that ends with its target's link leaves what was parked parked",
        "replica.multiraft.raft_group",
        "        if target >= 0 and not self.transferring and not self.core.resigns:\n",
        "        if False:\n",
        "replica.test_failed_transfer.test_what_was_parked_is_served_when_the_target_dies",
    ),
)
