"""The images of a run as OCI archives in `.cache/images/`, built without a registry and without a daemon.

    base     Debian's Python                                  (image_base)
    needs    what our wheel needs for coordinator, operator, cli, as operator/requirements/image.txt locks it
    demo     what the demo's clients need beside that         (muster-demo only)
    app      our wheel
    redis    Debian's Redis, an image of its own: whose topics are in Redis brings one

Two are made only when a test asks: `pipeline`, ten times as large (a base with Java, what its lock has, our wheel), and
`program`, a program of others on our base.

Each layer is kept under the hash of what it is made of, so that an edit of our code repacks the last one only. The
result is laid out as `operator/Dockerfile` does it: /opt/muster, user 10001, entry point `muster`.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from e2e.node import archive, distribution, image_base, kubelet, paths
from e2e.node.archive import Config, Layer
from e2e.node.build import Tools

USER = "10001:10001"
REPOSITORY = "muster.test/muster"
DEMO_REPOSITORY = "muster.test/muster-demo"
REDIS_REPOSITORY = "muster.test/redis"
REDIS_PACKAGE = "redis-tools"
"""Has the program; `redis-server` is a name for it in another package, which would bring an init system with it."""
REDIS_PROGRAM, REDIS_SERVER = "redis-check-rdb", "redis-server"
PIPELINE_REPOSITORY = "muster.test/muster-pipeline"
SPARK_PACKAGES = ("default-jre-headless", "bash", "dash", "coreutils")
"""Java, and what Spark's scripts and the chart's script of the report call."""
JAVA_HOME = "/usr/lib/jvm/default-java"
CONFIG = Config(
    entrypoint=("muster",),
    user=USER,
    environment=(
        "PATH=/opt/muster/bin:/usr/local/bin:/usr/bin:/bin",
        "PYTHONUNBUFFERED=1",
        "PYTHONDONTWRITEBYTECODE=1",
    ),
)
LAYERS = paths.IMAGES / "layers"
SOURCES = ("coordinator/muster_coordinator", "operator/muster_operator", "pipeline/muster_pipeline")
KEY_CHARS = 12
LAYOUT = "with bytecode"
"""Part of every key: changes when the same content makes another layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """`name` is what a pod's `image:` says."""

    name: str
    archive: Path

    @property
    def tag(self) -> str:
        return self.name.rpartition(":")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    muster: Image
    demo: Image
    redis: Image
    pause: Image

    def all(self) -> list[Image]:
        return [self.pause, self.muster, self.demo, self.redis]

    def archives(self) -> list[Path]:
        return [image.archive for image in self.all()]


def build(tools: Tools) -> Images:
    """All images for the current checkout; what is there already is not built again."""
    target, needs, below = _below()
    demo = [pin for pin in distribution.locked(target, "demo") if pin not in needs]

    of_demo = _layer("demo", _content(target, demo), lambda root: distribution.install_locked(target, demo, root))
    app = _app(target)
    return Images(
        muster=_image(REPOSITORY, [*below, app], CONFIG),
        demo=_image(DEMO_REPOSITORY, [*below, of_demo, app], CONFIG),
        redis=_redis(),
        pause=_pause(tools),
    )


def release(wheel: Path, name: str) -> Image:
    """The image of an earlier release, from its own wheel: what that needs has to be among what ours needs. Asks nobody
    once `build` has run, so a test can make it inside a sandbox."""
    target, _, below = _below()
    content = [target.python, hashlib.sha256(wheel.read_bytes()).hexdigest()]
    app = _layer("release", content, lambda root: distribution.install(target, [wheel], root))
    return _image(f"{REPOSITORY}-{name}", [*below, app], CONFIG)


def pipeline() -> Image:
    """`muster[pipeline]` and Java, as `make image LOCK=pipeline` lays it out. Asks nobody once it was made."""
    target, _, below = _below("pipeline", SPARK_PACKAGES)
    config = replace(CONFIG, environment=(*CONFIG.environment, f"JAVA_HOME={JAVA_HOME}"))
    return _image(PIPELINE_REPOSITORY, [*below, _app(target)], config)


def program(path: Path, name: str) -> Image:
    """A program that others wrote, on our base, as its entry point `name`."""

    def make(root: Path) -> None:
        (root / "usr/local/bin").mkdir(parents=True)
        shutil.copy(path, root / "usr/local/bin" / name)

    _, _, (base, _) = _below()
    packed = _layer(name, [hashlib.sha256(path.read_bytes()).hexdigest()], make)
    return _image(f"muster.test/{name}", [base, packed], replace(CONFIG, entrypoint=(name,)))


