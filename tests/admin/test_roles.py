"""Who may call which path: role × route, row by row; certificates and tokens of an identity provider give roles; every
change leaves one line of the audit, and nobody learns more than yes or no.

The table here is written by hand: the routes' own roles are held against it, and so is the page.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, TCPConnector
from aiohttp.client_exceptions import ClientConnectionError
from aiohttp.test_utils import make_mocked_request
from muster_coordinator.admin.access import Access, OidcRoles
from muster_coordinator.admin.api import AdminApi
from muster_coordinator.admin.auth import TokenFile
from muster_coordinator.admin.drain import Drain
from muster_coordinator.admin.routes import RouteTable
from muster_coordinator.events import AUDITED, AUTHENTICATION_FAILED, Event
from muster_coordinator.runtime.http_listener import HttpListener
from muster_coordinator.runtime.log_levels import LogLevels
from muster_coordinator.runtime.loop import AsyncLoop
from muster_coordinator.runtime.tls_files import subject_of
from muster_coordinator.runtime.tls_store import TlsStore
from muster_coordinator.security.oauth import Keys, TokenJudge
from muster_coordinator.security.principal_mapping import principal_rules
from muster_coordinator.security.roles import Role, parse_roles, parse_roles_of_users
from muster_coordinator.security.tls_config import ClientAuth

from tests.admin.fake_replica import FakeReplica
from tests.certificates import Authority, Issued, tls_config
from tests.security.test_oauth import EC_KEY, KEYS, NOW, OTHER_KEY, RULES, hs_with_public_key, token

PAGE = Path(__file__).resolve().parents[2] / "docs" / "admin-api.md"
TABLE = {
    "GET /v1/status": Role.VIEWER,
    "GET /v1/partitions": Role.VIEWER,
    "GET /v1/groups/{group}": Role.VIEWER,
    "GET /v1/stopped-entries": Role.VIEWER,
    "GET /v1/balancer": Role.VIEWER,
    "GET /v1/replication-factor": Role.VIEWER,
    "GET /v1/log-levels": Role.VIEWER,
    "POST /v1/drain": Role.OPERATOR,
    "POST /v1/undrain": Role.OPERATOR,
    "POST /v1/transfer": Role.OPERATOR,
    "POST /v1/balancer": Role.OPERATOR,
    "POST /v1/replicas/{broker}/decommission": Role.OPERATOR,
    "PUT /v1/log-levels": Role.OPERATOR,
    "GET /v1/stopped-entries/{group}": Role.ADMIN,
    "POST /v1/skip": Role.ADMIN,
    "POST /v1/replicas/{broker}/replace": Role.ADMIN,
    "POST /v1/controller/voters": Role.ADMIN,
    "POST /v1/users/{name}/scram": Role.ADMIN,
    "POST /v1/replication-factor": Role.ADMIN,
}
ROOT = Authority()
SERVER = ROOT.issue("server", ("127.0.0.1",))
CANARY = "canary"
Answer = tuple[int, Mapping[str, Any]]


class TokenKeys:
    """`security.oauth.KeySource`: what a fetch brings, or that it brings nothing."""

    def __init__(self, known: Keys, fetched: Keys | None) -> None:
        self._known = known
        self._fetched = fetched
        self.fetches = 0

    def keys(self) -> Keys:
        return self._known

    def refresh(self, done: Callable[[bool], None]) -> None:
        self.fetches += 1
        if self._fetched is not None:
            self._known = self._fetched
        done(self._fetched is not None)


class TokenLoop(AsyncLoop):
    """Its wall clock stands where the tokens' does."""

    def wall_ms(self) -> int:
        return NOW * 1_000


