"""Mutants of how many replicas every Raft group has (ADR 48)."""

from tests.mutants.rule_mutant import one

GROWTH_MUTANTS = (
    one(
        "ADR 48: to lower takes copies from topics that nobody has named",
        "controller.replication",
        "command.every_topic or replicas_of(topic) < factor\n",
        "command.every_topic or replicas_of(topic) != factor\n",
        "controller.test_replication.test_topics_give_replicas_away_only_when_they_are_named_or_all_are",
    ),
    one(
        "ADR 48: the controller's group keeps its one voter",
        "controller.replication",
        "    voters = 0 if len(cluster.voters) == factor else factor\n",
        "    voters = 0\n",
        "controller.test_replication.test_one_replica_of_everything_becomes_three_and_five_by_one_command_each",
    ),
    one(
        "ADR 48: more replicas are wanted than there are brokers",
        "controller.replication",
        "    require(factor <= usable, code",
        "    require(True, code",
        "controller.test_replication.test_too_few_brokers_and_unknown_topics_are_refused",
    ),
    one(
        "ADR 48: the wish undoes what a person says later",
        "controller.replication",
        "    other = now not in (wanted, before)\n",
        "    other = False\n",
        "controller.test_replication.test_what_a_person_says_last_holds",
    ),
    one(
        "ADR 48: another broker in the place of one ends the wish",
        "controller.replication",
        "    other = now not in (wanted, before)\n",
        "    other = now != wanted\n",
        "controller.test_replication.test_what_a_person_says_last_holds",
    ),
    one(
        "ADR 48: what is fulfilled stays a wish for ever",
        "controller.replication",
        "    fulfilled = all(len(partition.voters) == wanted for partition in topic.partitions)\n",
        "    fulfilled = False\n",
        "controller.test_replication.test_one_replica_of_everything_becomes_three_and_five_by_one_command_each",
    ),
    one(
        "ADR 48: a topic that comes later has as many as the file says",
        "controller.placement",
        "    most = min(cluster.replication_factor or wanted, len(",
        "    most = min(wanted, len(",
        "controller.test_replication.test_one_replica_of_everything_becomes_three_and_five_by_one_command_each",
    ),
    one(
        "ADR 48: a broker leaves that the number needs",
        "controller.departures",
        "        if broker in cluster.voters or cluster.controller_voters_wanted > left:\n",
        "        if broker in cluster.voters:\n",
        "controller.test_replication.test_a_broker_that_is_needed_for_the_wish_may_not_leave",
    ),
    one(
        "ADR 48: the further replicas are in the same rack",
        "controller.resizing",
        "            return drains, in_rack[rack], shares[rack], candidates.replicas.get(broker, 0), broker\n",
        "            return drains, 0, shares[rack], candidates.replicas.get(broker, 0), broker\n",
        "controller.test_replication.test_a_draining_broker_and_one_of_a_full_rack_are_taken_last",
    ),
    one(
        "ADR 48: those that are left may be away",
        "controller.resizing",
        "    return tuple(left) if all(map(candidates.stays, left)) else None\n",
        "    return tuple(left)\n",
        "controller.test_replication.test_it_says_why_there_are_not_more",
    ),
    one(
        "ADR 48: who has no data yet is all that is left",
        "controller.resizing",
        "            return not candidates.stays(broker), broker not in filled, doubled,",
        "            return not candidates.stays(broker), broker in filled, doubled,",
        "controller.test_replication.test_a_wish_that_is_taken_back_ends_moves_under_way_where_the_data_is",
    ),
    one(
        "ADR 48: a partition that nobody can move is planned for",
        "controller.balancing",
        ' if self._has_majority(place.now) else "no majority of them is connected"\n',
        "\n",
        "controller.test_replication.test_it_says_why_there_are_not_more",
    ),
)
