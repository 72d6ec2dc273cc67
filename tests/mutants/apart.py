"""What becomes of a copy of this process, which may break what it likes."""

import os
import signal
from collections.abc import Callable


def apart(judge: Callable[[], str]) -> str:
    """What `judge` says there, or the error that it let out. The copy ends with it, and when this process is told to
    wait no longer."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = judge()
        except BaseException as error:  # noqa: BLE001 - told to the parent
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode()[:4_000])
        os._exit(0)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as told:
            said = told.read().decode(errors="replace")
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.waitpid(child, 0)
    return said