class Served:
    """The admin API of a replica on a port."""

    port: int

    def __init__(self, loop: AsyncLoop, access: Access, tls: TlsStore | None = None, **how: int) -> None:
        self.replica = FakeReplica(loop)
        self.told: list[Event] = []
        self.noticed: list[str] = []
        self.tls = tls
        self.api = AdminApi(
            self.replica, Drain(self.replica), access, LogLevels("info"), version="1", tell=self.told.append
        )
        self.listener = HttpListener(
            self.api.application(), name="admin", notice=lambda _, why, __: self.noticed.append(str(why["why"])),
            tls=tls, **how,
        )  # fmt: skip

    async def ask(
        self, method: str, path: str, *, bearer: str | None = None, header: str | None = None,
        context: ssl.SSLContext | None = None, body: Any = None,
    ) -> Answer:  # fmt: skip
        given = f"Bearer {bearer}" if bearer is not None else header
        headers = {} if given is None else {"Authorization": given}
        scheme = "http" if context is None else "https"
        connector = TCPConnector(force_close=True, ssl=context or True)
        async with (
            ClientSession(connector=connector) as session,
            session.request(method, f"{scheme}://127.0.0.1:{self.port}{path}", headers=headers, json=body) as answer,
        ):
            told = await answer.json() if answer.content_type == "application/json" and method != "HEAD" else {}
            return answer.status, told

    def audit(self) -> list[tuple[object, object, object]]:
        """(who, what, result), each line whole."""
        lines = [event.fields for event in self.told if event.kind is AUDITED]
        assert all(line["peer"] == "127.0.0.1" and line["listener"] == "admin" for line in lines)
        return [(line["principal"], line["action"], line["result"]) for line in lines]

    def failures(self) -> list[str]:
        return [str(event.fields["why"]) for event in self.told if event.kind is AUTHENTICATION_FAILED]


def run(make: Callable[[AsyncLoop], Served], body: Callable[[Served], Awaitable[None]]) -> None:
    fatal: list[BaseException] = []

    async def main() -> None:
        loop = TokenLoop(asyncio.get_running_loop(), on_fatal=lambda error, _: fatal.append(error))
        served = make(loop)
        served.port = await served.listener.listen("127.0.0.1", 0)
        try:
            async with asyncio.timeout(50):
                await body(served)
        finally:
            await served.listener.close()
            if served.tls is not None:
                served.tls.stop()
            loop.close()

    asyncio.run(main())
    assert not fatal


def with_tokens(folder: Path) -> Callable[[AsyncLoop], Served]:
    """A token of each role, whose text is `canary-ROLE`."""

    def make(loop: AsyncLoop) -> Served:
        files = []
        for role in Role:
            path = folder / str(role)
            path.write_text(f"{CANARY}-{role}\n")
            files.append((role, TokenFile(path, loop)))
        return Served(loop, Access(tokens=files, clock=loop))

    return make


def concrete(route: str) -> tuple[str, str]:
    """A request of this route that does no more than it must: its body is none that a change would be made of."""
    method, _, path = route.partition(" ")
    return method, path.replace("{group}", "7").replace("{broker}", "1").replace("{name}", "alice")


@pytest.mark.parametrize("route", TABLE)
def test_each_route_for_each_role(tmp_path: Path, route: str) -> None:
    method, path = concrete(route)
    changes = method != "GET"

    async def body(served: Served) -> None:
        status, told = await served.ask(method, path)
        assert (status, told["message"]) == (401, "a bearer token is needed")
        for role in Role:
            before = len(served.audit())
            status, told = await served.ask(method, path, bearer=f"{CANARY}-{role}")
            if role >= TABLE[route]:
                assert status not in (401, 403), told
            else:
                assert (status, told["error"]) == (403, "forbidden")
                said = f"this needs the role {TABLE[route]}, and the caller's is {role}"
                assert told["message"] == said
            lines = served.audit()[before:]
            result = "done" if status < 400 else str(status)
            assert lines == ([(f"{role} token", f"{method} {path}", result)] if changes else [])
        assert served.audit()[:1] == ([("unknown", f"{method} {path}", "401")] if changes else [])
        assert CANARY not in str(served.told)

    run(with_tokens(tmp_path), body)


