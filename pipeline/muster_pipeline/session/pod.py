"""The two command lines that Spark's Kubernetes scheduler gives to an image: `driver …`, and `executor`.

Problem: it starts the image's entry point with one of these words and tells the rest in environment variables. Which
process that shall be, a script in Spark's own images says, which PySpark's package does not have. Mechanism: `muster
driver` and `muster executor` become that process, spark-submit in client mode or the JVM of an executor, so that an
image with `muster[pipeline]` and Java serves both. Not here: how many pods there are, what they may do and where they
run, which are Spark's settings and a pod template (docs/pipeline.md).
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import pyspark

from muster_pipeline.session.spark import java
from muster_pipeline.tables.errors import BadInput

BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
OPTIONS: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""Option of the backend to the variable that the scheduler sets."""
JAVA_OPTION: Final = re.compile(r"SPARK_JAVA_OPT_(\d+)")
"""A variable for each option of the JVM, numbered in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What this process becomes."""

    command: tuple[str, ...]
    environment: Mapping[str, str]

    def begin(self) -> NoReturn:
        """Does not return: signals of the pod reach Spark, and its exit code is the container's."""
        os.execve(self.command[0], self.command, self.environment)


def driver(words: Sequence[str], environment: Mapping[str, str]) -> Process:
    """spark-submit in client mode: this is the pod that the driver was submitted to. Raises BadInput."""
    address = _told(environment, "SPARK_DRIVER_BIND_ADDRESS")
    submit = str(_home() / "bin" / "spark-submit")
    settings = ("--deploy-mode", "client", "--conf", f"spark.driver.bindAddress={address}")
    return Process(command=(submit, *settings, *words), environment=_surroundings(environment))


def executor(environment: Mapping[str, str]) -> Process:
    """The JVM of an executor. Raises BadInput, SparkMissing."""
    memory = _told(environment, "SPARK_EXECUTOR_MEMORY")
    folders = [environment.get(name) for name in ("SPARK_CLASSPATH", "SPARK_CONF_DIR")]
    class_path = ":".join([*filter(None, folders), str(_home() / "jars" / "*")])
    numbered = {int(found[1]): environment[name] for name in environment if (found := JAVA_OPTION.fullmatch(name))}
    words = [word for option, name in OPTIONS.items() for word in (option, _told(environment, name))]
    return Process(
        command=(
            str(java()), *(numbered[at] for at in sorted(numbered)), f"-Xms{memory}", f"-Xmx{memory}",
            "-cp", class_path, BACKEND, *words,
        ),
        environment=_surroundings(environment),
    )  # fmt: skip


def _home() -> Path:
    return Path(pyspark.__file__).parent


def _surroundings(environment: Mapping[str, str]) -> dict[str, str]:
    """With Spark's folder, and this Python for what Spark starts, unless somebody says another."""
    return {"PYSPARK_PYTHON": sys.executable, **environment, "SPARK_HOME": str(_home())}


def _told(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name)
    if not value:
        raise BadInput(f"{name} is not set: this command is for pods that Spark's Kubernetes scheduler makes")
    return value
