"""What `spec.oauth` makes of the settings file and of the pods: whose tokens are taken, and whom its server is trusted
by. Nothing of it is secret."""

from collections.abc import Iterator
from typing import Final

from muster_operator import naming
from muster_operator.api.cluster import ClusterSpec
from muster_operator.api.oauth import PREFIX
from muster_operator.resources.secured import Mounted

TRUST_DIR: Final = "/etc/muster-oauth"


def settings(spec: ClusterSpec) -> dict[str, str]:
    oauth = spec.oauth
    if oauth is None:
        return {}
    found = {f"{PREFIX}sub.claim.name": oauth.user_name_claim}
    if oauth.valid_issuer_uri is not None and oauth.jwks_endpoint_uri is not None and oauth.audiences is not None:
        found |= {
            f"{PREFIX}jwks.endpoint.url": oauth.jwks_endpoint_uri,
            f"{PREFIX}jwks.endpoint.refresh.ms": str(oauth.jwks_refresh_seconds * 1000),
            f"{PREFIX}expected.issuer": oauth.valid_issuer_uri,
            f"{PREFIX}expected.audience": ",".join(oauth.audiences),
            f"{PREFIX}clock.skew.seconds": str(oauth.clock_skew_seconds),
        }
    if oauth.trusted_secret_name is not None:
        found[f"muster.{PREFIX}jwks.ca.file"] = f"{TRUST_DIR}/ca.crt"
    return found


def mounted(spec: ClusterSpec) -> Iterator[Mounted]:
    if spec.oauth is not None and spec.oauth.trusted_secret_name is not None:
        yield Mounted("oauth-trust", spec.oauth.trusted_secret_name, TRUST_DIR, {naming.CA_KEY: "ca.crt"})
