"""Ports on 127.0.0.1: which are free, and who owns one that is not."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Collection

import psutil

from include.errors import SettingsError, Terminal
from include.local.services import SERVICES, Port

__all__ = ["chosen", "free_port", "is_free", "owner", "require_free"]

# Below the range that the kernel hands out to clients, so that no passing connection takes it.
_LOW, _HIGH = 20000, 32000


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1:`port` now."""
    return _refusal(port) == 0


def _refusal(port: int) -> int:
    """EADDRINUSE, EACCES where this user may not have that port, or 0."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                return error.errno
            raise
        return 0


def free_port(taken: Collection[int] = ()) -> int:
    """A free port that is neither in `taken` nor a default of the table."""
    defaults = {port.default for row in SERVICES for port in row.ports}
    for _ in range(1000):
        port = random.randrange(_LOW, _HIGH)  # noqa: S311 - not a secret
        if port not in defaults and port not in taken and is_free(port):
            return port
    raise Terminal(f"no free port between {_LOW} and {_HIGH}", fix="Stop servers that are no longer needed.")


def owner(port: int) -> str:
    """Who listens on `port`, as text: `pid 17 (java)`, or that the owner cannot be seen."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        connections = []
    for connection in connections:
        if connection.status != psutil.CONN_LISTEN or tuple(connection.laddr)[1:2] != (port,):
            continue
        if connection.pid is None:
            break
        try:
            return f"pid {connection.pid} ({psutil.Process(connection.pid).name()})"
        except psutil.NoSuchProcess:
            break
    return "a process of another user"


def chosen(port: Port, environment: dict[str, str]) -> int:
    """The port's number: `LYREBIRD_PORT_<NAME>` of `environment`, else the default."""
    text = environment.get(port.variable, "")
    if not text:
        return port.default
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise SettingsError(f"{port.variable} is {text!r}, not a port", fix=f"Give 1 to 65535, e.g. {port.default}.")
    return int(text)


def require_free(port: Port, number: int) -> None:
    """Terminal, with the owner's name, when `number` is taken, and when this user may not have it."""
    refusal = _refusal(number)
    if refusal == errno.EACCES:
        raise Terminal(
            f"root alone may listen on port {number}", fix=f"Choose another, from 1024 on: {port.variable}=<port>."
        )
    if refusal:
        raise Terminal(
            f"port {number} is in use by {owner(number)}",
            fix=f"Stop that process, or choose another port: {port.variable}=<port>.",
        )
