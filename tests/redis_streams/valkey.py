"""`python -m tests.redis_streams.valkey` prints the program of a Valkey 8.0, which it has fetched once (`make valkey`).

Debian 12 has no server that knows WAITAOF (Redis 7.2, and Valkey) but this one, in its backports. One package is
unpacked in .cache; the libraries that it needs come with Debian's own Redis. What it does not do: install anything.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from tests.machine_parts import debian_packages

PACKAGE = "valkey-tools_8.0.1+dfsg1-1~bpo12+1_amd64.deb"
SHA256 = "d2c2ea67642fa9571a07138b80ae52ebe566311c952aef25a39c1d5050697853"
POOL = "http://deb.debian.org/debian/pool/main/v/valkey/"
"""The digest says whether what comes from there is right."""
FETCH_S_MAX = 60
FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "valkey"
BINARY = "usr/bin/valkey-check-rdb"
"""The server is the same program under another name, which Debian's other package gives it."""


def fetched() -> Path:
    """The server. Raises SystemExit with the reason where there is none."""
    server = FOLDER / "valkey-server"
    if server.exists():
        return server
    if platform.machine() != "x86_64" or shutil.which("dpkg-deb") is None:
        raise SystemExit("no Valkey: the package is one of Debian on x86-64")
    debian_packages("redis", "redis-server")
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        with urllib.request.urlopen(POOL + PACKAGE.replace("+", "%2B"), timeout=FETCH_S_MAX) as answer:
            data = answer.read()
    except (urllib.error.URLError, TimeoutError) as error:
        raise SystemExit(f"no Valkey: {POOL}{PACKAGE}: {error}") from error
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise SystemExit(f"no Valkey: {POOL}{PACKAGE} is another file by its digest")
    package = FOLDER / PACKAGE
    package.write_bytes(data)
    subprocess.run(["dpkg-deb", "-x", str(package), str(FOLDER)], check=True, timeout=FETCH_S_MAX)
    os.symlink(FOLDER / BINARY, server)
    return server


if __name__ == "__main__":
    sys.stdout.write(f"{fetched()}\n")
