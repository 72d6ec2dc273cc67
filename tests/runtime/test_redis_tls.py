"""The context of a connection to Redis: made once for the same files, and anew for others."""

import os
import ssl
from pathlib import Path

import pytest
from muster_coordinator.runtime.client_context import context_of

from tests.certificates import Authority


@pytest.fixture
def authority() -> Authority:
    return Authority()


def subjects(context: ssl.SSLContext) -> list[object]:
    return [found["subject"] for found in context.get_ca_certs()]


def test_one_context_as_long_as_the_files_are_the_same(authority: Authority, tmp_path: Path) -> None:
    """While Redis is away there may be a thousand tries a second."""
    ca = tmp_path / "ca.crt"
    ca.write_text(authority.pem)
    crt, key = map(str, authority.issue("muster").write(tmp_path / "client"))
    first = context_of(str(ca), crt, key)
    assert all(context_of(str(ca), crt, key) is first for _ in range(1_000))
    assert (first.verify_mode, first.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert first.minimum_version == ssl.TLSVersion.TLSv1_2
    assert len(subjects(first)) == 1, "and none of the system's"


@pytest.mark.parametrize("by_link", [True, False], ids=["as a Secret's volume", "in place"])
def test_another_context_for_other_files(authority: Authority, tmp_path: Path, by_link: bool) -> None:
    # Its file has another size: the clock of files may stand still for some milliseconds.
    other = Authority("The next one, of a longer name")
    for name, issuer in (("old", authority), ("new", other)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ca.crt").write_text(issuer.pem)
    ca = tmp_path / "now" / "ca.crt"
    if by_link:
        (tmp_path / "now").symlink_to(tmp_path / "old")
    else:
        (tmp_path / "now").mkdir()
        ca.write_bytes((tmp_path / "old" / "ca.crt").read_bytes())
    before = context_of(str(ca), None, None)
    if by_link:
        (tmp_path / "next").symlink_to(tmp_path / "new")
        os.replace(tmp_path / "next", tmp_path / "now")
    else:
        ca.write_bytes((tmp_path / "new" / "ca.crt").read_bytes())
    after = context_of(str(ca), None, None)
    assert subjects(before) != subjects(after)


def test_what_cannot_be_read_is_told_and_tried_again(authority: Authority, tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    with pytest.raises(FileNotFoundError):
        context_of(str(ca), None, None)
    ca.write_text("half a certi")
    with pytest.raises(ssl.SSLError):
        context_of(str(ca), None, None)
    ca.write_text(authority.pem)
    assert len(subjects(context_of(str(ca), None, None))) == 1
    crt, _ = map(str, authority.issue("muster").write(tmp_path / "one"))
    _, key = map(str, authority.issue("muster").write(tmp_path / "two"))
    with pytest.raises(ssl.SSLError, match="KEY_VALUES_MISMATCH"):
        context_of(str(ca), crt, key)
