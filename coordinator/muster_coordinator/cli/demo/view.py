"""The demo's output: a live table on a terminal, otherwise a block of plain lines every few seconds."""

import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

PLAIN_INTERVAL_S = 3.0
NOTES_SHOWN = 10
_UNKNOWN = "unknown"


class MemberSight(NamedTuple):
    """One line of the table. None: unknown at the moment."""

    name: str
    member_id: str | None
    partitions: Sequence[int] | None
    records: int
    committed: int | str | None
    """A dash before the first commit."""
    lag: int | str | None
    """A dash for a member without partitions."""


class Sight(NamedTuple):
    """The state of everything at one moment."""

    elapsed_s: float
    state: str | None
    generation: int | None
    coordinator: str
    produced: int
    consumed: int
    flights: int
    members: Sequence[MemberSight]


class View:
    """Shows sights and remarks; use as a context manager."""

    def __init__(self) -> None:
        self._console = Console()
        self._began = time.monotonic()
        self._notes: deque[str] = deque(maxlen=NOTES_SHOWN)
        self._next_plain = 0.0
        self._live = Live(console=self._console, auto_refresh=False) if sys.stdout.isatty() else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the view was created."""
        return time.monotonic() - self._began

    def note(self, sentence: str) -> None:
        """Print a remark. May be called from any thread."""
        line = f"{self.elapsed_s:5.1f} s  {sentence}"
        self._notes.append(line)
        if self._live is None:
            _print_whole(line)

    def block(self, lines: Sequence[str]) -> None:
        """Print lines that stay, above the live table. May be called from any thread."""
        text = "\n".join(lines)
        if self._live is None:
            _print_whole(text)
        else:
            self._console.print(Text(text))

    def show(self, sight: Sight) -> None:
        """Show the newest state; on a terminal it replaces the one before."""
        if self._live is not None:
            remarks = Text("\n".join(self._notes))
            self._live.update(Group(Text(headline(sight)), _table(sight), remarks), refresh=True)
        elif sight.elapsed_s >= self._next_plain:
            self._next_plain = sight.elapsed_s + PLAIN_INTERVAL_S
            _print_whole(plain(sight))

    def finish(self, lines: Sequence[str]) -> None:
        """Print the verdict below the table."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        _print_whole("\n".join(lines))


def _print_whole(text: str) -> None:
    """With its line break in one write, so that a line of another thread cannot come between."""
    print(f"{text}\n", end="", flush=True)


def headline(sight: Sight) -> str:
    """Group and progress in one line."""
    return (
        f"group {_text(sight.state)}, generation {_text(sight.generation)}, coordinator {sight.coordinator}, "
        f"loaded {sight.produced:,}, seen {sight.consumed:,} of {sight.flights:,}"
    )


def plain(sight: Sight) -> str:
    """The state as lines of text."""
    lines = [f"{sight.elapsed_s:5.1f} s  {headline(sight)}"]
    for member in sight.members:
        cells = _cells(member)
        lines.append("         " + "  ".join(f"{title} {cells[title]}" for title in cells))
    return "\n".join(lines)


def _table(sight: Sight) -> Table:
    table = Table()
    for member in sight.members:
        cells = _cells(member)
        if not table.columns:
            for title in cells:
                table.add_column(title, justify="left" if title in ("member", "partitions") else "right")
        table.add_row(*cells.values())
    return table


def _cells(member: MemberSight) -> Mapping[str, str]:
    numbers = None if member.partitions is None else ",".join(map(str, member.partitions)) or "-"
    return {
        "member": member.name if member.member_id is None else member.member_id[: len(member.name) + 9],
        "partitions": _text(numbers),
        "read": f"{member.records:,}",
        "committed": _text(member.committed),
        "lag": _text(member.lag),
    }


def _text(value: int | str | None) -> str:
    if value is None:
        return _UNKNOWN
    return f"{value:,}" if isinstance(value, int) else value
