"""Asking a server over HTTP whether it answers, with the standard library alone."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.request
from typing import Any

__all__ = ["answers", "get_json"]


def answers(url: str, timeout_s: float = 2.0) -> bool:
    """Whether a GET of `url` on loopback gets a 200."""
    try:
        with _open(url, timeout_s) as response:
            return bool(response.status == 200)
    except (OSError, http.client.HTTPException):
        return False


def get_json(url: str, timeout_s: float = 2.0, login: tuple[str, str] | None = None) -> Any:
    """The JSON answer of a GET; None when there is no such answer. `login`: user and password (basic)."""
    request = urllib.request.Request(url)  # noqa: S310 - on loopback
    if login is not None:
        request.add_header("Authorization", "Basic " + base64.b64encode(":".join(login).encode()).decode())
    try:
        with _open(request, timeout_s) as response:
            return json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError):
        return None


def _open(url: str | urllib.request.Request, timeout_s: float) -> Any:
    # Loopback never goes through a proxy, whatever the environment says.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(url, timeout=timeout_s)
