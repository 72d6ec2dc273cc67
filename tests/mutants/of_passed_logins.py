"""Mutants of clients' own logins at an existing Kafka, and of rights that are its; `of_rules` has them all."""

from tests.mutants.rule_mutant import one

_PASSED_ON = "security.test_passed_on."

PASSED_LOGIN_MUTANTS = (
    one(
        "whom the existing Kafka refuses is who he says",
        "security.passed_on",
        "        if said.refused:\n",
        "        if said.refused and not self._user:\n",
        _PASSED_ON + "test_who_is_refused_there_is_nobody_here",
    ),
    one(
        "a success without a verifier confirms its client",
        "security.passed_on",
        "        if not self._confirms(said.message):\n",
        "        if False:\n",
        _PASSED_ON + "test_a_success_without_a_verifier_confirms_nobody",
    ),
    one(
        "whatever is said after a token was not taken is a yes",
        "security.passed_on",
        "            return self._sent == _MESSAGES[OAUTHBEARER]\n",
        "            return True\n",
        "security.test_passed_token.test_nothing_that_follows_such_a_challenge_is_a_yes",
    ),
    one(
        "of a claim that comes twice the last one is the user",
        "security.passed_token",
        "    if len(found) < len(pairs):\n",
        "    if False:\n",
        "security.test_passed_token.test_a_token_that_names_nobody_or_two_goes_nowhere",
    ),
    one(
        "a message before the answer to the one before goes on",
        "security.passed_on",
        "        if self._asked:\n",
        "        if False:\n",
        _PASSED_ON + "test_what_is_said_late_is_nobodys",
    ),
    one(
        "a broker that cannot judge refuses",
        "upstream.passed_login",
        "        if answer.error_code == Code.SASL_AUTHENTICATION_FAILED:\n",
        "        if answer.error_code:\n",
        "upstream.test_passed_login.test_a_broker_that_cannot_judge_refuses_nobody",
    ),
    one(
        "an ACL of an unknown kind is passed over",
        "upstream.acls",
        "    if acl.pattern not in _PATTERNS or acl.permission not in _PERMISSIONS:\n",
        "    if acl.permission not in _PERMISSIONS:\n",
        "upstream.test_acls.test_a_pattern_that_is_not_understood_hides_no_other",
    ),
)
