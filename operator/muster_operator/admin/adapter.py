"""`ports.Admin` over HTTP (docs/admin-api.md): bearer token, short time-outs, bounded bodies, a few 421 answers
followed.

A replica that does not answer is `Unknown`, never "down": the caller decides what that means. The token is never part
of a message, and HTTP redirects are not followed, since they would carry the token to an address that the operator did
not choose. A 421 answer names the coordinator by broker id; the request is then repeated at that pod's address as the
caller knows it, never at an address taken from an answer.
"""

import json
import ssl
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import aiohttp

from muster_operator.admin.decode import group_facts, moves_view, replica_view, replication_view
from muster_operator.errors import OperatorError, Refused, Transient
from muster_operator.limits import (
    ADMIN_BODY_BYTES_MAX,
    ADMIN_CONNECTIONS_MAX,
    ADMIN_REDIRECTS_MAX,
    ADMIN_REPLACE_TIMEOUT_S,
    ADMIN_TIMEOUT_S,
    ADMIN_TRUSTS_MAX,
    MESSAGE_CHARS_MAX,
)
from muster_operator.naming import ordinal_of
from muster_operator.world.admin_at import AdminAt
from muster_operator.world.cluster import MovesView, ReplicationView, ReplicaView
from muster_operator.world.group import GroupFacts
from muster_operator.world.views import Unknown

Json = Mapping[str, Any]


