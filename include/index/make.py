"""Makes an index as the deployment declares it."""

from __future__ import annotations

from include.index.definition import index_named, mapping_of
from include.index.elasticsearch import ElasticsearchIndex
from include.index.generation import IndexName
from include.index.mapping import creation
from include.index.port import IndexInfo
from include.index.progress import ensure_notes
from include.settings.connections import Elasticsearch
from include.settings.deployment import Deployment

__all__ = ["make_index"]


def make_index(deployment: Deployment, name: str) -> tuple[IndexInfo, bool]:
    """The live index of entry `name` with its alias, and whether it was made now; one that is there stays as it is."""
    definition = index_named(deployment, name)
    index = ElasticsearchIndex(deployment.one("elasticsearch", Elasticsearch))
    concrete = str(IndexName(name, definition.generation))
    there = index.describe(concrete) is not None
    info = index.create(concrete, creation(name, definition, mapping_of(deployment, definition)))
    ensure_notes(index)
    return info, not there
