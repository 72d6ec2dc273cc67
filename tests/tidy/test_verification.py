"""Whoever connects by TLS verifies chain and name: nowhere is that switched off, in no client and no language."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OFF = re.compile(
    r"CERT_NONE"
    r"|check_hostname[\"']?\s*[=:]\s*False"
    r"|\b(?:verify|verify_ssl|ssl)\s*=\s*False"
    r"|_create_unverified_context"
    r"|endpoint\.identification\.algorithm[\"']?\s*[=:,]\s*[\"']?(?:none\b|[\"']|$)"
    r"|enable\.ssl\.certificate\.verification[\"']?\s*[=:,]\s*[\"']?(?i:false)"
    r"|verify_(?:signature|mode)[\"']?\s*[=:]\s*(?:False|0\b|ssl\.VerifyMode\.CERT_NO)"
    r"|(?:--no-check-certificate|--insecure-skip-tls-verify|GIT_SSL_NO_VERIFY|PYTHONHTTPSVERIFY=0)"
    r"|(?:--trusted-host|trusted-host\s*=|strict-ssl\s*=?\s*false|NODE_TLS_REJECT_UNAUTHORIZED)"
    r"|insecureSkipVerify\s*:\s*true"
    r"|InsecureSkipVerify\s*[:=]\s*true"
    r"|rejectUnauthorized\s*:\s*false"
    r"|\bcurl\b.*\s(?:-\w*k\w*|--insecure)\s",
    re.MULTILINE,
)
SUFFIXES = {".py", ".java", ".go", ".js", ".mjs", ".sh", ".yaml", ".yml", ".md", ".properties", ".tpl", ".toml", ""}
MAY = {
    "coordinator/muster_coordinator/runtime/tls_store.py": "a server that asks clients for no certificate",
    "tests/cli/test_client_properties.py": "a client that asks for it is refused",
    "tests/tidy/test_verification.py": "says what is looked for",
    "tests/security/test_oauth.py": "reads a token of its own",
}
ATTACKERS = "tests/attackers/"


def switched_off(text: str) -> list[str]:
    return [match[0].strip() for match in OFF.finditer(text)]


def test_no_verification_is_switched_off() -> None:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = {
        name: off
        for name in done.stdout.split("\n")
        if Path(name).suffix in SUFFIXES and (ROOT / name).is_file() and not name.startswith(ATTACKERS)
        if name not in MAY and (off := switched_off((ROOT / name).read_text(errors="replace")))
    }
    assert found == {}
    assert len(switched_off((ROOT / next(iter(MAY))).read_text())) == 1, "only the one that is named"


@pytest.mark.parametrize(
    "line",
    [
        "context.verify_mode = ssl.CERT_NONE",
        "context.check_hostname = False",
        '{"ssl_check_hostname": False}',
        "requests.get(url, verify=False)",
        "ssl.endpoint.identification.algorithm=",
        'p.put("ssl.endpoint.identification.algorithm", "");',
        '"enable.ssl.certificate.verification": "false"',
        "&tls.Config{InsecureSkipVerify: true}",
        "curl -sk https://localhost",
        "context.verify_mode = 0",
        'jwt.decode(text, options={"verify_signature": False})',
        "tlsConfig:\n  insecureSkipVerify: true",
        "pip install --trusted-host 127.0.0.1 x",
        "wget --no-check-certificate https://localhost",
        "enable.ssl.certificate.verification=false",
        "ssl_check_hostname=False",
    ],
)
def test_each_way_to_switch_it_off_is_found(line: str) -> None:
    assert switched_off(line)


@pytest.mark.parametrize("line", ["ssl.endpoint.identification.algorithm=https", "verify=True", "curl -s https://k8s"])
def test_what_verifies_is_not(line: str) -> None:
    assert not switched_off(line)
