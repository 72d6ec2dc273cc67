"""A pytest plugin: `MUSTER_MUTANT=NAME pytest -p tests.mutants.plugin FILE` runs the tests on that mutant."""

import os

from tests.mutants.loading import install
from tests.mutants.of_units import UNIT_MUTANTS

install(next(one.mutant for one in UNIT_MUTANTS if one.mutant.name == os.environ["MUSTER_MUTANT"]))
