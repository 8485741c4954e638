"""Links from a task to the log of the application that it keeps running, and to what its audit has found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from include.audit.history import kind_of

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

__all__ = ["LOG_ROUTE", "ApplicationLogLink", "AuditResultLink"]

LOG_ROUTE = "/lyrebird"
"""Where lyrebird_plugin.py serves the pages."""


class ApplicationLogLink(BaseOperatorLink):
    """The whole log of the application, live: the task's own log shows progress, and the end after a failure."""

    name = "Application log"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Path of the page, on Airflow's own address."""
        del ti_key
        return f"{LOG_ROUTE}/applications/{quote(str(getattr(operator, 'application', '')), safe='')}/log"


class AuditResultLink(BaseOperatorLink):
    """What the audit of this run has found, and the history of its kind."""

    name = "Audit result"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Path of the page, on Airflow's own address."""
        del operator
        kind = kind_of(ti_key.dag_id) or ti_key.dag_id
        return f"{LOG_ROUTE}/audits/{quote(kind, safe='')}/{quote(ti_key.run_id, safe='')}"
