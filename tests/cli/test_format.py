"""`muster format`: a new cluster's first users are in its folder, without their passwords, and only there."""

from pathlib import Path

import pytest
from muster_coordinator.cli.exits import CliError
from muster_coordinator.cli.format import format_folder
from muster_coordinator.errors import Corruption
from muster_coordinator.ids import BrokerId
from muster_coordinator.replica.bootstrap.first_users import (
    FIRST_USERS_FILE,
    load_first_users,
    remove_first_users,
)
from muster_coordinator.replica.bootstrap.identity import ClusterRecord, Phase, Voter, load_cluster, store_cluster
from muster_coordinator.runtime.disk import OsDisk
from muster_coordinator.security.scram import ScramMechanism, credential_of, salted_password


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(f"node.id=0\nlog.dirs={tmp_path}/data\n")
    return path


def test_users_are_there_for_the_first_start_and_passwords_are_nowhere(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", "canary-2")
    format_folder(
        config,
        add_scram=["SCRAM-SHA-512=[name=admin,password=canary]", "SCRAM-SHA-256=[name=ops,password=${env:CANARY}]"],
    )
    disk = OsDisk(str(config.parent / "data"))
    command = load_first_users(disk)
    assert command is not None
    assert [(one.user, one.mechanism) for one in command.credentials] == [("admin", 2), ("ops", 1)]
    ops = command.credentials[1]
    salted = salted_password(ScramMechanism.SHA_256, "canary-2", ops.salt, 4096)
    assert ops.stored_key == credential_of(ScramMechanism.SHA_256, salted, ops.salt, 4096).stored_key
    assert len(command.secret) == 32
    for path in config.parent.rglob("*"):
        assert not path.is_file() or b"canary" not in path.read_bytes()
    assert (config.parent / "data" / FIRST_USERS_FILE).stat().st_mode & 0o077 == 0
    remove_first_users(disk)
    assert load_first_users(disk) is None


def test_it_may_be_done_again_before_the_first_start(config: Path) -> None:
    for name in ("one", "two"):
        format_folder(config, add_scram=[f"SCRAM-SHA-512=[name={name},password=x]"])
    command = load_first_users(OsDisk(str(config.parent / "data")))
    assert command is not None
    assert [one.user for one in command.credentials] == ["two"]


def test_a_folder_that_belongs_to_a_cluster_is_refused(config: Path) -> None:
    (config.parent / "data").mkdir()
    record = ClusterRecord("AbCdEfGhIjKlMnOpQrStUv", (Voter(BrokerId(0), b"u" * 16),), 4, b"o" * 16)
    store_cluster(OsDisk(str(config.parent / "data")), Phase.PREPARED, record)
    with pytest.raises(CliError, match="muster user create"):
        format_folder(config, add_scram=["SCRAM-SHA-512=[name=a,password=x]"])


def test_a_folder_that_belongs_to_a_cluster_is_taken_when_that_is_said(config: Path) -> None:
    """Its log decides whether they are made: only if there never were any (`controller.scram_credentials`)."""
    (config.parent / "data").mkdir()
    disk = OsDisk(str(config.parent / "data"))
    record = ClusterRecord("AbCdEfGhIjKlMnOpQrStUv", (Voter(BrokerId(0), b"u" * 16),), 4, b"o" * 16)
    store_cluster(disk, Phase.PREPARED, record)
    format_folder(config, add_scram=["SCRAM-SHA-512=[name=a,password=x]"], even_if_formed=True)
    command = load_first_users(disk)
    assert command is not None
    assert [one.user for one in command.credentials] == ["a"]
    assert load_cluster(disk) == (Phase.PREPARED, record)


@pytest.mark.parametrize(
    "texts",
    [
        ["nonsense canary"],
        ["SCRAM-SHA-512=[name=a,password=canary]"] * 2,
        ["SCRAM-SHA-512=[name=a,password=${env:NO_CANARY_}]"],
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(config: Path, texts: list[str]) -> None:
    with pytest.raises(CliError) as caught:
        format_folder(config, add_scram=texts)
    assert "canary" not in str(caught.value)
    assert not (config.parent / "data" / FIRST_USERS_FILE).exists()


def test_a_flipped_bit_is_corruption(config: Path) -> None:
    format_folder(config, add_scram=["SCRAM-SHA-512=[name=a,password=x]"])
    path = config.parent / "data" / FIRST_USERS_FILE
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(Corruption):
            load_first_users(OsDisk(str(path.parent)))
