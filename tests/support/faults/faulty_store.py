"""A store that fails as S3 does: it is away, asks to slow down, cuts connections, loses answers to what it has done."""

from __future__ import annotations

import contextlib
import random
import socket
import socketserver
import struct
import threading
from collections import Counter
from typing import Any, Literal, Self
from urllib.parse import urlsplit

__all__ = ["FaultyStore"]

Fault = Literal["busy", "failing", "reset", "lost"]
"""busy: 503 SlowDown; failing: 500; reset: the connection ends unanswered; lost: as reset, when it is done."""

_RESET = struct.pack("ii", 1, 0)
_REFUSALS = {
    "busy": (b"503 Slow Down", b"SlowDown"),
    "failing": (b"500 Internal Server Error", b"InternalError"),
}


class FaultyStore:
    """In front of the store at `endpoint`, at an `endpoint` of its own, for the length of a `with`.

    `shares` of requests meet each fault, by chance, and all while it is `away`; `met` counts them.
    """

    def __init__(self, endpoint: str, seed: int = 1) -> None:
        found = urlsplit(endpoint)
        assert found.hostname
        assert found.port
        self.target = found.hostname, found.port
        self.shares: dict[Fault, float] = {}
        self.away = False
        self.met: Counter[str] = Counter()
        self._chance, self._lock = random.Random(seed), threading.Lock()
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    outer._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 128

        self._server = Server(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _fault(self) -> Fault | None:
        with self._lock:
            drawn = self._chance.random()
            for fault, share in self.shares.items():
                drawn -= share
                if drawn < 0:
                    self.met[fault] += 1
                    return fault
        return None

    def _serve(self, client: socket.socket) -> None:
        """One request: the answer ends the connection."""
        if self.away:
            self.met["away"] += 1
            _cut(client)
            return
        client.settimeout(30)
        head, _, body = _until(client, b"\r\n\r\n").partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        fields = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])
        }
        assert b"transfer-encoding" not in fields, head
        fault = self._fault()
        if fault in _REFUSALS:
            status, code = _REFUSALS[fault]
            answer = b"<Error><Code>%s</Code><Message>for a while</Message></Error>" % code
            client.sendall(
                b"HTTP/1.1 %s\r\nContent-Type: application/xml\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                % (status, len(answer), answer)
            )
            return
        if fault == "reset":
            _cut(client)
            return
        if fields.get(b"expect", b"").lower() == b"100-continue":
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        size = int(fields.get(b"content-length", b"0"))
        while len(body) < size:
            body += _some(client)
        kept = [line for line in lines if not line.lower().startswith((b"expect:", b"connection:"))]
        with socket.create_connection(self.target, 30) as server:
            server.sendall(b"\r\n".join([*kept, b"Connection: close", b"", b""]) + body)
            answered = False
            while data := server.recv(1 << 16):
                # `away` changes in another thread.
                if bool(self.away) or (fault == "lost" and not answered):
                    _cut(client)
                    return
                answered = True
                client.sendall(data)
        return None


def _until(client: socket.socket, end: bytes) -> bytes:
    found = b""
    while end not in found:
        found += _some(client)
    return found


def _some(client: socket.socket) -> bytes:
    found: bytes = client.recv(1 << 16)
    if not found:
        raise ConnectionResetError
    return found


def _cut(client: socket.socket) -> Any:
    with contextlib.suppress(OSError):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        client.close()
