"""Compiles the typed pure cores with mypyc when a wheel is built with MUSTER_COMPILE=1 (`make wheel COMPILE=1`).

Problem: a profile of a commit shows the interpreter, not one slow place. Mechanism: the modules that pyproject.toml
names hold plain functions and classes that take and return values; mypyc makes C of them by their type annotations, and
the wheel holds that beside the sources, for one version of Python on one platform. Without the variable, or without a C
compiler, the wheel is pure Python of the same sources. What is not compiled: modules of closures, protocols and
callbacks (codecs made from a table, asyncio's side), which gain little and whose tests hand in objects of their own.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "MUSTER_COMPILE"
SOURCE = Path("coordinator")
PACKAGE = "muster_coordinator"
TIMEOUT_S = 1_800
SETUP = """
import sys
from mypyc.build import mypycify
from setuptools import setup

flags = ["--strict", "--ignore-missing-imports", "--config-file=", "--no-warn-unused-ignores"]
made = mypycify([*flags, *sys.argv[3:]], opt_level="2", debug_level="0", multi_file=True)
setup(name="compiled", packages=[], ext_modules=made, script_args=["--quiet", "build_ext", "--inplace"])
"""


def modules(source: Path, patterns: list[str]) -> list[str]:
    """The files to compile, relative to `source`, sorted; packages' own files hold nothing to gain."""
    found = {path for pattern in patterns for path in (source / PACKAGE).glob(pattern)}
    return sorted(str(path.relative_to(source)) for path in found if path.name != "__init__.py")


class CompileHook(BuildHookInterface[Any]):
    """hatchling's build hook."""

    def dependencies(self) -> list[str]:
        return ["mypy>=1.17,<3", "setuptools>=75"] if self._wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not self._wanted() or version == "editable":
            return
        self._scratch = tempfile.mkdtemp(prefix="muster-compile-")
        source = Path(self._scratch)
        shutil.copytree(
            Path(self.root) / SOURCE / PACKAGE, source / PACKAGE, ignore=shutil.ignore_patterns("__pycache__")
        )
        argv = [sys.executable, "-c", SETUP, "build_ext", "--inplace", *modules(source, self.config["modules"])]
        done = subprocess.run(argv, cwd=source, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if done.returncode != 0:
            shutil.rmtree(source)
            raise RuntimeError(
                f"mypyc failed; unset {VARIABLE} for a wheel of pure Python:\n{done.stdout}{done.stderr}"
            )
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for made in source.rglob("*.so"):
            if "build" not in made.relative_to(source).parts:
                build_data["force_include"][str(made)] = str(made.relative_to(source))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._wanted() and version != "editable":
            shutil.rmtree(self._scratch)

    def _wanted(self) -> bool:
        return self.target_name == "wheel" and os.environ.get(VARIABLE) == "1"
