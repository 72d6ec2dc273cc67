"""What Prometheus would have of a release's PodMonitors, scraped for real, and what its PrometheusRule says to it.

Monitors and rules are read back from the API server, as the chart's release left them there. Targets are found as the
Prometheus operator configures Prometheus to find them: by namespaces, the pods' labels, and the name of a port. Samples
go as they came into a unit test of promtool, which knows nothing of where they are from.
"""

import re
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from e2e.node import promtool
from e2e.node.client import Client

GROUP = "monitoring.coreos.com"
KINDS = {"PodMonitor": "podmonitors", "PrometheusRule": "prometheusrules"}
ENDED = ("Succeeded", "Failed")
THREADS = 8
PROMTOOL_S = 120.0
Series = tuple[tuple[str, str], ...]
"""Labels by name, the metric's own name among them."""


def definitions() -> list[dict[str, Any]]:
    """Of the Prometheus operator's kinds, without their schemas."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }
        for kind, plural in KINDS.items()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    url: str
    labels: Mapping[str, str]
    honors_labels: bool

    def scrape(self, timeout_s: float) -> dict[Series, float]:
        """Samples, `up` among them."""
        try:
            with urllib.request.urlopen(self.url, timeout=timeout_s) as answer:
                text = answer.read().decode()
        except (OSError, ValueError):
            return {series("up", self.labels): 0.0}
        found = {series("up", self.labels): 1.0}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found[series(sample.name, self._joined(sample.labels))] = sample.value
        return found

    def _joined(self, told: Mapping[str, str]) -> dict[str, str]:
        if self.honors_labels:
            return {**self.labels, **told}
        return {**{f"exported_{key}" if key in self.labels else key: told[key] for key in told}, **self.labels}


def series(name: str, labels: Mapping[str, str]) -> Series:
    return tuple(sorted({"__name__": name, **labels}.items()))


def targets(client: Client, monitors: Sequence[Mapping[str, Any]]) -> list[Target]:
    """What the monitors mean now. Pods that have ended or have no address yet are none."""
    pods = client.read("pods", "--all-namespaces")["items"]
    return [one for monitor in monitors for one in _of_monitor(monitor, pods)]


def _of_monitor(monitor: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> Iterator[Target]:
    spec, meta = monitor["spec"], monitor["metadata"]
    assert set(spec["selector"]) == {"matchLabels"}, "write the other ways of selecting, too"
    places = spec.get("namespaceSelector", {})
    for pod in pods:
        namespace, labels = pod["metadata"]["namespace"], pod["metadata"].get("labels", {})
        there = places.get("any", False) or namespace in places.get("matchNames", [meta["namespace"]])
        address, phase = pod["status"].get("podIP"), pod["status"]["phase"]
        if not (there and spec["selector"]["matchLabels"].items() <= labels.items() and address) or phase in ENDED:
            continue
        own = {
            "namespace": namespace,
            "pod": pod["metadata"]["name"],
            "job": f"{meta['namespace']}/{meta['name']}",
            **{re.sub(r"\W", "_", name): labels[name] for name in spec.get("podTargetLabels", ()) if name in labels},
        }
        for endpoint in spec["podMetricsEndpoints"]:
            for container in pod["spec"]["containers"]:
                for port in container.get("ports", ()):
                    if port.get("name") == endpoint["port"]:
                        at = f"{address}:{port['containerPort']}"
                        yield Target(
                            url=f"http://{at}{endpoint.get('path', '/metrics')}",
                            labels=own | {"container": container["name"], "endpoint": port["name"], "instance": at},
                            honors_labels=endpoint.get("honorLabels", False),
                        )


@dataclass(slots=True, kw_only=True)
class Scrapes:
    """One scrape of every target each `interval_s`; the n-th is of n intervals after the begin."""

    client: Client
    monitors: Sequence[Mapping[str, Any]]
    groups: Sequence[Mapping[str, Any]]
    """Of rules."""
    interval_s: int
    found: list[dict[Series, float]] = field(default_factory=list)
    failure: BaseException | None = None

    def wait(self, intervals: int) -> int:
        """So many further scrapes; the number of the last one."""
        wanted = len(self.found) + intervals
        while len(self.found) < wanted:
            assert self.failure is None, self.failure
            time.sleep(0.1)
        return len(self.found) - 1

    def run(self, ended: threading.Event) -> None:
        try:
            begin_s = time.monotonic()
            with ThreadPoolExecutor(THREADS) as pool:
                while not ended.wait(max(0.0, begin_s + len(self.found) * self.interval_s - time.monotonic())):
                    late_s = time.monotonic() - begin_s - len(self.found) * self.interval_s
                    assert late_s < self.interval_s, f"{late_s:.1f} s late: times of samples would be wrong"
                    there = targets(self.client, self.monitors)
                    scraped: dict[Series, float] = {}
                    for samples in pool.map(lambda one: one.scrape(self.interval_s / 2), there):
                        scraped |= samples
                    self.found.append(scraped)
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            self.failure = error

    def longest_for_s(self) -> int:
        """The longest that a rule's expression has to hold, of those of five minutes or less."""
        minutes = [int(rule["for"].removesuffix("m")) for one in self.groups for rule in one["rules"] if "for" in rule]
        return 60 * max(one for one in minutes if one <= 5)

    def hold(self, folder: Path, claims: Sequence[tuple[int, str, Sequence[Mapping[str, Any]]]]) -> str:
        """What promtool says to (scrape, PromQL expression, samples that it gives then) with the rules; "" to agree."""
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": list(self.groups)}))
        every = f"{self.interval_s}s"
        tests = [
            {"eval_time": f"{at * self.interval_s}s", "expr": expression, "exp_samples": list(samples)}
            for at, expression, samples in claims
        ]
        body = {
            "rule_files": ["rules.yaml"],
            "evaluation_interval": every,
            "tests": [{"interval": every, "input_series": list(self._written()), "promql_expr_test": tests}],
        }
        (folder / "scraped.yaml").write_text(yaml.safe_dump(body, width=10**9))
        done = subprocess.run(
            [promtool.promtool(), "test", "rules", "scraped.yaml"],
            cwd=folder, capture_output=True, text=True, timeout=PROMTOOL_S, check=False,
        )  # fmt: skip
        return "" if done.returncode == 0 else done.stdout + done.stderr

    def _written(self) -> Iterator[dict[str, str]]:
        """Series of which the rules ask; one that is there no longer ends, as in Prometheus."""
        asked = " ".join(str(rule["expr"]) for one in self.groups for rule in one["rules"])
        names = set(re.findall(r"[a-z_]+", asked))
        every = {one for samples in self.found for one in samples if dict(one)["__name__"] in names}
        for one in sorted(every):
            values, was_there = [], False
            for samples in self.found:
                value = samples.get(one)
                values.append(("stale" if was_there else "_") if value is None else f"{value:.17g}")
                was_there = value is not None
            labels = ", ".join(f'{key}="{_escaped(value)}"' for key, value in one if key != "__name__")
            yield {"series": f"{dict(one)['__name__']}{{{labels}}}", "values": " ".join(values)}


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


@contextmanager
def scraping(client: Client, interval_s: int) -> Iterator[Scrapes]:
    """Until the end of the block, by the monitors and for the rules of the release in the client's namespace."""
    monitors = client.read("podmonitors")["items"]
    rules = [one for found in client.read("prometheusrules")["items"] for one in found["spec"]["groups"]]
    assert monitors
    assert rules
    found = Scrapes(client=client, monitors=monitors, groups=rules, interval_s=interval_s)
    ended = threading.Event()
    thread = threading.Thread(target=found.run, args=(ended,), name="scrapes", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join(30)
