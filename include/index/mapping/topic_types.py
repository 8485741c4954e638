"""The form of a topic's documents, by what the registry knows of its values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from include.errors import Terminal
from include.index.mapping.avro_types import avro_form
from include.index.mapping.json_schema_types import json_schema_form
from include.index.mapping.value_types import Form, RecordType
from include.log.ports import SchemaLanguage
from include.record.json.formats import ValueForm

__all__ = ["body_form", "is_envelope"]


def body_form(schema: Mapping[str, Any], language: SchemaLanguage, value: ValueForm) -> Form:
    """The form of the bodies of documents whose records have this schema.

    Raises `Terminal` for a schema that is not sound, and for `value: change` with one that is no change envelope.
    """
    form = json_schema_form(schema) if language == "JSON" else avro_form(schema)
    if value == "plain":
        return form
    after = form.fields.get("after") if isinstance(form, RecordType) else None
    if not isinstance(after, RecordType):
        raise Terminal(
            "schema is no change envelope",
            allowed="a record with the fields before, after, source, op",
            fix="Declare `value: plain` for this topic.",
        )
    return after


def is_envelope(schema: Mapping[str, Any], language: SchemaLanguage) -> bool:
    """Whether values look like changes of rows."""
    form = json_schema_form(schema) if language == "JSON" else avro_form(schema)
    return isinstance(form, RecordType) and form.fields.keys() >= {"before", "after", "source", "op"}
