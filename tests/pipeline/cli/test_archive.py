"""`make pipeline-archive`: a Python that does not have the package runs it from the archive, on executors too."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from muster_pipeline.job.build import build
from muster_pipeline.job.inputs import SegmentInput
from muster_pipeline.transforms.settings import FoldSettings

from tests.pipeline.store import logfolder
from tests.pipeline.store.test_build import content, spark_home

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[3]
MAKER = ROOT / "pipeline" / "packaging" / "archive.py"


def made(folder: Path) -> tuple[Path, Path]:
    done = subprocess.run([sys.executable, MAKER, "--out", folder], capture_output=True, text=True, check=True)
    archive, script = map(Path, done.stdout.split())
    return archive, script


def bare_python(folder: Path) -> Path:
    """A Python with all packages of this one, through links, but without Muster."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for root in {sysconfig.get_path(name) for name in ("purelib", "platlib")}:
        for child in Path(root).iterdir():
            link = site / child.name
            if "muster" not in child.name and not link.exists():
                link.symlink_to(child)
    return folder / "bin" / "python"


def ran(command: Sequence[str | Path], folder: Path, **changed: str) -> subprocess.CompletedProcess[str]:
    """Without what this process's own PYTHONPATH would bring."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | changed
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, cwd=folder, timeout=600)


EVERY_MODULE = """
import sys, zipfile, importlib
sys.path.insert(0, sys.argv[1])
names = [name[:-3].replace("/", ".") for name in zipfile.ZipFile(sys.argv[1]).namelist() if name.endswith(".py")]
for name in names:
    importlib.import_module(name.removesuffix(".__init__"))
from muster_pipeline.report import dashboard, page
assert sys.argv[1] in page.__file__, page.__file__
from importlib import resources
assert "<html" in (resources.files("muster_pipeline.report") / "templates" / "report.html.j2").read_text()
print(len(names))
"""


def test_a_python_without_the_package_has_every_module_of_it_by_the_archive(tmp_path: Path) -> None:
    """The pipeline's own, and of the coordinator what those import and no more."""
    archive, script = made(tmp_path / "one")
    again, _ = made(tmp_path / "two")
    assert again.read_bytes() == archive.read_bytes(), "equal sources, equal bytes"
    names = set(zipfile.ZipFile(archive).namelist())
    sources = ROOT / "pipeline"
    ours = {str(path.relative_to(sources)) for path in sources.glob("muster_pipeline/**/*") if path.is_file()}
    assert {name for name in ours if "__pycache__" not in name} <= names
    others = {name for name in names if not name.startswith("muster_pipeline/")}
    allowed = r"muster_coordinator/((groups/)?(__init__|errors)\.py|groups/assignors/\w+\.py)"
    assert [name for name in others if not re.fullmatch(allowed, name)] == []
    python = bare_python(tmp_path / "bare")
    without = ran([python, "-c", "import muster_pipeline"], tmp_path)
    assert "No module named 'muster_pipeline'" in without.stderr, "else the rest would prove nothing"
    done = ran([python, "-c", EVERY_MODULE, archive], tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) == len([name for name in names if name.endswith(".py")])
    told = ran([python, script, "ingest", "--help"], tmp_path, PYTHONPATH=str(archive), COLUMNS="120")
    assert told.returncode == 0, told.stderr[-3000:]
    assert "--segments" in told.stdout


def test_driver_and_executors_without_the_package_run_it_from_the_archive(java: None, tmp_path: Path) -> None:
    """`spark-submit --py-files`, as on YARN: executors are processes of their own with folders of their own."""
    log, plain, out = (tmp_path / name for name in ("log", "plain", "out"))
    logfolder.make(log)
    build(None, SegmentInput.listed(str(log), "c"), plain, FoldSettings(cluster="c"))
    archive, script = made(tmp_path / "dist")
    home = spark_home(tmp_path / "spark")
    command = [home / "bin" / "spark-submit", "--master", "local-cluster[2,1,1024]"]
    settings = ("driver.host=127.0.0.1", "driver.bindAddress=127.0.0.1", "executor.memory=512m")
    for setting in settings:
        command += ["--conf", f"spark.{setting}"]
    job = ["ingest", "--segments", log, "--tables", out, "--cluster", "c", "--master", "submit"]
    python = str(bare_python(tmp_path / "bare"))
    done = ran(
        [*command, "--py-files", archive, script, *job], tmp_path,
        SPARK_HOME=str(home), PYSPARK_PYTHON=python, SPARK_LOCAL_IP="127.0.0.1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert content(out) == content(plain)
    shipped = list((tmp_path / "spark" / "work").rglob(archive.name))
    assert shipped, "the archive lies in the executors' folders"
