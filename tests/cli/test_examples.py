"""Every example in docs/examples runs against a real broker, ends by itself and says that it worked."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
WITHOUT_TOPICS = "workers_over_files"
"""It does not end by itself, and no Kafka takes its commits: `integration/test_workers_over_files.py`."""
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in ("orders", WITHOUT_TOPICS))

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(120)]


def test_all_examples_are_known():
    assert NAMES == ["manual_commit", "rebalance_listener", "simple_consumer", "static_member", "subscribe"]


@pytest.mark.parametrize("name", NAMES)
def test_the_example_ends_well(name, kafka_bootstrap):
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), kafka_bootstrap, f"example-{name}"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
