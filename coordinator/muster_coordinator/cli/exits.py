"""Exit codes of `muster`, and the exception that carries one. Users find them in docs/cli.md."""

from enum import IntEnum

from muster_coordinator.errors import CallerError


class Exit(IntEnum):
    """The exit codes; scripts may rely on them."""

    OK = 0
    REFUSED = 1
    """The cluster refused, or did only a part."""
    USAGE = 2
    """The command line, or a file named on it, is not valid."""
    NOT_FOUND = 3
    """The group, topic or member does not exist."""
    UNREACHABLE = 4
    """No answer in time. It is unknown whether a change was made."""
    INCOMPLETE = 5
    """The answer is right but not complete; standard error says what is missing."""
    INTERRUPTED = 130


class CliError(CallerError):
    """An error as one sentence for the user, and its exit code."""

    def __init__(self, code: Exit, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
