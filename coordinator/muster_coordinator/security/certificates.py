"""May these certificates and this key be used: decided from values, before anything is swapped.

OpenSSL takes almost anything and lets the clients find out. So each set is judged before it serves, in the words of who
has to mend it: a key that does not fit, a chain in the wrong order or with a gap, a certificate that has expired or is
not valid yet, a name that clients are told and the certificate lacks.

What it does not do: parse (`runtime.tls_files`), verify signatures (the handshake does), or ask anybody whether a
certificate was revoked.
"""

import ipaddress
import itertools
from collections.abc import Sequence
from typing import NamedTuple

DAY_S = 86_400


class Certificate(NamedTuple):
    """What the checks need of one; names and keys are DER. Times in seconds since the epoch."""

    subject: bytes
    issuer: bytes
    key: bytes
    """SubjectPublicKeyInfo."""
    not_before_s: int
    not_after_s: int
    hosts: tuple[str, ...]
    """DNS names and addresses of the SAN; a DNS name may begin with `*.`."""
    key_id: bytes | None
    issuer_key_id: bytes | None
    shown: str
    """The subject as text."""

    def issued_by(self, other: "Certificate") -> bool:
        """By names, and by key ids where both have them: after its renewal a CA has the same name twice."""
        ids = (self.issuer_key_id, other.key_id)
        return self.issuer == other.subject and (None in ids or ids[0] == ids[1])

    @property
    def self_issued(self) -> bool:
        return self.issuer == self.subject


def covers(pattern: str, host: str) -> bool:
    """Does a name of a SAN cover this host? A `*` is one label, the first (RFC 6125)."""
    try:
        return ipaddress.ip_address(host) == ipaddress.ip_address(pattern)
    except ValueError:
        pass
    pattern, host = pattern.lower().rstrip("."), host.lower().rstrip(".")
    if pattern.startswith("*."):
        label, _, rest = host.partition(".")
        return bool(label) and rest == pattern[2:] and "." in rest
    return pattern == host and "*" not in pattern


def problem_of(
    chain: Sequence[Certificate],
    key: bytes,
    *,
    hosts: Sequence[str],
    now_s: int,
    issuers: Sequence[Certificate] = (),
) -> str | None:
    """Why this set cannot be used, and what to do; None: it can. `key`: the private key's SubjectPublicKeyInfo.
    `issuers`: certificates one of which must have issued the chain's last; empty: not known."""
    if not chain:
        return "there is no certificate in it: put the server's certificate and its intermediates there"
    return (
        _key_problem(chain, key)
        or _order_problem(chain)
        or _gap_problem(chain, issuers)
        or _time_problem(chain, now_s)
        or _host_problem(chain[0], hosts)
    )


def _key_problem(chain: Sequence[Certificate], key: bytes) -> str | None:
    if key == chain[0].key:
        return None
    fits = next((one for one in chain if one.key == key), None)
    if fits is not None:
        return f"the chain is in the wrong order: put the certificate of {fits.shown} first, its key is the one given"
    return f"the private key does not fit the certificate of {chain[0].shown}: give the key that it was issued for"


def _order_problem(chain: Sequence[Certificate]) -> str | None:
    for place, (one, after) in enumerate(itertools.pairwise(chain)):
        if one.issued_by(after):
            continue
        if any(one.issued_by(other) for other in chain[place + 2 :]) or any(
            one.issued_by(other) for other in chain[:place]
        ):
            return (
                f"the chain is in the wrong order: behind {one.shown} must come the certificate that issued it, "
                f"not {after.shown}"
            )
        return f"an intermediate is missing: {one.shown} was not issued by {after.shown}; put its issuer between them"
    return None


def _gap_problem(chain: Sequence[Certificate], issuers: Sequence[Certificate]) -> str | None:
    last = chain[-1]
    if not issuers or last in issuers or any(last.issued_by(one) for one in issuers):
        return None
    return (
        f"an intermediate is missing: none of the trusted certificates has issued {last.shown}; append its issuer to "
        "the chain, or to the truststore"
    )


def _time_problem(chain: Sequence[Certificate], now_s: int) -> str | None:
    for one in chain:
        if now_s >= one.not_after_s:
            return f"the certificate of {one.shown} expired {_ago(now_s - one.not_after_s)} ago: renew it"
        if now_s < one.not_before_s:
            return (
                f"the certificate of {one.shown} is not valid for another {_ago(one.not_before_s - now_s)}: wait, or "
                "mend the clock"
            )
    return None


def _ago(seconds: int) -> str:
    return f"{seconds // DAY_S} days" if seconds >= 2 * DAY_S else f"{seconds} s"


def _host_problem(leaf: Certificate, hosts: Sequence[str]) -> str | None:
    for host in hosts:
        if not any(covers(name, host) for name in leaf.hosts):
            names = ", ".join(leaf.hosts) or "no name at all"
            return (
                f"the certificate of {leaf.shown} is for {names}, not for {host}, which clients are told: issue it "
                f"with {host} as a subject alternative name, or change the advertised address"
            )
    return None


def expires_s(chain: Sequence[Certificate]) -> int:
    """When the first certificate of the chain expires."""
    return min(one.not_after_s for one in chain)
