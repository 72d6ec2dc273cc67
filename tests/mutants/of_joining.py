"""Mutants of brokers that join a formed cluster (ADR 41), and of where partitions are to be (ADR 42)."""

from tests.mutants.rule_mutant import one

JOINING_MUTANTS = (
    one(
        "ADR 41: a broker joins below its level",
        "controller.brokers",
        "    may_join = cluster.feature_level >= MEMBERS_LEVEL\n",
        "    may_join = True\n",
        "controller.test_joining_brokers.test_below_its_level_it_is_refused_with_the_words_of_the_release_before",
    ),
    one(
        "ADR 41: brokers join without a limit",
        "controller.brokers",
        "    require(ids < BROKERS_MAX, Code",
        "    require(True, Code",
        "controller.test_joining_brokers.test_there_are_never_more_brokers_than_the_limit",
    ),
    one(
        "ADR 41: an observer does not count for the feature level",
        "controller.transitions",
        "    for voter in (*cluster.voters, *observers(cluster)):\n",
        "    for voter in cluster.voters:\n",
        "controller.test_joining_brokers.test_a_level_that_an_observer_does_not_support_is_not_finalised",
    ),
    one(
        "ADR 41: whoever asks with another's registration is a candidate",
        "replica.bootstrap.formation",
        "    own = asks is not None and (asks.broker, asks.replica_uuid) == (state.broker, state.replica_uuid)\n",
        "    own = asks is not None and asks.broker == state.broker\n",
        "replica.bootstrap.test_joining_folders.test_an_id_is_asked_for_with_the_folder_that_asks",
    ),
    one(
        "ADR 41: clusters that meet answer each other for ever",
        "replica.bootstrap.formation",
        "            return [] if record is None or state.phase is Phase.FORMED else self._newcomer(record, state)\n",
        "            return [] if record is None else self._newcomer(record, state)\n",
        "replica.bootstrap.test_joining_folders.test_two_clusters_that_meet_do_not_answer_each_other_for_ever",
    ),
    one(
        "ADR 41: a broker that joined is a stranger to who was not told",
        "replica.bootstrap.formation",
        "        return its.uuid_of(state.broker) == state.replica_uuid\n",
        "        return False\n",
        "replica.bootstrap.test_joining_folders."
        "test_a_broker_that_has_joined_is_known_by_its_own_record_to_who_was_not_told_yet",
    ),
    one(
        "ADR 41: whoever has a record of the cluster has a seat",
        "replica.bootstrap.formation",
        "        return its.uuid_of(state.broker) == state.replica_uuid\n",
        "        return True\n",
        "replica.bootstrap.test_joining_folders."
        "test_a_broker_that_has_joined_is_known_by_its_own_record_to_who_was_not_told_yet",
    ),
    one(
        "ADR 41: a broker that lost its record joins again",
        "replica.bootstrap.bootstrap",
        "        later = binding_of(wanted.record.member_of(broker)) > 0 or broker not in wanted.record.brokers()\n",
        "        later = binding_of(wanted.record.member_of(broker)) > 0\n",
        "replica.test_joining.test_a_folder_that_lost_its_record_stays_out",
    ),
    one(
        "ADR 41: groups on other brokers are taken for deleted",
        "replica.group_manager",
        "        return number not in self._topics and number not in self._elsewhere\n",
        "        return number not in self._topics\n",
        "replica.test_joining.test_it_answers_who_leads_what_it_does_not_hold",
    ),
    one(
        "ADR 41: an observer holds the partitions of voters",
        "replica.group_manager",
        "                if self._settings.broker not in partition.holders:\n",
        "                if False:\n",
        "replica.test_joining.test_it_answers_who_leads_what_it_does_not_hold",
    ),
    one(
        "ADR 41: observers are lost when the voters change",
        "replica.multiraft.reconfiguration",
        "        tuple(one for one in (*kept, *present.voters) if one in observers),\n",
        "",
        "replica.multiraft.test_reconfiguration.test_an_observer_learns_for_good",
    ),
    one(
        "ADR 41: a replica without a cluster's id forms its own",
        "replica.bootstrap.formation",
        "        if self._comes_later and not expects.cluster_id:\n",
        "        if False:\n",
        "replica.bootstrap.test_joining_folders.test_who_names_no_cluster_does_not_start",
    ),
    one(
        "ADR 42: a broker is let go although a target before may have made it a voter",
        "controller.moves",
        "    leaving = tuple(sorted({*partition.holders} - {*voters}))\n",
        "    leaving = tuple(sorted({*origin} - {*voters}))\n",
        "controller.test_moves.test_another_target_lets_nobody_go_who_may_be_a_voter_by_now",
    ),
    one(
        "ADR 42: a late completion ends another move",
        "controller.moves",
        "    if not partition.moves or partition.voters != voters:\n",
        "    if not partition.moves:\n",
        "controller.test_moves.test_another_target_lets_nobody_go_who_may_be_a_voter_by_now",
    ),
    one(
        "ADR 42: a cancelled move lets go at once",
        "controller.moves",
        "    origin = move.origin if move is not None and partition.moves else partition.voters\n",
        "    origin = partition.voters\n",
        "controller.test_moves.test_a_move_is_cancelled_by_one_back_to_where_it_began",
    ),
    one(
        "ADR 42: something is moved to a broker without a folder",
        "controller.moves",
        "        require(known is not None and known.bound, code,",
        "        require(True, code,",
        "controller.test_moves.test_nothing_is_moved_to_a_broker_without_a_folder_and_away_from_it_it_is",
    ),
)
