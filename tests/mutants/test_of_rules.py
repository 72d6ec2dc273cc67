"""Each mutant of `of_rules` is noticed by the test that is named for it, which notices nothing in the product."""

import importlib
import inspect
import os
from collections.abc import Callable

import pytest

from tests.mutants.catalogue import Mutant
from tests.mutants.of_rules import RULE_MUTANTS
from tests.mutants.reloading import mutated
from tests.mutants.rule_mutant import RuleMutant

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


def apart(judge: Callable[[], str]) -> str:
    """What `judge` says, in a copy of this process: modules imported twice leave traces in those that stay."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = judge()
        except BaseException as error:  # noqa: BLE001 - told to the parent
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode()[:4_000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        said = told.read().decode(errors="replace")
    os.waitpid(child, 0)
    return said


@pytest.mark.parametrize("one", RULE_MUTANTS, ids=[one.mutant.name for one in RULE_MUTANTS])
def test_the_mutant_is_noticed(one: RuleMutant) -> None:
    def judge() -> str:
        with mutated(one.mutant):
            test = named(one.noticed_by)
            try:
                test()
            except NOTICED as error:
                return f"this breaks more than a rule: {error!r}" if isinstance(error, MISTAKES) else "noticed"
        return "not noticed"

    assert apart(judge) == "noticed"


@pytest.mark.timeout(300)  # every test that a mutant names, one after the other: 25 s on a quiet machine
def test_the_product_as_it_is_is_not_accused() -> None:
    def judge() -> str:
        with mutated(UNBROKEN):
            for path in sorted({one.noticed_by for one in RULE_MUTANTS}):
                named(path)()
        return "sound"

    assert apart(judge) == "sound"
