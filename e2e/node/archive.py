"""Writes OCI image archives with the standard library alone, byte for byte the same for the same content.

An image here is a list of layers, each a folder, and the configuration a Dockerfile would set. Times are nought and
entries sorted; file owners are root. containerd (`ctr images import`), buildah and skopeo read the result.
"""

import gzip
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
COMPRESSION = 1  # it stays on this machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What runs, as whom. `environment` entries are NAME=value."""

    entrypoint: tuple[str, ...]
    user: str
    environment: tuple[str, ...]
    working_dir: str = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A compressed layer. `diff_id` is the digest of the tar, `digest` that of `blob`."""

    blob: bytes
    diff_id: str
    digest: str


def architecture() -> str:
    """OCI's name of this machine's processor."""
    machine = platform.machine()
    return ARCHITECTURES.get(machine, machine)


def layer(root: Path) -> Layer:
    """All of folder `root` as one layer."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in sorted(root.iterdir()):
            tar.add(entry, entry.name, filter=_anonymous)
    plain = raw.getvalue()
    blob = gzip.compress(plain, COMPRESSION, mtime=0)
    return Layer(blob=blob, diff_id=_digest(plain), digest=_digest(blob))


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def write(out: Path, name: str, layers: Sequence[Layer], config: Config) -> str:
    """Write the archive `out` of image `name` (like "muster.test/muster:dev"); returns its manifest's digest."""
    settings = {
        "Entrypoint": list(config.entrypoint),
        "User": config.user,
        "Env": list(config.environment),
        "WorkingDir": config.working_dir,
    }
    rootfs = {"type": "layers", "diff_ids": [each.diff_id for each in layers]}
    image = _json({"architecture": architecture(), "os": "linux", "config": settings, "rootfs": rootfs})
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": _descriptor(CONFIG_TYPE, _digest(image), len(image)),
            "layers": [_descriptor(LAYER_TYPE, each.digest, len(each.blob)) for each in layers],
        }
    )
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    entry = {**_descriptor(MANIFEST_TYPE, _digest(manifest), len(manifest)), "annotations": names}
    files = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": _json({"schemaVersion": 2, "manifests": [entry]}),
        **{_blob_path(_digest(blob)): blob for blob in (image, manifest)},
        **{_blob_path(each.digest): each.blob for each in layers},
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    scratch = out.with_suffix(".part")
    with tarfile.open(scratch, "w") as tar:
        for path, content in files.items():
            header = tarfile.TarInfo(path)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
    scratch.rename(out)
    return _digest(manifest)


def _descriptor(kind: str, digest: str, size: int) -> dict[str, object]:
    return {"mediaType": kind, "digest": digest, "size": size}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _blob_path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
