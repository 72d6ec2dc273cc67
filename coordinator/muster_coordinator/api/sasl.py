"""SaslHandshake and SaslAuthenticate: who a client is (decision 11, ADR 52).

On a listener that asks nobody, both are answered 34, as on Kafka's PLAINTEXT listener, and for two more reasons: a
client that is configured with a password gets an answer that says so, not a closed connection; and tools that infer a
broker's release from its list of APIs would take one without SaslHandshake for a 0.9.

On one that asks, `security.session` judges each message. What fails is answered after a time that varies, so that
nothing can be told from it and guessing is slow, and the connection is closed then. A user that is not known here, or
whose password seems wrong, is only refused once the controller's leader has confirmed that this replica is not behind:
clients give up for good when they are refused. If that shows something new, or cannot be had, the connection is closed
without an answer, and the client tries again. Version 0 of the handshake is followed by bare messages
(`wire.connection`).

On a listener whose clients another server judges (ADR 100), each message goes there (`wire.passage`), and its verdict
is told as one of our own. While that server cannot be asked, the connection ends without an answer.

What this does not do: know passwords (`controller.scram_credentials`), or right (`api.authorize`).
"""

from collections import Counter
from collections.abc import Callable, Mapping

from muster_coordinator.api.limits import SASL_FAILURE_MS_MAX, SASL_FAILURE_MS_MIN
from muster_coordinator.api.services import Services
from muster_coordinator.context import RequestContext
from muster_coordinator.controller.scram_credentials import Users, credential_in, shapes_of
from muster_coordinator.errors import Code
from muster_coordinator.events import AUTHENTICATION_FAILED, Event, Tell, untold
from muster_coordinator.ports import Rand
from muster_coordinator.security.limits import NONCE_BYTES, SCRAM_SECRET_BYTES
from muster_coordinator.security.oauth import INVALID_TOKEN, OAuthServer, TokenJudge
from muster_coordinator.security.outcome import Accepted, Challenge, Elsewhere, Judged, KeyMissing, Outcome, Refused
from muster_coordinator.security.passed_on import PassedOn
from muster_coordinator.security.plain import PlainServer
from muster_coordinator.security.scram import ScramCredential, ScramMechanism, ScramServer, Shape
from muster_coordinator.security.session import OAUTHBEARER, PLAIN, Mechanism, Refusal, SaslSession, session_lifetime_ms
from muster_coordinator.wire.exchange import CLOSE, Exchange
from muster_coordinator.wire.schema import Value

SCRAM = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}
USER_CHARS_TOLD_MAX = 255
_NOT_ASKED = "this listener requires no authentication"
_CODES = {
    Refusal.UNSUPPORTED: Code.UNSUPPORTED_SASL_MECHANISM,
    Refusal.OTHER_MECHANISM: Code.UNSUPPORTED_SASL_MECHANISM,
    Refusal.OUT_OF_ORDER: Code.ILLEGAL_SASL_STATE,
}


