"""Each mutant of `of_rules` is noticed by the test that is named for it, which notices nothing in the product.

Where a mutant differs within functions only it is made `in_place`; the others are imported anew, with all that imports
them, and so is one that was not noticed in place: something may have been made at an import.
"""

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
TESTS = Path(__file__).resolve().parents[1]
FIXTURE = type(pytest.fixture(lambda: None))
PREPARED = ("autouse", "usefixtures", "def setup_", "def teardown_")
"""Words of what is done for tests that do not ask for it."""
RUN_BY_MAKE = {"slow", "source", "timeout"}
"""Marks that leave no test out of `make test`."""


def named(path: str) -> Callable[[], None]:
    """The test at "room.module.test", imported now."""
    module, _, name = f"tests.{path}".rpartition(".")
    test: Callable[[], None] = getattr(importlib.import_module(module), name)
    assert not inspect.signature(test).parameters, "a test of one mutant is told nothing"
    assert not hasattr(test, "hypothesis"), "a property finds a mutant by chance: name a test of the case itself"
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


def test_the_product_as_it_is_is_not_accused() -> None:
    """What a mutant names is a test of the product too, and fails as one if it accuses that. It is called there as it
    is called here: nothing is prepared for it."""
    assert [path for path in sorted({one.noticed_by for one in RULE_MUTANTS}) if not is_run_alike(path)] == []


def is_run_alike(path: str) -> bool:
    """Whether `make test` calls a test as `named` does: it is one of its tests, and no fixture comes uncalled."""
    test, name = named(path), path.rpartition(".")[0].replace(".", "/")
    module = importlib.import_module(f"tests.{path.rpartition('.')[0]}")
    file = TESTS / f"{name}.py"
    marks = [*getattr(test, "pytestmark", []), *as_list(getattr(module, "pytestmark", []))]
    texts = [file.read_text("utf-8")]
    texts += [one.read_text("utf-8") for one in (folder / "conftest.py" for folder in file.parents) if one.exists()]
    taken_from_elsewhere = [
        key for key, value in vars(module).items() if isinstance(value, FIXTURE) and f"def {key}(" not in texts[0]
    ]
    return (
        file.name.startswith("test_")
        and path.rpartition(".")[2].startswith("test_")
        and {mark.name for mark in marks} <= RUN_BY_MAKE
        and not any(word in text for text in texts for word in PREPARED)
        and not taken_from_elsewhere
    )


def as_list(marks: Any) -> list[Any]:
    return marks if isinstance(marks, list) else [marks]


@pytest.mark.parametrize(
    ("path", "prepared"),
    [
        ("controller.test_placement.test_new_brokers_get_the_replicas_until_they_hold_as_many", ""),
        (
            "runtime.test_event_log.test_every_declared_kind_is_among_those_that_are_counted_and_documented",
            "by a fixture of the file that nobody asks for",
        ),
        (
            (
                "replica.maintenance.test_internal_log_volume"
                ".test_an_hour_of_100_000_groups_stays_within_the_history_and_one_segment"
            ),
            "by one that is imported",
        ),
        (
            "runtime.test_watchdog_gc_logs.test_the_longest_turn_is_forgotten_after_two_windows",
            "others of the file are, by a mark",
        ),
        ("pipeline.decode.test_damage.test_reasons_are_told", "by a fixture of a folder"),
        ("pipeline.decode.test_kafka_records.test_the_vectors_are_kafkas", "and left out where there is no Java"),
    ],
)
def test_what_is_prepared_is_known(path: str, prepared: str) -> None:
    assert is_run_alike(path) is not bool(prepared)
