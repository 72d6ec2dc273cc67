"""`tests.live_files` finds what `Path.glob` finds, and lives through what goes meanwhile."""

import os
import shutil
from pathlib import Path

import pytest

from tests.live_files import live_contents, live_paths, live_sizes


def _folder(tmp_path: Path) -> Path:
    for name in ("1/a-0/0.log", "1/a-0/0.index", "2/a-1/0.log", "2/b-0/10.log", "3/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize("pattern", ["*", "*/*-*", "*/a-0", "*/a-*/*.log", "**/*", "**/*.log", "**/a-*/*.log", "3/c"])
def test_what_stays_is_found_as_glob_finds_it(tmp_path: Path, pattern: str) -> None:
    folder = _folder(tmp_path)
    assert live_paths(folder, pattern) == sorted(folder.glob(pattern))
    assert live_paths(folder, pattern)


def test_a_folder_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    assert live_paths(tmp_path / "none", "**/*") == []


def test_what_goes_while_it_is_listed_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, scandir = _folder(tmp_path), os.scandir

    def removing(path: str) -> object:
        if Path(path).name == "2":
            os.rename(path, tmp_path.parent / "elsewhere")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", removing)
    assert live_paths(folder, "*/*-*") == [folder / "1" / "a-0"]


def test_what_goes_before_it_is_read_is_not_there(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    paths = live_paths(folder, "**/*")
    shutil.rmtree(folder / "2")
    assert [path.name for path, _ in live_contents(paths)] == ["0.index", "0.log", "c"]
    assert live_sizes(paths)[folder / "3" / "c"] == 3
    assert folder / "2" / "a-1" / "0.log" not in live_sizes(paths)
