"""Options of the data sources: named and typed; an unknown option is an error instead of being ignored."""

from collections.abc import Mapping

from muster_pipeline.sources.errors import BadOption


class Options:
    """Options as Spark passes them: strings, with names in any case."""

    def __init__(self, source: str, given: Mapping[str, str], known: Mapping[str, str]) -> None:
        """`known`: name -> what it is, for the error text. Raises BadOption."""
        self._source = source
        self._known = known
        self._given = {name.lower(): value for name, value in given.items()}
        unknown = sorted(set(self._given) - {name.lower() for name in known})
        if unknown:
            raise BadOption(f"{source}: unknown option {unknown[0]!r}; known: {', '.join(sorted(known))}")

    def text(self, name: str, default: str | None = None) -> str:
        """A string. Raises BadOption when it is missing and has no default."""
        found = self._given.get(name.lower(), default)
        if not found:
            raise BadOption(f"{self._source}: option {name!r} is missing: {self._known[name]}")
        return found

    def one_of(self, name: str, choices: Mapping[str, object] | tuple[str, ...], default: str) -> str:
        """One of `choices`."""
        found = self.text(name, default)
        if found not in choices:
            raise BadOption(f"{self._source}: {name} is {found!r}; possible: {', '.join(choices)}")
        return found

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        found = self.text(name, str(default))
        try:
            value = int(found)
        except ValueError as error:
            raise BadOption(f"{self._source}: {name} is {found!r}, not a whole number") from error
        if not low <= value <= high:
            raise BadOption(f"{self._source}: {name} is {value}, not within {low} and {high}")
        return value
