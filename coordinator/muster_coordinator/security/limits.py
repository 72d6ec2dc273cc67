"""Limits of credentials, of the messages that authenticate, of ACLs and of quotas: all replicas have all of these in
memory."""

from muster_coordinator.limits import KIB

SCRAM_ITERATIONS_MIN = 4_096
SCRAM_ITERATIONS_MAX = 16_384
"""Kafka's bounds. Clients compute them; 16,384 of SHA-512 take 9 ms."""
SCRAM_SALT_BYTES_MAX = 128
"""Kafka's tools make 26 random characters or fewer; RFC 5802 has no bound."""
SCRAM_SALTED_PASSWORD_BYTES_MAX = 512
USER_NAME_BYTES_MAX = 255
SCRAM_USERS_MAX = 10_000
"""All of them are in the memory of every replica, some 600 bytes each, and in every checkpoint of the controller."""
SCRAM_SHAPES_MAX = 32
"""Pairs of iterations and length of a salt that users who do not exist are shown; tools have one each."""
SCRAM_SECRET_BYTES = 32
NONCE_BYTES = 24
"""Random bytes of a server's nonce, before base64."""
SCRAM_MESSAGE_BYTES_MAX = 4 * KIB
"""One message of SCRAM: a name of 255 bytes, escaped, and a nonce of any client take less."""
PLAIN_MESSAGE_BYTES_MAX = 4 * KIB
TOKEN_BYTES_MAX = 16 * KIB
"""One token of OAUTHBEARER; identity providers keep theirs below 8 KiB, what HTTP servers take as a header."""
SASL_REQUESTS_MAX = 10
"""Requests of a connection until it has authenticated: ApiVersions (twice, where the first asks for an unknown
version), SaslHandshake, and the messages of the mechanism, of which there are two at most."""
SESSION_REQUESTS_PAUSE_MS = 1_000
"""A client authenticates again once in this time at most (KIP-368)."""
CLOCK_SKEW_SECONDS_MAX = 60
TOKEN_MESSAGE_BYTES_MAX = TOKEN_BYTES_MAX + 4 * KIB
"""With the extensions of KIP-342, which are read over."""
JWKS_BYTES_MAX = 256 * KIB
JWKS_KEYS_MAX = 100

assert SCRAM_MESSAGE_BYTES_MAX > 3 * USER_NAME_BYTES_MAX
ACLS_MAX = 20_000
"""ACLs of a cluster. Kafka has no limit of its own; a checkpoint of these takes about 2 MB."""
ACL_TEXT_CHARS_MAX = 1_024
"""Characters of a name, principal or host in an ACL. Group ids may be longer, and then no LITERAL ACL names them, but
prefixes and `*` do."""
ACLS_OF_A_COMMAND_MAX = 1_000
ACLS_OF_A_COMMAND_BYTES_MAX = 128 * KIB
"""A longer request is several commands: each is one frame between brokers."""
ACLS_OF_A_REQUEST_MAX = 10_000
"""Kafka's MAX_RECORDS_PER_USER_OP: ACLs that one DeleteAcls may delete, and one CreateAcls create."""
QUOTA_ENTITIES_MAX = 10_000
"""Users, client ids, pairs of them and addresses that have quotas of their own."""
SUPER_USERS_MAX = 1_000

assert 4 * 3 * ACL_TEXT_CHARS_MAX + 32 < ACLS_OF_A_COMMAND_BYTES_MAX, "the longest ACL fits into a command"
ROLES_GIVEN_MAX = 1_000
"""Users, or values of a claim, that have a role in the admin API."""
CLAIM_VALUES_MAX = 1_000
"""Of one token, which are looked at; a token of 16 KiB can name more."""
