"""Mutants of what is moved by itself (ADR 47)."""

from tests.mutants.rule_mutant import one

BALANCER_MUTANTS = (
    one(
        "ADR 47: a move costs a partition a rack",
        "controller.balancing",
        "        return len(after) >= len(before)\n",
        "        return True\n",
        "controller.test_balancing.test_seven_brokers_in_three_racks_are_level_in_each_rack",
    ),
    one(
        "ADR 47: a partition on its way is levelled with",
        "controller.balancing",
        "        if place.moves or taker in voters:\n",
        "        if taker in voters:\n",
        "controller.test_balancing.test_a_partition_on_its_way_is_left_alone_unless_it_is_on_its_way_to_one_that_is_to_leave",
    ),
    one(
        "ADR 47: what is on its way to a broker that is to leave goes on",
        "controller.balancing",
        "                if broker not in place.now.voters:\n",
        "                if place.moves or broker not in place.now.voters:\n",
        "replica.test_balancer.test_what_is_on_its_way_to_one_that_died_and_is_to_leave_goes_elsewhere",
    ),
    one(
        "ADR 47: a broker that is away gets replicas",
        "controller.balancing",
        " and not broker.departing and broker.broker in reachable\n",
        " and not broker.departing\n",
        "controller.test_balancing.test_a_plan_empties_who_is_to_leave_spreads_over_racks_and_levels",
    ),
    one(
        "ADR 47: preferred leaders are not levelled through others",
        "controller.balancing",
        "                reached.append(taker)\n",
        "                pass\n",
        "controller.test_balancing.test_preference_goes_through_others_where_two_brokers_share_no_partition",
    ),
    one(
        "ADR 47: levelled as soon as all are there",
        "replica.maintenance.balancer",
        '        return f"all brokers have to be there for {-(-left_ms // 1_000)} s more" if left_ms > 0 else ""\n',
        '        return ""\n',
        "replica.test_balancer.test_brokers_that_joined_get_their_share_a_few_partitions_at_a_time",
    ),
    one(
        "ADR 47: levelled while a broker drains",
        "replica.maintenance.balancer",
        "        if broker.draining:\n",
        "        if False:\n",
        "replica.test_balancer.test_nothing_is_levelled_while_a_broker_is_away_or_drains",
    ),
    one(
        "ADR 47: moves that people asked for do not count",
        "replica.maintenance.balancer",
        "        begun, free = 0, MOVES_AT_ONCE - len(under_way)\n",
        "        begun, free = 0, MOVES_AT_ONCE\n",
        "replica.test_balancer.test_brokers_that_joined_get_their_share_a_few_partitions_at_a_time",
    ),
    one(
        "ADR 47: a pause does not hold for what a decommission asks for",
        "replica.maintenance.balancer",
        "        if image.balancer_paused:\n",
        "        if image.balancer_paused and not any(broker.departing for broker in image.brokers.values()):\n",
        "replica.test_balancer.test_paused_it_begins_nothing_for_whoever_leads",
    ),
    one(
        "ADR 47: a restart takes back that the broker is to leave",
        "controller.transitions",
        "        departing=known is not None and known.departing,\n",
        "        departing=False,\n",
        "controller.test_balancing.test_the_mark_outlives_a_restart_and_a_lost_folder_but_not_the_broker",
    ),
    one(
        "ADR 47: a broker leaves although too few would be left",
        "controller.departures",
        "                    require(count <= left, Code",
        "                    require(True, Code",
        "controller.test_balancing.test_so_many_brokers_stay_that_every_replica_has_a_place",
    ),
    one(
        "ADR 47: new partitions are placed on a broker that is to leave",
        "controller.placement",
        "    return broker is not None and broker.bound and not broker.departing\n",
        "    return broker is not None and broker.bound\n",
        "controller.test_placement.test_a_broker_that_is_to_leave_takes_none",
    ),
)
