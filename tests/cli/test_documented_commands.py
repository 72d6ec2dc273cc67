"""Every `muster` command that README, runbooks and troubleshooting show is one that the command line takes."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.cli.whole_tree import whole_tree

ROOT = Path(__file__).resolve().parents[2]


def commands() -> list[str]:
    readme = [line.strip() for line in (ROOT / "README.md").read_text().splitlines()]
    shown = [line.removeprefix(".venv/bin/") for line in readme if line.startswith(".venv/bin/muster ")]
    shown += re.findall(r"`(muster [a-z][^`]*)`", (ROOT / "docs" / "runbooks.md").read_text())
    trouble = (ROOT / "docs" / "troubleshooting.md").read_text()
    shown += re.findall(r"`(muster [a-z]+ [^`…]*)`", trouble)
    shown += [line for line in trouble.splitlines() if line.startswith("muster ")]
    return sorted({line.partition("#")[0].strip() for line in shown})


USAGE_ERROR = typer.BadParameter.__mro__[1]
"""click's UsageError, of whichever click Typer uses."""


class NotACommand(Exception):
    """The command line does not take it."""


def parse(words: list[str]) -> None:
    """Parse as the shell would call it, without running it. Typer brings a click of its own."""
    command: Any = whole_tree()
    while hasattr(command, "commands"):
        if command.invoke_without_command and (not words or words[0].startswith("-")):
            break  # `muster dev` runs by itself, and has commands
        if words[0] not in command.commands:
            raise NotACommand(words[0])
        command, words = command.commands[words[0]], words[1:]
    try:
        command.make_context("muster", list(words)).close()
    except USAGE_ERROR as error:
        raise NotACommand(str(error)) from error


def test_there_are_commands_to_judge() -> None:
    assert len(commands()) >= 8


@pytest.mark.parametrize("line", commands())
def test_a_documented_command_is_taken(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    parse(shlex.split(line)[1:])


@pytest.mark.parametrize("line", ["muster produce orders --file x", "muster nothing", "muster group lag"])
def test_the_judge_sees_a_wrong_one(line: str) -> None:
    with pytest.raises(NotACommand):
        parse(shlex.split(line)[1:])


@pytest.mark.parametrize(
    ("words", "group", "instance_id"),
    [([], "billing", "worker-0"), (["-g", "other", "--instance-id", "me"], "other", "me")],
)
def test_consume_reads_its_group_from_the_environment(
    words: list[str], group: str, instance_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a pod of a StatefulSet has it; an option wins."""
    monkeypatch.setenv("MUSTER_GROUP_ID", "billing")
    monkeypatch.setenv("MUSTER_GROUP_INSTANCE_ID", "worker-0")
    consume: Any = whole_tree().commands["consume"]
    with consume.make_context("consume", ["orders", *words]) as context:
        assert (context.params["group"], context.params["instance_id"]) == (group, instance_id)
