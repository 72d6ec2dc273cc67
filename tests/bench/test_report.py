"""The Markdown of a row, and its place in the document."""

import pytest

from bench.compare import ECHO, KAFKA, MUSTER, Target
from bench.report import place, section, table, targets, unexplained
from bench.row import Row
from bench.runner import RowResult

MACHINE = {"Muster": "abc123", "Kafka": "4.3.0", "model": "a processor"}


def result(**samples: dict[str, list[float]]) -> RowResult:
    row = Row(
        name="beats",
        title="Beats",
        how="As fast as they come.",
        units={"rate": "/s", "p99": "ms"},
        measure=lambda side, lab: {},
        sides=(MUSTER, KAFKA, ECHO),
        targets=(Target(figure="rate", at_least=2, of_side=KAFKA), Target(figure="p99", at_most=5)),
    )
    return RowResult(row=row, when="today", load_before=1.0, samples=samples)


def test_a_table_has_medians_spreads_and_the_ratio_of_the_two_clusters() -> None:
    text = table(result(rate={MUSTER: [300.0, 100.0, 200.0], KAFKA: [400.0]}))
    assert text.splitlines() == [
        "| figure | muster | kafka | compiled echo | Muster / Kafka |",
        "|---|--:|--:|--:|--:|",
        "| rate (/s) | 200 (100–300) | 400 | – | 0.50x |",
        "| p99 (ms) | – | – | – | – |",
    ]


def test_a_miss_gives_its_reason_or_says_that_none_is_known_and_the_unmeasured_is_unknown() -> None:
    one = result(rate={MUSTER: [200.0], KAFKA: [400.0]})
    assert targets(one, {}).splitlines() == [
        "* rate ≥ 2x kafka: 0.50x, **missed**: reason not yet known",
        "* p99 ≤ 5: not measured, unknown",
    ]
    assert "**missed**: the disk" in targets(one, {"beats": {"rate ≥ 2x kafka": "the disk"}})
    held = result(rate={MUSTER: [900.0], KAFKA: [400.0]})
    assert "rate ≥ 2x kafka: 2.25x, held" in targets(held, {"beats": {"rate ≥ 2x kafka": "the disk"}})


def test_what_is_missed_without_a_reason_or_not_judged_is_unexplained() -> None:
    missed = result(rate={MUSTER: [200.0], KAFKA: [400.0]}, p99={MUSTER: [4.0]})
    assert unexplained(missed, {}) == ["beats: rate ≥ 2x kafka: 0.50x"]
    assert unexplained(missed, {"beats": {"rate ≥ 2x kafka": "the disk"}}) == []
    assert (
        unexplained(missed, {"others": {"rate ≥ 2x kafka": "the disk"}, "beats": {"rate ≥ 3x kafka": "the disk"}}) != []
    )
    unmeasured = result(rate={MUSTER: [900.0], KAFKA: [400.0]})
    assert unexplained(unmeasured, {"beats": {"p99 ≤ 5": "the disk"}}) == ["beats: p99 ≤ 5: not measured"]


def test_a_section_names_the_sides_that_could_not_be_measured() -> None:
    one = result(rate={MUSTER: [200.0]})
    one.failures = {KAFKA: ["no Java"]}
    assert "Not measured on kafka: no Java." in section(one, {}, MACHINE)


def test_a_row_measured_again_replaces_its_own_section_only() -> None:
    order = ["a", "b", "c"]
    document = place("# Title\n\nwords\n", {"c": "C1"}, order)
    document = place(document + "\nthe end\n", {"a": "A1"}, order)
    assert document.index("words") < document.index("A1") < document.index("C1") < document.index("the end")
    document = place(document, {"b": "B1 \\1"}, order)
    assert document.index("A1") < document.index("B1 \\1") < document.index("C1")
    again = place(document, {"c": "C2"}, order)
    without_c = place(document.replace("bench:c", "bench:x"), {"c": "C3"}, order)
    assert without_c.index("B1") < without_c.index("C3") < without_c.index("the end"), "behind its neighbour"
    assert again == document.replace("C1", "C2")
    assert again.startswith("# Title\n\nwords\n")
    assert place(again, {"c": "C2"}, order) == again


@pytest.mark.parametrize("broken", ["<!-- bench:a -->\nx", "<!-- bench:a --><!-- bench:a --><!-- /bench:a -->"])
def test_marks_that_do_not_pair_are_refused(broken: str) -> None:
    with pytest.raises(ValueError, match="marks of a"):
        place(broken, {"a": "A"}, ["a"])
