"""Ends one server when the process that started it is gone, however that ended.

    python -m tests.support.servers.reaper …

A test run that is killed runs none of its clean-up. Words: pid and start time of the owner, pid and start time of the
server. It ends when either is gone.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psutil

from include.clock import Clock, SystemClock
from include.errors import Terminal
from include.local import process
from tests.support.paths import ROOT

__all__ = ["leashed", "main"]

_EVERY_S: Final = 0.5


@contextmanager
def leashed(server: subprocess.Popen[bytes]) -> Iterator[process.StartedProcess]:
    """A server of this process, which a reaper watches for the length of a `with`; yields who it is.

    `Terminal` when it has ended already.
    """
    found = process.identify(server.pid)
    if found is None:
        raise Terminal("the server ended at once", pid=server.pid, fix="Look at its log.")
    me = psutil.Process()
    words = [me.pid, repr(me.create_time()), found.pid, repr(found.started)]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.servers.reaper", *map(str, words)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as reaper:
        try:
            yield found
        finally:
            reaper.kill()


def main(words: list[str], clock: Clock) -> int:
    """Wait; the exit code."""
    owner, server = (
        process.StartedProcess(int(words[0]), float(words[1])),
        process.StartedProcess(int(words[2]), float(words[3])),
    )
    while process.alive(server):
        if not process.alive(owner):
            process.stop([(server, 0.0)], clock)
            break
        clock.sleep(_EVERY_S)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], SystemClock()))