def _app(target: distribution.Target) -> Layer:
    def make(root: Path) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            distribution.install(target, [distribution.wheel(Path(scratch))], root)

    return _layer("app", [target.python, source_hash()], make)


def _content(target: distribution.Target, wanted: Sequence[distribution.Pin]) -> list[str]:
    return [target.python, *(pin.line() for pin in wanted)]


def _below(
    lock: str = "image", more: Sequence[str] = ()
) -> tuple[distribution.Target, list[distribution.Pin], tuple[Layer, Layer]]:
    """The image's Python, what a lock has there, and both as layers; `more`: Debian's packages beside Python."""
    base_python = image_base.python_version()
    target = distribution.Target(python=base_python)
    base_packages = image_base.packages([*image_base.roots(base_python), *more])
    needs = distribution.locked(target, lock)

    def make_base(root: Path) -> None:
        image_base.unpack(base_packages, base_python, root)
        distribution.compile_bytecode(
            target, root / "usr/lib" / f"python{base_python}", root, image_base.NEVER_IMPORTED
        )

    def make_needs(root: Path) -> None:
        distribution.environment(target, root)
        distribution.install_locked(target, needs, root)

    is_plain = lock == "image"
    base = _layer("base" if is_plain else f"below_{lock}", base_packages, make_base)
    return target, needs, (base, _layer("needs" if is_plain else lock, _content(target, needs), make_needs))


def source_hash() -> str:
    """A hash of what our wheel is built from."""
    digest = hashlib.sha256((paths.ROOT / "pyproject.toml").read_bytes())
    for source in SOURCES:
        for path in sorted((paths.ROOT / source).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                digest.update(f"{path.relative_to(paths.ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _redis() -> Image:
    needs = image_base.packages([REDIS_PACKAGE])

    def make(root: Path) -> None:
        image_base.extract(needs, root)
        program = root / "usr/bin" / REDIS_SERVER
        if not program.exists():
            program.symlink_to(REDIS_PROGRAM)
        (root / "tmp").mkdir(exist_ok=True)
        (root / "tmp").chmod(0o1777)

    config = Config(entrypoint=(REDIS_SERVER,), user=USER, environment=("PATH=/usr/bin:/bin",))
    return _image(REDIS_REPOSITORY, [_layer("redis", needs, make)], config)


def _pause(tools: Tools) -> Image:
    def make(root: Path) -> None:
        root.mkdir()
        shutil.copy(tools.path("pause"), root / "pause")

    config = Config(entrypoint=("/pause",), user="65535:65535", environment=("PATH=/",))
    packed = _layer("pause", [tools.folder.name], make)
    out = paths.IMAGES / "pause.tar"
    archive.write(out, kubelet.PAUSE_IMAGE, [packed], config)
    return Image(name=kubelet.PAUSE_IMAGE, archive=out)


def _image(repository: str, layers: list[Layer], config: Config) -> Image:
    """Tagged by content, so that a running cluster never takes an old image for a new one."""
    tag = f"dev-{_key([layer.digest for layer in layers])}"
    out = paths.IMAGES / f"{repository.rpartition('/')[2]}-{tag}.tar"
    if not out.exists():
        for old in paths.IMAGES.glob(f"{repository.rpartition('/')[2]}-dev-*.tar"):
            old.unlink()
        archive.write(out, f"{repository}:{tag}", layers, config)
    return Image(name=f"{repository}:{tag}", archive=out)


def _layer(kind: str, content: list[str], make: Callable[[Path], None]) -> Layer:
    """The layer named by `content`, made in a scratch folder if it is not kept yet."""
    kept = LAYERS / f"{kind}-{_key(content)}"
    index = kept.with_suffix(".json")
    if index.exists():
        return Layer(blob=kept.with_suffix(".tar.gz").read_bytes(), **json.loads(index.read_text()))
    LAYERS.mkdir(parents=True, exist_ok=True)
    for old in LAYERS.glob(f"{kind}-*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        make(root)
        packed = archive.layer(root)
    kept.with_suffix(".tar.gz").write_bytes(packed.blob)
    index.write_text(json.dumps({"diff_id": packed.diff_id, "digest": packed.digest}))  # last: it says all is there
    return packed


def _key(content: list[str]) -> str:
    return hashlib.sha256("\n".join([LAYOUT, *content]).encode()).hexdigest()[:KEY_CHARS]
