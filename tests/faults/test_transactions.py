"""Exactly once through kills of whoever takes part; the whole form of it is `make transactions` (`.ci/nightly`)."""

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.sides import Muster
from tests.faults.transactions import PARTITIONS, WINDOWS, run

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1_800)]

SEED = 19


class Form(NamedTuple):
    per_partition: int
    kills: int
    kills_max: int
    transactions_min: int
    bursts: bool
    windows: tuple[str, ...]
    """That must be hit."""


SHORT = Form(2_000, 4, 4, 100, False, ())
WHOLE = Form(30_000, 20, 60, 5_000, True, WINDOWS)


def test_each_record_is_copied_once_whoever_dies(tmp_path: Path) -> None:
    form = WHOLE if os.environ.get("MUSTER_TRANSACTIONS") == "whole" else SHORT
    with Muster(tmp_path / "data") as servers:
        ended = run(
            servers,
            per_partition=form.per_partition,
            kills=form.kills,
            kills_max=form.kills_max,
            bursts=form.bursts,
            seed=SEED,
            say=print,
        )
    print(ended)
    assert ended.missing == []
    assert ended.doubled == []
    assert ended.offsets == dict.fromkeys(range(PARTITIONS), form.per_partition)
    assert ended.transactions >= form.transactions_min
    assert ended.aborted > ended.transactions / 10
    assert ended.untrue == []
    assert ended.short > form.kills or not form.bursts, "each burst had some"
    for window in form.windows:
        assert ended.windows[window] > 0, f"no coordinator died with {window}"
