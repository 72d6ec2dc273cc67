"""Known vulnerabilities of what is locked, by pip-audit: 0 none, 1 some, 2 not judged.

pip-audit ends with 0 also when it learnt nothing: a package of which the service knows nothing is "skipped", and where
the advisory data is not to be had, that is all of them. So what was skipped is counted as not judged, and each audit
first asks about PLANTED, a pin whose vulnerabilities have been public for years: a service that does not name them has
judged nothing. Nobody resolves or installs anything here.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PLANTED = "jinja2==2.10"
"""CVE-2019-10906, the sandbox's escape, and others since."""
TIMEOUT_S = 900.0
NONE, SOME, NOT_JUDGED = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What pip-audit said of one list of pins."""

    vulnerable: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    clean: list[str] = field(default_factory=list)


def read(report: dict[str, Any]) -> Judged:
    """pip-audit's JSON."""
    found = Judged()
    for each in report["dependencies"]:
        if "skip_reason" in each:
            found.skipped.append(f"{each['name']}: {each['skip_reason']}")
            continue
        pin = f"{each['name']}=={each['version']}"
        if each["vulns"]:
            for vuln in each["vulns"]:
                names = ", ".join([vuln["id"], *vuln.get("aliases", ())])
                found.vulnerable.append(f"{pin}: {names}; mended in {', '.join(vuln['fix_versions']) or 'no release'}")
        else:
            found.clean.append(pin)
    return found


def ask(pins: Path, osv_url: str | None) -> Judged | str:
    """What pip-audit says of `pins`, or why it said nothing."""
    service = ["--vulnerability-service=osv", f"--osv-url={osv_url}"] if osv_url else ["--vulnerability-service=pypi"]
    command = [
        sys.executable, "-m", "pip_audit", "--progress-spinner=off", "--format=json", "--disable-pip", "--no-deps",
        *service, f"--requirement={pins}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    try:
        return read(json.loads(done.stdout))
    except (ValueError, KeyError):
        return done.stderr.strip()[-600:] or f"pip-audit ended with {done.returncode} and said nothing"


def audit(locks: Sequence[Path], osv_url: str | None = None) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        planted = Path(scratch) / "planted.txt"
        planted.write_text(f"{PLANTED}\n")
        known = ask(planted, osv_url)
    if isinstance(known, str) or not known.vulnerable:
        why = known if isinstance(known, str) else "; ".join(known.skipped) or "it is said to have none"
        print(f"audit: NOT JUDGED: the advisory data does not know {PLANTED}, which is vulnerable: {why}")
        return NOT_JUDGED
    result = NONE
    for lock in locks:
        judged = ask(lock, osv_url)
        if isinstance(judged, str):
            print(f"audit: {lock.name}: NOT JUDGED: {judged}")
            result = result or NOT_JUDGED
            continue
        for line in judged.vulnerable:
            print(f"audit: {lock.name}: {line}")
        if judged.vulnerable:
            result = SOME
        elif judged.skipped or not judged.clean:
            print(f"audit: {lock.name}: NOT JUDGED: {'; '.join(judged.skipped) or 'it names no package'}")
            result = result or NOT_JUDGED
        else:
            print(f"audit: {lock.name}: {len(judged.clean)} packages, none with a known vulnerability")
    return result
