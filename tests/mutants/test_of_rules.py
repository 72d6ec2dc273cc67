"""Each mutant of `of_rules` is noticed by the test that is named for it, which notices nothing in the product.

Where a mutant differs within functions only it is made `in_place`; the others are imported anew, with all that imports
them, and so is one that was not noticed in place: something may have been made at an import.
"""

import importlib
import inspect
from collections.abc import Callable

import pytest

from tests.mutants.apart import apart
from tests.mutants.catalogue import Mutant
from tests.mutants.in_place import break_for_good, fits
from tests.mutants.of_rules import RULE_MUTANTS
from tests.mutants.reloading import mutated
from tests.mutants.rule_mutant import RuleMutant

pytestmark = [pytest.mark.source]
NOTICED = (Exception, pytest.fail.Exception)
"""The second: what was to be raised was not."""
MISTAKES = (ImportError, NameError, SyntaxError)
"""Of the mutant's own."""
UNBROKEN = Mutant("none", ())
NOT_NOTICED = "not noticed"


def named(path: str) -> Callable[[], None]:
    """The test at "room.module.test", imported now."""
    module, _, name = f"tests.{path}".rpartition(".")
    test: Callable[[], None] = getattr(importlib.import_module(module), name)
    assert not inspect.signature(test).parameters, "a test of one mutant is told nothing"
    return test


def said_of(path: str) -> str:
    """What comes of a test on the product as it is in this process."""
    test = named(path)
    try:
        test()
    except NOTICED as error:
        return f"this breaks more than a rule: {error!r}" if isinstance(error, MISTAKES) else "noticed"
    return NOT_NOTICED


def in_place(one: RuleMutant) -> str:
    def judge() -> str:
        named(one.noticed_by)  # imported before, so that all that the mutant is in is there
        break_for_good(one.mutant)
        return said_of(one.noticed_by)

    return apart(judge)


def anew(mutant: Mutant, path: str) -> str:
    def judge() -> str:
        with mutated(mutant):
            return said_of(path)

    return apart(judge)


@pytest.mark.parametrize("one", RULE_MUTANTS, ids=[one.mutant.name for one in RULE_MUTANTS])
def test_the_mutant_is_noticed(one: RuleMutant) -> None:
    said = in_place(one) if fits(one.mutant) else NOT_NOTICED
    if said == NOT_NOTICED:
        said = anew(one.mutant, one.noticed_by)
        assert anew(UNBROKEN, one.noticed_by) == NOT_NOTICED
    assert said == "noticed"


@pytest.mark.timeout(300)  # every test that a mutant names, one after the other: 25 s on a quiet machine
def test_the_product_as_it_is_is_not_accused() -> None:
    def judge() -> str:
        for path in sorted({one.noticed_by for one in RULE_MUTANTS}):
            named(path)()
        return "sound"

    assert apart(judge) == "sound"
