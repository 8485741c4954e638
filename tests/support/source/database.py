"""What tests need of a server, wherever it runs."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Database"]


class Database(Protocol):
    """A server that runs."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    def connect(self, *, database: str | None = None) -> Any: ...
