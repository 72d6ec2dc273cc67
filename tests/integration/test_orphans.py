"""A server that a test has started does not outlive it, also when a signal or `kill -9` ends the test."""

import signal
import subprocess
import sys

import pytest

from tests.cluster import wait_until
from tests.processes import has_ended

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
STARTER = """
import signal, subprocess, threading
from tests.orphans import watch

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are begun without one

def start():
    server = subprocess.Popen(["sleep", "600"], start_new_session=True)
    watch(server.pid)
    print(server.pid, flush=True)

for _ in range(2):
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_servers_end_with_the_process_that_started_them_and_not_with_its_threads(number: signal.Signals) -> None:
    starter = subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert starter.stdout is not None
    try:
        servers = [int(starter.stdout.readline()) for _ in range(2)]
        assert not any(map(has_ended, servers)), "the threads that started them have ended"
    finally:
        starter.send_signal(number)
        starter.wait(60)
        starter.stdout.close()
    wait_until("the servers have ended", lambda: all(map(has_ended, servers)), 30)
