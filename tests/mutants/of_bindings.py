"""Mutants of the bindings of brokers to data folders (ADR 38)."""

from tests.mutants.rule_mutant import one

BINDING_MUTANTS = (
    one(
        "ADR 38: a folder that is gone registers again",
        "controller.transitions",
        "            uuid not in other.gone,\n",
        "            True,\n",
        "controller.test_replacement.test_a_folder_that_is_gone_is_told_to_go",
    ),
    one(
        "ADR 38: the folder of another broker is bound",
        "controller.transitions",
        "            bound or uuid != other.replica_uuid,\n",
        "            True,\n",
        "controller.test_replacement.test_a_folder_of_another_broker_or_of_zeros_is_not_bound",
    ),
    one(
        "ADR 38: a folder of zeros is bound",
        "controller.transitions",
        '    _require(uuid != EMPTY_ID, Code.INVALID_REQUEST, "a replica uuid is not all zero")\n',
        "",
        "controller.test_replacement.test_a_folder_of_another_broker_or_of_zeros_is_not_bound",
    ),
    one(
        "ADR 38: a new folder is the member that the lost one was",
        "controller.transitions",
        "        binding=known.binding + 1,\n",
        "        binding=known.binding,\n",
        "controller.test_replacement.test_a_replaced_broker_is_unbound_and_keeps_its_id_and_addresses",
    ),
    one(
        "ADR 38: a start forgets the binding",
        "controller.transitions",
        "        binding=known.binding if known is not None else 0,\n",
        "        binding=0,\n",
        "controller.test_replacement.test_the_first_new_folder_is_bound_and_its_lives_are_counted_anew",
    ),
    one(
        "ADR 38: a start forgets who is gone",
        "controller.transitions",
        "        gone=known.gone if known is not None else (),\n",
        "        gone=(),\n",
        "controller.test_replacement.test_the_first_new_folder_is_bound_and_its_lives_are_counted_anew",
    ),
    one(
        "ADR 38: a bound id takes any folder",
        "controller.transitions",
        "    if known is not None and (known.bound or cluster.feature_level < MEMBERS_LEVEL):\n",
        "    if known is not None and cluster.feature_level < MEMBERS_LEVEL:\n",
        "controller.test_replacement.test_the_first_new_folder_is_bound_and_its_lives_are_counted_anew",
    ),
    one(
        "ADR 38: a repeated replacement takes the next folder's place",
        "controller.transitions",
        "    if uuid in known.gone:  # the same replacement, proposed again because the first answer was lost\n",
        "    if False:\n",
        "controller.test_replacement.test_a_replacement_that_is_repeated_changes_nothing_however_late",
    ),
    one(
        "ADR 38: who is gone is named by id alone",
        "controller.transitions",
        "        known.replica_uuid == uuid,\n",
        "        True,\n",
        "controller.test_replacement.test_only_the_folder_that_is_bound_is_replaced",
    ),
    one(
        "ADR 38: two replicas are replaced at a time",
        "controller.transitions",
        "    _require(not unbound, Code.POLICY_VIOLATION,",
        "    _require(True, Code.POLICY_VIOLATION,",
        "controller.test_replacement.test_one_replica_is_replaced_at_a_time",
    ),
    one(
        "ADR 38: the only replica is replaced",
        "controller.transitions",
        "    _require(len(cluster.voters) > 1, Code",
        "    _require(True, Code",
        "controller.test_replacement.test_the_only_replica_is_not_replaced",
    ),
    one(
        "ADR 38: a replacement is written below its level",
        "controller.transitions",
        "    if not isinstance(command, ReplaceReplica) or level >= MEMBERS_LEVEL:\n",
        "    if True:\n",
        "controller.test_replacement.test_below_its_level_a_replacement_is_refused_in_words",
    ),
    one(
        "ADR 38: a new group begins with members that are gone",
        "controller.image",
        "    return tuple(known[broker].member if broker in known else member_no(broker, 0) for broker in brokers)\n",
        "    return tuple(member_no(broker, 0) for broker in brokers)\n",
        "controller.test_replacement.test_groups_made_after_it_begin_with_the_present_bindings",
    ),
    one(
        "ADR 38: bindings are written below their level",
        "controller.checkpoint",
        " if cluster is not None and cluster.feature_level >= MEMBERS_LEVEL else CHECKPOINT_VERSION\n",
        " if cluster is not None else CHECKPOINT_VERSION\n",
        "controller.test_controller_machine.test_bindings_are_written_from_their_level_on_only",
    ),
)
