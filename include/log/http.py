"""HTTP for one server, by the standard library alone: a capture should be small, and start at once."""

from __future__ import annotations

import base64
import contextlib
import http.client
import ssl
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from include.errors import SettingsError
from include.settings.secret import without_login

__all__ = ["Http", "HttpAnswer", "basic"]


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What the server said, and to which address."""

    url: str
    status: int
    body: bytes


def basic(user: str, password: str) -> str:
    """The value of `Authorization` for a user and a password."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


class Http:
    """One connection, kept open; may be used by several threads. `url` may name a user and password."""

    def __init__(
        self, url: str, headers: Mapping[str, str], timeout_s: float, tls: ssl.SSLContext | None = None
    ) -> None:
        """Connects at the first need; raises `SettingsError` for what is not an address.

        An `Authorization` of `headers` wins over the user of `url`. `tls`: None for the system's own certificates.
        """
        address = _address(url)
        host, port = address.hostname or "", address.port
        self._url, self._path, self._headers = without_login(url), address.path, dict(headers)
        if address.username is not None:
            self._headers.setdefault("Authorization", basic(unquote(address.username), unquote(address.password or "")))
        self._connection = (
            http.client.HTTPSConnection(host, port, timeout=timeout_s, context=tls)
            if address.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=timeout_s)
        )
        # Hangs up for whoever forgets to.
        weakref.finalize(self, self._connection.close)
        self._lock = threading.Lock()

    def ask(self, method: str, path: str, body: bytes | None = None) -> HttpAnswer:
        """The answer, whatever its status; raises `OSError` when there is none.

        Sent again, once, where the server has hung up on a connection that it was used on before: so only for requests
        that may be carried out twice.
        """
        with self._lock:
            again = self._connection.sock is not None
            while True:
                try:
                    self._connection.request(method, self._path + path, body, self._headers)
                    answer = self._connection.getresponse()
                    return HttpAnswer(self._url + path, answer.status, answer.read())
                except (OSError, http.client.HTTPException) as error:
                    self._connection.close()
                    hung_up = isinstance(error, (ConnectionError, http.client.BadStatusLine))
                    if not (again and hung_up):
                        raise error if isinstance(error, OSError) else ConnectionError(repr(error)) from error
                    again = False

    def close(self) -> None:
        """Hang up; may be called twice."""
        self._connection.close()


def _address(url: str) -> SplitResult:
    with contextlib.suppress(ValueError):
        found = urlsplit(url)
        # Reading the port is what looks at it. An @ behind the host: a password has what ends one.
        if found.scheme in ("http", "https") and found.hostname and found.port != 0 and "@" not in found.path:
            return found
    shown = url[: url.find("//") + 2] + url.rpartition("@")[2] if "@" in url else url
    raise SettingsError("not an address", got=shown, allowed="http://host:port/path or https://…")
