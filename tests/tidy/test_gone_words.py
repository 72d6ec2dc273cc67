"""Words that were given up do not come back; each is found where it is planted, and the field's own words are not."""

import subprocess
from pathlib import Path

import pytest

from tests.tidy.gone_words import WORDS, Gone, gone

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = {".py", ".md", ".txt"}
SPEAKING_OF_THEM = ("tests/tidy/", "docs/moved.md")


def test_no_room_says_a_word_that_was_given_up() -> None:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [ROOT / name for name in done.stdout.split() if Path(name).suffix in SUFFIXES]
    found = [
        fault
        for path in files
        if path.is_file() and not str(path.relative_to(ROOT)).startswith(SPEAKING_OF_THEM)
        for fault in gone(str(path.relative_to(ROOT)), path.read_text(errors="replace"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("word", WORDS, ids=[word.word for word in WORDS])
def test_a_word_that_comes_back_is_found_in_each_of_its_rooms(word: Gone) -> None:
    for room in word.rooms:
        assert gone(f"{room}a.py", f"\n{word.planted}\n", [word]), room
    assert not gone("somewhere/a.py", word.planted, [word])


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("coordinator/muster_coordinator/replica/multiraft/a.py", "heartbeats = Heartbeats(); HEARTBEAT_MS"),
        ("coordinator/muster_coordinator/admin/metrics.py", 'labels=["lane"]'),
        ("coordinator/muster_coordinator/a.py", "the control plane, an airplane"),
        (
            "coordinator/muster_coordinator/groups/a.py",
            "a record in flight: in_flight, InFlightAppend, inflight, IN_FLIGHT",
        ),
        ("coordinator/muster_coordinator/storage/a.py", "the high watermark; over its high-water mark; marks them"),
        ("coordinator/muster_coordinator/replica/snapshots/a.py", 'self._loop.submit("transfer", job, done)'),
        ("e2e/a.py", 'sandbox = Sandbox(name); CACHE / "box"'),
        (
            "coordinator/muster_coordinator/groups/a.py",
            "live.pending_members, state.pending_offsets, PENDING_REBALANCE",
        ),
        ("coordinator/muster_coordinator/groups/a.py", "queue.waiting.append(Waiting(gate, ticket)); none is pending"),
        (
            "coordinator/muster_coordinator/runtime/a.py",
            "without waiting for the answer; waiting_for_space; pending timers",
        ),
        ("coordinator/muster_coordinator/wire/a.py", "of frames that are held back"),
    ],
)
def test_what_means_something_else_is_not(name: str, line: str) -> None:
    assert not gone(name, line)
