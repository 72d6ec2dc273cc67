"""Notices in the log: the first of a minute with their traces, the others as a number."""

import logging

import pytest
from muster_coordinator import limits
from muster_coordinator.runtime.notices import NoticeLog


class Clock:
    now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return 0


def test_a_storm_of_one_kind_costs_few_lines_and_hides_no_other_kind(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    notice = NoticeLog(clock)
    for number in range(1_000):
        notice("a storm", {"number": number}, ValueError("x"))
    notice("something else", {}, None)
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["a storm"] * limits.NOTICES_PER_WINDOW_MAX + ["something else"]
    assert caplog.records[0].exc_info is not None
    assert notice.counts == {"a storm": 1_000, "something else": 1}
    caplog.clear()
    clock.now_ms = limits.NOTICE_WINDOW_MS
    notice("a storm", {}, None)
    told = [(record.getMessage(), getattr(record, "times", None)) for record in caplog.records]
    assert told == [
        ("a storm: more of these were not logged", 1_000 - limits.NOTICES_PER_WINDOW_MAX),
        ("a storm", None),
    ]
    assert all(record.levelno == logging.ERROR for record in caplog.records)
