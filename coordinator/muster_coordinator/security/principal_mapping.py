"""From the subject of a client's certificate to the name of its user: `ssl.principal.mapping.rules` of Kafka.

A rule is DEFAULT (the whole name) or `RULE:pattern/replacement/` with L or U behind it; the first whose pattern matches
the whole name counts. Who matches none is nobody. Patterns are Java's in Kafka and Python's here: what both have in
common is all that a name needs, and a pattern that Python cannot read is refused at the start.

What it does not do: read certificates (`distinguished_name` writes the name).
"""

import re
from typing import NamedTuple

from muster_coordinator.errors import CallerError

SUBJECT_CHARS_MAX = 4_096
"""Of a name that a pattern is tried on; a pattern may take quadratic time."""
_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_PARSER = re.compile(_RULE)
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_REFERENCE = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


class NoMatchingRule(CallerError):
    """No rule knows this name."""


class Rule(NamedTuple):
    """`pattern` None: DEFAULT. `case`: L, U or empty."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """The user's name, or None when the rule is about others."""
        if self.pattern is None:
            return name
        if not self.pattern.fullmatch(name):
            return None
        # As Java's replaceAll: every match is replaced, and the search goes on behind it.
        found = self.pattern.sub(self._replaced, name)
        return found.lower() if self.case == "L" else found.upper() if self.case == "U" else found

    def _replaced(self, match: re.Match[str]) -> str:
        groups = match.re.groups

        def one(reference: re.Match[str]) -> str:
            if reference[1] is not None:
                return reference[1]
            number, used = int(reference[2][0]), 1
            if int(reference[2]) > groups and number > groups:
                return reference[0]
            # As Java: as many digits as name a group that there is.
            while used < len(reference[2]) and int(reference[2][: used + 1]) <= groups:
                used += 1
                number = int(reference[2][:used])
            return (match[number] or "") + reference[2][used:]

        return _REFERENCE.sub(one, self.replacement)


class PrincipalRules:
    """The rules of one listener, in order."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules

    def user(self, subject: str) -> str:
        """The name of the user with this subject. Raises `NoMatchingRule`."""
        if len(subject) > SUBJECT_CHARS_MAX:
            raise NoMatchingRule(f"a certificate's subject has more than {SUBJECT_CHARS_MAX} characters")
        for rule in self._rules:
            found = rule.apply(subject)
            if found is not None:
                return found
        raise NoMatchingRule(f"no rule of ssl.principal.mapping.rules is about {subject}")


def principal_rules(text: str) -> PrincipalRules:
    """The value of `ssl.principal.mapping.rules`. Raises `ValueError` that says which rule is wrong."""
    found: list[Rule] = []
    for part in _SPLITTER.finditer(text.strip()):
        rule = part[1]
        match = _PARSER.match(rule)
        if match is None or match.end() != len(rule):
            raise ValueError(f"invalid rule {rule!r}")
        if match[1]:
            found.append(Rule(None))
        elif match[2] is not None:
            try:
                found.append(Rule(re.compile(match[2]), match[3], match[4]))
            except re.error as error:
                raise ValueError(f"invalid pattern in rule {rule!r}: {error}") from error
    return PrincipalRules(tuple(found))
