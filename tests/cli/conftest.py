"""The `muster` command in this process, and a real Kafka for it to talk to."""

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from muster_coordinator.cli import command_tree
from muster_coordinator.cli.main import main

from tests.cli.ran import Ran
from tests.cli.whole_tree import build_once
from tests.kafka_broker import KafkaBroker

# A busy machine is no failure of what a property test proves.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")

Muster = Callable[..., Ran]


@pytest.fixture
def muster(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Muster:
    """Run the command with arguments (and text for standard input)."""
    monkeypatch.setattr(command_tree, "build", build_once)

    def run(*arguments: str, stdin: str = "") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        shown = capsys.readouterr()
        code = ended.value.code
        return Ran(code if isinstance(code, int) else 0, shown.out, shown.err)

    return run


@pytest.fixture(scope="session")
def kafka_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One real Kafka for all tests that take it; use names of your own."""
    folder: Path = tmp_path_factory.mktemp("kafka")
    with KafkaBroker(folder) as broker:
        yield broker.bootstrap
