"""A dark launch of joined rows on the deployment's servers."""

from __future__ import annotations

from contextlib import closing

from include.clock import Clock
from include.index.server.elasticsearch import ElasticsearchIndex
from include.search.dark_rows.definition import DarkRows
from include.search.dark_rows.launch import compare_rows
from include.search.dark_rows.report import DarkRowsReport
from include.search.dark_rows.sides import IndexedSides
from include.search.database_mysql import primary_tables
from include.search.engine import ElasticsearchEngine
from include.settings.connections import Elasticsearch
from include.settings.deployment import Deployment

__all__ = ["dark_rows"]


def dark_rows(deployment: Deployment, entry: DarkRows, clock: Clock, deadline_s: float) -> DarkRowsReport:
    """Run `compare_rows` for one entry. Of the database only its position is asked, and only where something differs.

    Raises `Terminal` where an index does not exist, `Transient` where a server does not answer.
    """
    with (
        closing(ElasticsearchIndex(deployment.one("elasticsearch", Elasticsearch))) as index,
        closing(primary_tables(deployment, entry.document, clock)) as database,
    ):
        sides = IndexedSides(entry, index, ElasticsearchEngine(index.client), database, clock)
        return compare_rows(entry.name, sides, entry.rules, clock, deadline_s)
