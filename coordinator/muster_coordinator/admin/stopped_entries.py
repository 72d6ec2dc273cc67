"""`/v1/stopped-entries` and `/v1/skip`: show an entry that no replica can apply, and skip it (docs/adr/0022).

Problem: such an entry stops its group until a release can apply it. Skipping it loses its effect, so the cluster must
agree on it, not one replica or one tired person. Mechanism: every replica that stopped reports the entry's index, term
and hash. `skip` takes these reports of a majority of the voters, its own among them, and then commits a SKIP by Raft:
without a majority, or while another replica leads, nothing is skipped.

What it does not do: ask the other replicas (`muster cluster skip-entry` does), or restart replicas. Each replica skips
the entry at its next start.
"""

import asyncio
import base64
from typing import NamedTuple

from aiohttp import web

from muster_coordinator.admin.refusals import Refusal, refused
from muster_coordinator.admin.routes import Route
from muster_coordinator.admin.status import Json
from muster_coordinator.admin.view import AdminReplica
from muster_coordinator.ids import BrokerId, GroupNo
from muster_coordinator.raft.quorum import majority
from muster_coordinator.replica.multiraft.stopped_entry import StoppedEntry
from muster_coordinator.security.roles import Role

SKIP_S_MAX = 9.0
"""Two elections, and a commit."""


class Named(NamedTuple):
    """An entry as a request names it."""

    index: int  # type: ignore[assignment]  # shadows tuple.index, which nobody calls
    term: int
    sha256: str


class Consent(NamedTuple):
    """One replica's report of the entry at which it stopped."""

    broker: int
    entry: Named


class SkipRequest(NamedTuple):
    """The body of `POST /v1/skip`."""

    group: GroupNo
    entry: Named
    consents: tuple[Consent, ...]


def skip_request(body: object) -> SkipRequest:
    """Parse the body of `POST /v1/skip`. Raises ValueError with a message for the caller."""
    if not isinstance(body, dict) or body.keys() != {"group", "index", "term", "sha256", "consents"}:
        raise ValueError("expected an object with group, index, term, sha256 and consents")
    group, consents = body["group"], body["consents"]
    if type(group) is not int:
        raise ValueError("group is a number")
    if not isinstance(consents, list):
        raise ValueError("consents is a list")
    return SkipRequest(GroupNo(group), _named(body), tuple(_consent(one) for one in consents))


def _consent(said: object) -> Consent:
    if not isinstance(said, dict) or type(said.get("broker")) is not int:
        raise ValueError("a consent is what a replica's /v1/stopped-entries says, with its broker id")
    return Consent(said["broker"], _named(said))


def _named(said: dict[str, object]) -> Named:
    index, term, sha256 = said.get("index"), said.get("term"), said.get("sha256")
    if type(index) is not int or type(term) is not int or type(sha256) is not str:
        raise ValueError("index and term are numbers, sha256 is a text")
    return Named(index, term, sha256)


def judge(asked: SkipRequest, stopped: StoppedEntry | None, broker: BrokerId) -> Refusal | None:
    """None: a majority of the voters, this replica among them, has stopped at the requested entry."""
    if stopped is None:
        return Refusal(404, "not_stopped", f"Raft group {asked.group} has not stopped at an entry here")
    entry = Named(stopped.index, stopped.term, stopped.sha256)
    if asked.entry != entry:
        return Refusal(409, "another_entry", f"this replica stopped at entry {entry.index} of term {entry.term}")
    agreeing = {said.broker for said in asked.consents if said.entry == entry} & set(stopped.voters)
    needed = majority(len(stopped.voters))
    if broker not in agreeing or len(agreeing) < needed:
        return Refusal(
            409, "no_majority", f"{len(agreeing)} of {len(stopped.voters)} voters stopped at it, {needed} are needed"
        )
    return None


class StoppedEntries:
    """Handlers over one replica."""

    def __init__(self, replica: AdminReplica) -> None:
        self._replica = replica

    def routes(self) -> tuple[Route, ...]:
        """The data of an entry may be credentials of users."""
        return (
            Route("GET", "/v1/stopped-entries", Role.VIEWER, self.every),
            Route("GET", "/v1/stopped-entries/{group:[0-9]{1,9}}", Role.ADMIN, self.one),
            Route("POST", "/v1/skip", Role.ADMIN, self.skip),
        )

    async def every(self, request: web.Request) -> web.StreamResponse:
        """The stopped entries of all Raft groups here, without their data."""
        entries = [document(stopped) for stopped in self._replica.stopped_entries()]
        return web.json_response({"broker": self._replica.broker, "entries": entries})

    async def one(self, request: web.Request) -> web.StreamResponse:
        """One group's stopped entry, with its data."""
        group = GroupNo(int(request.match_info["group"]))
        stopped = self._stopped(group)
        if stopped is None:
            return refused(Refusal(404, "not_stopped", f"Raft group {group} has not stopped at an entry here"))
        data = base64.b64encode(stopped.data).decode()
        return web.json_response({"broker": self._replica.broker, **document(stopped), "data_base64": data})

    async def skip(self, request: web.Request) -> web.StreamResponse:
        """Answers when the SKIP is committed, or 503 after SKIP_S_MAX."""
        try:
            asked = skip_request(await request.json())
        except (ValueError, RecursionError) as error:
            return refused(Refusal(400, "bad_request", str(error)))
        refusal = judge(asked, self._stopped(asked.group), self._replica.broker)
        if refusal is not None:
            return refused(refusal)
        ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def end(agreed: bool) -> None:
            if not ended.done():
                ended.set_result(agreed)

        if not self._replica.skip_entry(asked.group, end):
            return refused(Refusal(409, "under_way", "a skip of this group's entry is under way already"))
        try:
            agreed = await asyncio.wait_for(asyncio.shield(ended), SKIP_S_MAX)
        except TimeoutError:
            agreed = False
        finally:
            self._replica.stop_skipping(asked.group)
        if not agreed:
            message = "the SKIP is not known to be committed: no majority in time, or another replica leads"
            return refused(Refusal(503, "not_agreed", message))
        return web.json_response({"group": asked.group, **asked.entry._asdict(), "skipped": True})

    def _stopped(self, group: GroupNo) -> StoppedEntry | None:
        return next((one for one in self._replica.stopped_entries() if one.group == group), None)


def document(stopped: StoppedEntry) -> Json:
    """A stopped entry as JSON, without its data, which may be a megabyte."""
    return {
        "group": stopped.group,
        "index": stopped.index,
        "term": stopped.term,
        "kind": stopped.kind,
        "sha256": stopped.sha256,
        "bytes": len(stopped.data),
        "trouble": stopped.trouble,
        "voters": list(stopped.voters),
        "skipped": stopped.skipped,
    }
