"""What may be cleaned, when it is due, and which segments become one (Kafka's `LogCleanerManager`; KIP-58, KIP-354)."""

from muster_coordinator.topics.cleaning.limits import OFFSETS_MERGED_MAX, SEGMENTS_MERGED_MAX
from muster_coordinator.topics.cleaning.plan import CleaningSettings, cleanable, due, groups
from muster_coordinator.topics.machine import RetentionView

NOW_MS = 1_000_000
SEALED = tuple(RetentionView(n * 10, n * 10 + 10, 100, 100_000 * n) for n in range(5))


def found(settings=CleaningSettings(), *, cleaned_to=0, stable_offset=50):  # noqa: B008 (immutable)
    return cleanable(NOW_MS, SEALED, settings, cleaned_to=cleaned_to, stable_offset=stable_offset)


def ends(cleanable_):
    return None if cleanable_ is None else cleanable_.segments[-1].next_offset


def test_no_segment_reaches_above_the_last_stable_offset():
    assert [ends(found(stable_offset=offset)) for offset in (0, 9, 10, 19, 49, 50)] == [None, None, 10, 10, 40, 50]


def test_no_dirty_segment_has_a_record_younger_than_the_minimum_lag():
    settings = CleaningSettings(min_lag_ms=800_000)
    assert ends(found(settings)) == 30, "a record of exactly that age may be cleaned"
    assert ends(found(settings._replace(min_lag_ms=800_001))) == 20
    assert ends(found(settings._replace(min_lag_ms=0))) == 50
    assert found(settings, cleaned_to=30) is None


def test_the_dirty_part_is_what_was_never_cleaned():
    assert found(cleaned_to=50) is None
    some = found(cleaned_to=30)
    assert (some.first_dirty, some.clean_bytes, some.dirty_bytes, some.ratio) == (30, 300, 200, 0.4)
    half = found(cleaned_to=35)
    assert (half.first_dirty, half.clean_bytes, half.dirty_bytes) == (35, 300, 200)
    later = cleanable(NOW_MS, SEALED[2:], CleaningSettings(), cleaned_to=0, stable_offset=50)
    assert later.first_dirty == 20, "retention has dropped what is before"


def test_a_round_is_due_by_the_ratio_or_by_the_maximum_lag():
    some = found(cleaned_to=30)
    assert not due(NOW_MS, some, CleaningSettings(dirty_ratio=0.4), -1)
    assert due(NOW_MS, some, CleaningSettings(dirty_ratio=0.39), -1)
    assert due(NOW_MS, some, CleaningSettings(dirty_ratio=0.0), -1)
    lag = CleaningSettings(max_lag_ms=1_000)
    assert not due(NOW_MS, some, lag, NOW_MS - 1_000)
    assert due(NOW_MS, some, lag, NOW_MS - 1_001)
    assert not due(NOW_MS, some, lag, -1)


def test_neighbours_are_merged_up_to_the_size_of_a_segment():
    assert [len(group) for group in groups(SEALED, 250)] == [2, 2, 1]
    assert [len(group) for group in groups(SEALED, 99)] == [1] * 5
    assert [len(group) for group in groups(SEALED, 500)] == [5]
    assert groups((), 1) == []
    small = [RetentionView(n, n + 1, 1, 0) for n in range(SEGMENTS_MERGED_MAX + 1)]
    assert [len(group) for group in groups(small, 1_000)] == [SEGMENTS_MERGED_MAX, 1]
    wide = (RetentionView(0, OFFSETS_MERGED_MAX, 1, 0), RetentionView(OFFSETS_MERGED_MAX, OFFSETS_MERGED_MAX + 2, 1, 0))
    assert [len(group) for group in groups(wide, 1_000)] == [1, 1]
    fits = (wide[0], RetentionView(OFFSETS_MERGED_MAX, OFFSETS_MERGED_MAX + 1, 1, 0))
    assert [len(group) for group in groups(fits, 1_000)] == [2]
