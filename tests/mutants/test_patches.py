"""Each mutant's patches fit the source as it is: told in a second, not by the suite that runs the mutant."""

from pathlib import Path

import muster_coordinator
import pytest

from tests.mutants.catalogue import CANARY, MUTANTS, Mutant
from tests.mutants.of_rules import RULE_MUTANTS
from tests.mutants.of_units import UNIT_MUTANTS

SOURCE = Path(muster_coordinator.__file__).parent
TESTS = Path(__file__).parents[1]
ALL = (*MUTANTS, CANARY, *(one.mutant for one in RULE_MUTANTS), *(one.mutant for one in UNIT_MUTANTS))

pytestmark = pytest.mark.source


@pytest.mark.parametrize("mutant", ALL, ids=[one.name for one in ALL])
def test_what_a_mutant_replaces_is_there_once(mutant: Mutant) -> None:
    for patch in mutant.patches:
        source = (SOURCE / (patch.module.replace(".", "/") + ".py")).read_text()
        assert source.count(patch.old) == 1, patch
        assert patch.new != patch.old


def test_what_is_to_notice_a_mutant_of_a_rule_is_there() -> None:
    for one in RULE_MUTANTS:
        module, _, name = one.noticed_by.rpartition(".")
        assert f"def {name}(" in (TESTS / (module.replace(".", "/") + ".py")).read_text(), one.noticed_by
