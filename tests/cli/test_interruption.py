"""A signal that an extension module lost or disguised still ends the command as a KeyboardInterrupt."""

import contextlib
import signal

import pytest
from muster_coordinator.cli.interruption import SIGNALS, Interruption


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_a_keyboard_interrupt(number):
    with pytest.raises(KeyboardInterrupt), Interruption():
        signal.raise_signal(number)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_disguised_one_is_what_it_was(number):
    def disguise():
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            raise TypeError("expected configuration property name as type unicode string") from None

    with pytest.raises(KeyboardInterrupt) as caught, Interruption():
        disguise()
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_lost_one_ends_the_next_turn_of_a_loop():
    turns = []

    def lose(interruption):
        while len(turns) < 3:
            interruption.check()
            turns.append(1)
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt), Interruption() as interruption:
        lose(interruption)
    assert len(turns) == 1


def test_other_errors_and_handlers_stay_theirs():
    before = [signal.getsignal(number) for number in SIGNALS]

    def fail():
        raise TypeError

    with pytest.raises(TypeError), Interruption():
        fail()
    assert [signal.getsignal(number) for number in SIGNALS] == before
