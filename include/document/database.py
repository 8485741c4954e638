"""The address of the server that documents are read from, and the TLS options of its connections."""

from __future__ import annotations

import ssl
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from include.errors import SettingsError
from include.settings.deployment import Strict
from include.settings.secret import Secret

__all__ = ["DatabaseAddress", "Replica", "Tls", "tls_options"]

Tls = Literal["off", "preferred", "required", "verified"]
"""preferred: where the server has it; required: without a look at its certificate; verified: good for its host."""


class Replica(Strict):
    """A replica of the source. Before each batch it must have applied all that the batch's signals speak of."""

    host: str = Field(description="the replica's address")
    port: int = Field(default=3306, ge=1, le=65535, description="its port")
    user: str = Field(description="account with SELECT on the tables")
    password: Secret = Field(description="its password")
    tls: Tls = Field(default="preferred", description="verified: its certificate must be good for its host")
    tls_ca: str = Field(default="", description="file of the certificates that are trusted; default: the system's")
    wait_s: float = Field(default=10, gt=0, description="longest wait for what it has not applied yet, in one try")


class DatabaseAddress(BaseModel):
    """Of an entry of `sources`, or of a `Replica`, what reading look-ups needs.

    `fallbacks`: `host:port` of servers that capture may move to; what they have is checked by GTID. `wait_s`: longest
    wait for a server that lacks what a batch's signals speak of.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    host: str
    port: int = 3306
    user: str
    password: Secret
    tls: Tls = "preferred"
    tls_ca: str = ""
    fallbacks: tuple[str, ...] = ()
    replica: bool = False
    wait_s: float = 10

    @property
    def place(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"

    @property
    def places(self) -> list[tuple[str, int]]:
        """Host and port of each server, in the order in which they are tried."""
        more = (each.rpartition(":") for each in self.fallbacks)
        return [(self.host, self.port), *((host, int(port)) for host, _, port in more)]


def tls_options(server: DatabaseAddress) -> dict[str, Any]:
    """Of pymysql; raises `SettingsError` for certificates that cannot be read."""
    if server.tls == "off":
        return {"ssl_disabled": True}
    if server.tls == "preferred":
        return {}
    try:
        context = ssl.create_default_context(cafile=server.tls_ca or None)
    except OSError as error:
        raise SettingsError(
            "`tls_ca` cannot be read", path="tls_ca", file=server.tls_ca, cause=str(error), fix="Correct it."
        ) from error
    if server.tls == "required":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return {"ssl": context}
