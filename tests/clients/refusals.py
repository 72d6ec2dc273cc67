"""What each family of clients says when it does not believe a certificate, as patterns of its complaints.

That a client gets nothing shows little: where nobody listens it gets nothing either. These are the words for a name
that the certificate lacks, and for an authority that is not known. librdkafka has the same for both and names neither:
whoever asks shows otherwise that it was the name, by a certificate that has it.
"""

import ipaddress
import re

from tests.clients.member import Member
from tests.cluster import wait_until

PYTHONS = ("kafka-python", "aiokafka")
UNVERIFIED = "certificate verify failed"
UNKNOWN_AUTHORITY = {
    "java": "unable to find valid certification path to requested target",
    "librdkafka": UNVERIFIED,
    **dict.fromkeys(PYTHONS, f"{UNVERIFIED}: (unable to get local issuer certificate|self-signed certificate)"),
    "franz-go": "certificate signed by unknown authority",
}


def wrong_name(host: str) -> dict[str, str]:
    """Of a certificate that is not for this host, an address or a name, whatever it is for."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        python, java = "Hostname", "No (subject alternative DNS )?name matching"
    else:
        python, java = "IP address", "No subject alternative names matching IP address"
    known = re.escape(host)
    return {
        "java": f"{java} {known} found",
        "librdkafka": UNVERIFIED,
        **dict.fromkeys(PYTHONS, f"{UNVERIFIED}: {python} mismatch, certificate is not valid for '{known}'"),
        "franz-go": f"certificate is (valid for .*, not|not valid for any names, but wanted to match) {known}",
    }


def hear(member: Member, words: str, seconds: float = 60) -> None:
    """Until it has said so."""
    try:
        wait_until(f"{member.client}'s {words!r}", lambda: re.search(words, member.complaints()), seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}; it says {member.complaints()[-2_000:]}") from None
