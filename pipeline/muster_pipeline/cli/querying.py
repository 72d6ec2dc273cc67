"""`sql`: one statement over the tables of one run, by DuckDB in memory.

Every table of the run is a view over its files, opened at the versions that the run's row pins: an answer over several
tables is of one moment, whatever is published meanwhile. DuckDB may then touch no file, no network and no extension, so
that a statement can read these tables and nothing else; it is refused before it runs if it is not a question. Rows are
printed as they come; what does not fit DuckDB's memory fails and spills nowhere.
"""

import csv
import json
import math
import sys
from base64 import b64encode
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from muster_pipeline.cli.choices import Form
from muster_pipeline.cli.exits import Exit, last_line, leave, say
from muster_pipeline.store import reader
from muster_pipeline.tables.catalog import OLD_NAMES
from muster_pipeline.tables.errors import BadInput

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

INSTALL: Final = "pip install 'muster[pipeline,sql]'"
STDIN: Final = "-"
ROWS_SHOWN_MAX: Final = 1_000
"""Of a table for people; `--format json` and `csv` print all."""
BATCH_ROWS: Final = 10_000
STATEMENT_CHARACTERS_MAX: Final = 1 << 20
TABLE_CHARACTERS: Final = 200
"""Width where there is no terminal."""
CONFIGURATION: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "temp_directory": "",
}
"""Of DuckDB: nothing is fetched, nothing spills."""


def ask(tables: reader.Snapshot, statement: str, form: Form) -> None:
    """Print the rows of a statement. Raises BadInput for one that cannot be asked, TablesError."""
    try:
        import duckdb
    except ImportError as error:
        leave(Exit.USAGE, f"muster pipeline sql needs the package {error.name}, which is not installed: {INSTALL}")
    text = sys.stdin.read(STATEMENT_CHARACTERS_MAX + 1) if statement == STDIN else statement
    if len(text) > STATEMENT_CHARACTERS_MAX:
        raise BadInput(f"a statement of more than {STATEMENT_CHARACTERS_MAX:,} characters")
    names = sorted(tables.tables)
    connection = duckdb.connect(config=CONFIGURATION)
    try:
        _register(connection, tables)
        _refuse_others(connection, text)
        rows = connection.execute(text).to_arrow_reader(BATCH_ROWS)
        _printed(rows, form)
    except duckdb.CatalogException as error:
        raise BadInput(f"{_sentence(error)} (the tables of run {tables.number}: {', '.join(names)})") from error
    except (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError, duckdb.PermissionException) as error:
        raise BadInput(_sentence(error)) from error
    except (duckdb.Error, pa.ArrowException) as error:
        leave(Exit.FAILED, f"the statement failed: {_sentence(error)}")
    finally:
        connection.close()


def _register(connection: "DuckDBPyConnection", tables: reader.Snapshot) -> None:
    """A view for each table, under its old name too; then the doors are closed for good."""
    for name in tables.tables:
        connection.register(name, reader.dataset(name, tables))
    for old, new in OLD_NAMES.items():
        if new in tables.tables:
            connection.register(old, reader.dataset(new, tables))
    for setting in ("enable_external_access", "python_enable_replacements"):
        connection.execute(f"SET {setting} = false")
    connection.execute("SET lock_configuration = true")


def _refuse_others(connection: "DuckDBPyConnection", text: str) -> None:
    found = [str(one.type).rpartition(".")[2] for one in connection.extract_statements(text)]
    if len(found) != 1:
        raise BadInput(f"one statement at a time, not {len(found)}")
    if found[0] not in ("SELECT", "EXPLAIN"):
        raise BadInput(f"{found[0]} is no question: SELECT, WITH, FROM, SHOW TABLES, DESCRIBE, SUMMARIZE, EXPLAIN are")


def _sentence(error: BaseException) -> str:
    """What DuckDB says, on one line, without the statement that it repeats."""
    said = str(error).partition("\n\nLINE ")[0]
    return " ".join(said.split()) or last_line(type(error).__name__)


def _printed(rows: pa.RecordBatchReader, form: Form) -> None:
    names = _unique(rows.schema.names)
    if form is Form.JSON:
        _print_json(names, rows)
    elif form is Form.CSV:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_cell(value) for value in row] for row in _values(rows))
    else:
        _print_table(names, rows)


def _unique(names: list[str]) -> list[str]:
    """Two columns of one name would be one in JSON: the second gets a number."""
    found: list[str] = []
    for name in names:
        number, made = 2, name
        while made in found:
            made, number = f"{name}_{number}", number + 1
        found.append(made)
    return found


def _values(rows: pa.RecordBatchReader) -> Iterator[tuple[object, ...]]:
    for batch in rows:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _print_json(names: list[str], rows: pa.RecordBatchReader) -> None:
    """An array, a row a line."""
    lead = "["
    for row in _values(rows):
        document = dict(zip(names, map(_plain, row), strict=True))
        sys.stdout.write(f"{lead}\n{json.dumps(document, ensure_ascii=False, allow_nan=False)}")
        lead = ","
    sys.stdout.write("[]\n" if lead == "[" else "\n]\n")


def _plain(value: object) -> object:
    """As JSON has it: whole numbers whole, times in ISO form, bytes in base64, and null for what is no number."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _cell(value: object) -> object:
    """Null is an empty cell; lists and structs are JSON."""
    plain = _plain(value)
    if plain is None:
        return ""
    if isinstance(plain, bool):
        return str(plain).lower()
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, list | dict) else plain


def _print_table(names: list[str], rows: pa.RecordBatchReader) -> None:
    table = Table(box=None, header_style="")
    for name, field in zip(names, rows.schema, strict=True):
        is_number = (
            pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        )
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    hidden = 0
    for row in _values(rows):
        if table.row_count < ROWS_SHOWN_MAX:
            table.add_row(*("null" if value is None else str(_cell(value)) for value in row))
        else:
            hidden += 1
    width = None if sys.stdout.isatty() else TABLE_CHARACTERS
    Console(file=sys.stdout, width=width, markup=False, highlight=False).print(table)
    if hidden:
        say(f"{hidden:,} more rows: add LIMIT, or print all with --format csv or json")
