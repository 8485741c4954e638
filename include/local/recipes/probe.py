"""Asking a server over HTTP whether it answers, with the standard library alone. `login`: user and password."""

from __future__ import annotations

import http.client
import json
import urllib.request
from typing import Any

from include.log.http import basic

__all__ = ["answers", "get_json"]


def answers(url: str, timeout_s: float = 2.0, login: tuple[str, str] | None = None) -> bool:
    """Whether a GET of `url` on loopback gets a 200."""
    try:
        with _open(url, timeout_s, login) as response:
            return bool(response.status == 200)
    except (OSError, http.client.HTTPException):
        return False


def get_json(url: str, timeout_s: float = 2.0, login: tuple[str, str] | None = None) -> Any:
    """The JSON answer of a GET; None when there is no such answer."""
    try:
        with _open(url, timeout_s, login) as response:
            return json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError):
        return None


def _open(url: str, timeout_s: float, login: tuple[str, str] | None) -> Any:
    # Loopback never goes through a proxy, whatever the environment says.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"Authorization": basic(*login)} if login else {}
    return opener.open(urllib.request.Request(url, headers=headers), timeout=timeout_s)  # noqa: S310 - on loopback
