"""The plan of a migration against a model of two clusters, and what is said of it afterwards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.migrate_plan import (
    COMMIT_BYTES_MAX,
    GROUPS_PER_QUESTION_MAX,
    NAME_BYTES_PER_QUESTION_MAX,
    PARTITIONS_PER_COMMIT_MAX,
    Answered,
    Committed,
    GroupAt,
    Outcome,
    Plan,
    Sides,
    batches,
    chunks,
    exit_code,
    judge,
    parse_pattern,
    plan_group,
    totals,
)
from muster_coordinator.groups.assignors.membership import TopicPartition

P, Q, R = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
SIDES = Sides("the source s:1", "the target t:2")
AWAY = CliError(Exit.UNREACHABLE, "no usable answer")
NAME_BYTES_MAX = 2**15 - 1


def group(offsets: dict, state: str = "Empty", members: int = 0, kind: str = "classic") -> GroupAt:
    return GroupAt(state, members, kind, offsets)


NOBODY = group({}, "Dead", kind="")

committed = st.builds(Committed, st.integers(0, 3), st.sampled_from(["", "m"]), st.integers(-1, 1))
sides_offsets = st.dictionaries(st.sampled_from([P, Q, R]), committed)
states = st.sampled_from(["Empty", "Dead", "Stable", "PreparingRebalance", "CompletingRebalance"])
groups = st.builds(group, sides_offsets, states, st.integers(0, 2))


@given(source=groups, target=groups, overwrite=st.booleans())
def test_after_the_plan_the_target_has_the_sources_offsets_or_nothing_has_changed(
    source: GroupAt, target: GroupAt, overwrite: bool
) -> None:
    """OffsetCommit's rules as Kafka has them: what is named is set, all else stays; no group with members takes it."""
    plan = plan_group(source, target, SIDES, overwrite=overwrite)
    busy = [one for one in (source, target) if one.members or one.state not in ("Empty", "Dead")]
    conflicts = [one for one in source.offsets if one in target.offsets and target.offsets[one] != source.offsets[one]]
    after = {**target.offsets, **plan.copies}
    if busy or (conflicts and not overwrite):
        assert (plan.outcome, plan.copies) == (Outcome.REFUSED, {})
        assert plan.why
    elif not source.offsets:
        assert (plan.outcome, plan.copies) == (Outcome.NOTHING, {})
    else:
        assert {one: after[one] for one in source.offsets} == source.offsets
        assert {
            one: after[one] for one in target.offsets.keys() - source.offsets.keys()
        }.items() <= target.offsets.items()
        assert all(target.offsets.get(one) != wanted for one, wanted in plan.copies.items()), "no needless commit"
        assert plan.outcome is (Outcome.PLANNED if plan.copies else Outcome.SAME)
        moved = target._replace(offsets=after)
        assert plan_group(source, moved, SIDES, overwrite=False).outcome is Outcome.SAME, "once more is a no-op"


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        (group({P: Committed(1)}, "Stable", 2), NOBODY, "it is live at the source s:1, Stable with 2 members: stop"),
        (group({}, "PreparingRebalance"), NOBODY, "it is live at the source s:1, PreparingRebalance: stop"),
        (group({P: Committed(1)}), group({P: Committed(1)}, "Stable", 1), "it is live at the target t:2, Stable"),
        (group({P: Committed(1)}), group({}, "Assigning", 0, "consumer"), "it is live at the target t:2, Assigning"),
        (group({P: Committed(1)}, kind="consumer"), NOBODY, "it is of the type consumer at the source s:1"),
        (group({}, kind="share"), NOBODY, "it is of the type share at the source s:1"),
        (group({P: Committed(1)}), group({}, kind="share"), "it is of the type share at the target t:2"),
        (group({P: Committed(1)}), group({}, kind="streams"), "it is of the type streams at the target t:2"),
        (group({P: Committed(1)}, "Dead", kind=""), NOBODY, "it has offsets at the source s:1 and is no classic group"),
    ],
)  # fmt: skip
def test_what_is_live_or_of_another_type_is_refused_also_with_overwrite(source: GroupAt, target: GroupAt, why: str):
    plan = plan_group(source, target, SIDES, overwrite=True)
    assert (plan.outcome, plan.copies) == (Outcome.REFUSED, {})
    assert plan.why.startswith(why)


