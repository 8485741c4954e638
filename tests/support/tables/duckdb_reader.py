"""Tables of the lake as DuckDB reads them: by delta-kernel, which shares no code with what writes them."""

from __future__ import annotations

import importlib.resources
from typing import Any

import duckdb

from include.lake.tables.columns import OWN
from include.settings.connections import StoreSettings
from include.settings.secret import revealed

__all__ = ["Row", "delta_rows", "duck"]

Row = dict[str, Any]
_EXTENSIONS = ("httpfs", "delta")


def duck(store: StoreSettings) -> duckdb.DuckDBPyConnection:
    """A connection that reads tables of that store."""
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name in _EXTENSIONS:
        files = importlib.resources.files(f"duckdb_extension_{name}") / "extensions" / f"v{duckdb.__version__}"
        connection.execute(f"LOAD '{files / f'{name}.duckdb_extension'}'")
    scheme, _, place = store.endpoint.partition("://")
    connection.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{store.access_key}', SECRET '{revealed(store.secret_key)}', "
        f"ENDPOINT '{place}', URL_STYLE 'path', USE_SSL {scheme == 'https'}, REGION 'us-east-1')"
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def delta_rows(connection: duckdb.DuckDBPyConnection, uri: str, key: str, version: int | None = None) -> dict[Any, Row]:
    """The rows of a table by key, without Lyrebird's own columns; of a version, or the newest."""
    at = "" if version is None else f", version = {version}"
    found = connection.execute(f"SELECT * FROM delta_scan('{uri}'{at})")
    names = [each[0] for each in found.description or ()]
    rows = [dict(zip(names, values, strict=True)) for values in found.fetchall()]
    assert len({row[key] for row in rows}) == len(rows)
    return {row[key]: {name: value for name, value in row.items() if name not in OWN} for row in rows}
