"""Mutants of moves that Kafka's tools ask for, and of brokers that leave (ADR 43)."""

from tests.mutants.rule_mutant import one

DEPARTURE_MUTANTS = (
    one(
        "ADR 49: who has left goes on speaking",
        "replica.member_net",
        "        self._silent = True\n",
        "        pass\n",
        "replica.test_balancer.test_one_that_is_to_leave_is_emptied_and_then_unregistered",
    ),
    one(
        "ADR 49: who has left forgets it when nobody tells it any more",
        "replica.bootstrap.formation",
        "self._gone, self._gone or latest.uuid_of",
        "self._gone, latest.uuid_of",
        "replica.bootstrap.test_replaced_folders.test_it_is_told_once_and_for_good_however_it_heard_of_it",
    ),
    one(
        "ADR 49: a link that breaks young is made again at once",
        "links.mesh",
        "        record.short_lived = 0 if settled else record.short_lived + 1\n",
        "        record.short_lived = 0\n",
        "links.test_mesh.test_a_link_that_breaks_as_soon_as_it_is_up_is_made_again_with_bounded_back_off",
    ),
    one(
        "ADR 43: the folder of a broker that left registers again",
        "controller.departures",
        "            uuid not in folders,\n",
        "            True,\n",
        "controller.test_departures.test_its_folder_never_registers_again_under_any_id",
    ),
    one(
        "ADR 43: who comes back under an id is the member that left",
        "controller.brokers",
        "known.gone if known is not None else cluster.unregistered.get(broker, ())\n",
        "known.gone if known is not None else ()\n",
        "controller.test_departures.test_an_empty_folder_under_its_id_is_another_member",
    ),
    one(
        "ADR 43: a broker that has replicas leaves",
        "controller.departures",
        "    require(not held, Code",
        "    require(True, Code",
        "controller.test_departures.test_who_has_or_may_have_a_replica_stays",
    ),
    one(
        "ADR 43: a late command lets the next folder go",
        "controller.departures",
        "        known.replica_uuid == uuid,\n",
        "        True,\n",
        "controller.test_departures.test_a_command_that_is_repeated_or_late_lets_nobody_else_go",
    ),
    one(
        "ADR 43: ids of those that left take no seat",
        "controller.image",
        "*cluster.brokers, *cluster.unregistered))\n",
        "*cluster.brokers))\n",
        "controller.test_departures.test_ids_of_those_that_left_count_and_may_be_taken",
    ),
    one(
        "ADR 43: a recovery brings a broker back as who it was",
        "controller.recovery",
        "        left = unregistered.pop(broker, ())",
        "        left = unregistered.pop(broker, ())[:0]",
        "controller.test_departures.test_a_recovery_brings_nobody_back_as_who_it_was",
    ),
    one(
        "ADR 43: the folder of a broker that left is still trusted",
        "replica.controller.seats",
        "    return (*here, *left)\n",
        "    return here\n",
        "replica.test_departures.test_one_that_still_runs_is_let_go_of_and_says_so",
    ),
    one(
        "ADR 43: a late image lists no moves",
        "api.reassignments",
        "            if not current or image is None:\n",
        "            if image is None:\n",
        "api.test_reassignments.test_no_list_by_an_image_that_may_be_late",
    ),
    one(
        "ADR 43: no replicas cancel a move",
        "api.reassignments",
        "    if replicas is not None and not replicas:\n",
        "    if False:\n",
        "api.test_reassignments.test_an_empty_list_is_no_cancellation",
    ),
    one(
        "ADR 43: a factor is judged by a late image",
        "api.reassignments",
        "                if asked.doubt.proven is None:\n",
        "                if False:\n",
        "api.test_reassignments.test_a_late_image_does_not_let_a_factor_change",
    ),
    one(
        "ADR 43: a replica that is to come is in sync",
        "api.cluster_view",
        "        counted = {*move.origin, leader.leader_id}\n",
        "        counted = {*partition.holders}\n",
        "api.test_reassignments."
        "test_during_a_move_replicas_are_those_to_be_and_those_to_go_and_the_isr_is_that_of_before",
    ),
)