def test_an_empty_group_of_kip_848_at_the_target_takes_offsets_and_an_old_broker_tells_no_type() -> None:
    for source, target in (
        (group({P: Committed(1)}), group({}, kind="consumer")),
        (group({P: Committed(1)}, kind=""), group({}, kind="")),
    ):
        assert plan_group(source, target, SIDES, overwrite=False) == Plan(Outcome.PLANNED, "", {P: Committed(1)})


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (Committed(2, "m", 5), "t-0: 2 there, 1 at the source"),
        (Committed(1, "m", -1), "t-0: leader epoch -1 there, 5 at the source"),
        (Committed(1, "secret", 5), "t-0: other metadata"),
    ],
)
def test_the_first_difference_is_told_without_metadata(there: Committed, said: str) -> None:
    source = group({P: Committed(1, "m", 5), Q: Committed(3)})
    plan = plan_group(source, group({P: there}), SIDES, overwrite=False)
    assert plan.why == f"1 of 2 offsets differ at the target t:2 ({said}); --overwrite replaces them"
    assert plan_group(source, group({P: there}), SIDES, overwrite=True).copies == source.offsets


WANTED = {P: Committed(1), Q: Committed(2)}
PLAN = Plan(Outcome.PLANNED, "", WANTED)


@pytest.mark.parametrize(
    ("answered", "source", "target", "outcome", "why"),
    [
        (Answered(), group(WANTED), group(WANTED), Outcome.DONE, ""),
        (Answered(), group(WANTED), group({**WANTED, R: Committed(9)}), Outcome.DONE, ""),
        # The answer was lost, and the commit was done.
        (Answered(unsure="timed out"), group(WANTED), group(WANTED), Outcome.DONE, ""),
        (Answered(unsure="timed out"), group(WANTED), group({P: Committed(1)}), Outcome.UNKNOWN,
         "unknown whether 1 of 2 offsets will be at the target t:2: timed out"),
        (Answered(), group(WANTED), AWAY, Outcome.UNKNOWN, "unknown whether it was migrated: no usable answer"),
        (Answered(), AWAY, group(WANTED), Outcome.UNKNOWN, "migrated, and unknown whether it has moved"),
        (Answered({Q: "no such topic"}), group(WANTED), group({P: Committed(1)}), Outcome.DIFFERS,
         "1 of 2 offsets were not taken by the target t:2 (t-1: no such topic)"),
        (Answered({P: "no", Q: "no"}), group(WANTED), NOBODY, Outcome.REFUSED, "2 of 2 offsets were not taken"),
        # Refused the first time, and there nevertheless.
        (Answered({Q: "no"}), group(WANTED), group(WANTED), Outcome.DONE, ""),
        (Answered(), group(WANTED), group({**WANTED, P: Committed(7)}), Outcome.DIFFERS, "1 of 2 offsets at"),
        (Answered(), group({**WANTED, P: Committed(7)}), group(WANTED), Outcome.DIFFERS, "it has moved at the source"),
        (Answered(), group({**WANTED, R: Committed(7)}), group(WANTED), Outcome.DIFFERS, "it has moved at the source"),
        (Answered(), group({P: Committed(1)}), group(WANTED), Outcome.DIFFERS, "it has moved at the source"),
        (Answered(), group(WANTED, "Stable", 1), group(WANTED), Outcome.DIFFERS, "its consumers run at"),
        # Those that begin at the target at once, before they have committed anything.
        (Answered(), group(WANTED), group(WANTED, "Stable", 3), Outcome.DONE, ""),
    ],
)  # fmt: skip
def test_it_is_judged_by_what_both_sides_say_then(answered, source, target, outcome, why) -> None:
    told = judge(PLAN, group(WANTED), answered, (source, target), SIDES)
    assert told[0] is outcome
    assert told[1].startswith(why)
    assert bool(told[1]) == (outcome is not Outcome.DONE)


