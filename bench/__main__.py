"""`python -m bench [row ...]`: run rows, print their figures, the machine and the load they ran under.

Each row is a module with `TITLE` and `run() -> list[Figure]`. Later rows come beside `failover`.
"""

import json
import os
import platform
import sys
from pathlib import Path

from bench import failover
from bench.figures import Figure, table

ROWS = {"failover": failover}


def main() -> int:
    wanted = sys.argv[1:] or list(ROWS)
    unknown = [name for name in wanted if name not in ROWS]
    if unknown:
        print(f"no such row: {', '.join(unknown)} (there are: {', '.join(ROWS)})", file=sys.stderr)
        return 2
    print(f"machine: {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    print(f"load before: {os.getloadavg()[0]:.2f}\n")
    missed = False
    document: dict[str, list[dict[str, object]]] = {}
    for name in wanted:
        figures: list[Figure] = ROWS[name].run()
        print(table(ROWS[name].TITLE, figures))
        missed |= any(figure.missed for figure in figures)
        document[name] = [figure.as_dict() for figure in figures]
    out = Path("build") / "bench.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(document, indent=1))
    print(f"JSON: {out}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
