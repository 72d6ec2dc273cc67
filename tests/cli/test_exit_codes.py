"""What ends a replica is told by its exit code."""

import pytest
from muster_coordinator import exits
from muster_coordinator.app import fatal_exit_code
from muster_coordinator.errors import Corruption, StorageFailed, UnsupportedFormat
from muster_coordinator.replica.bootstrap.identity import StartRefused


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StorageFailed("fsync"), exits.STORAGE),
        (OSError(28, "no space left on device"), exits.STORAGE),
        (Corruption("a batch"), exits.CORRUPTION),
        (UnsupportedFormat("version 9"), exits.CORRUPTION),
        (StartRefused("another cluster"), exits.CORRUPTION),
        (AssertionError("an invariant"), exits.BUG),
        (KeyError("a bug"), exits.BUG),
    ],
)
def test_failures_of_a_running_replica(error: BaseException, code: int) -> None:
    assert fatal_exit_code(error) == code


def test_codes_are_apart() -> None:
    codes = [value for name, value in vars(exits).items() if name.isupper()]
    assert len(set(codes)) == len(codes) == 7
