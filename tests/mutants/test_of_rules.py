"""Each mutant of `of_rules` is noticed by the test that is named for it, which notices nothing in the product."""

import importlib
import inspect
from collections.abc import Callable

import pytest

from tests.mutants.catalogue import Mutant
from tests.mutants.of_rules import RULE_MUTANTS, RuleMutant
from tests.mutants.reloading import mutated

pytestmark = [pytest.mark.source]
NOTICED = (Exception, pytest.fail.Exception)
"""The second: what was to be raised was not."""
MISTAKES = (ImportError, NameError, SyntaxError)
"""Of the mutant's own."""
UNBROKEN = Mutant("none", ())


def named(path: str) -> Callable[[], None]:
    """The test at "room.module.test", imported now."""
    module, _, name = f"tests.{path}".rpartition(".")
    test: Callable[[], None] = getattr(importlib.import_module(module), name)
    assert not inspect.signature(test).parameters, "a test of one mutant is told nothing"
    return test


@pytest.mark.parametrize("one", RULE_MUTANTS, ids=[one.mutant.name for one in RULE_MUTANTS])
def test_the_mutant_is_noticed(one: RuleMutant) -> None:
    with mutated(one.mutant):
        test = named(one.noticed_by)
        with pytest.raises(NOTICED) as found:
            test()
    assert not isinstance(found.value, MISTAKES), "this breaks more than a rule"


def test_the_product_as_it_is_is_not_accused() -> None:
    with mutated(UNBROKEN):
        for path in sorted({one.noticed_by for one in RULE_MUTANTS}):
            named(path)()
