"""`muster cluster features`: what is asked of kafka-python, and how its answers are told. That clusters answer is in
`test_on_muster`; what they judge, in `tests/api/test_features.py`."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from muster_coordinator.cli import kafka_client
from muster_coordinator.cli.exits import Exit

LEVEL = "muster.feature.level"


class Admin:
    """A cluster whose brokers support levels 1 to 4, at level 3; and kafka-python's manager of its connections."""

    def __init__(self) -> None:
        self._manager = self
        self.asked: list[Any] = []
        self.code, self.words = 0, ""
        self.of_the_feature = True

    def describe_features(self) -> dict[str, dict[str, Any]]:
        found = {LEVEL: {"supported": (1, 4), "finalized": (3, 3), "finalized_epoch": 7}}
        return {**found, "transaction.version": {"supported": (1, 2)}}

    def run(self, call: Any) -> Any:
        return asyncio.run(call())

    async def send(self, request: Any) -> Any:
        assert (request._min_version, request._max_version) == (1, 1), "the one whose answer has words"
        (update,) = request.feature_updates
        changed = (update.feature, update.max_version_level, update.upgrade_type)
        self.asked.append((*changed, request.validate_only, request.timeout_ms))
        one = SimpleNamespace(feature=LEVEL, error_code=self.code, error_message=self.words)
        if self.of_the_feature:
            return SimpleNamespace(error_code=0, error_message=None, results=[one])
        return SimpleNamespace(error_code=self.code, error_message=self.words, results=[])

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    one = Admin()
    monkeypatch.setattr(kafka_client.KafkaSide, "_client", lambda side, deadline: one)
    return one


def test_what_is_supported_and_what_is_in_force(muster: Any, admin: Admin) -> None:
    ran = muster("cluster", "features", "-o", "json")
    assert ran.code == Exit.OK, ran.err
    assert json.loads(ran.out) == [
        {"feature": LEVEL, "supported_min": 1, "supported_max": 4, "finalized": 3},
        {"feature": "transaction.version", "supported_min": 1, "supported_max": 2, "finalized": None},
    ]
    assert admin.asked == []


@pytest.mark.parametrize(("option", "kind"), [("--upgrade", 1), ("--downgrade", 2)])
def test_a_change_is_asked_for_once_and_may_be_tried_only(muster: Any, admin: Admin, option: str, kind: int) -> None:
    ran = muster("cluster", "features", option, "4", "--timeout", "9", "--dry-run")
    assert (ran.code, "nothing was changed" in ran.err) == (Exit.OK, True)
    ran = muster("cluster", "features", option, "4", "--timeout", "9")
    assert (ran.code, ran.err.strip()) == (Exit.OK, f"muster: {LEVEL} is 4")
    assert admin.asked == [(LEVEL, 4, kind, True, 9_000), (LEVEL, 4, kind, False, 9_000)]


@pytest.mark.parametrize("of_the_feature", [True, False])
@pytest.mark.parametrize(("code", "end"), [(95, Exit.REFUSED), (31, Exit.REFUSED), (41, Exit.UNREACHABLE)])
def test_a_refusal_is_told_in_the_words_of_the_cluster(
    muster: Any, admin: Admin, code: int, end: Exit, of_the_feature: bool
) -> None:
    """95: no such level; 31: no right; 41: its leader is not known, which may be asked again."""
    admin.code, admin.words, admin.of_the_feature = code, "it never falls", of_the_feature
    ran = muster("cluster", "features", "--downgrade", "2")
    assert ran.code == end
    assert f"{LEVEL} is not 2" in ran.err
    assert ("it never falls" in ran.err) is (end is Exit.REFUSED)
    assert len(admin.asked) == 1, "a change is not repeated"


@pytest.mark.parametrize("words", [("--upgrade", "4", "--downgrade", "2"), ("--dry-run",), ("--upgrade", "0")])
def test_what_means_nothing_is_refused_before_anybody_is_asked(
    muster: Any, admin: Admin, words: tuple[str, ...]
) -> None:
    assert muster("cluster", "features", *words).code == Exit.USAGE
    assert admin.asked == []
