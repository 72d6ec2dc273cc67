"""What stopped a Raft group, over the admin API; and who may have it passed over: a majority that says the same."""

from pathlib import Path
from typing import Any

import pytest
from muster_coordinator.admin import stopped_entries
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.replica.multiraft.stopped_entry import StoppedEntry

from tests.admin.test_admin_api import Harness, run

HASH = "ab" * 32
VOTERS = (BrokerId(0), BrokerId(1), BrokerId(2))
STOPPED = StoppedEntry(GroupNo(1), 42, 7, "NORMAL", HASH, b"\x00bytes", "entry 42 cannot be applied", VOTERS, False)
NAMED = {"index": 42, "term": 7, "sha256": HASH}


def consent(broker: int, **other: Any) -> dict[str, Any]:
    return {"broker": broker, **NAMED, **other}


def skip(*consents: dict[str, Any], **other: Any) -> dict[str, Any]:
    return {"group": 1, **NAMED, "consents": list(consents), **other}


def test_a_stopped_entry_is_shown_with_its_data(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        _, empty = await h.ask("GET", "/v1/stopped-entries")
        assert empty["entries"] == []
        h.replica.stopped = [STOPPED]
        _, document = await h.ask("GET", "/v1/stopped-entries")
        assert [(e["group"], e["index"], e["bytes"]) for e in document["entries"]] == [(1, 42, 6)]
        template = "/v1/stopped-entries/{group}"
        status, one = await h.ask("GET", "/v1/stopped-entries/1", template=template)
        assert (status, one["data_base64"]) == (200, "AGJ5dGVz")
        assert (await h.ask("GET", "/v1/stopped-entries/2", template=template))[0] == 404

    run(tmp_path, body)


def test_a_majority_that_stopped_at_the_same_entry_has_it_passed_over(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.stopped = [STOPPED]
        status, document = await h.ask("POST", "/v1/skip", skip(consent(0), consent(2)))
        assert (status, document["skipped"], document["index"]) == (200, True, 42)
        assert h.replica.skips == [], "it has ended"

    run(tmp_path, body)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (skip(consent(0)), (409, "no_majority")),
        (skip(consent(0), consent(0)), (409, "no_majority")),
        (skip(consent(1), consent(2)), (409, "no_majority")),
        (skip(consent(0), consent(3)), (409, "no_majority")),
        (skip(consent(0), consent(1, index=43)), (409, "no_majority")),
        (skip(consent(0), consent(1, term=8)), (409, "no_majority")),
        (skip(consent(0), consent(1, sha256="cd" * 32)), (409, "no_majority")),
        (skip(consent(0, index=41), consent(1, index=41), index=41), (409, "another_entry")),
        (skip(consent(0), consent(1), sha256="cd" * 32), (409, "another_entry")),
        (skip(consent(0), consent(1), group=2), (404, "not_stopped")),
        (skip(consent(0), consent(1), group="1"), (400, "bad_request")),
        (skip(consent(0), consent(1), index=True), (400, "bad_request")),
        (skip(consent(0), {"broker": 1}), (400, "bad_request")),
        ({**skip(), "more": 1}, (400, "bad_request")),
        ({**skip(), "consents": 7}, (400, "bad_request")),
        ([], (400, "bad_request")),
    ],
)
def test_nothing_less_than_a_majority_for_this_very_entry_counts(
    tmp_path: Path, asked: Any, expected: tuple[int, str]
) -> None:
    async def body(h: Harness) -> None:
        h.replica.stopped = [STOPPED]
        status, document = await h.ask("POST", "/v1/skip", asked)
        assert (status, document["error"]) == expected
        assert h.replica.skips == []

    run(tmp_path, body)


@pytest.mark.parametrize("agreed", [False, None])
def test_what_is_not_agreed_in_time_is_not_called_agreed(
    tmp_path: Path, agreed: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopped_entries, "SKIP_S_MAX", 0.05)

    async def body(h: Harness) -> None:
        h.replica.stopped = [STOPPED]
        h.replica.skip_agreed = agreed
        status, document = await h.ask("POST", "/v1/skip", skip(consent(0), consent(2)))
        assert (status, document["error"]) == (503, "not_agreed")
        assert h.replica.skips == [], "the replica was told that nobody waits"

    run(tmp_path, body)


def test_a_second_one_is_told_that_the_first_is_under_way(tmp_path: Path) -> None:
    async def body(h: Harness) -> None:
        h.replica.stopped = [STOPPED]
        h.replica.skips = [GroupNo(1)]
        status, document = await h.ask("POST", "/v1/skip", skip(consent(0), consent(2)))
        assert (status, document["error"]) == (409, "under_way")
        assert h.replica.skips == [GroupNo(1)], "the first one is left alone"

    run(tmp_path, body)