class AdminAdapter:
    """One HTTP session for all clusters; call `close` at the end."""

    def __init__(self, *, timeout_s: float = ADMIN_TIMEOUT_S) -> None:
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None
        self._trusts: dict[str, ssl.SSLContext] = {}

    async def replica(self, *, host: AdminAt, pod: str, token: str) -> ReplicaView | Unknown:
        """The state that `pod` at `host` reports of itself and of its Raft groups."""
        try:
            status = await self._wanted("GET", host, "/v1/status", token)
            partitions = await self._wanted("GET", host, "/v1/partitions", token)
        except OperatorError as error:
            return Unknown(reason=error.reason, message=f"{pod}: {error.message}")
        return replica_view(pod, ordinal_of(pod), status, partitions)

    async def drain(self, *, host: AdminAt, token: str) -> None:
        """Start handing leaderships over; a second call joins the drain in progress."""
        await self._wanted("POST", host, "/v1/drain", token)

    async def undrain(self, *, host: AdminAt, token: str) -> None:
        """End the drain: the replica may lead again."""
        await self._wanted("POST", host, "/v1/undrain", token)

    async def replace(self, *, hosts: Mapping[int, AdminAt], token: str, first: int, broker: int, folder: str) -> None:
        """Ask the controller's leader, wherever it is by now, to declare a data folder gone for good."""
        await self._at_leader(f"/v1/replicas/{broker}/replace", {"gone": folder}, hosts=hosts, token=token, first=first)

    async def raise_replication(self, *, hosts: Mapping[int, AdminAt], token: str, first: int, factor: int) -> None:
        """Ask the controller's leader, wherever it is by now, for so many replicas of every Raft group."""
        await self._at_leader("/v1/replication-factor", {"factor": factor}, hosts=hosts, token=token, first=first)

    async def _at_leader(self, path: str, body: Json, *, hosts: Mapping[int, AdminAt], token: str, first: int) -> None:
        """POST to the controller's leader; who is not it names another."""
        leader = first
        for _ in range(ADMIN_REDIRECTS_MAX):
            host = hosts.get(leader)
            if host is None:
                raise Transient("ReplicaUnreachable", f"coordinator {leader}, which leads the others, has no address")
            status, document = await self._ask("POST", host, path, token, body, ADMIN_REPLACE_TIMEOUT_S)
            if status == HTTPStatus.OK:
                return
            named = document.get("coordinator")
            if status != HTTPStatus.MISDIRECTED_REQUEST or not isinstance(named, int):
                raise _refusal(status, document, f"{path} at {host}")
            leader = named
        raise Transient("ReplicaNotReady", "the leadership of the controller group moves")

    async def decommission(self, *, hosts: Sequence[AdminAt], token: str, broker: int, departing: bool) -> None:
        """Any coordinator takes it: the first of `hosts` that answers."""
        path, body = f"/v1/replicas/{broker}/decommission", {"departing": departing}
        silent: Transient = Transient("ReplicaUnreachable", "no coordinator's address is known")
        for host in hosts:
            try:
                status, document = await self._ask("POST", host, path, token, body, ADMIN_REPLACE_TIMEOUT_S)
            except Transient as error:
                silent = error
                continue
            if status in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
                return
            raise _refusal(status, document, f"{path} at {host}")
        raise silent

    async def moves(self, *, host: AdminAt, token: str) -> MovesView | Unknown:
        """What is moved by itself, at the controller's leader."""
        try:
            return moves_view(await self._wanted("GET", host, "/v1/balancer", token))
        except OperatorError as error:
            return Unknown(reason=error.reason, message=error.message)

    async def replication(self, *, host: AdminAt, token: str) -> ReplicationView | Unknown:
        """How many replicas are wanted, and how far that is, by the controller's leader."""
        try:
            return replication_view(await self._wanted("GET", host, "/v1/replication-factor", token))
        except OperatorError as error:
            return Unknown(reason=error.reason, message=error.message)

    async def group_facts(self, *, hosts: Mapping[int, AdminAt], token: str, group_id: str) -> GroupFacts | Unknown:
        """Ask `hosts` (broker id → address) in turn until one coordinates the group or names the coordinator."""
        path = f"/v1/groups/{quote(group_id, safe='')}"
        last = Unknown(reason="NoReplicaAnswers", message="no replica's address is known")
        for first in hosts.values():
            host = first
            for _ in range(ADMIN_REDIRECTS_MAX):
                try:
                    status, document = await self._ask("GET", host, path, token)
                except OperatorError as error:
                    last = Unknown(reason=error.reason, message=error.message)
                    break
                if status == HTTPStatus.OK:
                    return group_facts(document)
                if status == HTTPStatus.NOT_FOUND:
                    return Unknown(reason="GroupNotFound", message=f"the coordinator knows no group {group_id}")
                named = document.get("coordinator")
                better = hosts.get(named) if isinstance(named, int) else None
                if status != HTTPStatus.MISDIRECTED_REQUEST or better is None or better == host:
                    last = Unknown(reason=f"Http{status}", message=f"{host}: {document.get('message', '')}"[:500])
                    break
                host = better
        return last

    async def close(self) -> None:
        """Close the session; calls in progress fail."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _wanted(self, method: str, host: AdminAt, path: str, token: str) -> Json:
        status, document = await self._ask(method, host, path, token)
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            return document
        message = f"{path} at {host} answers HTTP {status} {document.get('error', '')}".rstrip()
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise Transient("TokenRefused", message)  # a rotated Secret reaches the pod within a minute or two
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.MISDIRECTED_REQUEST:
            raise Transient("ReplicaNotReady", message)
        raise Refused("ReplicaRefuses", message)

    async def _ask(
        self,
        method: str,
        host: AdminAt,
        path: str,
        token: str,
        body: Json | None = None,
        timeout_s: float | None = None,
    ) -> tuple[int, Json]:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=ADMIN_CONNECTIONS_MAX, keepalive_timeout=30)
            self._session = aiohttp.ClientSession(connector=connector, timeout=self._timeout)
        scheme, secured = self._secured(host)
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        try:
            async with self._session.request(
                method, f"{scheme}://{host}{path}", headers=headers, allow_redirects=False, json=body,
                timeout=self._timeout if timeout_s is None else aiohttp.ClientTimeout(total=timeout_s),
                **secured,
            ) as answer:  # fmt: skip
                found = await answer.content.read(ADMIN_BODY_BYTES_MAX + 1)
                while len(found) <= ADMIN_BODY_BYTES_MAX and not answer.content.at_eof():
                    found += await answer.content.read(ADMIN_BODY_BYTES_MAX + 1 - len(found))
        except TimeoutError:
            raise Transient("ReplicaSilent", f"{host} does not answer in time") from None
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
            cause = error.certificate_error if isinstance(error, aiohttp.ClientConnectorCertificateError) else error
            why = getattr(cause, "verify_message", "it speaks no TLS, or another one")
            raise Transient("CertificateNotTrusted", f"{host} has no certificate that is trusted: {why}") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Transient("ReplicaUnreachable", f"{host} cannot be reached ({type(error).__name__})") from None
        if len(found) > ADMIN_BODY_BYTES_MAX:
            raise Refused("AnswerTooLarge", f"{path} at {host} answers more than {ADMIN_BODY_BYTES_MAX} bytes")
        try:
            document = json.loads(found) if found else {}
        except ValueError:
            document = {}
        return answer.status, document if isinstance(document, dict) else {}

    def _secured(self, host: AdminAt) -> tuple[str, dict[str, Any]]:
        """(scheme, arguments of the request). Chain and name are verified: the token goes to nobody else."""
        if isinstance(host, str):
            return "http", {}
        context = self._trusts.get(host.ca)
        if context is None:
            if not host.ca:
                raise Transient("CertificateNotTrusted", f"{host} speaks TLS, and no authority is known yet")
            try:
                context = ssl.create_default_context(cadata=host.ca)
            except (ssl.SSLError, ValueError):
                raise Transient("SecretUnusable", f"the authorities for {host} cannot be read") from None
            if len(self._trusts) >= ADMIN_TRUSTS_MAX:
                self._trusts.clear()
            self._trusts[host.ca] = context
        return "https", {"ssl": context, "server_hostname": host.name}


def _refusal(status: int, document: Json, where: str) -> OperatorError:
    """The coordinators' own words are for the condition: they say why, and what has to be done first."""
    said = document.get("message") or f"{where} answers HTTP {status} {document.get('error', '')}".rstrip()
    message = str(said)[:MESSAGE_CHARS_MAX]
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return Transient("ReplicaNotReady", message)
    return Refused("ReplicaRefuses", message)
