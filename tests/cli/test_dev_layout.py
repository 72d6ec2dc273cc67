"""What `muster dev` writes: configurations that `muster server` accepts, ports as documented, a secret token."""

import stat
from pathlib import Path

import pytest
from muster_coordinator.cli.dev_layout import DevLayout
from muster_coordinator.settings import ConfigError, load_settings


@pytest.mark.parametrize("replicas", [1, 3, 5])
def test_every_replica_can_be_started_from_its_own_file(tmp_path: Path, replicas: int) -> None:
    layout = DevLayout(tmp_path, replicas, 10_000)
    layout.write(7, {})
    for n in range(replicas):
        settings = load_settings(layout.config_file(n))
        assert settings.node_id == n
        assert [listener.port for listener in settings.listeners] == [10_000 + n]
        assert settings.peer_bind == ("127.0.0.1", 10_100 + n)
        assert settings.probe_listener == ("127.0.0.1", 10_200 + n)
        assert settings.admin_listener == ("127.0.0.1", 10_300 + n)
        assert settings.offsets_partitions == 7
        assert sorted(settings.peers) == list(range(replicas))
        assert settings.peers[n] == settings.peer_bind
        assert settings.pid_file == tmp_path / f"replica-{n}" / "pid"
        assert settings.admin_token_file == tmp_path / "admin-token"
    assert layout.bootstrap == ",".join(f"127.0.0.1:{10_000 + n}" for n in range(replicas))


def test_the_token_is_secret_and_survives_a_restart(tmp_path: Path) -> None:
    layout = DevLayout(tmp_path, 1, 10_000)
    layout.write(1, {})
    token = layout.token_file.read_text()
    assert len(token.strip()) >= 32
    assert stat.S_IMODE(layout.token_file.stat().st_mode) == 0o600
    layout.write(1, {})
    assert layout.token_file.read_text() == token


def test_settings_given_on_the_command_line_win(tmp_path: Path) -> None:
    layout = DevLayout(tmp_path, 1, 10_000)
    layout.write(1, {"group.initial.rebalance.delay.ms": "0", "shutdown.grace.ms": "1234"})
    settings = load_settings(layout.config_file(0))
    assert (settings.group_initial_rebalance_delay_ms, settings.shutdown_grace_ms) == (0, 1234)
    layout.write(1, {"no.such.key": "1"})
    with pytest.raises(ConfigError, match=r"no\.such\.key"):
        load_settings(layout.config_file(0))


def test_fresh_forgets_the_cluster_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    layout = DevLayout(tmp_path, 3, 10_000)
    layout.write(1, {})
    (layout.replica_folder(2) / "data").mkdir()
    layout.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_one_that_joins_has_the_settings_of_the_others_under_its_own_id(tmp_path: Path) -> None:
    layout = DevLayout(tmp_path, 1, 10_000)
    layout.write(7, {"group.initial.rebalance.delay.ms": "0", "shutdown.grace.ms": "1234"})
    assert layout.next_id() == 1
    layout.add(1, "c" * 22)
    with pytest.raises(OSError, match="exists"):
        layout.add(1, "c" * 22)
    settings = load_settings(layout.config_file(1))
    assert (settings.node_id, settings.cluster_id, sorted(settings.peers)) == (1, "c" * 22, [0])
    assert (settings.offsets_partitions, settings.shutdown_grace_ms) == (7, 1234)
    assert settings.group_initial_rebalance_delay_ms == 0
    assert settings.data_dir == tmp_path / "replica-1" / "data"
    found = DevLayout.of_folder(tmp_path)
    assert (found, found.present(), found.bootstrap) == (layout, [0, 1], "127.0.0.1:10000,127.0.0.1:10001")
    layout.write(7, {"shutdown.grace.ms": "4321"})
    again = load_settings(layout.config_file(1))
    assert (again.cluster_id, again.shutdown_grace_ms) == ("c" * 22, 4321), "the next start writes it, too"


def test_who_formed_the_cluster_is_told_that_it_is_formed_when_others_join(tmp_path: Path) -> None:
    """With an empty folder it would form another one beside them (ADR 103)."""
    layout = DevLayout(tmp_path, 1, 10_000)
    layout.write(7, {"shutdown.grace.ms": "1234"})
    assert not load_settings(layout.config_file(0)).cluster_formed
    layout.add(1, "c" * 22)
    for grace_ms in (1234, 4321):
        founder, other = (load_settings(layout.config_file(replica)) for replica in (0, 1))
        assert (founder.cluster_formed, founder.cluster_id, founder.shutdown_grace_ms) == (True, "c" * 22, grace_ms)
        assert (other.cluster_formed, other.cluster_id) == (False, "c" * 22), "it never forms one"
        layout.write(7, {"shutdown.grace.ms": "4321"})
    layout.retire(1)
    layout.forget(1)
    layout.write(7, {})
    assert not load_settings(layout.config_file(0)).cluster_formed, "it is alone again, and the next start says so"


def test_who_was_removed_is_not_started_again_and_a_founder_forms_no_second_cluster(tmp_path: Path) -> None:
    layout = DevLayout(tmp_path, 1, 10_000)
    layout.write(1, {})
    layout.add(1, "c" * 22)
    layout.add(2, "c" * 22)
    for replica in (0, 1):
        (layout.replica_folder(replica) / "data").mkdir()
        layout.retire(replica)
        assert replica not in layout.present()
        layout.forget(replica)
    assert DevLayout.of_folder(tmp_path) == layout
    assert layout.present() == [2]
    layout.write(1, {})
    assert [path.name for path in layout.replica_folder(0).iterdir()] == ["removed"]
    assert layout.next_id() == 1, "its id may be taken by another folder"


def test_a_folder_by_hand_is_none_of_its_own(tmp_path: Path) -> None:
    layout = DevLayout(tmp_path, 1, 10_000)
    layout.write(1, {})
    layout.replica_folder(1).mkdir()
    assert (layout.present(), layout.next_id()) == ([0], 2)
    with pytest.raises(OSError, match="no cluster"):
        DevLayout.of_folder(tmp_path / "elsewhere")
