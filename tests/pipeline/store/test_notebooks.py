"""The notebooks of the documents run as they are, on tables of a log with everything in it, each in its own kernel."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from muster_pipeline import store
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.transforms.settings import FoldSettings

from tests.pipeline.store import logfolder

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(900)]

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "examples" / "pipeline"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
PROGRAM = """
import sys, nbformat
from nbclient import NotebookClient
book = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(book)
NotebookClient(book, timeout=600, startup_timeout=600, kernel_name="python3").execute()
nbformat.write(book, sys.argv[2])
"""
"""In a process of its own: the kernel's client warns of its own event loop."""
FIGURES = {
    "worst_groups": ["cluster c, run 1", "UNKNOWN", "orders", "simple_group"],
    "rebalances": ["cluster c, run 1", "orders", "static_replace", "avoided"],
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log, root = tmp_path_factory.mktemp("log"), tmp_path_factory.mktemp("tables")
    logfolder.make(log)
    build(None, SegmentInput.listed(str(log), "c"), root, FoldSettings(cluster="c"))
    return root


def outputs(book: dict[str, Any]) -> Iterator[str]:
    for cell in book["cells"]:
        for one in cell.get("outputs", ()):
            assert one["output_type"] != "error", one
            yield "".join(one.get("text", one.get("data", {}).get("text/plain", "")))


def test_each_notebook_has_its_figures_here() -> None:
    assert [path.stem for path in NOTEBOOKS] == sorted(FIGURES)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_its_tables(path: Path, tables: Path, tmp_path: Path) -> None:
    made = tmp_path / path.name
    folders = {
        name: str(tmp_path / name) for name in ("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR")
    }
    environment = {**os.environ, **folders, "MUSTER_TABLES": str(tables)}
    command = [sys.executable, "-c", PROGRAM, str(path), str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    text = "\n".join(outputs(json.loads(made.read_text())))
    for figure in FIGURES[path.stem]:
        assert figure in text, text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_what_it_showed(path: Path) -> None:
    cells = json.loads(path.read_text())["cells"]
    kept = [cell for cell in cells if cell["cell_type"] == "code" and (cell["outputs"] or cell["execution_count"])]
    assert kept == []


def test_an_arrow_dataset_has_the_rows_that_we_read(tables: Path) -> None:
    for name in ("lag", "commits", "rebalances", "log_end_offsets"):
        assert store.dataset(name, tables).to_table().to_pylist() == store.read(name, tables).to_pylist(), name
