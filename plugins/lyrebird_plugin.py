"""Lyrebird's part of the Airflow page: the supervised applications with their logs, and what audits have found.

The pages read files of this host; they ask for the login that Airflow itself asks for.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from supervision.airflow_conf import warn_of_faults
from supervision.links import LOG_ROUTE, ApplicationLogLink, AuditResultLink
from supervision.on_request import DaysOnRequest
from supervision.pages import application_pages

__all__ = ["LyrebirdPlugin"]


class LyrebirdPlugin(AirflowPlugin):
    """Registers the links to logs and to audits' results, the pages they lead to, and the schedule of backfills."""

    name = "lyrebird"

    @classmethod
    def on_load(cls, *args: Any, **kwargs: Any) -> None:
        """Name the settings of Airflow that supervision cannot work with, in each component's log."""
        warn_of_faults()

    # Airflow reads the lists from the class, and declares them as an instance's: neither spelling pleases both tools.
    operator_extra_links = [ApplicationLogLink(), AuditResultLink()]  # noqa: RUF012
    timetables = [DaysOnRequest]  # noqa: RUF012
    fastapi_apps = [  # noqa: RUF012
        {"app": application_pages(), "url_prefix": LOG_ROUTE, "name": "Lyrebird"}
    ]
    external_views = [  # noqa: RUF012
        {
            "name": "Applications",
            "href": f"{LOG_ROUTE}/applications",
            "destination": "nav",
            "url_route": "lyrebird-applications",
            "category": "browse",
        },
        {
            "name": "Audits",
            "href": f"{LOG_ROUTE}/audits",
            "destination": "nav",
            "url_route": "lyrebird-audits",
            "category": "browse",
        },
    ]
