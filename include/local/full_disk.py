"""Wakes servers of MariaDB that sleep on where their disk was full.

A server that finds no room for its binlog says that it tries again each minute. 11.4.5 waits for a signal instead, and
without a limit (`mariadb_sleep_for_space`): until somebody kills that query, no COMMIT ends, whatever room there is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["DiskWatch", "free_bytes", "wake"]

_LEAST_FREE: Final = 64 << 20
_EVERY_S: Final = 5.0
_FOR_S: Final = 300.0
_SLEEPS: Final = "Waiting for someone to free space"


@dataclass
class DiskWatch:
    """When to wake a server: every five seconds, for five minutes since there was next to no room on its disk.

    And for the first five minutes: nobody has watched before. Times are seconds of one monotonic clock.
    """

    until_s: float | None = None
    next_s: float = 0.0

    def due(self, free: int, now_s: float) -> bool:
        """Whether to wake it now, as so many bytes are free."""
        if free < _LEAST_FREE or self.until_s is None:
            self.until_s = now_s + _FOR_S
        if free < _LEAST_FREE:
            return False
        if not self.next_s <= now_s < self.until_s:
            return False
        self.next_s = now_s + _EVERY_S
        return True


def free_bytes(folder: Path) -> int:
    """What a process that is not root may still write to the disk of `folder`."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def wake(port: int, password: str) -> int:
    """Kill the queries that sleep, which then go on to write; how many that were, none where root cannot log in."""
    import pymysql

    try:
        connection = pymysql.connect(
            host="127.0.0.1", port=port, user="root", password=password, connect_timeout=2, read_timeout=2
        )
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE state = %s", (_SLEEPS,))
            sleeping = [number for (number,) in cursor.fetchall()]
            for number in sleeping:
                cursor.execute("KILL QUERY %s", (number,))
    except (pymysql.Error, OSError):
        return 0
    return len(sleeping)
