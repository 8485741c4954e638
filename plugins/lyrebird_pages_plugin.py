"""Lyrebird's part of the Airflow page: the supervised applications with their logs, and what audits have found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.plugins_manager import AirflowPlugin

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

__all__ = ["LyrebirdPages"]


async def _pages(scope: Scope, receive: Receive, send: Send) -> None:
    """Serves the pages.

    Their modules, and those of the API server, are imported by the first request: schedulers, workers and DAG
    processors load this plugin too, and get none.
    """
    from supervision.pages.serving import pages

    await pages(scope, receive, send)


class LyrebirdPages(AirflowPlugin):
    """Registers the pages, and their places in Airflow's menu."""

    name = "lyrebird_pages"
    # Airflow reads the lists from the class, and declares them as an instance's: neither spelling pleases both tools.
    fastapi_apps = [{"app": _pages, "url_prefix": "/lyrebird", "name": "Lyrebird"}]  # noqa: RUF012
    # Relative, as Airflow's own page has the prefix of `[api] base_url` for its base.
    external_views = [  # noqa: RUF012
        {
            "name": "Applications",
            "href": "lyrebird/applications",
            "destination": "nav",
            "url_route": "lyrebird-applications",
            "category": "browse",
        },
        {
            "name": "Audits",
            "href": "lyrebird/audits",
            "destination": "nav",
            "url_route": "lyrebird-audits",
            "category": "browse",
        },
    ]
