"""Why a group lagged: of planted causes each is found, with its rows; what is not known is said to be unknown."""

from typing import Any

import pytest
from muster_pipeline.cli.explaining import document, moment_ms
from muster_pipeline.report.explain import CAUSES, PROOF_ROWS_MAX, Explanation, explain
from muster_pipeline.report.source import InMemory
from muster_pipeline.tables.errors import BadInput

from tests.pipeline.report.fleet_tables import rebalance, table
from tests.pipeline.tables.generated import START_MS, commit, fold, log, log_end_table

SECOND, MINUTE = 1_000, 60_000
STEP_MS = 30_000
HOUR = 120
"""Steps."""
Sample = tuple[str, int, int, int, int | None, bool]


def life(
    read: list[int],
    written: list[int],
    moves: list[dict[str, Any]] | None = None,
    partitions: int = 1,
    gapped: tuple[int, ...] = (),
) -> InMemory:
    """Offsets committed and log ends, a pair every half minute, on each partition; -1: no commit then. `gapped`:
    partitions whose offsets have gaps."""
    rows = log(
        [
            (commit(("g", "t", partition), offset), 0 if partition else STEP_MS * (1 + _gap(read, n)), 0)
            for n, offset in enumerate(read)
            if offset >= 0
            for partition in range(partitions)
        ]
    )
    samples: list[Sample] = [
        ("t", partition, START_MS + STEP_MS * (n + 1) + SECOND, end, 0, partition in gapped)
        for n, end in enumerate(written)
        for partition in range(partitions)
    ]
    made = fold([rows], log_end_table(samples))
    return InMemory({**made, "rebalances": table("rebalances", moves or [])})


def _gap(read: list[int], place: int) -> int:
    """Steps without a commit before this one."""
    gap = 0
    while place - gap - 1 >= 0 and read[place - gap - 1] < 0:
        gap += 1
    return gap


def told(tables: InMemory, at_ms: int | None = None) -> Explanation:
    found = explain(tables, "g", at_ms)
    assert found is not None
    return found


STEADY = [10 * n for n in range(HOUR)]
LATER = [one + 5 for one in STEADY]


def pause(minute: int, to: int, **more: Any) -> dict[str, Any]:
    at_ms = START_MS + minute * MINUTE
    return rebalance("g", 0, to, trigger="session_timeout") | {"ended_at_ms": at_ms} | more


def test_stalled() -> None:
    """The last twenty minutes name offset 800 again and again."""
    found = told(life([*STEADY[:80], *[800] * 40], STEADY))
    assert found.cause == "stalled"
    assert "800 of t-0 stood still" in found.paragraph
    assert "39 commits repeated it" in found.paragraph or "40 commits repeated it" in found.paragraph
    assert [row["committed_offset"] for name, row in found.proof if name == "stalls"] == [800]


def test_stopped_is_a_stall_without_commits() -> None:
    found = told(life(STEADY[:80], STEADY))
    assert found.cause == "stalled"
    assert "nothing shows that it was committed again" in found.paragraph


def test_rewound() -> None:
    read = [*STEADY[:115], *[100 + 10 * n for n in range(5)]]
    found = told(life(read, LATER))
    assert found.cause == "rewound"
    assert "1 commits went back by 1,040 records" in found.paragraph
    assert [row["rewinds"] for name, row in found.proof if name == "commit_rate"] == [1]


def test_rebalancing_by_number_and_by_pause() -> None:
    read = [*STEADY[:105], *[1_050 + 2 * n for n in range(15)]]
    many = told(life(read, LATER, [pause(minute, to) for to, minute in enumerate((52, 54, 56), 5)]))
    assert many.cause == "rebalancing"
    assert "3 rebalances (session timeout)" in many.paragraph
    assert [row["generation_to"] for name, row in many.proof if name == "rebalances"] == [5, 6, 7]
    exact = {"duration_class": "exact", "duration_ms": 120_000, "duration_min_ms": None}
    assert told(life(read, LATER, [pause(55, 5, **exact)])).cause == "rebalancing"
    assert told(life(read, LATER, [pause(55, 5), pause(40, 4), pause(39, 3)])).cause == "slow", "two are long over"
    avoided = [pause(minute, to, is_avoided=True) for to, minute in enumerate((52, 54, 56), 5)]
    assert told(life(read, LATER, avoided)).cause == "slow"


