"""Member numbers: one for each folder that a broker's id was ever bound to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from muster_coordinator.ids import BrokerId, binding_of, broker_of, member_no
from muster_coordinator.raft.messages import NOBODY

NUMBERS = st.integers(0, 2**31 - 1)


@given(NUMBERS, NUMBERS)
def test_a_member_number_names_a_broker_and_one_of_its_folders(broker: int, binding: int) -> None:
    member = member_no(BrokerId(broker), binding)
    assert (broker_of(member), binding_of(member)) == (broker, binding)
    assert 0 <= member < 2**63


@given(NUMBERS)
def test_the_first_folder_has_the_brokers_id(broker: int) -> None:
    assert member_no(BrokerId(broker), 0) == broker


def test_nobody_is_no_broker_either() -> None:
    assert broker_of(NOBODY) == NOBODY


@pytest.mark.parametrize(("broker", "binding"), [(-1, 0), (2**31, 0), (0, -1), (0, 2**31)])
def test_a_number_that_would_be_another_members_is_not_made(broker: int, binding: int) -> None:
    with pytest.raises(AssertionError):
        member_no(BrokerId(broker), binding)
