"""The linear-time judge of registers against all orders tried by brute force."""

from collections.abc import Iterable
from random import Random

from tests.sim.registers import NEVER_US, Read, Write, violation


def explains(operations: list[Write | Read], value: object = None) -> bool:
    """Is there an order that respects time and a register? Writes with an unknown end may be left out."""
    left = [op for op in operations if not (isinstance(op, Write) and op.end_us == NEVER_US)]
    if not left:
        return True
    first_end = min(op.end_us for op in left)
    for op in operations:
        if op.start_us > first_end:
            continue
        if isinstance(op, Read) and op.value != value:
            continue
        rest = [other for other in operations if other is not op]
        if explains(rest, op.value if isinstance(op, Write) else value):
            return True
    return False


def random_history(rand: Random) -> tuple[list[Write], list[Read]]:
    times = iter(rand.sample(range(1, 40), 24))
    writes, reads = [], []
    for number in range(rand.randint(1, 4)):
        start, end = sorted((next(times), next(times)))
        writes.append(Write(f"v{number}", start, NEVER_US if rand.random() < 0.25 else end))
    for _ in range(rand.randint(0, 4)):
        start, end = sorted((next(times), next(times)))
        reads.append(Read(rand.choice([None, *(write.value for write in writes)]), start, end))
    return writes, reads


def test_the_judge_agrees_with_brute_force_on_random_histories() -> None:
    rand = Random(11)
    broken = 0
    for _ in range(4_000):
        writes, reads = random_history(rand)
        why = violation(writes, reads)
        assert (why is None) == explains([*writes, *reads]), (writes, reads, why)
        broken += why is not None
    assert broken > 800, "both kinds of histories were judged"


def judge(writes: Iterable[Write], *reads: Read) -> bool:
    return violation(writes, reads) is None


def test_a_value_that_comes_back_is_a_violation() -> None:
    writes = [Write("a", 0, 10), Write("b", 20, 30)]
    assert judge(writes, Read("b", 40, 50))
    assert not judge(writes, Read("b", 32, 35), Read("a", 40, 50))
    assert not judge(writes, Read("a", 40, 50))


def test_nothing_after_an_acknowledged_write_is_a_violation() -> None:
    assert not judge([Write("a", 0, 10)], Read(None, 20, 30))
    assert judge([Write("a", 0, 10)], Read(None, 5, 30))
    assert judge([Write("a", 0, NEVER_US)], Read(None, 20, 30), Read("a", 40, 50))
    assert not judge([Write("a", 0, NEVER_US)], Read("a", 20, 30), Read(None, 40, 50))