def test_an_answer_that_is_missing_is_never_told_as_refused_or_done() -> None:
    for source in (group(WANTED), AWAY, group({})):
        assert judge(PLAN, group(WANTED), Answered(), (source, AWAY), SIDES)[0] is Outcome.UNKNOWN


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3) | st.just("n" * NAME_BYTES_MAX)))
def test_questions_have_each_name_once_in_order_and_keep_their_bounds(names: list[str]) -> None:
    made = list(batches(names))
    assert [name for batch in made for name in batch] == names
    assert all(0 < len(batch) <= GROUPS_PER_QUESTION_MAX for batch in made)
    assert all(sum(len(one.encode()) for one in batch) <= NAME_BYTES_PER_QUESTION_MAX for batch in made)


def test_a_question_is_as_full_as_it_may_be() -> None:
    assert [len(one) for one in batches(map(str, range(101)))] == [50, 50, 1]
    assert [len(one) for one in batches(["n" * (NAME_BYTES_PER_QUESTION_MAX // 2)] * 3)] == [2, 1]
    assert [len(one) for one in batches(["n" * (NAME_BYTES_PER_QUESTION_MAX // 2 + 1)] * 3)] == [1, 1, 1]


@pytest.mark.parametrize(("name", "metadata"), [("g", ""), ("g", "m" * 4096), ("n" * NAME_BYTES_MAX, "ü" * 4096)])
def test_commits_have_each_offset_once_and_fit_a_kafka_batch(name: str, metadata: str) -> None:
    """Kafka's key is two versioned strings and a number, its value 8 + 4 + 8 bytes and the metadata."""
    copies = {TopicPartition("t" * 249, number): Committed(number, metadata, 5) for number in range(2_500)}
    made = list(chunks(name, copies))
    assert [one for chunk in made for one in chunk.items()] == list(copies.items())
    for chunk in made:
        assert 0 < len(chunk) <= PARTITIONS_PER_COMMIT_MAX
        record = 2 + 2 + len(name.encode()) + 2 + 249 + 4 + 2 + 8 + 4 + 2 + len(metadata.encode()) + 8 + 16
        assert len(chunk) * record <= COMMIT_BYTES_MAX < 2**20
    assert len(made) < len(copies), "several to a commit, also at the longest"


def test_one_offset_beyond_the_bound_is_a_commit_of_its_own() -> None:
    """A source may allow more metadata than any target; the target says so."""
    copies = {P: Committed(1, "m" * COMMIT_BYTES_MAX), Q: Committed(2)}
    assert list(chunks("g", copies)) == [{P: copies[P]}, {Q: copies[Q]}]


@pytest.mark.parametrize(
    ("outcomes", "named", "complete", "code"),
    [
        ([], False, True, Exit.OK),
        ([Outcome.DONE, Outcome.SAME, Outcome.PLANNED], True, True, Exit.OK),
        ([Outcome.DONE, Outcome.NOTHING], True, True, Exit.NOT_FOUND),
        ([Outcome.DONE, Outcome.NOTHING], False, True, Exit.OK),
        ([Outcome.DONE], False, False, Exit.INCOMPLETE),
        ([Outcome.DONE, Outcome.REFUSED, Outcome.NOTHING], True, True, Exit.REFUSED),
        ([Outcome.DONE, Outcome.DIFFERS], False, False, Exit.REFUSED),
        ([Outcome.UNKNOWN, Outcome.REFUSED], False, True, Exit.UNREACHABLE),
    ],
)
def test_the_exit_code_says_whether_all_was_done(outcomes, named, complete, code) -> None:
    assert exit_code(outcomes, named=named, complete=complete) is code


def test_totals_leave_out_what_no_group_has() -> None:
    assert totals([Outcome.REFUSED, Outcome.DONE, Outcome.DONE]) == {"done": 2, "refused": 1}
    assert totals([]) == {}


def test_a_wrong_expression_is_a_usage_error() -> None:
    with pytest.raises(CliError, match="is not a regular expression") as told:
        parse_pattern("(")
    assert told.value.code is Exit.USAGE
    assert parse_pattern("a.*").fullmatch("abc")
