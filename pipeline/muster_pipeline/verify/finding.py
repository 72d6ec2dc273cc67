"""Findings about broken invariants, for people and for the exit code."""

from dataclasses import dataclass
from typing import Final

INVARIANTS: Final = {
    "I1": "bytes in = bytes decoded + quarantined + pending, in every file",
    "I2": "every log offset is a record, in quarantine, or a counted hole, exactly once",
    "I3": "equal input gives equal tables",
    "I4": "a stream gives the tables of a batch",
    "I5": "in a generation every partition has at most one owner",
    "I6": "the moves of rebalances are the differences of assignments",
}
EXAMPLES_MAX: Final = 20
"""Findings of one invariant that are listed; further ones are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that does not hold. `where` names the place by table columns."""

    invariant: str
    where: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of one check. `checked`: number of rows or files checked; 0: there was nothing to check."""

    invariant: str
    checked: int
    findings: tuple[Finding, ...]
    more: int = 0
    """Findings beyond EXAMPLES_MAX."""

    @property
    def holds(self) -> bool:
        """No finding."""
        return not self.findings


def verdict(invariant: str, checked: int, findings: list[Finding]) -> Verdict:
    """The first EXAMPLES_MAX findings and the number of the others."""
    shown = findings[:EXAMPLES_MAX]
    return Verdict(invariant=invariant, checked=checked, findings=tuple(shown), more=len(findings) - len(shown))