def test_slow_and_burst_differ_in_what_was_written_before() -> None:
    slow = told(life(STEADY, [30 * n for n in range(HOUR)]))
    assert slow.cause == "slow"
    assert "210 records were read and 630 written; in the ten before those, 600 were written" in slow.paragraph
    burst = told(life(STEADY, [*LATER[:100], *[1_000 + 50 * n for n in range(20)]]))
    assert burst.cause == "burst"


def test_catching_up() -> None:
    found = told(
        life([10 * n if n < 100 else 1_000 + 30 * (n - 100) for n in range(HOUR)], [2_000 + n for n in range(HOUR)])
    )
    assert found.cause == "catching up"


def test_not_behind_and_unknown() -> None:
    assert told(life(STEADY, STEADY)).cause == "not behind"
    none = told(life(STEADY, []))
    assert (none.cause, none.lag) == ("unknown", None)
    assert "its lag is unknown" in none.paragraph


def test_offsets_with_gaps_are_no_numbers_of_records() -> None:
    """What is behind has an age; what is not behind is so; and a number is that of the other partitions alone."""
    found = told(life([10 * n for n in range(HOUR)], [30 * n for n in range(HOUR)], gapped=(0,)))
    assert (found.cause, found.lag) == ("gaps", None)
    assert "behind on 1 partitions, by records that nobody has counted; the oldest record" in found.paragraph
    assert [(name, row["detail"], row["lag"]) for name, row in found.proof] == [("lag", "gaps", None)]
    assert told(life(STEADY, STEADY, gapped=(0,))).cause == "not behind"
    read = [*STEADY[:115], *[100 + 10 * n for n in range(5)]]
    mixed = told(life(read, LATER, partitions=2, gapped=(0,)))
    assert mixed.lag == LATER[-1] - read[-1]
    assert "of 1 more the lag is unknown" in mixed.paragraph
    assert "1 commits went back by 1,040 records" in mixed.paragraph
    assert [row["partition"] for name, row in mixed.proof if name == "commit_rate"] == [1]
    slow = told(life(STEADY, [30 * n for n in range(HOUR)], partitions=2, gapped=(1,)))
    assert "210 records were read and 630 written" in slow.paragraph


def test_at_an_earlier_time_only_what_was_known_then_counts() -> None:
    tables = life([*STEADY[:80], *[800] * 40], STEADY)
    before = told(tables, START_MS + 35 * MINUTE)
    assert before.cause == "not behind"
    assert explain(tables, "g", START_MS) is None
    assert explain(tables, "other") is None


def test_the_worst_partition_is_named_and_the_proof_is_bounded() -> None:
    rows = [*STEADY[:80], *[800] * 40]
    found = told(life(rows, STEADY, partitions=30))
    assert "t-0 had" in found.paragraph or "t-29 had" in found.paragraph
    assert "and so did those of 29 more" in found.paragraph
    assert len(found.proof) == PROOF_ROWS_MAX
    assert document(found)["cause"] == "stalled"


def test_every_cause_is_planted_here() -> None:
    planted = {
        "unknown", "not behind", "stalled", "rewound", "rebalancing", "burst", "slow", "catching up", "gaps"
    }  # fmt: skip
    assert set(CAUSES) == planted


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [("2023-11-14T22:13:20", START_MS), ("2023-11-14T23:13:20+01:00", START_MS), ("2023-11-14 22:13:20Z", START_MS)],
)
def test_times_are_iso_and_utc(text: str, at_ms: int) -> None:
    assert moment_ms(text) == at_ms


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match="ISO time"):
        moment_ms("yesterday")
