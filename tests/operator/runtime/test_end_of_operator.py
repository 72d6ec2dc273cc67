"""How the operator ends: everything is closed and the reason stays the reason, also with the API server silent."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from muster_operator.app import Operator
from muster_operator.errors import LeadershipLost
from muster_operator.settings import Settings


class SilentElector:
    """Its API server never answers; the time for it is over at once."""

    def __init__(self) -> None:
        self.asked = 0

    async def release(self) -> None:
        self.asked += 1
        raise TimeoutError


class Deposed(Operator):
    """It led, and lost the Lease because the API server went silent."""

    async def _work(self) -> None:
        self._leading = True
        raise LeadershipLost("LeaseLost", "the Lease could not be renewed in time")

    async def _watch(self) -> None:
        await asyncio.Event().wait()


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    path = tmp_path / "kubeconfig"
    context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    path.write_text(
        json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "x", "contexts": [context],
            "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "x", "user": {}}],
        })
    )  # fmt: skip
    return str(path)


def test_leadership_lost_while_the_api_is_away_closes_everything_and_says_so(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []

    async def scene() -> int:
        operator = Deposed(
            Settings(image="muster:1", kubeconfig=kubeconfig, identity="a", probe_host="127.0.0.1", probe_port=0)
        )
        elector: Any = SilentElector()
        operator._elector = elector
        for name in ("_admin", "_kafka", "_client", "_lease_client"):
            part = getattr(operator, name)
            monkeypatch.setattr(part, "close", noting(closed, name, part.close))
        with pytest.raises(LeadershipLost):
            await operator.run()
        with pytest.raises(OSError, match="Connect call failed"):
            await asyncio.open_connection("127.0.0.1", operator.probe_port)
        return int(elector.asked)

    assert asyncio.run(scene()) == 1
    assert closed == ["_admin", "_kafka", "_client", "_lease_client"]


def noting(closed: list[str], name: str, close: Any) -> Any:
    def noted() -> Any:
        closed.append(name)
        return close()

    return noted
