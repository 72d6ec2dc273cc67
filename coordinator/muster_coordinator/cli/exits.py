"""Exit codes of `muster`, and the one exception that carries one. Documented for users in docs/cli.md."""

from enum import IntEnum

from muster_coordinator.errors import CallerError


class Exit(IntEnum):
    """What a script may rely on."""

    OK = 0
    REFUSED = 1
    """The cluster answered no, or did only a part."""
    USAGE = 2
    """The command line or a file named on it makes no sense."""
    NOT_FOUND = 3
    """The group, topic or member does not exist."""
    UNREACHABLE = 4
    """No answer in time. Of a change it is unknown whether it happened."""
    INCOMPLETE = 5
    """The answer is right but has holes; standard error tells which."""
    INTERRUPTED = 130


class CliError(CallerError):
    """One sentence for the user, and the exit code."""

    def __init__(self, code: Exit, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
