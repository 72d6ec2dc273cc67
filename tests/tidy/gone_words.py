"""Words that were given up, each with the rooms in which it must not come back, and with what means something else.

A word is given up where the field has its own (docs/glossary.md). A term of Kafka, Raft, Kubernetes or Spark is never
listed; how a sentence reads is judged by readers and not here.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple


class Gone(NamedTuple):
    """`found` is searched in each line of the files below `rooms`; `now`: what to write instead."""

    word: str
    found: str
    now: str
    rooms: tuple[str, ...]
    planted: str
    """A line that has to be found."""
    but: tuple[tuple[str, str], ...] = ()
    """(beginning of a path, expression): lines that mean something else, or name what is published."""


def part(word: str) -> str:
    """`word` or its plural, alone or as a part of a name in snake_case or CamelCase."""
    first, rest = f"[{word[0]}{word[0].upper()}]", word[1:]
    camel = f"(?<=[a-z]){word[0].upper()}{rest}s?(?![a-z])"
    return rf"(?<![A-Za-z]){first}{rest}s?(?![a-z])|{camel}|(?<![A-Z]){word.upper()}S?(?![A-Z])"


C = "coordinator/muster_coordinator/"
DOCS = ("docs/", "README.md", "CONTRIBUTING.md")
RAFT = (C + "raft/", C + "replica/", C + "links/", "tests/raft/", "tests/replica/", "tests/links/", "tests/mutants/")
STATE = (C + "groups/", C + "topics/", C + "controller/", C + "records/", C + "replica/", C + "storage/")
ALL = (C, "tests/", *DOCS)
_BESIDE_GROUPS = "admin api cli controller links raft records replica runtime storage topics wire"
BESIDE_GROUPS = tuple(f"{C}{room}/" for room in _BESIDE_GROUPS.split())
"""The rooms without a queue of requests for each group."""

WORDS = (
    Gone("beat", part("beat"), "heartbeat, HostHeartbeat", (*RAFT, *DOCS), "    def _send_beat(self) -> None:"),
    Gone(
        "lane",
        part("lane"),
        "channel (of a link), WalWriter, IoQueue, GroupQueue",
        (C, "tests/", "operator/", *DOCS),
        "class WalLane:",
        (
            (C + "admin/metrics.py", r'labels=\["lane"\]'),
            ("tests/admin/", r'"lane", "'),
            ("docs/admin-api.md", r"\| lane \|"),
            ("docs/", r"of lane `wal-"),
            ("docs/glossary.md", r"label `lane`"),
            ("tests/chart", "lane"),
            ("tests/pipeline/", "lane"),
        ),
    ),
    Gone("tidings", r"(?i)tidings", "BootstrapState", ALL, "TIDINGS = 7"),
    Gone("founding", part("founding"), "bootstrap", ALL, "self.founding.start()"),
    Gone("sitter", part("sitter"), "voter", ALL, "# spoken only with the sitters"),
    Gone("hosting", part("hosting"), "GroupManager", (C, "tests/replica/", "tests/sim/"), "self._hosting.states"),
    Gone("picture", part("picture") + "|(?i:pictured)", "snapshot", STATE, "An immutable picture."),
    Gone(
        "owed",
        r"(?<![a-z])(?:owed|OWED|owe_rebalance)(?![a-z])",
        "pending rebalance",
        (C + "groups/",),
        "live.owed = None",
    ),
    Gone(
        "pending",
        r"(?<=[._\"])pending\b|\bpending(?=(?: =|\.[a-z]|\[))|(?<![A-Z])PENDING\b",
        "pending_members, pending_offsets, pending_rebalance; of bytes: unwritten; of links: handshaking",
        (C,),
        "timer = live.pending[member]",
        ((C + "raft/quorum.py", r"VoteResult\.PENDING|^    PENDING = 0"),),  # etcd's VotePending
    ),
    Gone(
        "waiting",
        r"\b(?:self\.)?_\w*waiting\b|\bself\.waiting\b|\bwaiting(?=(?: =|\.[a-z]|\[))|\bdef waiting\b|WAITING|_Waiting",
        "parked (a request that an event answers); of bytes: unwritten; of proposals, partitions, …: what they are",
        BESIDE_GROUPS,
        "        self._waiting: deque[_Tracked] = deque()",
        ((C + "admin/metrics.py", r"requests_refused_waiting"),),
    ),
    Gone(
        "deferred",
        r"(?i)(?<![a-z])defer(?:s|red|ring)?(?![a-z])",
        "parked (a request); postponed (a connection)",
        BESIDE_GROUPS,
        "            if doubt.defers(reading.absent, look_again):",
    ),
    Gone(
        "outstanding",
        r"(?i)(?<![a-z])outstanding(?![a-z])",
        "in flight, proposed, unanswered",
        (C,),
        "        self._outstanding_bytes = 0",
    ),
    Gone(
        "held back",
        r"(?i)(?:held|hold|holds|holding)[ _-]back",
        "pending (a commit in an open transaction); kept (a batch)",
        ("pipeline/", C + "replica/", C + "groups/", C + "raft/", C + "links/"),
        "HELD_BACK_BATCHES: Final = 16",
    ),
    Gone(
        "flight",
        r"(?<![iI]n[ _-])(?<![iI]n)(?<!IN_)(?:[fF]lights?|FLIGHTS?)(?![a-z])",
        "in-flight append, InFlightAppend",
        (C + "groups/", C + "topics/"),
        "flight = Flight(group)",
    ),
    Gone(
        "mark",
        r"(?<![a-zA-Z])(?:[mM]ark|NO_MARK)(?![a-z])",
        "recovery point, RecoveryPoint",
        (C + "storage/", C + "replica/snapshots/"),
        "NO_MARK = Mark(0, 0, 0, 0)",
        ((C, r"high-water mark|mark of birth"),),
    ),
    Gone(
        "transfer",
        part("transfer"),
        "snapshot install; of leadership: leadership transfer",
        (C + "replica/snapshots/",),
        "class TransferSource:",
        (
            (C, r'"transfer(-source)?"|leadership transfer|\.transfer\('),
            (C, r"no such transfer|^(?:NOT_AS_WRITTEN|GIVEN_UP|TOO_MANY) = "),  # told to peers, and in metrics
        ),
    ),
    Gone(
        "box",
        r"(?<![\w/\"`.-])[bB]ox(?:es)?(?![\w/\"])",
        "sandbox",
        ("e2e/",),
        "class Box:",
        (("e2e/", r"--rung box|BOX="),),
    ),
    Gone(
        "GroupView",
        r"\bGroupView\b",
        "DescribedGroup, GroupMetrics, ObservedGroup, HistoricGroup",
        (*ALL, "operator/", "pipeline/", "e2e/"),
        "class GroupView:",
    ),
    Gone("of such, one", "of such, one", "one at a time, round-robin", ALL, "# of such, one is written at a time"),
    Gone(
        "checkpointed last, last",
        "checkpointed last, last",
        "least recently checkpointed first",
        ALL,
        "checkpointed last, last.",
    ),
    Gone("leader's desk", "(?i)leader's desk", "state and effects of a shard that leads", ALL, '"""The leader\'s desk'),
    Gone("may be as young", "may be as young", "may be unsynced too", ALL, "that file's name may be as young"),
    Gone(
        "small random while", "small random while", "random delay, jitter", ALL, "campaign after a small random while"
    ),
    Gone(
        "let somebody else begin", "let somebody else begin", "do not campaign before", ALL, "let somebody else begin."
    ),
)


def gone(name: str, text: str, words: Iterable[Gone] = WORDS) -> list[str]:
    """What of `words` the file `name` still says."""
    found = []
    for word in words:
        if not name.startswith(word.rooms):
            continue
        expression = re.compile(word.found)
        if not expression.search(text):
            continue  # no expression looks beyond its line, and few files have a word
        but = [re.compile(allowed) for path, allowed in word.but if name.startswith(path)]
        for number, line in enumerate(text.splitlines(), 1):
            if expression.search(line) and not any(one.search(line) for one in but):
                found.append(f"{name}:{number}: {word.word!r}; say {word.now}: {line.strip()[:100]}")
    return found
