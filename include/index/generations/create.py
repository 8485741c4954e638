"""Makes the first index of an alias as the deployment declares it. Later generations are made by a rebuild."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from include.errors import Terminal
from include.index.definition import index_named
from include.index.generations.active import change_fed, serving_or_none
from include.index.mapping.declared import creation
from include.index.mapping.file import mapping_of
from include.index.metadata import LIVING
from include.index.name import IndexName
from include.index.server.admin import IndexAdmin
from include.index.server.auto_create import require_no_auto_create
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.server.elasticsearch_admin import ElasticsearchAdmin
from include.index.server.port import IndexInfo, SearchIndex
from include.settings.connections import Elasticsearch
from include.settings.deployment import Deployment

__all__ = ["first_index", "make_index"]


def make_index(deployment: Deployment, name: str) -> tuple[IndexInfo, bool]:
    """The index that serves alias `name`, and whether it was made now; one that is there stays as it is."""
    definition = index_named(deployment, name)
    server = deployment.one("elasticsearch", Elasticsearch)
    index = ElasticsearchIndex(server)
    body = creation(name, definition, mapping_of(deployment, definition))
    try:
        return first_index(
            index, ElasticsearchAdmin(server, index.client), IndexName(name, definition.generation), body
        )
    finally:
        index.close()


def first_index(
    index: SearchIndex, admin: IndexAdmin, name: IndexName, body: Mapping[str, Any]
) -> tuple[IndexInfo, bool]:
    """Make index `name` with its alias unless an index serves it.

    The steps, each of which may be done again:

    1. the index and its alias, in one stroke: of two callers one makes it,
    2. the note that it is fed.

    Raises `Terminal` when generations are there and none serves: a person then chooses; and as
    `require_no_auto_create`.
    """
    require_no_auto_create(admin, name.alias)
    info = serving_or_none(index, name.alias)
    made = info is None
    if info is None:
        stored = admin.generations(name.alias)
        if stored:
            raise Terminal(
                "the alias leads nowhere, but generations are there",
                alias=name.alias,
                indexes=[str(one.name) for one in stored],
                fix=f"Run `lyrebird index promote {name.alias} --generation {stored[-1].name.generation}`.",
            )
        alias = {name.alias: {"filter": LIVING, "is_write_index": True}}
        info = index.create(str(name), {**body, "aliases": alias})
    change_fed(index, name.alias, add=[IndexName.parse(info.name).generation])
    return info, made
