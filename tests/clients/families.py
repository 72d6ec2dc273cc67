"""A member of each family of clients at once: Java, librdkafka, kafka-python, aiokafka and franz-go.

Problem: what is promised to "every client" is shown by one of each kind, beside the others, on one topic. Mechanism:
each is in a group of its own and has all partitions, so that whatever one of them produces all of them read; `go_on`
is one such round, `undisturbed` says that no group's generation has changed since the first one, and that each record
came once. How they reach the cluster, and on which machine they run, is their settings'. Not here: what happens to the
cluster meanwhile.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from tests.clients.member import Member
from tests.cluster import wait_until

FAMILIES = ("java", "librdkafka", "kafka-python", "aiokafka", "franz-go")
SESSION_MS = 45_000
ROUND_S = 60
JOIN_S = 90
Settings = dict[str, Any]


class Families:
    """Made, joined, and through the first round."""

    def __init__(
        self,
        topic: str,
        partitions: int,
        made: Callable[[str], Settings],
        generation_of: Callable[[str], int | None],
        stack: ExitStack,
        said_of: Callable[[str], Sequence[str]] = lambda group: (),
    ) -> None:
        """`made`: the settings of a family's member. `generation_of`: of a group, None where nobody tells it just now.
        `said_of`: what the cluster has told of a group, for whom it fails."""
        self.topic, self.partitions = topic, partitions
        self._generation_of, self._said_of = generation_of, said_of
        self.members = {
            family: Member(
                family, group=self.group(family), topics=[topic], session_ms=SESSION_MS, poll_ms=2 * SESSION_MS,
                **made(family),
            )
            for family in FAMILIES
        }  # fmt: skip
        for member in self.members.values():
            stack.callback(member.dispose)
        self.produced: list[str] = []
        for family, member in self.members.items():
            member.wait(f"{family} owns all", lambda it: len(it.assigned) == partitions, JOIN_S)
        self.go_on("at first")  # kafka-python joins before it knows the topic's partitions, and again as it does
        self.joined = {family: len(member.events) for family, member in self.members.items()}
        self.generations = {family: self.generation(family) for family in FAMILIES}

    def group(self, family: str) -> str:
        return f"{self.topic}-{family}"

    def generation(self, family: str) -> int:
        ask = partial(self._generation_of, self.group(family))
        return int(wait_until("a coordinator tells the generation", ask, 30))

    def go_on(self, what: str) -> None:
        """Each produces, each reads what all have produced, each commits."""
        for family, member in self.members.items():
            value = f"{family}, {what}"
            after = member.command("produce", t=self.topic, p=len(self.produced) % self.partitions, v=value)
            told = member.wait(f"{family} produces {what}", partial(outcome, after=after), ROUND_S)
            assert told["e"] == "produced", (family, what, told)
            self.produced.append(value)
        for family, member in self.members.items():
            member.wait(f"{family} reads {what}", lambda it: values(it) >= set(self.produced), ROUND_S)
            assert member.commit(ROUND_S)["e"] == "committed", (family, what)

    def undisturbed(self) -> None:
        for family, member in self.members.items():
            told = [event for event in member.events[self.joined[family] :] if event["e"] != "records"]
            changes = {event["e"] for event in told} & {"assigned", "revoked", "lost", "commit_failed"}
            assert not changes, (family, told, self._said_of(self.group(family)))
            assert member.ended() is None
            assert self.generation(family) == self.generations[family], family
            assert sorted(value for *_, value in member.records) == sorted(self.produced), "each once"


def certified(family: str, ca: str, certificate: Path, key: Path) -> Settings:
    """Settings of a member that shows its certificate. Java wants both in one file, which is written beside them."""
    settings: Settings = {"ca": ca, "certificate": str(certificate), "key": str(key)}
    if family == "java":
        both = key.with_name("java.pem")
        both.write_text(key.read_text() + certificate.read_text())
        settings["properties"] = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}
    return settings


def outcome(member: Member, after: int) -> dict[str, Any] | None:
    return next((event for event in member.events[after:] if event["e"] in ("produced", "produce_failed")), None)


def values(member: Member) -> set[str | None]:
    return {value for *_, value in member.records}
