"""`make docs` makes pages of all documents, and fails on a link that leads nowhere."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import material
import pytest

ROOT = Path(__file__).parents[2]
SITE = "docs/site/mkdocs.yml"

assert material
"""The theme: imported, so that the lack of its extra is told as that of any other."""


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    mkdocs = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(root / SITE)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "default"}
    command = [*mkdocs, "--site-dir", str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=50, env=environment)


def copied(to: Path) -> Path:
    """The repository by links, but for `docs`, whose documents are copies."""
    for one in ROOT.iterdir():
        if one.name not in ("docs", ".git"):
            (to / one.name).symlink_to(one)
    for file in (ROOT / "docs").rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            copy = to / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    return to


def test_every_document_has_a_page(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path)
    assert done.returncode == 0, done.stderr
    made = {str(page.relative_to(tmp_path)) for page in tmp_path.rglob("*.html")}
    documents = {str(one.relative_to(ROOT / "docs").with_suffix(".html")) for one in (ROOT / "docs").rglob("*.md")}
    assert (documents - {"README.html"}) | {"index.html", "about.html", "contributing.html"} <= made
    examples = (tmp_path / "examples/index.html").read_text()
    assert all(one.name in examples for one in (ROOT / "docs/examples").glob("*.py"))


PLANTED = {
    "docs/cli.md": ("[gone](no-such-page.md)", "no-such-page"),
    "docs/clients.md": ("[gone](clients.md#no-such-heading)", "no-such-heading"),
    "docs/events.md": ("[gone](../no/such/file.py)", "no/such/file.py"),
}
"""Document: what is added to it, and by which words the build tells of it."""


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    """Each would: it is a warning, of which a strict build allows none."""
    root = copied(tmp_path)
    for name, (planted, _) in PLANTED.items():
        with (root / name).open("a") as page:
            page.write(f"\n{planted}\n")
    done = build(root, tmp_path / "site")
    assert done.returncode != 0
    warnings = [line for line in done.stderr.splitlines() if line.startswith("WARNING")]
    for name, (_, words) in PLANTED.items():
        told = [line for line in warnings if words in line and Path(name).name in line]
        assert len(told) == 1, (name, done.stderr)
    assert len(warnings) == len(PLANTED), done.stderr


def pages() -> ModuleType:
    """The hook, which mkdocs loads by its path."""
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "docs/site/pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("source", "page", "written", "shown"),
    [
        ("README.md", "about.md", "[a](docs/cli.md#exit-codes)", "[a](cli.md#exit-codes)"),
        ("docs/README.md", "README.md", "[r](../README.md)", "[r](about.md)"),
        ("docs/adr/0001-raft-engine.md", "adr/0001-raft-engine.md", "[c](../clients.md)", "[c](../clients.md)"),
        ("docs/README.md", "README.md", "[adr](adr)", "[adr](adr/index.md)"),
        ("README.md", "about.md", "[l](pyproject.toml)", "l (`pyproject.toml`)"),
        ("README.md", "about.md", "[there](https://kafka.apache.org)", "[there](https://kafka.apache.org)"),
        ("docs/cli.md", "cli.md", "[out](../../x.md)", "[out](../../x.md)"),
    ],
)
def test_a_link_leads_from_page_to_page(source: str, page: str, written: str, shown: str) -> None:
    assert pages().led(written, source, page) == shown
