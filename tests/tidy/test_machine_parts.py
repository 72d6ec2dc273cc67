"""What MUSTER_REQUIRE names fails where it is missing, all else is skipped, and one module knows."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests import machine_parts

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "MUSTER_REQUIRE"


@pytest.mark.parametrize(
    ("said", "required"),
    [("", False), ("all", True), ("java", True), ("go, java", True), ("go,all", True), ("javac", False), ("go", False)],
)
def test_a_missing_part_fails_a_test_where_it_is_named(
    said: str, required: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, said)
    monkeypatch.setitem(machine_parts.PARTS, "java", lambda: "no JDK")
    with pytest.raises(pytest.fail.Exception if required else pytest.skip.Exception, match=r"java.*: no JDK"):
        machine_parts.require("java")


def test_a_part_that_is_there_is_no_reason_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "all")
    monkeypatch.setitem(machine_parts.PARTS, "java", lambda: None)
    machine_parts.require("java")


def judged(error: BaseException) -> str | None:
    try:
        raise ImportError("a conftest's words") from error
    except ImportError as outer:
        return machine_parts.excuse(outer)


def test_a_package_of_an_extra_excuses_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    missing = ModuleNotFoundError("No module named 'pyspark.sql'", name="pyspark.sql")
    assert judged(missing) == "NOT RUN (muster[pipeline]): Python package pyspark is not installed"
    for named in ("pipeline", "muster[pipeline]", "all"):
        monkeypatch.setenv(VARIABLE, named)
        assert judged(missing) is None


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'muster_coordinator.nothing'", name="muster_coordinator.nothing"),
        ModuleNotFoundError("No module named 'hypothesis'", name="hypothesis"),
        ImportError("cannot import name 'x' from 'pyspark'", name="pyspark"),
        AssertionError("wrong"),
    ],
    ids=repr,
)
def test_nothing_else_does(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert judged(error) is None


def test_a_module_that_lacks_an_extra_is_skipped_and_told(tmp_path: Path) -> None:
    """By the real hooks: one module imports a hidden package as it is collected, a test of another as it runs."""
    (tmp_path / "test_whole.py").write_text("import polars\n\ndef test_it(): pass\n")
    (tmp_path / "test_part.py").write_text("def test_it(): import polars\n\ndef test_other(): assert 1\n")
    (tmp_path / "test_ours.py").write_text("import muster_nothing\n")
    (tmp_path / "conftest.py").write_text("import sys\nsys.modules['polars'] = None\nfrom tests.conftest import *\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "--rootdir", str(tmp_path), str(tmp_path)]
    environment = {key: value for key, value in os.environ.items() if key != VARIABLE}
    for wanted, summary in (("", "1 passed, 2 skipped, 1 error"), ("bench", "1 failed, 1 passed, 2 errors")):
        done = subprocess.run(
            [*command, "--continue-on-collection-errors"],
            cwd=ROOT, env=environment | {VARIABLE: wanted}, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert summary in done.stdout, done.stdout
        assert ("muster[bench]" in done.stdout) is (wanted == ""), done.stdout


def test_nobody_else_reads_the_variable() -> None:
    """The ladder of machines (`e2e/node`) runs without pytest."""
    words = f'environ.get("{VARIABLE}"'
    readers = {
        str(path.relative_to(ROOT))
        for folder in ("tests", "e2e", "bench")
        for path in (ROOT / folder).rglob("*.py")
        if words in path.read_text()
    }
    assert readers == {"tests/machine_parts.py", "e2e/node/__main__.py"}


APT_GET = """#!/bin/sh
mkdir "$0.runs" || exit 100
case "$*" in *install*) echo . >> "$0.installed" ;; esac
sleep 0.1
rmdir "$0.runs"
"""
"""Refuses to begin while another one runs, as the real one does."""
DPKG_QUERY = '#!/bin/sh\n[ -e "${0%/*}/apt-get.installed" ] && printf installed\n'


def test_workers_that_lack_the_same_package_install_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, script in (("apt-get", APT_GET), ("dpkg-query", DPKG_QUERY)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv(VARIABLE, "all")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(machine_parts, "INSTALLING", tmp_path / "lock")
    found: list[bool] = []

    def work() -> None:
        machine_parts.debian_packages("part", "package")
        found.append((tmp_path / "apt-get.installed").exists())

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [True] * 3, "whoever asked finds it"
    assert (tmp_path / "apt-get.installed").read_text() == ".\n"