def test_the_table_is_that_of_the_routes_and_that_of_the_page(tmp_path: Path) -> None:
    async def body(served: Served) -> None:
        routes = {f"{one.method} {one.path}": one.needs for one in served.api.routes()}
        spelled = {route.replace(":.+", "").replace(":[0-9]{1,9}", ""): role for route, role in routes.items()}
        assert spelled == TABLE
        app = served.api.application()
        registered = {one for one in app.router.routes() if one.method != "HEAD"}
        assert len(registered) == len(TABLE), "nothing is served that is not in the table"

    run(with_tokens(tmp_path), body)
    rows = [line.strip("| \n").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    page = {row[0].strip("`"): row[1] for row in rows if " /v1/" in row[0] and len(row) == 2}
    assert page == {route: str(role) for route, role in TABLE.items()}


def test_who_looks_may_ask_for_the_head_alone_and_nobody_is_told_paths_before_he_is_known(tmp_path: Path) -> None:
    async def body(served: Served) -> None:
        assert (await served.ask("HEAD", "/v1/status", bearer=f"{CANARY}-viewer"))[0] == 200
        assert (await served.ask("HEAD", "/v1/stopped-entries/7", bearer=f"{CANARY}-operator"))[0] == 403
        for path in ("/v1/nowhere", "/v1/status", "/"):
            assert (await served.ask("GET", path, bearer="wrong"))[0] == 401
        assert (await served.ask("GET", "/v1/nowhere", bearer=f"{CANARY}-viewer"))[0] == 404
        assert (await served.ask("DELETE", "/v1/status", bearer=f"{CANARY}-viewer"))[0] == 405
        assert served.audit() == [("viewer token", "DELETE /v1/status", "405")]

    run(with_tokens(tmp_path), body)


def test_a_route_that_is_in_no_table_is_for_administrators(tmp_path: Path) -> None:
    async def body(served: Served) -> None:
        app = served.api.application()
        table = RouteTable(app, ())
        app.router.add_get("/v1/new", served.api.status)

        asked = make_mocked_request("GET", "/v1/new")
        asked._match_info = await app.router.resolve(asked)
        assert table.needs(asked) is Role.ADMIN

    run(with_tokens(tmp_path), body)


def test_a_change_that_is_given_up_leaves_its_line(tmp_path: Path) -> None:
    """Its answer is not sent in time, and whether it was made is not known."""

    def make(loop: AsyncLoop) -> Served:
        served = with_tokens(tmp_path)(loop)
        return Served(loop, served.api._access, request_ms=50)

    async def body(served: Served) -> None:
        served.replica.controller_answers = False  # and is asked for longer than that
        asked = ("POST", "/v1/balancer")
        answer = await served.ask(*asked, bearer=f"{CANARY}-operator", body={"paused": True})
        assert answer == (408, {})
        assert served.audit() == [("operator token", "POST /v1/balancer", "unknown")]

    run(make, body)


# -- tokens of an identity provider --------------------------------------------------------------------------------

OIDC_ROLES = parse_roles("admin=cluster-admins; operator=sre;viewer=everybody")
USERS = parse_roles_of_users("operator=User:alice;admin=User:CN=ann,O=Example;viewer=User:CN=bob")


def with_provider(
    keys: TokenKeys, *, claim: str = "roles", users: Mapping[str, Role] | None = None
) -> Callable[[AsyncLoop], Served]:
    def make(loop: AsyncLoop) -> Served:
        oidc = OidcRoles(judge=TokenJudge(RULES, keys), claim=claim, given=OIDC_ROLES)
        return Served(loop, Access(tokens=(), clock=loop, users=users or {}, oidc=oidc))

    return make


@pytest.mark.parametrize(
    ("claim", "claims", "role"),
    [
        ("roles", {"roles": ["x", "sre", "everybody"]}, Role.OPERATOR),
        ("roles", {"roles": "everybody cluster-admins"}, Role.ADMIN),
        ("scope", {"scope": "openid everybody"}, Role.VIEWER),
        ("realm_access.roles", {"realm_access": {"roles": ["sre"]}}, Role.OPERATOR),
        ("https://x.y/roles", {"https://x.y/roles": ["sre"]}, Role.OPERATOR),
        ("roles", {"roles": ["SRE", 7, None, ["sre"], {"sre": 1}]}, None),
        ("roles", {"roles": {"sre": True}}, None),
        ("roles", {"realm_access": {"roles": ["sre"]}}, None),
        ("roles", {"roles": ["x"] * 1_000 + ["sre"]}, None),
        ("roles", {}, None),
        ("a.b.c", {"a": {"b": 7}}, None),
    ],
)
def test_a_token_of_the_provider_gives_the_highest_role_that_its_claim_names(
    claim: str, claims: Mapping[str, Any], role: Role | None
) -> None:
    async def body(served: Served) -> None:
        made = token(**claims)
        for route, needs in (("GET /v1/status", Role.VIEWER), ("POST /v1/drain", Role.OPERATOR)):
            status, _ = await served.ask(*concrete(route), bearer=made)
            assert status == (403 if role is None or role < needs else 202 if needs is Role.OPERATOR else 200)
        result = "done" if role is not None and role >= Role.OPERATOR else "403"
        assert served.audit() == [("User:alice", "POST /v1/drain", result)]

    run(with_provider(TokenKeys(KEYS, None), claim=claim), body)


def test_the_subject_of_a_token_may_have_a_role_itself() -> None:
    async def body(served: Served) -> None:
        assert (await served.ask("POST", "/v1/drain", bearer=token()))[0] == 202
        status, told = await served.ask("POST", "/v1/drain", bearer=token(sub="mallory"))
        assert (status, told["message"]) == (403, "no role is given to this caller")
        assert [line[0] for line in served.audit()] == ["User:alice", "User:mallory"]

    run(with_provider(TokenKeys(KEYS, None), users=USERS), body)


@pytest.mark.parametrize(
    "made",
    [
        token(OTHER_KEY, roles=["cluster-admins"]), token(exp=NOW - 31, roles=["cluster-admins"]),
        token(aud="another", roles=["cluster-admins"]), token(iss="https://else", roles=["cluster-admins"]),
        token(EC_KEY, "ES256", "rsa", roles=["cluster-admins"]), token(nbf=NOW + 60), token(sub=7),
        hs_with_public_key(), "eyJhbGciOiJub25lIn0.e30.AAAA", "eyJhbGciOiJub25lIn0.e30.", "..", "a.b", "a" * 7_000,
        "canary.canary.canary",
    ],
)  # fmt: skip
def test_what_is_no_token_of_the_provider_is_answered_the_same(made: str) -> None:
    keys = TokenKeys(KEYS, KEYS)

    async def body(served: Served) -> None:
        status, told = await served.ask("POST", "/v1/drain", bearer=made)
        assert (status, told) == (401, {"error": "unauthorized", "message": "a bearer token is needed"})
        assert served.audit() == [("unknown", "POST /v1/drain", "401")]
        assert len(served.failures()) == 1
        assert CANARY not in str(served.told)
        assert made not in str(served.told)

    run(with_provider(keys), body)


def test_a_key_that_is_not_known_is_fetched_and_nobody_is_refused_while_none_can_be_had() -> None:
    good = token(roles=["sre"])

    async def fetched(served: Served) -> None:
        assert (await served.ask("POST", "/v1/drain", bearer=good))[0] == 202

    keys = TokenKeys({}, KEYS)
    run(with_provider(keys), fetched)
    assert keys.fetches == 1

    async def nothing(served: Served) -> None:
        status, told = await served.ask("POST", "/v1/drain", bearer=good)
        assert (status, told["error"]) == (503, "not_known")
        assert served.audit() == [("unknown", "POST /v1/drain", "503")]
        assert served.failures() == []

    run(with_provider(TokenKeys({}, None)), nothing)

    async def still_unknown(served: Served) -> None:
        assert (await served.ask("GET", "/v1/status", bearer=good))[0] == 401

    run(with_provider(TokenKeys({}, {})), still_unknown)


# -- certificates --------------------------------------------------------------------------------------------------


def with_certificates(folder: Path, auth: ClientAuth = ClientAuth.REQUESTED) -> Callable[[AsyncLoop], Served]:
    SERVER.write(folder)
    (folder / "token").write_text(f"{CANARY}-admin")
    rules = principal_rules("DEFAULT")

    def make(loop: AsyncLoop) -> Served:
        config = tls_config(
            keystore_chain=str(folder / "tls.crt"), keystore_key=str(folder / "tls.key"),
            truststore_certificates=ROOT.pem, client_auth=auth,
        )  # fmt: skip
        store = TlsStore(RealTime(loop.asyncio_loop), config, name="admin", hosts=("127.0.0.1",), tell=lambda _: None)
        store.load()
        access = Access(
            tokens=[(Role.ADMIN, TokenFile(folder / "token", loop))],
            clock=loop,
            users=USERS,
            user_of_certificate=lambda der: rules.user(subject_of(der)),
        )
        return Served(loop, access, store, head_ms=2_000, connections_max=4)

    return make


class RealTime(AsyncLoop):
    """For certificates, which are valid now."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop, on_fatal=lambda error, _: None)


def shows(issued: Issued | None, folder: Path, trusts: str = ROOT.pem) -> ssl.SSLContext:
    """A client that verifies chain and name, and shows this certificate."""
    context = ssl.create_default_context(cadata=trusts)
    if issued is not None:
        crt, key = issued.write(folder / "client")
        context.load_cert_chain(crt, key)
    return context


def person(common_name: str, organization: str = "") -> Issued:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return ROOT.issue(subject=x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)]), hosts=())


def test_a_certificate_is_a_user_with_a_role_and_a_header_goes_before_it(tmp_path: Path) -> None:
    async def body(served: Served) -> None:
        ann, bob, eve = person("ann", "Example"), person("bob"), person("eve")
        drain = ("POST", "/v1/drain")
        assert (await served.ask(*drain, context=shows(ann, tmp_path)))[0] == 202
        assert (await served.ask(*drain, context=shows(bob, tmp_path)))[0] == 403
        assert (await served.ask("GET", "/v1/status", context=shows(bob, tmp_path)))[0] == 200
        assert (await served.ask("GET", "/v1/status", context=shows(eve, tmp_path)))[0] == 403
        status, told = await served.ask("GET", "/v1/status", context=shows(None, tmp_path))
        assert (status, told["message"]) == (401, "a bearer token or a client certificate is needed")
        assert (await served.ask(*drain, context=shows(ann, tmp_path), bearer="wrong"))[0] == 401
        assert (await served.ask(*drain, context=shows(None, tmp_path), bearer=f"{CANARY}-admin"))[0] == 202
        assert served.audit() == [
            ("User:CN=ann,O=Example", "POST /v1/drain", "done"),
            ("User:CN=bob", "POST /v1/drain", "403"),
            ("unknown", "POST /v1/drain", "401"),
            ("admin token", "POST /v1/drain", "done"),
        ]

    run(with_certificates(tmp_path), body)


def test_who_is_not_trusted_or_speaks_no_tls_does_not_get_in(tmp_path: Path) -> None:
    async def body(served: Served) -> None:
        foreign = Authority("Another").issue("ann", hosts=())
        with pytest.raises(ClientConnectionError):
            await served.ask("GET", "/v1/status", context=shows(foreign, tmp_path))
        with pytest.raises(ClientConnectionError):
            await served.ask("GET", "/v1/status", bearer=f"{CANARY}-admin")
        with pytest.raises(ClientConnectionError):
            await served.ask("GET", "/v1/status", context=shows(None, tmp_path, Authority("Another").pem))
        assert served.told == []
        assert any("the certificate is not trusted" in why for why in served.noticed)
        assert "the other side does not speak TLS" in served.noticed

    run(with_certificates(tmp_path), body)


def test_strangers_in_their_handshake_keep_nobody_out(tmp_path: Path) -> None:
    """Twice as many as there may be connections, which send nothing."""

    async def body(served: Served) -> None:
        held = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(8)]
        try:
            status, _ = await served.ask("GET", "/v1/status", context=shows(None, tmp_path), bearer=f"{CANARY}-admin")
            assert status == 200
            assert sum("this is the oldest" in why for why in served.noticed) >= 4
        finally:
            for _, writer in held:
                writer.close()

    run(with_certificates(tmp_path), body)


def test_a_required_certificate_is_required(tmp_path: Path) -> None:
    async def body(served: Served) -> None:
        with pytest.raises(ClientConnectionError):
            await served.ask("GET", "/v1/status", context=shows(None, tmp_path), bearer=f"{CANARY}-admin")
        assert (await served.ask("GET", "/v1/status", context=shows(person("bob"), tmp_path)))[0] == 200

    run(with_certificates(tmp_path, ClientAuth.REQUIRED), body)
