"""Keys and bodies as Avro, by the columns that the source's tables have: looked at at the start, and when one changed.

A changed column is told by the source's control records; where those are not to be had (the table is not captured), a
body that does not fit shows it. A new type that readers of older documents cannot take is refused by the registry.
"""

from __future__ import annotations

from typing import Any

from include.document.definition import DocumentDefinition
from include.document.making import MakePlan
from include.document.reading.tables import SourceTables
from include.document.schema import body_avro, check_columns, key_avro
from include.errors import InvalidRecord
from include.log.ports import SchemaRegistry
from include.record.codec import Encoder

__all__ = ["DocumentEncoders"]

DocumentKey = tuple[Any, ...]


class DocumentEncoders:
    """Of one document topic. `prepare` first."""

    def __init__(
        self, topic: str, definition: DocumentDefinition, tables: SourceTables, registry: SchemaRegistry
    ) -> None:
        self.numbers: list[bool] = []
        """For each part of the key whether it is an integer."""
        self.order: list[str] = []
        """Columns of the fact table, the key last, in whose order its rows of one value are walked."""
        self._topic = topic
        self._definition = definition
        self._tables = tables
        self._registry = registry
        self._found: tuple[Encoder, Encoder] | None = None
        self._schema: dict[str, Any] = {}
        self._looked = False

    def prepare(self) -> None:
        """Look at the columns anew and register what follows from them.

        Raises `Terminal` when a declared one is gone, or has no type that readers can take.
        """
        self._tables.forget()
        columns = self._tables.columns
        check_columns(self._definition, columns)
        key, body = key_avro(self._topic, self._definition, columns), body_avro(self._topic, self._definition, columns)
        fact = self._definition.fact
        known = columns(fact.table)
        self.numbers = [known[name].avro() in ("int", "long") for name in fact.key]
        newest = known[fact.newest_by]
        # As a rule the primary key, with which InnoDB's indexes of other columns end.
        numbered = newest.type == "bigint" or newest.avro() in ("int", "long")
        self.order = [fact.newest_by, *fact.key] if numbered and fact.newest_by not in fact.key else fact.key
        self._found, self._schema = (self._encoder("key", key), self._encoder("value", body)), body
        self._looked = True

    def begin(self, *, altered: bool) -> None:
        """A batch begins; `altered`: it tells that columns have changed."""
        self._looked = False
        if altered:
            self.prepare()

    def key(self, key: DocumentKey) -> bytes:
        """Bytes of a key."""
        return self._encoders[0](self.named(key))

    def body(self, body: dict[str, Any]) -> bytes:
        """Bytes of a body; one that does not fit is tried again with the columns as they are now, once in a batch.

        Raises `InvalidRecord` when it does not fit.
        """
        try:
            return self._encoders[1](body)
        except InvalidRecord:
            if self._looked:
                raise
        self.prepare()
        return self._encoders[1](body)

    def plain(self, body: dict[str, Any]) -> bytes:
        """As `body`, with the columns as they were looked at last."""
        return self._encoders[1](body)

    def plan(self) -> MakePlan:
        """For who encodes bodies elsewhere, as `plain` does."""
        return MakePlan(self._definition, self._encoders[1].schema_id, self._schema)

    def named(self, key: DocumentKey) -> dict[str, Any]:
        """A key's fields."""
        return dict(zip(self._definition.fact.key, key, strict=True))

    def _encoder(self, part: str, schema: dict[str, Any]) -> Encoder:
        return Encoder(self._registry.register(f"{self._topic}-{part}", schema, "BACKWARD"), schema)

    @property
    def _encoders(self) -> tuple[Encoder, Encoder]:
        if self._found is None:
            raise RuntimeError("prepare() comes first")
        return self._found