class Sasl:
    """Handlers of both; they need no right. `rand` must be one that nobody can predict."""

    def __init__(self, services: Services, rand: Rand, tell: Tell = untold, tokens: TokenJudge | None = None) -> None:
        self._tokens = tokens
        self._surface = services.surface
        self._rand = rand
        self._tell = tell
        self._secret = rand.randbytes(SCRAM_SECRET_BYTES)
        """While the cluster has none, and so no users."""
        self._shaped: Users = {}
        self._shapes = shapes_of(self._shaped)
        """Of the users in `_shaped`."""
        self.counts: Counter[tuple[str, str, str]] = Counter()
        """By listener, mechanism, and `successful`, `failed`, `successful again` or `failed again`."""

    def handshake(self, context: RequestContext, version: int, request: Value, reply: Exchange) -> None:
        """SaslHandshake v0-1."""
        session = reply.sasl
        if session is None:
            reply({"error_code": Code.ILLEGAL_SASL_STATE, "mechanisms": ()})
            return
        known = request.mechanism in session.listener.mechanisms
        bare_again = version == 0 and session.again
        refusal = (
            Refusal.OUT_OF_ORDER
            if bare_again
            else session.handshake(request.mechanism, self._surface.loop.monotonic_ms(), self._exchange_of(session))
        )
        if refusal is None:
            if version == 0:
                reply.tokens_follow()
            reply({"error_code": Code.NONE, "mechanisms": session.listener.mechanisms})
            return
        answer = {"error_code": _CODES[refusal], "mechanisms": session.listener.mechanisms}
        mechanism = request.mechanism if known else ""
        self._fail(context, session, mechanism, Refused(refusal.value), lambda: reply.last(answer, "SASL: refused"))

    def authenticate(self, context: RequestContext, _version: int, request: Value, reply: Exchange) -> None:
        """SaslAuthenticate v0-2, and a bare message."""
        session = reply.sasl
        if session is None:
            reply(_answer(Code.ILLEGAL_SASL_STATE, _NOT_ASKED))
            return
        self._step(context, session, request, reply)

    def _step(
        self, context: RequestContext, session: SaslSession, request: Value, reply: Exchange, *, fetched: bool = False
    ) -> None:
        again, used = session.again, session.mechanism
        outcome = session.step(bytes(request.auth_bytes))
        if isinstance(outcome, KeyMissing) and fetched:
            why = Refused("a token that is signed by a key that is not known", told=INVALID_TOKEN.decode())
            self._refuse(context, session, why, reply)
        elif isinstance(outcome, KeyMissing):
            self._fetch_keys(context, session, request, reply)
        elif isinstance(outcome, Elsewhere):
            self._ask_elsewhere(context, session, outcome, reply, again=again)
        elif outcome is not None:
            self._tell_outcome(context, session, outcome, reply, again=again)
        else:
            said = "Unexpected Kafka request of type SASL_AUTHENTICATE during SASL handshake."
            last = _answer(Code.ILLEGAL_SASL_STATE, said)
            why = Refused("a message before the handshake")
            self._fail(context, session, used, why, lambda: reply.last(last, "SASL: refused"))

    def _tell_outcome(
        self, context: RequestContext, session: SaslSession, outcome: Outcome, reply: Exchange, *, again: bool
    ) -> None:
        if isinstance(outcome, Challenge):
            reply(_answer(Code.NONE, None, outcome.message))
        elif isinstance(outcome, Accepted):
            self._accept(context, session, outcome, reply, again=again)
        elif isinstance(outcome, Refused):
            self._refuse(context, session, outcome, reply)

    def _ask_elsewhere(
        self, context: RequestContext, session: SaslSession, message: Elsewhere, reply: Exchange, *, again: bool
    ) -> None:
        """Tell the client what the server behind this one says."""

        def judged(said: Judged) -> None:
            outcome = session.judged(said, self._surface.loop.wall_ms())
            if outcome is None:  # The client sent more meanwhile, out of its turn, and was refused.
                reply(CLOSE)
            else:
                self._tell_outcome(context, session, outcome, reply, again=again)

        if not reply.log_in_elsewhere(session.mechanism, message, judged):
            reply(CLOSE)

    def _fetch_keys(self, context: RequestContext, session: SaslSession, request: Value, reply: Exchange) -> None:
        """Judge the message again by new keys. Without any the connection is closed, and the client tries again."""
        tokens = self._tokens
        if tokens is None:  # only they ask for keys
            reply(CLOSE)
            return

        def fetched(there: bool) -> None:
            if there:
                self._step(context, session, request, reply, fetched=True)
            else:
                self._later(lambda: reply(CLOSE))

        tokens.source.refresh(fetched)

    # -- outcomes

    def _accept(
        self, context: RequestContext, session: SaslSession, outcome: Accepted, reply: Exchange, *, again: bool
    ) -> None:
        loop = self._surface.loop
        lifetime_ms = session_lifetime_ms(
            session.listener.reauth_ms.get(session.mechanism, 0), outcome.expires_ms, loop.wall_ms()
        )
        ends_ms = loop.monotonic_ms() + lifetime_ms if lifetime_ms else None
        reply.authenticated(f"User:{outcome.user}", ends_ms)
        self.counts[context.listener, session.mechanism, "successful again" if again else "successful"] += 1
        reply(_answer(Code.NONE, None, outcome.message, lifetime_ms))

    def _refuse(self, context: RequestContext, session: SaslSession, outcome: Refused, reply: Exchange) -> None:
        during = "re-authentication" if session.again else "authentication"
        told = outcome.told or (
            f"Authentication failed during {during} due to invalid credentials with SASL mechanism {session.mechanism}"
        )
        last = _answer(Code.SASL_AUTHENTICATION_FAILED, told)

        def fail() -> None:
            self._fail(context, session, session.mechanism, outcome, lambda: reply.last(last, "SASL: refused"))

        if not outcome.doubtful:
            fail()
            return
        mechanism = SCRAM[session.mechanism]

        def current(shown: bool) -> None:
            if shown and self._credential(outcome.user, mechanism) == outcome.judged_by:
                fail()
            else:
                # The client comes again, and is judged by what is known then.
                self._later(lambda: reply(CLOSE))

        self._surface.when_topics_current(current)

    def _fail(
        self, context: RequestContext, session: SaslSession, mechanism: str, why: Refused, answer: Callable[[], None]
    ) -> None:
        self.counts[context.listener, mechanism, "failed again" if session.again else "failed"] += 1
        user = why.user[:USER_CHARS_TOLD_MAX]
        event = Event(
            AUTHENTICATION_FAILED,
            {
                "listener": context.listener,
                "peer": context.client_host,
                "mechanism": mechanism,
                "user": user,
                "why": why.why,
            },
        )
        self._tell(event)
        self._later(answer)

    def _later(self, call: Callable[[], None]) -> None:
        delay_ms = self._rand.randrange(SASL_FAILURE_MS_MIN, SASL_FAILURE_MS_MAX + 1)
        self._surface.loop.call_at(self._surface.loop.monotonic_ms() + delay_ms, call)

    # -- exchanges

    def _exchange_of(self, session: SaslSession) -> Callable[[str], Mechanism]:
        def make(name: str) -> Mechanism:
            if session.listener.elsewhere:
                return PassedOn(name, session.listener.subject_claim)
            if name == PLAIN:
                return PlainServer(session.listener.plain_users)
            if name == OAUTHBEARER and self._tokens is not None:
                return OAuthServer(self._tokens.source.keys, self._tokens.rules, self._surface.loop.wall_ms)
            mechanism = SCRAM[name]
            nonce = self._rand.randbytes(NONCE_BYTES).hex()
            image = self._surface.image()
            secret = image.scram_secret if image is not None and image.scram_secret else self._secret
            shapes = self._shapes_now()[mechanism]
            return ScramServer(mechanism, lambda user: self._credential(user, mechanism), nonce, secret, shapes)

        return make

    def _shapes_now(self) -> Mapping[ScramMechanism, tuple[Shape, ...]]:
        image = self._surface.image()
        if image is not None and image.scram_users is not self._shaped:
            self._shaped, self._shapes = image.scram_users, shapes_of(image.scram_users)
        return self._shapes

    def _credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        image = self._surface.image()
        return None if image is None else credential_in(image.scram_users, user, mechanism)

    def holds(self, session: SaslSession) -> bool:
        """Is the user that the client has shown to be still one? Users of a configuration file are while the process
        runs, and those of another server until it ends their sessions."""
        mechanism = SCRAM.get(session.mechanism)
        if mechanism is None or session.user is None or session.listener.elsewhere:
            return True
        known = self._credential(session.user, mechanism)
        return known is not None and known.since == session.since


def _answer(code: Code, message: str | None, data: bytes = b"", lifetime_ms: int = 0) -> dict[str, Value]:
    return {"error_code": code, "error_message": message, "auth_bytes": data, "session_lifetime_ms": lifetime_ms}
