"""What the plug-in runs in a coordinator's pod is what `muster` takes there: no word of it may be a usage error."""

import pytest
from muster_operator.plugin.main import app
from typer.testing import CliRunner

from tests.cli.test_documented_commands import NotACommand, parse
from tests.operator.plugin.fake_api import CLUSTERS, GROUPS, PODS, Server, cluster, group, pod

TARGETS = [
    ["--to-earliest"], ["--to-latest"], ["--to-current"], ["--to-offset", "0"], ["--shift-by", "-100"],
    ["--to-datetime", "2026-01-31T12:00:00Z"], ["--by-duration", "PT1H"],
]  # fmt: skip


@pytest.fixture
def shop(serving: Server) -> Server:
    serving.put(GROUPS, group())
    serving.put(CLUSTERS, cluster())
    serving.put(PODS, pod("main-0", component="coordinator", instance="main"))
    return serving


def words_of(shop: Server, *typed: str) -> list[str]:
    """What was to run in the pod, without `muster`."""
    CliRunner().invoke(app, list(typed))
    ((_, program, *words),) = shop.commands
    assert program == "muster"
    return words


@pytest.mark.parametrize("target", TARGETS, ids=lambda one: one[0])
@pytest.mark.parametrize("execute", [[], ["--execute"]], ids=["dry", "execute"])
@pytest.mark.parametrize("topics", [["--all-topics"], ["--topic", "a:0,1", "--topic", "b"]], ids=["all", "some"])
def test_a_reset(shop: Server, target: list[str], execute: list[str], topics: list[str]) -> None:
    parse(words_of(shop, "reset", "cg/orders", *topics, *target, *execute))


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml"])
def test_lag(shop: Server, output: str) -> None:
    parse(words_of(shop, "lag", "cg/orders", "-o", output))
    shop.objects[f"{CLUSTERS}/main"]["spec"]["topics"] = {"redis": {"url": "redis://r:6379/0"}}
    shop.commands.clear()
    parse(words_of(shop, "lag", "cg/orders", "-o", output))


def test_a_report(shop: Server, tmp_path) -> None:
    parse(words_of(shop, "report", "--file", str(tmp_path / "r.tar.gz")))


def test_a_group_id_that_looks_like_an_option_is_none(shop: Server) -> None:
    """Kafka allows any text: a group may be called --execute, and a dry run of it must stay one."""
    shop.objects[f"{GROUPS}/orders"]["spec"]["groupId"] = "--execute"
    words = words_of(shop, "reset", "cg/orders", "--all-topics", "--to-earliest")
    parse(words)
    assert words[-2:] == ["--", "--execute"]
    with pytest.raises(NotACommand):
        parse(["group", "reset-offset"])
