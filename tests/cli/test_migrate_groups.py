"""`muster group migrate` over two clusters that are values: each group its outcome, bounded work, and what is away."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from muster_coordinator.cli import migrate_groups
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.group_copies import ListedGroup
from muster_coordinator.cli.kafka_client import KafkaSide
from muster_coordinator.cli.migrate_groups import SENTENCES_MAX, printable
from muster_coordinator.cli.migrate_plan import GROUPS_PER_QUESTION_MAX, Answered, Committed, GroupAt, Offsets
from muster_coordinator.groups.assignors.membership import TopicPartition

P = TopicPartition("t", 0)
ONE = {P: Committed(1)}
AWAY = CliError(Exit.UNREACHABLE, "no usable answer")
DENIED = CliError(Exit.REFUSED, "not authorized")


class Clusters:
    """Source "s:1" and target "t:2"; `fails`: side -> group -> why it cannot be read."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, GroupAt]] = {"s:1": {}, "t:2": {}}
        self.fails: dict[str, dict[str, CliError]] = {"s:1": {}, "t:2": {}}
        self.lacks: list[str] = []
        self.read: list[tuple[str, int]] = []
        self.committed: list[str] = []

    def add(self, *names: str, offsets: Offsets = ONE) -> None:
        self.groups["s:1"].update({name: GroupAt("Empty", 0, "classic", offsets) for name in names})

    def list_groups(self, side: KafkaSide) -> tuple[dict[str, ListedGroup], list[str]]:
        found = {name: ListedGroup(one.kind, one.state) for name, one in self.groups[side.bootstrap].items()}
        return found, self.lacks if side.bootstrap == "s:1" else []

    def read_groups(
        self, side: KafkaSide, names: Sequence[str], listed: Mapping[str, ListedGroup]
    ) -> dict[str, GroupAt | CliError]:
        self.read.append((side.bootstrap, len(names)))
        there, fails = self.groups[side.bootstrap], self.fails[side.bootstrap]
        return {name: fails.get(name) or there.get(name, GroupAt("Dead", 0, "", {})) for name in names}

    def commit_copies(self, side: KafkaSide, group: str, copies: Offsets) -> Answered:
        assert side.bootstrap == "t:2", "nothing is ever written to the source"
        self.committed.append(group)
        there = self.groups["t:2"].get(group, GroupAt("Empty", 0, "classic", {}))
        self.groups["t:2"][group] = there._replace(offsets={**there.offsets, **copies})
        return Answered()


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    it = Clusters()
    for name in ("list_groups", "read_groups", "commit_copies"):
        monkeypatch.setattr(migrate_groups, name, getattr(it, name))
    return it


@pytest.fixture
def migrate(muster: Any, clusters: Clusters) -> Any:
    def run(*arguments: str) -> tuple[int, dict[str, str], str]:
        ran = muster("group", "migrate", "--from", "s:1", "-b", "t:2", "-o", "json", *arguments)
        told = {row["group"]: row["outcome"] for row in json.loads(ran.out)["groups"]} if ran.out else {}
        return ran.code, told, ran.err

    return run


def test_a_dry_run_commits_nothing_and_says_so(migrate: Any, clusters: Clusters) -> None:
    clusters.add("a", "b")
    code, told, said = migrate("--all")
    assert (code, told, clusters.committed) == (Exit.OK, {"a": "planned", "b": "planned"}, [])
    assert "groups: 2 planned" in said
    assert "nothing was changed; add --execute to do it" in said


def test_one_groups_refusal_stops_no_other_and_the_first_ones_are_told(migrate: Any, clusters: Clusters) -> None:
    clusters.add("a", "b", *(f"x{number}" for number in range(SENTENCES_MAX + 2)))
    for number in range(SENTENCES_MAX + 2):
        clusters.fails["s:1"][f"x{number}"] = DENIED
    code, told, said = migrate("--all", "--execute")
    assert code == Exit.REFUSED
    assert clusters.committed == ["a", "b"]
    assert list(told.values()) == ["done", "done", *["refused"] * (SENTENCES_MAX + 2)]
    assert said.count("is not migrated: the source s:1: not authorized") == SENTENCES_MAX
    assert "nor are 2 more, see the report" in said
    assert migrate("a", "b", "--execute")[:2] == (Exit.OK, {"a": "same", "b": "same"})
    assert clusters.committed == ["a", "b"], "repeated, nothing is written"


def test_a_thousand_groups_are_asked_for_in_bounded_questions_and_told_in_order(
    migrate: Any, clusters: Clusters
) -> None:
    names = [f"g{number:04}" for number in range(1_001)]
    clusters.add(*names)
    code, told, _ = migrate("--all", "--execute")
    assert (code, list(told), set(told.values())) == (Exit.OK, names, {"done"})
    assert sorted(clusters.committed) == names
    assert max(count for _, count in clusters.read) == GROUPS_PER_QUESTION_MAX


@pytest.mark.parametrize("side", ["s:1", "t:2"])
def test_when_a_side_stops_answering_the_rest_is_unknown_and_not_tried(
    migrate: Any, clusters: Clusters, side: str
) -> None:
    names = [f"g{number:04}" for number in range(1_000)]
    clusters.add(*names)
    clusters.fails[side] = dict.fromkeys(names, AWAY)
    code, told, _ = migrate("--all", "--execute")
    assert (code, set(told.values()), clusters.committed) == (Exit.UNREACHABLE, {"unknown"}, [])
    asked = sum(count for at, count in clusters.read if at == side)
    assert asked < len(names), "no more than what the workers had begun"


def test_an_incomplete_list_is_told_by_its_code_and_only_where_the_list_was_asked_for(
    migrate: Any, clusters: Clusters
) -> None:
    clusters.add("a")
    clusters.lacks = ["broker 2 is down"]
    code, told, said = migrate("--all")
    assert (code, told) == (Exit.INCOMPLETE, {"a": "planned"})
    assert "s:1: broker 2 is down" in said
    assert migrate("a")[0] == Exit.OK


def test_a_group_that_was_named_has_to_be_there(migrate: Any, clusters: Clusters) -> None:
    clusters.add("a")
    clusters.add("without", offsets={})
    assert migrate("a", "nobody")[:2] == (Exit.NOT_FOUND, {"a": "planned", "nobody": "nothing"})
    assert migrate("--all")[:2] == (Exit.OK, {"a": "planned", "without": "nothing"})


def test_a_name_that_comes_twice_is_one_group(migrate: Any, clusters: Clusters) -> None:
    clusters.add("a")
    assert migrate("a", "a", "--execute")[:2] == (Exit.OK, {"a": "done"})
    assert clusters.committed == ["a"]


@pytest.mark.parametrize("wrong", [(), ("a", "--all"), ("--all", "--pattern", "a"), ("--pattern", "(")])
def test_what_is_to_be_migrated_is_said_in_one_way(migrate: Any, wrong: tuple[str, ...]) -> None:
    assert migrate(*wrong)[0] == Exit.USAGE


@pytest.mark.parametrize(
    ("name", "shown"), [("a b", "a b"), ("é'\"", "é'\""), ("", '""'), ("a\nb", '"a\\nb"'), ("\x1b[2J", '"\\u001b[2J"')]
)
def test_a_terminal_gets_no_control_characters(name: str, shown: str) -> None:
    assert printable(name) == shown
