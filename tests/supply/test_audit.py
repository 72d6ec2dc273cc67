"""A planted vulnerable pin fails the audit, and an audit that learnt nothing does not pass.

pip-audit itself asks advisories that a server on loopback serves as OSV does: of the pin that every audit plants, and
of one more. What it says of a lock in which nobody knows a package is read from its own words.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.supply.audit import NONE, NOT_JUDGED, PLANTED, SOME, audit, read

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Advisories(BaseHTTPRequestHandler):
    """`known`: name==version -> the identifier of what is known against it; None: every question is an error."""

    known: ClassVar[dict[str, str] | None] = {}

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name, version = asked["package"]["name"], asked["version"]
        found = None if self.known is None else self.known.get(f"{name}=={version}")
        fixed = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "9.9"}]}]
        affected = [{"package": {"name": name, "ecosystem": "PyPI"}, "ranges": fixed}]
        answer = {"vulns": [{"id": found, "aliases": ["CVE-1"], "affected": affected}]} if found else {}
        body = json.dumps(answer).encode()
        self.send_response(200 if self.known is not None else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: Any) -> None:
        """Silent."""


@pytest.fixture
def advisories() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Advisories)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/query"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_planted_vulnerable_pin_fails_and_what_nobody_knows_is_not_judged(
    advisories: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_hash = " \\\n    --hash=sha256:" + "a" * 64 + "\n"
    clean, bad = tmp_path / "image.txt", tmp_path / "demo.txt"
    clean.write_text(f"left==1.0{by_hash}")
    bad.write_text(f"left==1.0{by_hash}right==2.0{by_hash}")
    Advisories.known = {PLANTED: "GHSA-0", "right==2.0": "GHSA-1"}
    assert audit([clean, bad], advisories) == SOME
    assert capsys.readouterr().out.splitlines() == [
        "audit: image.txt: 1 packages, none with a known vulnerability",
        "audit: demo.txt: right==2.0: CVE-1, GHSA-1; mended in 9.9",
    ]
    Advisories.known = {PLANTED: "GHSA-0"}
    assert audit([clean], advisories) == NONE
    capsys.readouterr()
    for nothing in ({}, None):  # a service that knows nothing, and one that is broken
        Advisories.known = nothing
        assert audit([clean], advisories) == NOT_JUDGED
        assert "NOT JUDGED" in capsys.readouterr().out


def test_what_pip_audit_skips_is_neither_clean_nor_vulnerable() -> None:
    why = "Dependency not found on PyPI and could not be audited: a (1)"
    judged = read({"dependencies": [{"name": "a", "skip_reason": why}, {"name": "b", "version": "2", "vulns": []}]})
    assert (judged.vulnerable, judged.skipped, judged.clean) == ([], [f"a: {why}"], ["b==2"])
