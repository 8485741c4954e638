"""Finds the shop's database and connects to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from include.errors import SettingsError, Terminal, Transient
from include.settings.environment import environment

__all__ = ["ShopServer"]

_ACCESS_DENIED = frozenset({1044, 1045, 1698})
_UNKNOWN_DATABASE = 1049
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")


@dataclass(frozen=True)
class ShopServer:
    """One database on one MySQL-family server, and the account that owns it."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str = "shop"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.database):
            raise SettingsError(
                "not a database's name",
                database=self.database,
                fix="Use letters, digits and underscores, 64 at most.",
            )

    @classmethod
    def from_environment(
        cls, database: str = "shop", values: Mapping[str, str] | None = None, server: Literal["MYSQL", "ADS"] = "MYSQL"
    ) -> ShopServer:
        """The shop of the running stack, by LYREBIRD_<server>_HOST/PORT and LYREBIRD_SHOP_USER/PASSWORD.

        `ADS` is the server of advertising. Raises `SettingsError` when one of them is not set.
        """
        variables = environment() if values is None else values
        names = (
            f"LYREBIRD_{server}_HOST",
            f"LYREBIRD_{server}_PORT",
            "LYREBIRD_SHOP_USER",
            "LYREBIRD_SHOP_PASSWORD",
        )
        missing = [name for name in names if name not in variables]
        if missing:
            raise SettingsError(
                "the shop's database is not known",
                missing=missing,
                fix="Run `lyrebird up`, or export them for your own server.",
            )
        host, port, user, password = (variables[name] for name in names)
        if not port.isdecimal():
            raise SettingsError("not a port", **{names[1]: port}, fix="Give a number, such as 23306.")
        return cls(host, int(port), user, password, database)

    def create_database(self) -> None:
        """Make the database if it is not there. The account needs the right to."""
        with self._open(None) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s",
                (self.database,),
            )
            if cursor.fetchone() is None:
                cursor.execute(f"CREATE DATABASE `{self.database}` CHARACTER SET utf8mb4")

    def connect(self) -> Connection[Cursor]:
        """A new connection to the database: UTC, utf8mb4, strict, commits only when told.

        Raises `Transient` when the server does not answer, `Terminal` when it refuses the account or has no such
        database.
        """
        return self._open(self.database)

    def _open(self, database: str | None) -> Connection[Cursor]:
        try:
            return pymysql.connect(
                host=self.host,
                port=self.port,
                user=self.user,
                password=self.password,
                database=database,
                charset="utf8mb4",
                autocommit=False,
                connect_timeout=5,
                read_timeout=60,
                write_timeout=60,
                init_command="SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
            )
        except pymysql.err.OperationalError as refusal:
            address = f"{self.host}:{self.port}"
            code = refusal.args[0]
            if code in _ACCESS_DENIED:
                raise Terminal(
                    "the shop's database refuses the account",
                    server=address,
                    user=self.user,
                    fix="Check LYREBIRD_SHOP_USER and LYREBIRD_SHOP_PASSWORD.",
                ) from refusal
            if code == _UNKNOWN_DATABASE:
                raise Terminal(
                    "the server has no such database",
                    server=address,
                    database=database,
                    fix="Run `lyrebird shop apply`.",
                ) from refusal
            raise Transient(
                "the shop's database does not answer",
                system="mysql",
                server=address,
                answer=str(refusal.args[-1]),
                fix="See `lyrebird status`, then `lyrebird up`.",
            ) from refusal
