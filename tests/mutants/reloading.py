"""Imports the product and the tests anew with a mutant's replacements, in this process, and puts everything back."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.mutants.catalogue import PRODUCT, Mutant
from tests.mutants.loading import finder

KEPT = ("tests.mutants",)


def _reloaded(name: str) -> bool:
    return name.startswith((PRODUCT, "tests.")) and not name.startswith(KEPT)


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    """Inside, what is imported sees the mutant; what was imported before does not."""
    saved = {name: sys.modules.pop(name) for name in list(sys.modules) if _reloaded(name)}
    seeing = finder(mutant)
    sys.meta_path.insert(0, seeing)
    try:
        yield
    finally:
        sys.meta_path.remove(seeing)
        for name in [name for name in sys.modules if _reloaded(name)]:
            del sys.modules[name]
        sys.modules.update(saved)
