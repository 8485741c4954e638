"""Lyrebird's part of the Airflow page: the supervised applications with their logs, and what audits have found.

The pages read files of this host; they ask for the login that Airflow itself asks for.
"""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from supervision.links import LOG_ROUTE, ApplicationLogLink, AuditResultLink
from supervision.on_request import DaysOnRequest
from supervision.pages import application_pages

__all__ = ["LyrebirdPlugin"]


class LyrebirdPlugin(AirflowPlugin):
    """Registers the links to logs and to audits' results, the pages they lead to, and the schedule of backfills."""

    name = "lyrebird"
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
