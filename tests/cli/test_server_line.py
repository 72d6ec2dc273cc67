"""A replica's own line is read without the tree of commands, and means what it means to the tree; what is not in the
plain form is left to the tree."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.cli import main as main_module
from muster_coordinator.cli import server as server_module
from muster_coordinator.cli.command_tree import build
from muster_coordinator.cli.server_line import LogLevel, ServerLine, read

WORDS = (
    "server", "--config", "-c", "--config=f", "-cf", "--log-level", "debug", "warning", "DEBUG", "loud", "--supervised",
    "--no-supervised", "--help", "-h", "--", "-", "", "f", "a b", "--conf", "-x", "ü", "--config=", "dev",
)  # fmt: skip


class Serve:
    """In the place of `serve`: the lines that arrive."""

    def __init__(self) -> None:
        self.lines: list[ServerLine] = []

    def __call__(self, line: ServerLine) -> int:
        self.lines.append(line)
        return 0


@pytest.fixture(scope="module")
def tree() -> Any:
    return typer.main.get_command(build())


def as_the_tree_reads(tree: Any, words: list[str]) -> ServerLine | None:
    """None if the tree runs no replica by it."""
    serve = Serve()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(server_module, "serve", serve)
        with pytest.raises(SystemExit):
            tree.main(args=words, prog_name="muster")
    return serve.lines[0] if serve.lines else None


@given(st.lists(st.sampled_from(WORDS), max_size=6).map(lambda words: ["server", *words]))
def test_a_line_that_is_read_means_the_same_to_the_tree(tree: Any, words: list[str]) -> None:
    line = read(words)
    if line is not None:
        assert as_the_tree_reads(tree, words) == line


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("server --config f", ServerLine(Path("f"))),
        ("server -c f --supervised", ServerLine(Path("f"), supervised=True)),
        ("server --supervised --log-level debug --config f", ServerLine(Path("f"), LogLevel.DEBUG, supervised=True)),
    ],
)
def test_the_plain_form_is_read_as_the_tree_reads_it(tree: Any, words: str, line: ServerLine) -> None:
    assert read(words.split()) == as_the_tree_reads(tree, words.split()) == line


@pytest.mark.parametrize(
    "words",
    [
        "", "server", "server --help", "server --config", "server --config f --config g", "server --config f g",
        "server --config f --log-level loud", "server --config f --log-level", "server --config --supervised",
        "server --config f --supervised --supervised", "dev --config f", "--version", "server --config=f",
    ],
)  # fmt: skip
def test_what_is_not_plain_is_left_to_the_tree(words: str) -> None:
    assert read(words.split()) is None


def test_a_shell_that_asks_for_completions_starts_no_replica(monkeypatch: pytest.MonkeyPatch, muster: Any) -> None:
    serve = Serve()
    monkeypatch.setattr(main_module.server_line, "serve", serve)
    monkeypatch.setenv(main_module.COMPLETING, "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "muster server --config f")
    monkeypatch.setenv("COMP_CWORD", "1")
    muster("server", "--config", "f")
    assert not serve.lines


def test_a_replica_holds_nothing_of_the_tree() -> None:
    """A fifth of the processor time of a start, and 9 MiB as long as it runs."""
    code = (
        "import sys; import muster_coordinator.cli.main, muster_coordinator.app;"
        "print(sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    for package in ("typer", "click", "rich", "pydantic", "kafka", "muster_operator", "muster_pipeline"):
        assert f"'{package}'" not in done.stdout
    for package in ("jwt", "cryptography"):
        assert f"'{package}'" not in done.stdout, "a tenth of a start: only a replica with tokens or TLS needs it"
    assert "'aiohttp'" in done.stdout


AFTER_IMPORT = """
import os, ssl
from muster_coordinator.cli import server_line
before = dict(os.environ)
with server_line._no_certificates():
    import aiohttp.web
import aiohttp.connector
print(aiohttp.connector._SSL_CONTEXT_VERIFIED.cert_store_stats()["x509"])
print(ssl.create_default_context().cert_store_stats()["x509"])
print(dict(os.environ) == before)
"""


@pytest.mark.parametrize("told", [{}, {"SSL_CERT_FILE": ""}, {"SSL_CERT_DIR": "/nowhere"}])
def test_aiohttp_reads_no_certificates_when_a_replica_imports_it_and_the_process_may_read_them_later(
    told: dict[str, str],
) -> None:
    environment = {**os.environ, **told}
    said = [
        subprocess.run([sys.executable, "-c", line], env=environment, check=True, capture_output=True, text=True).stdout
        for line in (AFTER_IMPORT, "import ssl; print(ssl.create_default_context().cert_store_stats()['x509'])")
    ]
    assert said[0].splitlines() == ["0", said[1].strip(), "True"]
