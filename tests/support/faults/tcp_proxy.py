"""A proxy between capture and a server that can stop bytes, cut connections, spoil bytes, and point elsewhere."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Self

__all__ = ["TcpProxy"]

_RESET = struct.pack("ii", 1, 0)


class TcpProxy:
    """Listens on `port` of 127.0.0.1 for the length of a `with`."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.host = "127.0.0.1"
        self._listener = socket.create_server((self.host, 0))
        self.port: int = self._listener.getsockname()[1]
        self._flows = threading.Event()
        self._flows.set()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._garbage = False
        self._spoil = 0
        self.accepted = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # A thread that waits in accept() hears of a shutdown, not of a close.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._flows.set()
        self.reset()

    def hold(self) -> None:
        """No byte passes any more, and nobody is told."""
        self._flows.clear()

    def release(self) -> None:
        self._flows.set()

    def reset(self) -> None:
        """All connections end at once, without goodbye."""
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for each in sockets:
            with contextlib.suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def answer_garbage(self, on: bool) -> None:
        """Whether a new connection is greeted by bytes of no protocol."""
        self._garbage = on

    def spoil(self, least: int) -> None:
        """Change a byte in the next piece of at least so many bytes that the server sends."""
        self._spoil = least

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            if self._garbage:
                with contextlib.suppress(OSError):
                    client.sendall(b"\x07\x00\x00\x00HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(range(256)))
                client.close()
                continue
            try:
                server = socket.create_connection(self.target, 5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                self._sockets += [client, server]
            threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, from_server: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._flows.wait()
                if from_server and self._spoil and len(data) >= self._spoil:
                    self._spoil = 0
                    middle = len(data) // 2
                    data = data[:middle] + bytes((data[middle] ^ 0x55,)) + data[middle + 1 :]
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)
