"""The expected values of `names.py` are Java's and Kafka's own answers."""

import subprocess
from pathlib import Path

import pytest

from tests.java_tools import JVM_SMALL, KAFKA_CLIENTS, SLF4J_SILENT, classpath, compile_java, java_command
from tests.security.names import MAPPINGS, NAMES

pytestmark = [pytest.mark.computes, pytest.mark.slow, pytest.mark.java]
SOURCES = Path(__file__).with_name("java")


def answers(tool: str, lines: list[str]) -> list[str]:
    path = compile_java([SOURCES / "Names.java", SOURCES / "Mapping.java"], classpath(KAFKA_CLIENTS, SLF4J_SILENT))
    command = [java_command(), *JVM_SMALL, "-Xmx128m", "-cp", path, tool]
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True, timeout=50
    )
    return done.stdout.split("\n")[: len(lines)]


def test_java_spells_the_names_so() -> None:
    found = answers("Names", [der.hex() for der in NAMES.values()])
    assert [bytes.fromhex(text).decode() for text in found] == list(NAMES)


def test_kafka_maps_the_names_so() -> None:
    found = answers("Mapping", [f"{rules}\t{name}" for rules, name, _ in MAPPINGS])
    assert found == [user for _, _, user in MAPPINGS]
