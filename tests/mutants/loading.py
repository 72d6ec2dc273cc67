"""Imports the product with a mutant's replacements in its source: `install` in a process of its own, or `reloading`."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType

from tests.mutants.catalogue import PRODUCT, Mutant, Patch


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, patches: list[Patch]) -> None:
        super().__init__(name, path)
        self._patches = patches

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path).decode()
        for patch in self._patches:
            count = source.count(patch.old)
            assert count == 1, f"{count} places in {fullname} for {patch.old!r}"
            source = source.replace(patch.old, patch.new)
        return compile(source, self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._patches: dict[str, list[Patch]] = {}
        for patch in mutant.patches:
            self._patches.setdefault(PRODUCT + patch.module, []).append(patch)

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None):
        patches = self._patches.get(fullname)
        if patches is None:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert found is not None
        assert found.origin is not None
        loader = _Loader(fullname, found.origin, patches)
        return importlib.util.spec_from_file_location(fullname, found.origin, loader=loader)


def finder(mutant: Mutant) -> importlib.abc.MetaPathFinder:
    """For `sys.meta_path`."""
    return _Finder(mutant)


def install(mutant: Mutant) -> None:
    """Before the first import of the product."""
    early = [name for name in sys.modules if name.startswith(PRODUCT)]
    assert not early, f"imported too early: {early[:3]}"
    sys.meta_path.insert(0, finder(mutant))
