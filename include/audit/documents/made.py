"""Documents as their readers get them: what the database makes of keys now, by way of Avro and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from include.document.assembler import Assembler
from include.document.definition import DocumentDefinition
from include.document.reading.tables import SourceTables, Tables
from include.document.schema import body_avro, check_columns
from include.errors import InvalidRecord
from include.record.codec import Decoder, Encoder
from include.record.json.body import plain

__all__ = ["DocumentMaker", "shown"]

DocumentKey = tuple[Any, ...]
_AT_ONCE: Final = 500


class DocumentMaker:
    """Makes documents of one definition; raises `Terminal` for columns that the database does not have."""

    def __init__(self, topic: str, definition: DocumentDefinition, tables: SourceTables) -> None:
        self._assembler = Assembler(definition)
        check_columns(definition, tables.columns)
        schema = body_avro(topic, definition, tables.columns)
        self._encode, self._decode = Encoder(0, schema), Decoder(lambda _: schema)

    def of(
        self, snapshot: Tables, keys: Sequence[DocumentKey]
    ) -> Iterator[tuple[DocumentKey, Mapping[str, Any] | None]]:
        """Each key's document (`shown`), None of one without rows; those that nobody can make are left out."""
        for first in range(0, len(keys), _AT_ONCE):
            found = self._assembler.assemble(snapshot, keys[first : first + _AT_ONCE])
            for key, body in found.documents.items():
                if body is None:
                    yield key, None
                    continue
                try:
                    made = shown(self._decode(self._encode(body)))
                except InvalidRecord:
                    # The assembler sets such a one aside, or no index takes it.
                    continue
                yield key, made


def shown(value: Mapping[str, Any]) -> dict[str, Any]:
    """A document's fields as JSON has them, without those that are null: a field may come and go with its schema."""
    return {name: _part(part) for name, part in plain(value).items() if part is not None}


def _part(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _part(part) for name, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_part(part) for part in value]
    return value
