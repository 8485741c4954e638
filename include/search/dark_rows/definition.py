"""Section `dark_rows` of the deployment: which documents are compared with which rows, and by which fields.

Fields are named as in the bodies, with dots below their first level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import Field

from include.document.definition import DocumentDefinition, definitions
from include.index.definition import declared_indexes
from include.index.mapping.file import mapping_of
from include.search.definition import EXACT, type_of
from include.settings.deployment import Deployment, Strict, unknown_name

__all__ = ["DarkRows", "DarkRowsDefinition", "IndexSide", "declared_dark_rows"]

SECTION: Final = "dark_rows"


class DarkRowsDefinition(Strict):
    """One entry of `dark_rows`."""

    documents: str = Field(description="entry of `indexes`, whose documents have a list of items")
    rows: str = Field(description="entry of `indexes`, with one row or more for each item")
    of: str = Field(description="field of both: the rows of a document are those with the same value")
    items: str = Field(description="the document's list")
    item: str = Field(description="field of items and of rows: which item it is, within the document")
    only: dict[str, list[str]] = Field(
        default_factory=dict, description="field of the document -> values: documents with others have no rows"
    )
    fields: dict[str, str] = Field(
        min_length=1, description="field of the document, or of an item (`<items>.<field>`) -> field of the row"
    )

    @property
    def fields_of_documents(self) -> list[str]:
        """All that is read of a document."""
        return sorted({self.of, *self.only, f"{self.items}.{self.item}", *self.fields})

    @property
    def fields_of_rows(self) -> list[str]:
        """All that is read of a row."""
        return sorted({self.of, self.item, *self.fields.values()})


@dataclass(frozen=True, slots=True)
class IndexSide:
    """An index with the one topic that fills it, and the name of the body in its documents."""

    alias: str
    topic: str
    entity: str


@dataclass(frozen=True)
class DarkRows:
    """An entry with what it leads to. `document`: how documents are made, which names the database."""

    name: str
    rules: DarkRowsDefinition
    documents: IndexSide
    rows: IndexSide
    document: DocumentDefinition


def declared_dark_rows(deployment: Deployment) -> dict[str, DarkRows]:
    """All entries by name, checked against indexes, their mappings and documents; raises `SettingsError`."""
    entries, documents = {}, definitions(deployment)
    for name, rules in deployment.section(SECTION, DarkRowsDefinition).items():
        side = _side(deployment, name, "documents", rules.documents, rules.fields_of_documents, rules.of)
        rows = _side(deployment, name, "rows", rules.rows, rules.fields_of_rows, rules.of)
        if side.topic not in documents:
            raise deployment.error(
                (SECTION, name, "documents"),
                "the index does not hold documents of the section `documents`, so no database is known of them",
                got=rules.documents,
                topic=side.topic,
                allowed=sorted(documents),
            )
        entries[name] = DarkRows(name, rules, side, rows, documents[side.topic])
    return entries


def _side(deployment: Deployment, name: str, key: str, alias: str, fields: list[str], of: str) -> IndexSide:
    indexes = declared_indexes(deployment)
    if alias not in indexes:
        raise unknown_name(deployment, (SECTION, name, key), alias, "indexes")
    index = indexes[alias]
    side = IndexSide(alias, index.topic, index.topics[index.topic].entity)
    mapping = mapping_of(deployment, index)["properties"][side.entity]
    for field in fields:
        if type_of(mapping, field) is None:
            raise deployment.error(
                (SECTION, name), "the mapping has no such field", got=field, of=key, mapping=index.mapping
            )
    if (kind := type_of(mapping, of)) not in EXACT:
        raise deployment.error((SECTION, name, "of"), "the field's type does not fit", got=of, type=kind, allowed=EXACT)
    return side
