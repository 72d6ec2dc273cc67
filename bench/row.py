"""One row of the benchmark: what is measured on which sides, how often, and its targets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.compare import KAFKA, MUSTER, Target
from bench.lab import Lab, Own
from bench.sides import Side

Measured = Mapping[str, Sequence[float]]
"""Figure -> values of one run; mostly one value, but five kills give five."""

QUICK_RUNS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`measure(side, lab)` returns one run's figures; `units` lists all of them in the table's order."""

    name: str
    title: str
    how: str
    """One or two sentences: the meaning of the figures."""
    units: Mapping[str, str]
    measure: Callable[[Side, Lab], Measured]
    targets: tuple[Target, ...] = ()
    sides: tuple[str, ...] = (MUSTER, KAFKA)
    runs: int = QUICK_RUNS
    own: Own | None = None

    def __post_init__(self) -> None:
        for target in self.targets:
            assert target.figure in self.units, f"{self.name}: no figure {target.figure}"
            assert target.of_figure is None or target.of_figure in self.units

    @property
    def quick(self) -> bool:
        """Part of `make bench`; other rows run with ROWS=all or by name."""
        return self.own is None
