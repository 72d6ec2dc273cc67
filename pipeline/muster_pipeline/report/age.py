"""How old a page is when it is looked at, which only the reader's browser knows.

A page is a file: it does not know that the stream which made it has died. So it carries the time as of which it is true
and after how long it is old; its script compares that with the reader's clock, again and again while it is open. Until
the script has found it young, nothing on it is green; once it is old it says so on top and in its title. A clock that
is behind the page's time proves nothing, so such a page is not young either.
"""

from typing import Final

ROUNDS: Final = 2
"""A page that is older than so many rounds is old."""
OLD_AFTER_MS: Final = 3_600_000
"""The same where nobody knows how often the tables are made."""


def old_after_ms(every_ms: int | None) -> int:
    """From the time as of which a page is true."""
    return OLD_AFTER_MS if every_ms is None else ROUNDS * every_ms
