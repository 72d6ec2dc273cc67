"""Mutants of where new partitions go (ADR 44)."""

from tests.mutants.rule_mutant import one

PLACEMENT = "controller.test_placement."
TOPICS = "api.test_placed_topics."
PLACED = "replica.test_placed."

PLACEMENT_MUTANTS = (
    one(
        "ADR 44: racks are not looked at",
        "controller.placement",
        "((pool.reluctance, in_rack.get(pool.rack, 0), pool.replicas / pool.size, pool.light[0]), at)",
        "((pool.reluctance, 0, pool.replicas / pool.size, pool.light[0]), at)",
        PLACEMENT + "test_the_rack_comes_first_however_much_its_brokers_hold",
    ),
    one(
        "ADR 44: a full rack is as good as an empty one",
        "controller.placement",
        "((pool.reluctance, in_rack.get(pool.rack, 0), pool.replicas / pool.size, pool.light[0]), at)",
        "((pool.reluctance, in_rack.get(pool.rack, 0), 0.0, pool.light[0]), at)",
        PLACEMENT + "test_racks_take_turns_so_that_no_two_of_their_brokers_are_left_behind",
    ),
    one(
        "ADR 44: what a broker holds does not count",
        "controller.placement",
        "setdefault((reluctance, rack), []).append((self.replicas[broker], self.leaders[broker], broker))",
        "setdefault((reluctance, rack), []).append((0, self.leaders[broker], broker))",
        PLACEMENT + "test_new_brokers_get_the_replicas_until_they_hold_as_many",
    ),
    one(
        "ADR 44: leaderships are not levelled",
        "controller.placement",
        "            if self.leaders[source] - self.leaders[target] > 1:\n",
        "            if False:\n",
        PLACEMENT + "test_every_broker_leads_as_many_as_another_within_one",
    ),
    one(
        "ADR 44: a draining broker is as good as another",
        "controller.placement",
        "2 if broker.broker in avoided else int(broker.draining))",
        "2 if broker.broker in avoided else 0)",
        PLACEMENT + "test_draining_brokers_and_those_to_avoid_are_chosen_when_no_other_is_left",
    ),
    one(
        "ADR 44: a broker without a folder is chosen",
        "controller.placement",
        "broker is not None and broker.bound and not broker.departing\n",
        "broker is not None and not broker.departing\n",
        PLACEMENT + "test_a_broker_without_a_folder_or_a_registration_takes_none",
    ),
    one(
        "ADR 44: a lost folder makes a topic smaller for good",
        "controller.placement",
        "    most = min(cluster.replication_factor or wanted, len({*cluster.voters, *cluster.brokers}))\n",
        "    most = min(cluster.replication_factor or wanted, sum(one.bound for one in cluster.brokers.values()))\n",
        PLACEMENT + "test_brokers_that_are_to_come_back_count_for_the_default",
    ),
    one(
        "ADR 44: what was placed is not judged when it is applied",
        "controller.topics",
        "    require_replicas(cluster, brokers)\n    return members_of(",
        "    return members_of(",
        PLACEMENT + "test_a_broker_that_left_or_lost_its_folder_since_is_judged_when_the_command_is_applied",
    ),
    one(
        "ADR 44: another number of partitions is placed than is made",
        "controller.topics",
        "        len(placed) == end - first,\n",
        "        True,\n",
        PLACEMENT + "test_as_many_partitions_are_placed_as_are_made",
    ),
    one(
        "ADR 44: brokers are placed below their level",
        "controller.transitions",
        '    if isinstance(command, CreateTopic | AddPartitions) and command.placed:\n        return "placing',
        '    if isinstance(command, AddPartitions) and command.placed:\n        return "placing',
        PLACEMENT + "test_below_its_level_nothing_is_placed_and_no_rack_is_told",
    ),
    one(
        "ADR 44: a partition of before changes its leader",
        "controller.image",
        "        first = self.placed or self.move is not None\n",
        "        first = True\n",
        PLACEMENT + "test_what_was_not_placed_keeps_the_leader_that_it_had",
    ),
    one(
        "ADR 44: the first replica is not preferred",
        "controller.image",
        "        first = self.placed or self.move is not None\n",
        "        first = False\n",
        PLACEMENT + "test_a_placed_partition_is_where_it_was_placed_and_its_first_broker_is_preferred",
    ),
    one(
        "ADR 44: a checkpoint forgets what was placed",
        "controller.checkpoint",
        "            p.u8(partition.placed)\n",
        "            p.u8(False)\n",
        PLACEMENT + "test_a_checkpoint_holds_racks_and_what_was_placed",
    ),
    one(
        "ADR 44: a second start is needed to tell a rack",
        "controller.brokers",
        "        if replace(known, draining=False, rack=fresh.rack) == fresh:\n",
        "        if replace(known, draining=False) == fresh:\n",
        PLACEMENT + "test_a_broker_says_its_rack_with_its_registration_and_may_say_it_later",
    ),
    one(
        "ADR 44: a rack is told by the next start only",
        "replica.formed",
        "        controller.watch(self._registration.tell_rack)\n",
        "",
        PLACED + "test_a_rack_is_told_when_the_level_is_there_without_a_restart",
    ),
    one(
        "ADR 44: topics of one request do not know of each other",
        "api.place_for_topics",
        "            self._loads = placed.loads\n",
        "",
        TOPICS + "test_topics_that_are_placed_by_one_image_know_of_each_other",
    ),
    one(
        "ADR 44: brokers that cannot be reached get replicas first",
        "api.place_for_topics",
        "        placed = place(image, self._loads, count, factor, self._avoided)\n",
        "        placed = place(image, self._loads, count, factor)\n",
        TOPICS + "test_brokers_that_cannot_be_reached_are_spared_while_others_are_there",
    ),
    one(
        "ADR 44: too few brokers are told by a late image",
        "api.create_topics",
        "Code.NOT_CONTROLLER, _DOUBTFUL)\n",
        "Code.NOT_CONTROLLER, PRESENT)\n",
        TOPICS + "test_too_few_brokers_are_told_only_by_an_image_that_is_current",
    ),
    one(
        "ADR 44: a topic is not placed again",
        "api.create_topics",
        "            if chosen or tries == limits.PLACEMENTS_MAX:\n",
        "            if True:\n",
        TOPICS + "test_what_was_placed_on_a_broker_that_left_is_placed_again_by_a_current_image",
    ),
    one(
        "ADR 44: what a client has chosen is chosen again",
        "api.create_topics",
        "            chosen = topic.assignments or outcome.code is not Code.INVALID_REPLICA_ASSIGNMENT\n",
        "            chosen = outcome.code is not Code.INVALID_REPLICA_ASSIGNMENT\n",
        TOPICS + "test_what_a_client_has_chosen_is_not_chosen_again",
    ),
    one(
        "ADR 44: the group's own order says who is preferred",
        "replica.maintenance.preferred",
        "        return _preferred_of(group, self._preferences.get(group.number))\n",
        "        return _preferred_of(group, None)\n",
        PLACED + "test_leadership_goes_back_to_the_first_and_to_another_one_that_is_put_first",
    ),
    one(
        "ADR 44: the only replica of a partition is given up unsaid",
        "admin.replacement",
        "            if partition.voters == (broker,) and not partition.moves\n",
        "            if False\n",
        "admin.test_replacement.test_the_only_replica_of_a_partition_is_named",
    ),
)
