"""Fields of Airflow's connections, and so of its secrets backends, for processes that know no Airflow."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from include.settings.deployment import Deployment
from include.settings.filling import connection_name, connections_in

__all__ = ["connection_fields"]

_LOGGER: Final = logging.getLogger(__name__)


def connection_fields(deployment: Deployment, given: Mapping[str, str]) -> dict[str, str]:
    """The environment's name and the value of each `${conn:ID.FIELD}` in the deployment files that `given` lacks.

    A connection or field that is not there is left out, with a warning: who needs it says so by its name, and the
    others go on.
    """
    fields: dict[str, str] = {}
    for reference in sorted(set(connections_in(deployment.values))):
        name = connection_name(reference)
        if name in given:
            continue
        conn_id, _, field = reference.partition(".")
        try:
            value = _field(BaseHook.get_connection(conn_id), field)
        except AirflowNotFoundException:
            value = None
        if value is None:
            _LOGGER.warning("Airflow has no connection or field %s, which the deployment files name", reference)
        else:
            fields[name] = str(value)
    return fields


def _field(connection: Connection, field: str) -> object:
    kind, _, key = field.partition(".")
    return connection.extra_dejson.get(key) if kind == "extra" else getattr(connection, kind)
