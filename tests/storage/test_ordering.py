"""Sorting in pieces: what `sorted` gives, and no piece larger than a run."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.ordering import in_order


@given(st.lists(st.text(), max_size=60), st.integers(1, 9))
def test_names_come_as_sorted_gives_them(names: list[str], run: int) -> None:
    assert list(in_order(names, run)) == sorted(names)


@given(st.lists(st.binary(max_size=4), max_size=60), st.integers(1, 9))
def test_keys_come_as_sorted_gives_them(keys: list[bytes], run: int) -> None:
    assert list(in_order(iter(keys), run)) == sorted(keys)


class Counted(str):
    """Counts comparisons."""

    __slots__ = ()
    compared = 0

    def __lt__(self, other: str) -> bool:
        Counted.compared += 1
        return str.__lt__(self, other)


def test_no_more_is_compared_at_a_stretch_than_a_run_and_the_heads_of_all_runs_need() -> None:
    stretches: list[int] = []

    def stretch() -> None:
        stretches.append(Counted.compared)
        Counted.compared = 0

    def names() -> Iterator[str]:
        for number in range(1_000):
            stretch()
            yield Counted(f"{number * 7_919 % 1_000:04}")

    for _ in in_order(names(), 10):
        stretch()
    assert len(stretches) == 2_000
    assert max(stretches) < 500, "sorting all of them takes eight thousand"
