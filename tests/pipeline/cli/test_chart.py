"""What charts/muster-pipeline renders (e2e/golden/pipeline) means something to the program: its arguments are parsed by
the commands themselves, its settings of Kafka are known, and its script goes on when a report fails."""

import os
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from muster_pipeline.__main__ import app
from muster_pipeline.sources.cluster import client_settings

GOLDEN = sorted((Path(__file__).parents[3] / "e2e" / "golden" / "pipeline").glob("*.yaml"))
CHART = Path(__file__).parents[3] / "charts" / "muster-pipeline"


def containers(path: Path) -> Iterator[dict[str, Any]]:
    for one in yaml.safe_load_all(path.read_text()):
        spec = one.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        yield from spec.get("template", {}).get("spec", {}).get("containers", ())


def test_there_is_a_golden_file_for_each_kind_of_writer() -> None:
    assert {one["name"] for path in GOLDEN for one in containers(path)} == {"stream", "batch", "report", "web"}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_arguments_are_those_of_the_commands(path: Path) -> None:
    """Secrets are references that the kubelet fills in: each is to a variable that the container has."""
    command = typer.main.get_command(app)
    for one in containers(path):
        if one["name"] == "web":
            continue
        words = one["args"][1:] if one["name"] != "report" else ["report", *one["args"][2:]]
        context = command.make_context("pipeline", list(words), resilient_parsing=False)
        name, sub, rest = command.resolve_command(context, list(words))
        parsed = sub.make_context(name, rest, parent=context).params
        assert parsed["cluster"] == "prod"
        assert parsed["tables"]
        told = dict(pair.split("=", 1) for pair in parsed.get("client") or ())
        settings = client_settings(told)
        assert len(settings) == len(told)
        variables = {each["name"] for each in one["env"]}
        assert {value[2:-1] for value in told.values() if value.startswith("$(")} <= variables


def test_a_secret_is_a_reference() -> None:
    text = (GOLDEN[0].parent / "everything.yaml").read_text()
    assert "- sasl.plain.password=$(KAFKA_SECRET_0)\n" in text


def test_a_report_that_fails_is_tried_again_and_the_last_one_stays(tmp_path: Path) -> None:
    """The script as it is rendered, with a `muster` that fails and a `sleep` that ends it at the second time."""
    (one,) = [one for one in containers(GOLDEN[0]) if one["name"] == "report"]
    for name, script in (
        ("muster", 'echo "$@" >> asked; exit 1'),
        ("sleep", 'echo "$1" >> slept; [ "$(wc -l < slept)" -lt 2 ] || kill -TERM $PPID'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [*one["command"], *one["args"]],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, cwd=tmp_path, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == [" ".join(["pipeline", "report", *one["args"][2:]])] * 2
    assert done.stderr.count("no new report: the last one stays") == 2


def test_what_serves_the_folder_serves_page_and_metrics(tmp_path: Path) -> None:
    """Python's own server, as the chart starts it: types that a browser and Prometheus take."""
    (web,) = [one for one in containers(GOLDEN[0]) if one["name"] == "web"]
    assert web["command"] == ["python3", "-m", "http.server", "8080", "--directory", "/site"]
    (tmp_path / "index.html").write_text("<html>")
    (tmp_path / "metrics.txt").write_text("muster_pipeline_groups 1\n")
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(tmp_path)))  # type: ignore[arg-type]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        for name, kind in (("", "text/html"), ("metrics.txt", "text/plain")):
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_address[1]}/{name}", timeout=30) as answer:
                assert answer.headers["content-type"] == kind
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
