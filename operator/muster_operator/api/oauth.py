"""`spec.oauth` of a CoordinatorCluster: whose tokens listeners of type oauthbearer take (ADR 102).

There is one identity provider for a cluster, because the coordinator's settings know one. The words are Strimzi's where
it has them. Where clients log in at an existing Kafka themselves (`topics.kafka.passLoginsOn`), that Kafka judges the
token, and only the claim that is the user is said here.

What this does not do: ask the provider anything, or give the operator a token. It logs in at a listener with SCRAM.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from muster_operator.api.fields import spec_field
from muster_operator.api.pod import NAME
from muster_operator.api.schema import Integer, ListOf, Rule, Text
from muster_operator.api.security import OAUTHBEARER, SCRAM

PREFIX: Final = "sasl.oauthbearer."
"""How the coordinator's settings about tokens begin. All of them are the operator's beside `oauth`."""
AUDIENCES_MAX: Final = 20


def _words(most: int, what: str) -> Text:
    return Text(max_length=most, min_length=1, pattern=r"^[^\s]+$", pattern_text=f"must be {what}, without blanks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Oauth:
    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.validIssuerUri) == has(self.jwksEndpointUri)"
            " && has(self.validIssuerUri) == has(self.audiences)",
            message="`validIssuerUri`, `jwksEndpointUri` and `audiences` must be set together: a token is judged by all"
            " of them",
            holds=lambda oauth: (
                (oauth.valid_issuer_uri is None) == (oauth.jwks_endpoint_uri is None) == (oauth.audiences is None)
            ),
        ),
        Rule(
            cel="!has(self.trustedSecretName) || has(self.jwksEndpointUri)",
            message="`trustedSecretName` may only be set beside `jwksEndpointUri`: it is for that address",
            holds=lambda oauth: oauth.trusted_secret_name is None or oauth.jwks_endpoint_uri is not None,
        ),
    )

    valid_issuer_uri: str | None = spec_field(
        _words(1000, "the issuer"), "`iss` of tokens, character by character as the provider writes it."
    )
    jwks_endpoint_uri: str | None = spec_field(
        Text(
            max_length=1000,
            min_length=9,
            pattern=r"^https://[^\s]+$",
            pattern_text="must begin with https://, and hold no blanks",
        ),
        "Where the provider's keys are. The coordinators fetch them, so their pods must reach it.",
    )
    audiences: tuple[str, ...] | None = spec_field(
        ListOf(
            items=Text(
                max_length=255, min_length=1, pattern=r"^[^\s,]+$", pattern_text="must hold no blanks and no commas"
            ),
            min_items=1,
            max_items=AUDIENCES_MAX,
            unique=True,
        ),
        "`aud` of tokens names one of these.",
    )
    trusted_secret_name: str | None = spec_field(
        NAME,
        "Secret with `ca.crt`: the CAs of the provider's certificate. Absent: those of the image's system. A change of"
        " it is taken up without a restart.",
    )
    user_name_claim: str = spec_field(
        _words(255, "the name of a claim"), "The claim that is the user, in ACLs `User:` and its value.", default="sub"
    )
    clock_skew_seconds: int = spec_field(
        Integer(low=0, high=60), "How far the clocks of coordinators and provider may differ.", default=30
    )
    jwks_refresh_seconds: int = spec_field(
        Integer(low=10, high=86_400),
        "How often the keys are fetched; also when a token names one that is not known.",
        default=3600,
    )


def _by_tokens(spec: Any) -> bool:  # noqa: ANN401  # a ClusterSpec, whose module imports this one
    return any(one.authenticates_by == OAUTHBEARER for one in spec.listeners)


def _by_password(spec: Any) -> bool:  # noqa: ANN401  # likewise
    return any(one.authenticates_by in SCRAM for one in spec.internal_listeners)


_NO_TOKENS: Final = (
    "!has(self.listeners) || !self.listeners.exists(one, has(one.authentication)"
    f" && one.authentication.type == '{OAUTHBEARER}')"
)
SPEC_RULES: Final[tuple[Rule, ...]] = (
    Rule(
        cel=f"{_NO_TOKENS} || (has(self.oauth) && has(self.oauth.jwksEndpointUri))"
        " || (has(self.topics) && has(self.topics.kafka) && has(self.topics.kafka.passLoginsOn)"
        " && self.topics.kafka.passLoginsOn)",
        message="`oauth` with `jwksEndpointUri` must be set beside a listener of type `oauthbearer`: it says whose"
        " tokens are taken",
        holds=lambda spec: (
            not _by_tokens(spec)
            or (spec.oauth is not None and spec.oauth.jwks_endpoint_uri is not None)
            or spec.passes_logins_on is not None
        ),
    ),
    Rule(
        cel=f"{_NO_TOKENS} || self.listeners.exists(one, one.type == 'internal' && has(one.authentication)"
        " && one.authentication.type.startsWith('scram'))",
        message="an internal listener with SCRAM must be beside one of type `oauthbearer`: the operator logs in there,"
        " because nobody gives it a token",
        holds=lambda spec: not _by_tokens(spec) or _by_password(spec),
    ),
    Rule(
        cel=f"!has(self.oauth) || !has(self.config) || self.config.all(key, !key.startsWith('{PREFIX}')"
        f" && !key.startsWith('muster.{PREFIX}'))",
        message=f"settings with `{PREFIX}` may not be in `config` beside `oauth`, which writes them",
        holds=lambda spec: (
            spec.oauth is None or not any(key.removeprefix("muster.").startswith(PREFIX) for key in spec.config)
        ),
    ),
)
"""Rules of the whole spec."""
