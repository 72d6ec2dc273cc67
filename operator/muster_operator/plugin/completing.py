"""`kubectl_complete-muster`: the program that kubectl's shell completion runs for `kubectl muster`.

kubectl runs it with the words typed so far and expects one candidate per line, then `:4` (no file names) or `:0` (file
names allowed). Names of objects are read from the API server with a short time-out; if it does not answer, there are no
candidates: completion never prints an error.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer

from muster_operator.plugin.main import app
from muster_operator.plugin.objects import GROUP, KINDS, Objects, Trouble
from muster_operator.plugin.options import Output

NO_FILES, FILES = ":4", ":0"
_GROUPS_ONLY = ("lag", "reset", "scale")
_WITHOUT_REFERENCE = ("status", "report")


def candidates(words: Sequence[str]) -> tuple[list[str], str]:
    """Candidates for the last of `words` (which may be empty), and the directive."""
    commands: Mapping[str, Any] = vars(typer.main.get_command(app))["commands"]
    *before, current = words or [""]
    name = before[0] if before else ""
    if not before:
        return _starting(sorted(commands), current), NO_FILES
    chosen = commands.get(name)
    if chosen is None:
        return [], NO_FILES
    options = [one for one in chosen.params if one.param_type_name == "option"]
    if current.startswith("-"):
        return _starting(sorted(opt for one in options for opt in one.opts if opt.startswith("--")), current), NO_FILES
    for one in options:
        if before[-1] in one.opts and not one.is_flag:
            return _values(one, current)
    if name in _WITHOUT_REFERENCE or any("/" in word and not word.startswith("-") for word in before[1:]):
        return [], NO_FILES
    return _starting(_references(name, before), current), NO_FILES


def _values(option: Any, current: str) -> tuple[list[str], str]:  # noqa: ANN401  # typer has no public type for it
    if "--output" in option.opts:
        return _starting([one.value for one in Output], current), NO_FILES
    return [], FILES if option.name in ("file", "kubeconfig") else NO_FILES


def _references(name: str, before: Sequence[str]) -> list[str]:
    kinds = (GROUP,) if name in _GROUPS_ONLY else KINDS
    try:
        objects = Objects.connect(
            kubeconfig=_given(before, "--kubeconfig") or os.environ.get("KUBECONFIG"),
            context=_given(before, "--context"),
            namespace=_given(before, "--namespace", "-n"),
        )
        return [f"{kind.short}/{one['metadata']['name']}" for kind in reversed(kinds) for one in objects.list(kind)]
    except Trouble:
        return []


def _given(words: Sequence[str], *options: str) -> str | None:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        option, equals, value = word.partition("=")
        if option in options:
            return value if equals else following or None
    return None


def _starting(found: Iterable[str], current: str) -> list[str]:
    return [one for one in found if one.startswith(current)]


def main() -> None:
    """Answer kubectl; exits with 0."""
    found, directive = candidates(sys.argv[1:])
    sys.stdout.write("".join(f"{one}\n" for one in found) + f"{directive}\n")
