"""Run one command that ends when its starter ends: `python -I -S leash.py -- COMMAND`.

For work that ends by itself inside a blocking task (an audit by spark-submit). The leash dies with its starter's
wish (SIGTERM) or with the starter itself (the kernel's death signal), and takes all of the command's processes with
it: spark-submit's JVM, its Python driver and the workers, each of which alone would live on. Such work may be run again
from its start, so it gets no grace. Standard library alone. Exit status: the command's, or 128 + signal.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    # Run by path and isolated from the environment: only this tells where the package is.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from supervision.processes import die_with_parent, end_all_marked

__all__ = ["leashed", "main"]

_MARK = "LYREBIRD_LEASH"
_PR_SET_PDEATHSIG = 1
_WATCHED = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}


def leashed(argv: list[str]) -> list[str]:
    """The command that runs `argv` on a leash held by whoever starts it."""
    return [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(os.getpid()), "--", *argv]


def main(argv: list[str]) -> int:
    """Run `argv` = [the starter's pid, "--", command…] to its end, or to the starter's."""
    starter, command = int(argv[0]), argv[2:]
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    # SIGTERM, not SIGKILL: the leash must live to end the others.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != starter:
        return 128 + signal.SIGTERM
    me = os.getpid()
    mark = f"{me}-{os.urandom(8).hex()}"
    try:
        child = subprocess.Popen(  # noqa: S603 - the command is the leash's whole purpose
            command,
            stdin=subprocess.DEVNULL,
            env={**os.environ, _MARK: mark},
            process_group=0,
            preexec_fn=lambda: die_with_parent(me),
        )
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error}\n")
        return 127
    asked: int | None = None
    while child.poll() is None and asked is None:
        received = signal.sigtimedwait(_WATCHED, 1.0)
        if received is not None and received.si_signo != signal.SIGCHLD:
            asked = received.si_signo
        elif os.getppid() != starter:
            asked = signal.SIGTERM
    end_all_marked(_MARK, mark, within_s=10.0)
    if asked is not None:
        return 128 + asked
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
