"""One Spark session for the run (per pytest worker), with the pipeline's data sources registered.

The JVMs of all Sparks here, those of commands as well, compile by the first compiler alone and collect in one thread:
they live for seconds, and the second compiler was half of their processor time.
"""

from collections.abc import Iterator

import pytest
from muster_pipeline.session.spark import SparkMissing, check_java, session
from muster_pipeline.sources.registry import register
from pyspark.sql import SparkSession

from tests import machine_parts

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session", autouse=True)
def spark_defaults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder of settings that every Spark reads which is started from here."""
    folder = tmp_path_factory.mktemp("spark-conf")
    (folder / "spark-defaults.conf").write_text(
        f"spark.driver.extraJavaOptions {JVM}\nspark.executor.extraJavaOptions {JVM}\n", "utf-8"
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SPARK_CONF_DIR", str(folder))
        yield


@pytest.fixture(scope="session")
def java() -> None:
    """For who starts a Spark of its own: skipped, or failed with MUSTER_REQUIRE=java, where there is no Java."""
    try:
        check_java()
    except SparkMissing as error:
        machine_parts.give_up("java", str(error))


@pytest.fixture(scope="session")
def spark(java: None, spark_defaults: None) -> Iterator[SparkSession]:
    """local[2], for what is run in it: it takes as long to start as some of its tests."""
    found = session("local[2]", SETTINGS, app="muster-tests")
    found.sparkContext.setLogLevel("ERROR")
    register(found)
    yield found
    found.stop()
