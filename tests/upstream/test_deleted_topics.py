"""Which topics of an upstream were deleted: not by absence alone, not those of another cluster, not the successor's."""

from hypothesis import given, settings
from hypothesis import strategies as st
from muster_coordinator.errors import Code
from muster_coordinator.upstream.deleted_topics import CLOCK_MARGIN_MS, PROOFS, DeletedTopics, Listed
from muster_coordinator.upstream.limits import SUSPECTS_ASKED_MAX

A, B, C = (letter * 16 for letter in (b"a", b"b", b"c"))
GONE = int(Code.UNKNOWN_TOPIC_ID)
DENIED = int(Code.TOPIC_AUTHORIZATION_FAILED)


def listed(cluster: str | None = "cluster", **names: bytes) -> Listed:
    return Listed(cluster, {topic_id: name for name, topic_id in names.items()})


ONE = ("kafka-1", 9092)


def look(
    seen: DeletedTopics, now_ms: int, of: Listed, error: int = GONE, *, by: int = 1, brokers: int = 1
) -> dict[str, int]:
    """A list, and every question answered with this error, by one of so many brokers."""
    seen.listed(now_ms, of)
    return seen.answered([(topic_id, error) for topic_id in seen.to_ask()], (f"kafka-{by}", 9092), brokers)


def test_a_topic_that_nobody_knows_any_more_was_deleted_after_it_was_last_listed() -> None:
    seen = DeletedTopics()
    assert look(seen, 1_000_000, listed(t=A, u=B)) == {}
    assert look(seen, 1_005_000, listed(t=A, u=B)) == {}
    assert look(seen, 1_010_000, listed(u=B)) == {}
    assert look(seen, 1_015_000, listed(u=B)) == {"t": 1_005_000 - CLOCK_MARGIN_MS}
    assert look(seen, 1_020_000, listed(u=B)) == {}
    assert seen.to_ask() == ()


def test_one_that_was_made_anew_keeps_what_was_committed_since() -> None:
    seen = DeletedTopics()
    look(seen, 1_000_000, listed(t=A))
    look(seen, 1_005_000, listed(t=B))
    assert look(seen, 1_010_000, listed(t=B)) == {"t": 1_000_000 - CLOCK_MARGIN_MS}
    assert look(seen, 1_015_000, listed(t=B)) == {}


def test_a_topic_that_is_hidden_or_back_was_not_deleted() -> None:
    seen = DeletedTopics()
    look(seen, 1, listed(t=A))
    for now in range(2, 12):
        assert look(seen, now, listed(), DENIED) == {}
    assert look(seen, 12, listed()) == {}
    assert look(seen, 13, listed(), DENIED) == {}
    assert look(seen, 14, listed()) == {}, "proofs one after the other"
    assert look(seen, 15, listed(t=A)) == {}
    assert seen.to_ask() == ()


def test_a_broker_that_was_cut_off_proves_nothing_by_itself() -> None:
    """It has never heard of the topic, and says so as often as it is asked."""
    seen = DeletedTopics()
    look(seen, 1, listed(t=A), by=1, brokers=3)
    for now in range(2, 20):
        assert look(seen, now, listed(), by=2, brokers=3) == {}
    assert look(seen, 20, listed(t=A), by=1, brokers=3) == {}
    assert look(seen, 21, listed(), by=2, brokers=3) == {}
    assert look(seen, 22, listed(), by=3, brokers=3) == {"t": 20 - CLOCK_MARGIN_MS}


def test_of_many_brokers_five_are_enough() -> None:
    seen = DeletedTopics()
    look(seen, 1, listed(t=A), by=1, brokers=50)
    told = [bool(look(seen, 1 + by, listed(), by=by, brokers=50)) for by in range(1, 7)]
    assert told == [False] * 4 + [True, False]


def test_another_cluster_has_deleted_nothing() -> None:
    seen = DeletedTopics()
    look(seen, 1, listed(t=A))
    for now in range(2, 9):
        assert look(seen, now, listed("another")) == {}
    look(seen, 9, listed())
    assert seen.to_ask() == (), "and what was seen before is forgotten"


def test_an_answer_that_nobody_asked_for_proves_nothing() -> None:
    seen = DeletedTopics()
    look(seen, 1, listed(t=A))
    for _ in range(PROOFS + 1):
        assert seen.answered([(A, GONE), (C, GONE)], ONE, 1) == {}


def test_many_at_once_are_asked_for_in_turns() -> None:
    many = {number.to_bytes(16, "big"): f"t{number}" for number in range(1, 2 * SUSPECTS_ASKED_MAX + 1)}
    seen = DeletedTopics()
    seen.listed(1, Listed("c", many))
    deleted: set[str] = set()
    for now in range(2, 20):
        seen.listed(now, Listed("c", {}))
        asked = seen.to_ask()
        assert len(asked) <= SUSPECTS_ASKED_MAX
        # Half of them are hidden, which must not keep the others from their turn.
        deleted |= seen.answered([(i, DENIED if int.from_bytes(i, "big") % 2 else GONE) for i in asked], ONE, 1).keys()
    assert deleted == {f"t{number}" for number in range(2, 2 * SUSPECTS_ASKED_MAX + 1, 2)}


STEPS = st.lists(
    st.tuples(st.dictionaries(st.sampled_from("tu"), st.sampled_from([A, B, C])), st.booleans()), max_size=12
)


@given(STEPS)
@settings(max_examples=300, deadline=None)
def test_what_is_told_was_listed_then_and_never_again(steps: list[tuple[dict[str, bytes], bool]]) -> None:
    """The upstream knows exactly what it lists; a broker that hides everything says that it is denied."""
    seen, last = DeletedTopics(), dict[bytes, tuple[str, int]]()
    for number, (names, hides) in enumerate(steps):
        now_ms = 1_000_000 + 5_000 * number
        there = {} if hides else {topic_id: name for name, topic_id in names.items()}
        seen.listed(now_ms, Listed("c", there))
        last |= {topic_id: (name, now_ms) for topic_id, name in there.items()}
        told = seen.answered([(topic_id, DENIED if hides else GONE) for topic_id in seen.to_ask()], ONE, 1)
        for name, until_ms in told.items():
            assert not hides
            assert (name, until_ms + CLOCK_MARGIN_MS) in last.values()
            assert until_ms + CLOCK_MARGIN_MS <= now_ms - 5_000 * (PROOFS - 1)
