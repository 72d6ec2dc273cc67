"""The command as such: plug-ins, exit codes, one sentence a failure, never a traceback."""

import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from typing import Any, NamedTuple

import pytest
import typer
from muster_coordinator.cli import command_tree
from muster_coordinator.cli.exits import CliError, Exit
from muster_coordinator.cli.kafka_client import client_settings
from muster_coordinator.errors import StorageFailed

NOBODY = "127.0.0.1:1"


def test_version_and_help(muster):
    assert muster("--version").out.startswith("muster ")
    shown = muster("--help").out
    for command in ("topic", "produce", "consume", "group", "cluster", "dev", "server", "demo"):
        assert command in shown


ASKING = (
    "topic list", "topic create t", "group list", "group describe g", "group lag g", "group delete g",
    "group reset-offsets g --all-topics --to-earliest", "produce t", "consume t",
)  # fmt: skip
ONE_AFTER_THE_OTHER = """
import contextlib, io, json, sys
from muster_coordinator.cli.main import main
answers = {}
for command in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([*command.split(), *sys.argv[2:]])
        except SystemExit as end:
            answers[command] = [int(end.code), out.getvalue(), err.getvalue()]
print(json.dumps(answers))
"""


class Answers(NamedTuple):
    by_command: dict[str, list[Any]]
    beside: str
    """What the process said by itself: a library's log line, a warning at the end."""


@pytest.fixture(scope="module")
def answers() -> Answers:
    """Of all that ask a broker, in a process that has no logging but what the command makes; half the time of each
    would be its start."""
    whole = [sys.executable, "-c", ONE_AFTER_THE_OTHER, json.dumps(ASKING), "-b", NOBODY, "--timeout", "0.3"]
    ran = subprocess.run(whole, input="", capture_output=True, text=True, timeout=50, check=True)
    return Answers(json.loads(ran.stdout), ran.stderr)


@pytest.mark.parametrize("command", ASKING)
def test_without_a_broker_the_answer_is_one_sentence_and_exit_4(command, answers):
    code, out, err = answers.by_command[command]
    assert code == Exit.UNREACHABLE
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("muster: ")
    assert NOBODY in err
    assert answers.beside == ""


@pytest.mark.parametrize(
    "command",
    [
        ("group", "describe", "g", "--state", "--members"),
        ("group", "reset-offsets", "g", "--to-earliest"),
        ("group", "reset-offsets", "g", "--all-topics"),
        ("group", "reset-offsets", "g", "--all-topics", "--to-earliest", "--to-latest"),
        ("consume", "t", "--instance-id", "i"),
        ("cluster", "status"),
        ("topic", "create", "t", "--set", "nonsense"),
        ("nonsense",),
        ("topic", "create"),
    ],
    ids=" ".join,
)
def test_a_senseless_command_line_is_exit_2(muster, command):
    ran = muster(*command)
    assert ran.code == Exit.USAGE
    assert "Traceback" not in ran.err


def test_an_unknown_client_setting_is_refused_by_name(tmp_path, muster):
    config = tmp_path / "client.properties"
    config.write_text("sesion.timeout.ms=1000\n")
    ran = muster("topic", "list", "--config", str(config), "--bootstrap-server", NOBODY)
    assert (ran.code, "sesion.timeout.ms" in ran.err) == (Exit.USAGE, True)


def test_client_settings_are_typed_like_the_clients_defaults():
    defaults = {"session_timeout_ms": 45000, "enable_auto_commit": True, "client_id": "x", "ssl_cafile": None}
    texts = {"session.timeout.ms": "10", "enable.auto.commit": "FALSE", "client.id": "me", "ssl.cafile": "f"}
    assert client_settings(texts, defaults, "f") == {
        "session_timeout_ms": 10,
        "enable_auto_commit": False,
        "client_id": "me",
        "ssl_cafile": "f",
    }
    for wrong in ({"session.timeout.ms": "soon"}, {"enable.auto.commit": "1"}):
        with pytest.raises(CliError):
            client_settings(wrong, defaults, "f")


def _plug(monkeypatch, *entries: EntryPoint) -> None:
    monkeypatch.setattr(command_tree, "entry_points", lambda group: entries)


def failing(app: typer.Typer) -> None:
    """A plug-in whose commands fail."""

    @app.command("disk")
    def disk() -> None:
        raise StorageFailed("the disk is gone")

    @app.command("stop")
    def stop() -> None:
        raise KeyboardInterrupt


def test_commands_come_from_entry_points_and_their_failures_are_sentences(monkeypatch, muster):
    _plug(monkeypatch, EntryPoint("failing", "tests.cli.test_main:failing", command_tree.COMMANDS_GROUP))
    assert muster("disk") == (Exit.REFUSED, "", "muster: the disk is gone\n")
    assert muster("stop").code == Exit.INTERRUPTED


def test_a_plugin_that_cannot_be_imported_costs_only_its_own_commands(monkeypatch, muster):
    broken = EntryPoint("operator", "no_such_module_here:register", command_tree.COMMANDS_GROUP)
    works = EntryPoint("works", "tests.cli.test_main:failing", command_tree.COMMANDS_GROUP)
    _plug(monkeypatch, broken, works)
    ran = muster("disk")
    assert "the commands of 'operator' are not available" in ran.err
    assert "the disk is gone" in ran.err


def test_a_replica_whose_settings_name_a_variable_that_is_not_set_ends_with_78_and_names_it(tmp_path):
    """A pod that lacks its number must not start as somebody else."""
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=${{env:MUSTER_NO_SUCH_NUMBER}}\nlog.dirs={tmp_path}\n")
    whole = [sys.executable, "-m", "muster_coordinator.cli.main", "server", "--config", str(config)]
    done = subprocess.run(whole, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 78
    assert "node.id: the environment variable MUSTER_NO_SUCH_NUMBER is not set" in done.stderr
    assert "Traceback" not in done.stderr


AT_THE_END = """
import atexit, sys
from muster_coordinator.cli.main import program
atexit.register(print, "the interpreter ends")
sys.argv[0] = "muster"
{}
program()
"""


@pytest.mark.parametrize(("loaded", "ends"), [("", True), ("import pyarrow", False)])
@pytest.mark.parametrize(("word", "code"), [("--version", Exit.OK), ("no-such-command", Exit.USAGE)])
def test_a_process_with_arrow_loaded_ends_with_its_code_and_without_the_interpreters_end(
    loaded: str, ends: bool, word: str, code: Exit
) -> None:
    """There Arrow has aborted a command that had published everything (SIGABRT); what was printed is not lost."""
    whole = [sys.executable, "-c", AT_THE_END.format(loaded), word]
    ran = subprocess.run(whole, check=False, capture_output=True, text=True, timeout=60)
    assert ran.returncode == code
    assert ("the interpreter ends" in ran.stdout) == ends
    assert ("muster " in ran.stdout) if word == "--version" else (word in ran.stderr)


@pytest.mark.parametrize("loaded", ["", "import pyarrow"])
def test_a_process_whose_reader_has_gone_ends_without_a_traceback(loaded: str) -> None:
    ran = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$0" -c "$1" --help | true', sys.executable, AT_THE_END.format(loaded)],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "Traceback" not in ran.stderr
