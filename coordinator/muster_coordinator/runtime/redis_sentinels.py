"""Connections to the server that Sentinels call the primary, whoever that is by now.

Problem: after a fail-over the records are at another address, and a connection to the old one may go on: that server
may be cut off, or be a replica by now. Mechanism: whoever connects asks all Sentinels first (`redis_streams.sentinels`
says whom to believe), many at once together, and looks whether the server there is a primary. A connection to an
address that is not the primary's any more is made anew before it is used again. What this does not do: notice a
fail-over on its own; the connections that it ends are what tells of it, and the look at the server every minute.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from typing_extensions import override

from muster_coordinator.redis_streams.addresses import Address, text_of
from muster_coordinator.redis_streams.sentinels import NoPrimary, SaidPrimary, primary, said_primary
from muster_coordinator.runtime.limits import REDIS_PRIMARY_KEPT_MS, REDIS_SENTINELS_LATE_MS
from muster_coordinator.runtime.redis_greeting import TcpConnection
from muster_coordinator.runtime.redis_tls import RenewedConnection
from muster_coordinator.setting_values import format_address


class Sentinels:
    """`make` gives an unconnected connection to a Sentinel's address."""

    def __init__(
        self, addresses: tuple[Address, ...], name: str, make: Callable[[Address], AbstractConnection], timeout_ms: int
    ) -> None:
        self._addresses = addresses
        self._name = name
        self._make = make
        self._timeout_s = timeout_ms / 1_000
        self._asking = asyncio.Lock()
        self._found: Address | NoPrimary | None = None
        self._found_until_s = 0.0
        self.known: Address | None = None
        """Where the primary was when somebody asked last."""

    async def primary(self) -> Address:
        """Raises `redis.exceptions.ConnectionError`. What was found is told for `REDIS_PRIMARY_KEPT_MS`."""
        loop = asyncio.get_running_loop()
        async with self._asking:
            if self._found is None or loop.time() >= self._found_until_s:
                self._found = await self._ask_all()
                self._found_until_s = loop.time() + REDIS_PRIMARY_KEPT_MS / 1_000
        if isinstance(self._found, NoPrimary):
            raise RedisConnectionError(str(self._found))
        self.known = self._found
        return self._found

    async def _ask_all(self) -> Address | NoPrimary:
        """By more than half of the Sentinels and who is no later than a moment, or by all that answer: one whose host
        is gone is not waited for. Of the first half nobody need have heard of a fail-over that is being carried out."""
        asked = [asyncio.ensure_future(self._ask(address)) for address in self._addresses]
        said: list[SaidPrimary] = []
        problems: list[str] = []
        left, moment_s = set(asked), REDIS_SENTINELS_LATE_MS / 1_000
        try:
            while left:
                enough = len(said) > len(asked) // 2
                bound_s = moment_s if enough else None
                came, left = await asyncio.wait(left, timeout=bound_s, return_when=asyncio.FIRST_COMPLETED)
                if not came:
                    break
                for answer in (one.result() for one in came):
                    if isinstance(answer, str):
                        problems.append(answer)
                    else:
                        said.append(answer)
        finally:
            for one in asked:
                one.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        try:
            return primary(self._name, said, problems)
        except NoPrimary as nobody:
            return nobody

    async def _ask(self, address: Address) -> SaidPrimary | str:
        """What it says, or why it said nothing."""
        connection = self._make(address)
        try:
            async with asyncio.timeout(self._timeout_s):
                await connection.connect()  # type: ignore[no-untyped-call]
                await connection.send_command("SENTINEL", "MASTER", self._name)
                return said_primary(await connection.read_response(disable_decoding=True))
        except (RedisError, OSError, ValueError) as error:
            return f"{format_address(*address)}: {str(error) or 'no answer'}"
        finally:
            with suppress(RedisError, OSError):
                await connection.disconnect(nowait=True)


class PrimaryConnection(TcpConnection):
    """To the primary. `sentinels` are given besides the library's arguments, of which host and port do not count."""

    def __init__(self, *, sentinels: Sentinels, **arguments: Any) -> None:  # noqa: ANN401  # the library's
        super().__init__(**arguments)
        self._sentinels = sentinels

    @override
    async def connect_check_health(self, check_health: bool = True, retry_socket_connect: bool = True) -> None:
        """Raises `redis.exceptions.RedisError`, also where the server says that it is none."""
        if self.is_connected:
            if (self.host, self.port) == self._sentinels.known:
                return
            await self.disconnect()
        self.host, self.port = await self._sentinels.primary()
        await super().connect_check_health(check_health, retry_socket_connect)
        try:
            await self.send_command("INFO", "replication", check_health=False)
            if "\nrole:master" not in text_of(await self.read_response(disable_decoding=True)):
                raise RedisConnectionError(f"{format_address(self.host, self.port)} is no primary by its own word")
        except ValueError as error:
            await self.disconnect(nowait=True)
            raise RedisConnectionError(f"no answer of Redis to INFO: {error}") from error
        except BaseException:  # else it would be taken for one that was looked at
            await self.disconnect(nowait=True)
            raise


class PrimaryTlsConnection(PrimaryConnection, RenewedConnection):
    """The same by TLS."""
