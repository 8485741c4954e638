"""Links from a task to the log of the application that it keeps running, and to what its audit has found.

All of them are relative: Airflow's page and ours (`pages/frame.py`) have the path of `[api] base_url` for their base.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from include.audit.history import kind_of

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

__all__ = ["ApplicationLogLink", "AuditResultLink", "joined"]


def joined(*names: str) -> str:
    """A path relative to Airflow's base: each name is one part of it, whatever signs it has."""
    return "/".join(quote(name, safe="") for name in names)


class ApplicationLogLink(BaseOperatorLink):
    """The whole log of the application, live: the task's own log shows progress, and the end after a failure."""

    name = "Application log"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Path of the page, relative to Airflow's own address."""
        del ti_key
        return joined("lyrebird", "applications", str(getattr(operator, "application", "")), "log")


class AuditResultLink(BaseOperatorLink):
    """What the audit of this run has found, and the history of its kind."""

    name = "Audit result"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Path of the page, relative to Airflow's own address."""
        del operator
        return joined("lyrebird", "audits", kind_of(ti_key.dag_id) or ti_key.dag_id, ti_key.run_id)
