"""The Spark session of the pipeline: settings that the results rely on, and a check of Java before the start.

Settings: time zone UTC, no UI, few shuffle partitions (the stages do not shuffle). Master, memory and cluster settings
come from the caller or spark-submit and override these.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from muster_pipeline.tables.errors import TablesError

JAVA_MIN: Final = 17
JAVA_CHECK_TIMEOUT_S: Final = 20
_INSTALL: Final = f"install a Java runtime {JAVA_MIN} or newer (Debian: apt install openjdk-{JAVA_MIN}-jre-headless)"

_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
}


class SparkMissing(TablesError):
    """Spark cannot start here; the message says what to install."""


def java() -> Path:
    """The Java that Spark will use: from JAVA_HOME, else from PATH. Raises SparkMissing."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not Path(found).is_file():
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on PATH"
        raise SparkMissing(f"Spark needs Java: {where}; {_INSTALL}")
    return Path(found)


def check_java() -> int:
    """The feature version of that Java. Raises SparkMissing when it is missing, broken or too old."""
    path = java()
    try:
        done = subprocess.run(
            [path, "-version"], capture_output=True, text=True, check=False, timeout=JAVA_CHECK_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkMissing(f"Spark needs Java, but {path} does not run ({error}); {_INSTALL}") from error
    version = java_version(done.stderr + done.stdout)
    if version is None:
        raise SparkMissing(f"Spark needs Java, but {path} does not print its version; {_INSTALL}")
    if version < JAVA_MIN:
        raise SparkMissing(f"Spark needs Java {JAVA_MIN}, {path} is Java {version}; {_INSTALL}")
    return version


def java_version(text: str) -> int | None:
    """The feature version in the output of `java -version`; None if there is none."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    first = int(found.group(1))
    return int(found.group(2) or 0) if first == 1 else first


def session(master: str | None, extra: Mapping[str, str] | None = None, app: str = "muster-pipeline") -> SparkSession:
    """A session; `master` None: spark-submit's own. Workers run this process's Python. Raises SparkMissing."""
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app)
    if master is not None:
        builder = builder.master(master)
    for name, value in {**_SETTINGS, **(extra or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
