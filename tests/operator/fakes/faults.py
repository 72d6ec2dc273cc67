"""The end of an operator process at a chosen request: before it is sent, or after it was carried out."""

from typing import Any


class Crash(BaseException):
    """The process is gone: no handler of the operator may run on."""


class FaultLine:
    """Counts requests of every port that is wrapped; the one numbered `at` (from 1) crashes, and all after it.

    Requests whose name is in `ignored` are not counted.
    """

    def __init__(self, at: int | None = None, *, after: bool = False, ignored: frozenset[str] = frozenset()) -> None:
        self.at = at
        self.after = after
        self.ignored = ignored
        self.count = 0
        self.names: list[str] = []

    def wrap(self, port: Any) -> Any:
        return _Wrapped(port, self)

    @property
    def dead(self) -> bool:
        return self.at is not None and self.count >= self.at


class _Wrapped:
    def __init__(self, port: Any, line: FaultLine) -> None:
        self._port = port
        self._line = line

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            line = self._line
            if line.dead:
                raise Crash
            if name in line.ignored:
                return await method(*args, **kwargs)
            line.count += 1
            line.names.append(name)
            if line.dead and not line.after:
                raise Crash
            answer = await method(*args, **kwargs)
            if line.dead:
                raise Crash
            return answer

        return call
