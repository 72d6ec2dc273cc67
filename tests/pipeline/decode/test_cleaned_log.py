"""The decoder over an offsets log that a replica has cleaned: the same last state of offsets and groups as over the
whole one, no damage, and every byte counted (ADR 76)."""

import pytest

from tests.groups.log.test_cleaned_offsets_log import rounds_of
from tests.pipeline.decoding import decode
from tests.pipeline.golden.log_view import LogView


def view_of(batches: list[bytes]) -> LogView:
    result = decode(b"".join(batches))
    assert result.damages == []
    assert result.account.bytes_decoded == result.account.bytes_in
    view = LogView()
    view.add(result.table)
    assert view.damages == []
    return view


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_the_last_state_of_the_whole_log(seed: int) -> None:
    *_, (whole, _, cleaned) = rounds_of(seed)
    expected, found = view_of(whole), view_of(cleaned)
    assert found.offsets == expected.offsets
    assert found.generations == expected.generations
    assert found.own == expected.own
    assert len(decode(b"".join(cleaned)).offsets) < len(decode(b"".join(whole)).offsets)
