"""The files that are made from the operator's types, and the command that writes them.

`python -m tests.operator.api.generate` writes; `test_generated.py` fails when a file differs.
"""

from pathlib import Path
from typing import Any

import yaml
from muster_operator.api.crd import crd
from muster_operator.api.kinds import KINDS
from muster_operator.api.reference import conditions_text, crds_text

ROOT = Path(__file__).resolve().parents[3]
HEADER = "# Written from operator/muster_operator/api by `python -m tests.operator.api.generate`; a test compares.\n"


class PlainDumper(yaml.SafeDumper):
    """Without anchors: every value is written out. Long texts are not folded, so that a change is one line."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Texts of several lines as they are."""
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


PlainDumper.add_representer(str, PlainDumper.represent_text)


def yaml_text(value: Any) -> str:
    return yaml.dump(value, Dumper=PlainDumper, sort_keys=False, width=1000, allow_unicode=True)


def generated() -> dict[Path, str]:
    """Path → text of every file."""
    files = {}
    for kind in KINDS:
        text = HEADER + yaml_text(crd(kind))
        # Helm reads nothing outside of its chart, so the chart has copies.
        for folder in (ROOT / "crds", ROOT / "charts" / "muster" / "files" / "crds"):
            files[folder / f"{kind.plural}.yaml"] = text
    files[ROOT / "docs" / "crds.md"] = crds_text()
    files[ROOT / "docs" / "operator-conditions.md"] = conditions_text()
    return files


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text)
