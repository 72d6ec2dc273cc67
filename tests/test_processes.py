"""Whether a process has ended, in each way in which /proc says that."""

import subprocess
from pathlib import Path

import pytest

from tests.processes import has_ended


def test_a_process_has_ended_when_it_is_a_zombie_and_when_it_is_gone():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        assert not has_ended(process.pid)
        assert process.stdin is not None
        process.stdin.close()
        while not has_ended(process.pid):  # nobody has waited for it: a zombie
            pass
        assert process.returncode is None
    assert has_ended(process.pid)


def test_a_process_that_ends_while_its_file_is_read_has_ended(monkeypatch: pytest.MonkeyPatch):
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process, Path(f"/proc/{process.pid}/stat").open() as file:
        process.communicate()
        with pytest.raises(ProcessLookupError):
            file.read()

        def read_text(self: Path) -> str:
            return file.read()

        monkeypatch.setattr(Path, "read_text", read_text)
        assert has_ended(process.pid)
