"""The controller's leader, asked by the admin API: found from any replica's status, followed when leadership moves.

Only that replica decides who is moved, replaced or voting; another one answers 421 and names it. What this does not do:
ask again when the answer is a refusal.
"""

from muster_coordinator.cli.admin_client import Json, get_json, post_json
from muster_coordinator.cli.admin_login import AdminLogin
from muster_coordinator.cli.exits import CliError, Exit

LEADERS_MAX = 3
"""How often a question follows the controller's leadership."""
COMMIT_TIMEOUT_S = 15.0
"""Of what is to be committed: longer than a replica waits for a proposal's outcome."""


def leader_address(status: Json) -> str:
    """Where the controller's leader is, as the replica of this status knows. Raises CliError."""
    leader = status["controller"]["leader"]
    address: str = next((one["admin"] for one in status["brokers"] if one["broker"] == leader), "")
    if not address:
        raise CliError(Exit.UNREACHABLE, "no leader of the controller's group is known")
    return address


def ask_leader(address: str, path: str, login: AdminLogin, timeout_s: float, body: Json | None = None) -> Json:
    """The answer of the controller's leader, wherever it is by now; with a body it is asked to change something. Raises
    CliError with its words."""
    for _ in range(LEADERS_MAX):
        if body is None:
            status, answer = get_json(address, path, login, timeout_s)
        else:
            status, answer = post_json(address, path, login, COMMIT_TIMEOUT_S, body)
        if status != 421:
            return accepted(status, answer, f"{address}{path}")
        address = answer["admin"]
    raise CliError(Exit.UNREACHABLE, "the leadership of the controller's group moves; ask again")


def accepted(status: int, answer: Json, where: str) -> Json:
    """The answer of a request that was carried out. Raises CliError with its words."""
    if status == 200:
        return answer
    code = {404: Exit.NOT_FOUND, 503: Exit.UNREACHABLE}.get(status, Exit.REFUSED)
    raise CliError(code, answer.get("message", f"{where} answers HTTP {status}"))
