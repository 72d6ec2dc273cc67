"""A request of the admin API that is not carried out: the status, a word for programs, a sentence for people."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from aiohttp import web

from muster_coordinator.admin.status import Json

T = TypeVar("T")


class Refusal(NamedTuple):
    """Why, as an answer."""

    status: int
    error: str
    message: str
    more: Mapping[str, object] = {}
    """Further fields of the answer: of 421, who is right."""


NOT_FORMED = Refusal(503, "not_formed", "this replica does not know a cluster yet")


def refused(refusal: Refusal) -> web.Response:
    """The answer that says so."""
    document: Json = {"error": refusal.error, "message": refusal.message, **refusal.more}
    return web.json_response(document, status=refusal.status)


async def asked_by(request: web.Request, parse: Callable[[bytes], T]) -> T | Refusal:
    """What the body of a request asks for. `parse` raises ValueError with a message for the caller."""
    try:
        return parse(await request.read())
    except (ValueError, RecursionError) as error:
        return Refusal(400, "bad_request", str(error))
