"""A JVM with Kafka's own jars, for tests that compare against the original.

`classpath("group:artifact:version", ...)` resolves coordinates and their run-time dependencies with Maven once and
keeps the jars under `.cache/java-lib/`, keyed by the coordinates; `compile_java` keeps class files the same way under
`.cache/java-classes/`, keyed by the sources. Both take a file lock, so that two test runs can share the cache, and
work without network once filled. Without java, javac or mvn they give up (`machine_parts`).

`jvm` is how a small JVM begins. Half the processor time of a console tool is the loading and checking of Kafka's
classes, so those are kept in the JVM's own archive of shared classes (JEP 350), `.cache/java-lib/*.jsa`. The first JVM
that finds none has one made beside the tests, and nobody waits for it: a JVM without one is only slower.
"""

import atexit
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

from tests.machine_parts import give_up

CACHE = Path(__file__).resolve().parent.parent / ".cache"
KAFKA_VERSION = os.environ.get("MUSTER_KAFKA_VERSION", "4.3.0")
"""Of broker, tools and the Java client. Another one is for what must hold beside older Kafkas."""
KAFKA_CLIENTS = f"org.apache.kafka:kafka-clients:{KAFKA_VERSION}"
KAFKA_SERVER = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"
KAFKA_TOOLS = f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}"
LOG4J_BINDING = "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"
SLF4J_SILENT = "org.slf4j:slf4j-nop:1.7.36"
KAFKA_ALL = (KAFKA_SERVER, KAFKA_TOOLS, LOG4J_BINDING)
"""Broker, console tools (`org.apache.kafka.tools.*`) and a logger; one class path for all of them."""

MAVEN_TIMEOUT_S = 300.0
JAVAC_TIMEOUT_S = 120.0
JVM_SMALL = ("-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k")
"""A JVM that starts fast and leaves the second core alone; add -Xmx yourself."""
ARCHIVE_TIMEOUT_S = 600.0
SHARED_CLASSES = Path(__file__).resolve().parent / "SharedClasses.java"
_archivists: list[subprocess.Popen[bytes]] = []
"""Held so that one started here is not reported as forgotten; it ends by itself, maybe after this process."""


def java_command(tool: str = "java") -> str:
    """Path of `java` or `javac`; gives up when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(tool, path=str(Path(home) / "bin")) if home else None
    found = found or shutil.which(tool)
    if found is None:
        give_up("java", f"no {tool} on this machine (JAVA_HOME and PATH searched)")
    return found


def jvm(class_path: str, heap_mib: int, *options: str) -> list[str]:
    """The command line of a small JVM up to the class that it is to run."""
    java = java_command()
    archive = _archive_for(java, class_path)
    shared = [] if archive is None else [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"]
    return [java, *JVM_SMALL, *shared, f"-Xmx{heap_mib}m", *options, "-cp", class_path]


def classpath(*coordinates: str) -> str:
    """Class path of `group:artifact:version` coordinates with their run-time dependencies."""
    assert coordinates
    java_command()
    key = hashlib.sha256("\n".join(coordinates).encode()).hexdigest()[:16]
    folder = CACHE / "java-lib" / key
    with _locked(folder):
        if not folder.is_dir():
            _resolve(coordinates, folder)
    return os.pathsep.join(str(jar) for jar in sorted(folder.glob("*.jar")))


def compile_java(sources: Sequence[Path], class_path: str) -> str:
    """Compile `sources`; returns `class_path` with the result at its end, so that a JVM can share what is before it."""
    javac = java_command("javac")
    digest = hashlib.sha256(class_path.encode())
    for source in sources:
        digest.update(source.read_bytes())
    folder = CACHE / "java-classes" / digest.hexdigest()[:16]
    with _locked(folder):
        if not folder.is_dir():
            partial = _fresh(folder.with_suffix(".partial"))
            command = [javac, "-nowarn", "-cp", class_path, "-d", str(partial), *map(str, sources)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=JAVAC_TIMEOUT_S, check=False)
            assert done.returncode == 0, f"javac failed:\n{done.stderr}"
            partial.rename(folder)
    return os.pathsep.join((class_path, str(folder)))


def _archive_for(java: str, class_path: str) -> Path | None:
    """The archive of Kafka's classes, if these are on the class path and it was made. None has it made."""
    kafka = classpath(*KAFKA_ALL)
    if class_path != kafka and not class_path.startswith(kafka + os.pathsep):
        return None
    archive = _archive(java, kafka)
    if archive.exists():
        return archive if archive.stat().st_size else None
    if not _archivists:
        archivist = subprocess.Popen(
            [sys.executable, "-m", "tests.java_tools"],
            cwd=CACHE.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        _archivists.append(archivist)
        # It may outlive us: it has ended as far as we are concerned, or Python warns of it when we end.
        atexit.register(setattr, archivist, "returncode", 0)
    return None


def _archive(java: str, class_path: str) -> Path:
    """Of one JVM's file: another's would be refused."""
    binary = Path(java).resolve()
    about = f"{binary} {binary.stat().st_mtime_ns}\n{class_path}\n{SHARED_CLASSES.read_text('utf-8')}"
    return CACHE / "java-lib" / f"{hashlib.sha256(about.encode()).hexdigest()[:16]}.jsa"


def make_archive() -> None:
    """Make the archive of Kafka's classes, unless somebody does. An empty file: this JVM makes none."""
    os.nice(5)
    java, kafka = java_command(), classpath(*KAFKA_ALL)
    archive = _archive(java, kafka)
    partial = archive.with_suffix(".partial")
    with archive.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        if archive.exists():
            return
        partial.unlink(missing_ok=True)
        command = [java, *JVM_SMALL, "-Xlog:disable", "-Xmx512m", f"-XX:ArchiveClassesAtExit={partial}"]
        subprocess.run(
            [*command, "-cp", kafka, str(SHARED_CLASSES)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=ARCHIVE_TIMEOUT_S,
            check=False,
        )
        if not partial.exists():
            partial.touch()
        partial.rename(archive)


def _resolve(coordinates: Sequence[str], folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        give_up("java", "no mvn on this machine, and the jars are not cached in .cache/java-lib")
    partial = _fresh(folder.with_suffix(".partial"))
    pom = partial / "pom.xml"
    pom.write_text(_pom(coordinates))
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={partial}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        give_up("java", f"Maven did not resolve {', '.join(coordinates)} within {MAVEN_TIMEOUT_S:.0f} s")
    else:
        if done.returncode != 0:
            give_up("java", f"Maven could not resolve {', '.join(coordinates)}: {done.stdout[-2000:]}")
    pom.unlink()
    partial.rename(folder)


def _pom(coordinates: Sequence[str]) -> str:
    dependencies = ""
    for coordinate in coordinates:
        group, artifact, version = map(escape, coordinate.split(":"))
        dependencies += (
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version></dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>muster.tests</groupId><artifactId>class-path</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    make_archive()
