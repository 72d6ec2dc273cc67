"""Makes `kafka_records.tsv`: records of every type of both coordinators, encoded and told as JSON by Kafka's own
classes.

    python -m tests.pipeline.decode.make_kafka_records

Needs a JVM and Maven (`tests.java_tools`). A line is: coordinator, type, variant, key, value (hex), key, value (JSON).
Variants: 0 as empty as can be, 1 something in each field, 2 each field at its extreme and a tag that nobody knows.
"""

import subprocess
from pathlib import Path

from tests import java_tools

VECTORS = Path(__file__).with_name("kafka_records.tsv")
SOURCE = Path(__file__).parent / "java" / "KafkaRecords.java"


def made() -> str:
    """The file's text, from a JVM."""
    class_path = java_tools.compile_java([SOURCE], java_tools.classpath(*java_tools.KAFKA_ALL))
    command = [java_tools.java_command(), *java_tools.JVM_SMALL, "-cp", class_path, "KafkaRecords"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


if __name__ == "__main__":
    VECTORS.write_text(made())
