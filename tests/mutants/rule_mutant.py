"""A mutant with the one test that is to notice it."""

from typing import NamedTuple

from tests.mutants.catalogue import Mutant, Patch


class RuleMutant(NamedTuple):
    """Noticed by `noticed_by` = "room.module.test" under `tests`."""

    mutant: Mutant
    noticed_by: str


def one(name: str, module: str, old: str, new: str, noticed_by: str) -> RuleMutant:
    return RuleMutant(Mutant(name, (Patch(module, old, new),)), noticed_by)
