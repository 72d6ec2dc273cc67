"""Notices in the log: the first of a minute with their traces, the others as a number."""

import logging

import pytest
from muster_coordinator.runtime import limits
from muster_coordinator.runtime.notices import NoticeLog

from tests.sim.loop import SimLoop, World


def test_a_storm_of_one_kind_costs_few_lines_and_hides_no_other_kind(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1)
    notice = NoticeLog(SimLoop(world))
    for number in range(1_000):
        notice("a storm", {"number": number}, ValueError("x"))
    notice("something else", {}, None)
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["a storm"] * limits.NOTICES_PER_WINDOW_MAX + ["something else"]
    assert caplog.records[0].exc_info is not None
    assert notice.counts == {"a storm": 1_000, "something else": 1}
    caplog.clear()
    world.run_for(limits.NOTICE_WINDOW_MS)
    told = [(record.getMessage(), getattr(record, "times", None)) for record in caplog.records]
    rest = 1_000 - limits.NOTICES_PER_WINDOW_MAX
    assert told == [("a storm: more of these were not logged", rest)], "when its minute ends, whether or not it goes on"
    caplog.clear()
    notice("a storm", {}, None)
    world.run_for(3 * limits.NOTICE_WINDOW_MS)
    assert [record.getMessage() for record in caplog.records] == ["a storm"]
    assert all(record.levelno == logging.ERROR for record in caplog.records)
