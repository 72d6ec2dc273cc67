"""`kubectl muster lag, reset, pause, resume, scale, logs`, completion and colours, against the API server's paths."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from muster_operator.plugin import colour
from muster_operator.plugin.completing import candidates
from muster_operator.plugin.main import app
from muster_operator.plugin.redact import REDACTED
from muster_operator.plugin.waiting import pause_progress, scale_progress
from muster_operator.resources import server_properties
from typer.testing import CliRunner

from tests.operator.plugin.fake_api import CLUSTERS, GROUPS, PODS, Server, cluster, group, pod, said

TABLE = "TOPIC   PARTITION   LAG\norders   0   12 größer\n"


def call(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def shop(serving: Server) -> Server:
    """One cluster with three coordinators, of which the first is not Ready, and one group with two pods."""
    serving.put(GROUPS, group(state="Stable", memberCount=2, lagText="12", lagTime="2026-01-01T00:00:00Z"))
    serving.put(CLUSTERS, cluster(readyReplicas=2))
    for ordinal in range(3):
        serving.put(PODS, pod(f"main-{ordinal}", component="coordinator", instance="main", ready=ordinal > 0))
    for ordinal in (10, 2):
        serving.put(PODS, pod(f"orders-{ordinal}", component="consumer", instance="orders"))
        serving.texts[f"{PODS}/orders-{ordinal}/log/consumer"] = f"first {ordinal}\nsecond {ordinal}\n"
    serving.put(PODS, pod("foreign-0", component="consumer", instance="foreign"))
    return serving


def test_lag_of_all_is_the_statuses_with_its_age(shop: Server) -> None:
    done = call("lag")
    assert done.exit_code == 0, done.output
    assert done.output.split() == [
        "NAMESPACE", "NAME", "STATE", "LAG", "READ-AT", "shop", "orders", "Stable", "12", "2026-01-01T00:00:00Z",
    ]  # fmt: skip
    assert shop.commands == []
    assert json.loads(call("lag", "-o", "json").output)[0]["LAG"] == "12"
    assert yaml.safe_load(call("lag", "-o", "yaml").output)[0]["LAG"] == "12"
    assert "UNCOMMITTED" in call("lag", "-o", "wide").output


def test_lag_of_one_is_asked_of_a_ready_coordinator_now(shop: Server) -> None:
    shop.answers = lambda _: (0, TABLE, "")
    done = call("lag", "cg/orders")
    assert (done.exit_code, done.output) == (0, TABLE)
    assert shop.commands == [
        ["main-1", "muster", "group", "lag", "--output=table", "--bootstrap-server=localhost:9092", "--", "orders-v2"]
    ]


def test_lag_of_topics_in_redis_is_counted_by_the_coordinators_own_file(shop: Server) -> None:
    shop.objects[f"{CLUSTERS}/main"]["spec"]["topics"] = {"mode": "redis", "redis": {"url": "redis://r:6379/0"}}
    shop.answers = lambda _: (0, TABLE, "")
    assert call("lag", "cg/orders").exit_code == 0
    (command,) = shop.commands
    assert f"--redis={server_properties.CONFIG_DIR}/{server_properties.FILE_NAME}" in command
    call("reset", "cg/orders", "--all-topics", "--to-earliest")
    assert not any(word.startswith("--redis") for word in shop.commands[-1])


def test_reset_is_a_dry_run_unless_executed(shop: Server) -> None:
    shop.answers = lambda _: (0, "moves\n", "nothing was changed; add --execute to do it\n")
    assert call("reset", "cg/orders", "--all-topics", "--to-earliest").exit_code == 0
    assert call("reset", "cg/orders", "--topic", "orders:0,3", "--shift-by", "-100", "--execute").exit_code == 0
    dry, done = shop.commands
    assert "--execute" not in dry
    assert dry[2:] == [
        "group", "reset-offsets", "--to-earliest", "--all-topics", "--output=table",
        "--bootstrap-server=localhost:9092", "--", "orders-v2",
    ]  # fmt: skip
    assert done[4:7] == ["--shift-by=-100", "--topic=orders:0,3", "--execute"]


@pytest.mark.parametrize(
    ("option", "value"),
    [("--to-offset", "0"), ("--to-datetime", "2026-01-31T12:00:00Z"), ("--by-duration", "PT1H"), ("--shift-by", "0")],
)
def test_every_target_with_a_value_is_handed_on_as_given(shop: Server, option: str, value: str) -> None:
    """0 is a value, not the absence of one."""
    assert call("reset", "cg/orders", "--all-topics", option, value).exit_code == 0
    assert f"{option}={value}" in shop.commands[0]


@pytest.mark.parametrize(
    "words",
    [
        ["--all-topics"],
        ["--all-topics", "--to-earliest", "--to-latest"],
        ["--to-earliest"],
        ["--to-earliest", "--all-topics", "--topic", "orders"],
        ["--all-topics", "--to-offset", "-1"],
    ],
)
def test_a_reset_that_is_not_clear_asks_nobody(shop: Server, words: list[str]) -> None:
    assert call("reset", "cg/orders", *words).exit_code == 2
    assert shop.commands == []


def test_a_group_with_members_is_refused_by_the_coordinators_and_the_way_out_is_said(shop: Server) -> None:
    shop.answers = lambda _: (1, "", "group orders-v2 is Stable with 2 members; stop its consumers first\n")
    done = call("reset", "cg/orders", "--all-topics", "--to-earliest", "--execute")
    assert done.exit_code == 1
    assert "with 2 members" in done.output
    assert "kubectl muster scale cg/orders 0" in done.output


def test_a_reset_that_was_cut_off_is_not_reported_as_done_or_refused(shop: Server) -> None:
    shop.answers = lambda _: ("cut", "half", "")
    done = call("reset", "cg/orders", "--all-topics", "--to-earliest", "--execute")
    assert done.exit_code == 1
    assert "its result is unknown" in done.output


@pytest.mark.parametrize("code", [3, 4, 5])
def test_other_exit_codes_of_the_command_are_handed_on(shop: Server, code: int) -> None:
    shop.answers = lambda _: (code, "", "a sentence\n")
    assert call("reset", "cg/orders", "--all-topics", "--to-earliest").exit_code == code


def test_the_internal_listeners_own_port_is_used(shop: Server) -> None:
    shop.objects[f"{CLUSTERS}/main"]["spec"]["listeners"] = [
        {"name": "out", "type": "nodePort", "port": 9094}, {"name": "in", "type": "internal", "port": 19092},
    ]  # fmt: skip
    call("lag", "cg/orders")
    assert shop.commands[0][-3] == "--bootstrap-server=localhost:19092"


def test_a_group_of_another_cluster_is_told_what_to_run_elsewhere(shop: Server) -> None:
    spec = shop.objects[f"{GROUPS}/orders"]["spec"]
    del spec["clusterRef"]
    spec["bootstrapServers"] = "kafka:9092"
    done = call("reset", "cg/orders", "--all-topics", "--to-earliest")
    assert done.exit_code == 1
    assert "muster group reset-offsets --to-earliest --all-topics --output=table" in done.output
    assert "--bootstrap-server=kafka:9092 -- orders-v2" in done.output


def test_without_a_ready_coordinator_nobody_is_asked(shop: Server) -> None:
    for ordinal in (1, 2):
        shop.objects[f"{PODS}/main-{ordinal}"]["status"]["conditions"] = []
    done = call("lag", "cg/orders")
    assert done.exit_code == 1
    assert "no coordinator of main is Ready (3 pods)" in done.output


def test_a_missing_right_to_exec_is_one_sentence(shop: Server) -> None:
    shop.forbidden.add(f"{PODS}/main-1/exec")
    done = call("lag", "cg/orders")
    assert done.exit_code == 1
    assert "403" in done.output
    assert len(done.output.splitlines()) == 1


def test_pause_and_resume_wait_for_the_operators_word(shop: Server) -> None:
    def operator(obj: dict[str, Any]) -> None:
        paused = obj["metadata"]["annotations"].get("muster.dev/paused") == "true"
        obj["status"]["conditions"] = [said("Paused", str(paused))]

    shop.operator = operator
    assert "only its status is written" in call("pause", "cg/orders").output
    done = call("resume", "cc/main")
    assert done.exit_code == 0
    assert "it is not paused any more" in done.output
    paused, resumed = (body["metadata"]["annotations"] for _, body in shop.patches)
    assert (paused, resumed) == ({"muster.dev/paused": "true"}, {"muster.dev/paused": None})


def test_a_pause_that_no_operator_takes_up_is_not_called_one(shop: Server) -> None:
    done = call("pause", "cg/orders", "--timeout-seconds", "1")
    assert done.exit_code == 3
    assert "the operator has not taken it up yet" in done.output
    assert call("pause", "cg/orders", "--no-wait").exit_code == 0


def test_resume_says_that_the_spec_pauses_too(shop: Server) -> None:
    shop.objects[f"{GROUPS}/orders"]["spec"]["paused"] = True
    done = call("resume", "cg/orders")
    assert done.exit_code == 1
    assert "`paused: true`" in done.output


def test_scale_goes_through_the_scale_subresource_and_waits(shop: Server) -> None:
    def operator(obj: dict[str, Any]) -> None:
        fine = [said("Progressing", "False")]
        obj["status"] |= {"observedGeneration": 2, "replicas": 0, "readyReplicas": 0, "conditions": fine}

    shop.operator = operator
    done = call("scale", "cg/orders", "0")
    assert done.exit_code == 0, done.output
    assert shop.patches == [(f"{GROUPS}/orders/scale", {"spec": {"replicas": 0}})]


def test_what_cannot_be_scaled_is_not_asked_for(shop: Server) -> None:
    assert "voter" in call("scale", "cc/main", "5").output
    del shop.objects[f"{GROUPS}/orders"]["spec"]["template"]
    assert "no `template`" in call("scale", "cg/orders", "5").output
    assert call("scale", "cg/orders", "1001").exit_code == 2
    assert shop.patches == []


@pytest.mark.parametrize(
    ("status", "replicas", "expected"),
    [
        ({"observedGeneration": 1, "replicas": 3, "readyReplicas": 3}, 3, "running"),
        ({"observedGeneration": 2, "replicas": 5, "readyReplicas": 3}, 3, "running"),
        ({"observedGeneration": 2, "replicas": 3, "readyReplicas": 3}, 3, "done"),
        ({"observedGeneration": 2, "replicas": 3, "readyReplicas": 3}, 4, "halted"),
        ({"observedGeneration": 2, "replicas": 3}, 3, "running"),
    ],
)
def test_a_scaling_is_over_only_when_the_operator_says_so(status: dict[str, Any], replicas: int, expected: str) -> None:
    seen = group(**status, conditions=[said("Progressing", "False")])
    assert scale_progress(seen, replicas=replicas, generation=2)[0] == expected
    paused = group(**status, conditions=[said("Paused", "True")])
    assert scale_progress(paused, replicas=3, generation=2) == ("running", "it is paused")


def test_unknown_is_no_pause() -> None:
    assert pause_progress(group(), paused=False)[0] == "running"
    assert pause_progress(group(conditions=[said("Paused", "Unknown")]), paused=False)[0] == "running"


def test_logs_have_their_pod_in_front_and_come_in_the_order_of_ordinals(shop: Server) -> None:
    done = call("logs", "cg/orders", "--tail", "7")
    assert done.exit_code == 0, done.output
    assert done.output.splitlines() == [
        "[orders-2/consumer] first 2", "[orders-2/consumer] second 2",
        "[orders-10/consumer] first 10", "[orders-10/consumer] second 10",
    ]  # fmt: skip
    assert any("tailLines=7" in one for one in shop.asked)
    followed = call("logs", "cg/orders", "--follow")
    assert sorted(followed.output.splitlines()) == sorted(done.output.splitlines())


def test_logs_that_are_not_there_are_named_and_counted(shop: Server) -> None:
    del shop.texts[f"{PODS}/orders-2/log/consumer"]
    for words in ([], ["--follow"]):
        partly = call("logs", "cg/orders", *words)
        assert partly.exit_code == 5
        assert "log of orders-2/consumer: 404" in partly.output
    assert call("logs", "cg/orders", "--previous").exit_code == 1


def test_why_there_is_no_log_is_said_in_the_api_servers_words(shop: Server) -> None:
    shop.starting.add(f"{PODS}/orders-2/log/consumer")
    done = call("logs", "cg/orders")
    assert done.exit_code == 5
    assert "log of orders-2/consumer: 400 Bad Request: container of " in done.output
    assert "is waiting to start\n" in done.output
    assert "[orders-10/consumer] first 10" in done.output


def test_a_log_without_line_ends_is_cut_into_pieces(shop: Server) -> None:
    shop.texts[f"{PODS}/orders-2/log/consumer"] = "x" * 40_000
    lines = call("logs", "cg/orders").output.splitlines()
    pieces = [one for one in lines if one.startswith("[orders-2")]
    assert sum(one.count("x") for one in pieces) == 40_000
    assert max(map(len, pieces)) < 17_000


def test_the_logs_of_a_cluster_are_its_coordinators(shop: Server) -> None:
    for ordinal in range(3):
        shop.texts[f"{PODS}/main-{ordinal}/log/coordinator"] = "hello\n"
    assert call("logs", "cc/main").output.splitlines() == [f"[main-{n}/coordinator] hello" for n in range(3)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["re"], ["report", "reset", "restart", "resume"]),
        (["scale", ""], ["cg/orders"]),
        (["pause", ""], ["cg/orders", "cc/main"]),
        (["pause", "cc"], ["cc/main"]),
        (["describe", "cg/orders", ""], []),
        (["status", ""], []),
        (["status", "-o", ""], ["table", "wide", "json", "yaml"]),
        (["reset", "cg/orders", "--to-e"], ["--to-earliest"]),
        (["nonsense", ""], []),
    ],
)
def test_completion(shop: Server, words: list[str], expected: list[str]) -> None:
    assert candidates(words) == (expected, ":4")


def test_completion_offers_files_where_one_may_come(shop: Server) -> None:
    assert candidates(["report", "--file", ""]) == ([], ":0")


def test_completion_is_silent_without_an_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    assert candidates(["pause", ""]) == ([], ":4")


def test_wide_and_yaml(shop: Server) -> None:
    assert "GROUP-ID" in call("status", "-o", "wide").output
    assert "GROUP-ID" not in call("status").output
    assert yaml.safe_load(call("status", "-o", "yaml").output)["groups"][0]["GROUP-ID"] == "orders-v2"


def test_status_is_in_colour_on_a_terminal_and_only_there(shop: Server) -> None:
    """A real terminal: a pseudo terminal, with a process of its own."""
    shop.objects[f"{CLUSTERS}/main"]["status"]["conditions"] = [said("QuorumAvailable", "False")]
    argv = [sys.executable, "-c", "from muster_operator.plugin.main import main; main()", "status"]

    def shown(environment: dict[str, str]) -> str:
        ours, theirs = pty.openpty()
        done = subprocess.run(argv, stdout=theirs, env=os.environ | environment, timeout=60, check=True)
        assert done.returncode == 0
        os.close(theirs)
        text = os.read(ours, 100_000).decode()
        os.close(ours)
        return text

    assert "\x1b[31mFalse" in shown({"TERM": "xterm", "NO_COLOR": ""})
    assert "\x1b" not in shown({"TERM": "xterm", "NO_COLOR": "1"})
    assert "\x1b" not in call("status").output


def test_colours_say_what_is_not_as_it_should_be() -> None:
    assert colour.painted("READY", "3/3  ") == "\x1b[32m3/3  \x1b[0m"
    assert colour.painted("READY", "2/3") == "\x1b[33m2/3\x1b[0m"
    assert colour.painted("NAME", "True") == "True"


def test_options_that_users_know_are_there(tmp_path: Path) -> None:
    for command in ("status", "describe", "lag", "reset", "pause", "resume", "scale", "restart", "logs", "report"):
        shown = call(command, "--help")
        assert shown.exit_code == 0
        assert "--context" in shown.output
        assert "--namespace" in shown.output


def test_redacted_is_a_word_that_no_yaml_reads_as_something_else() -> None:
    assert yaml.safe_load(yaml.safe_dump({"value": REDACTED})) == {"value": REDACTED}
