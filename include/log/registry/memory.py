"""The schema registry in memory: the double of `log.registry.confluent`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from include.errors import Terminal
from include.log.ports import Compatibility, SchemaLanguage, SchemaRegistry, UnknownSchema
from include.log.registry.compatibility import unreadable

__all__ = ["MemoryRegistry"]


class MemoryRegistry(SchemaRegistry):
    """`SchemaRegistry` in memory; one per test, or one for several stages of it."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._by_text: dict[str, int] = {}
        self._schemas: dict[int, dict[str, Any]] = {}
        self._subjects: dict[str, list[int]] = {}
        self._levels: dict[str, Compatibility] = {}
        self._languages: dict[int, SchemaLanguage] = {}

    @override
    def register(
        self,
        subject: str,
        schema: Mapping[str, Any],
        compatibility: Compatibility | None = "BACKWARD",
        language: SchemaLanguage = "AVRO",
    ) -> int:
        """A subject's level is that of its first registration; it judges Avro alone."""
        text = json.dumps([language, schema], sort_keys=True)
        # The default of registries.
        level = self._levels.get(subject, compatibility or "BACKWARD")
        if compatibility is not None:
            self._levels[subject] = level
        held = self._subjects.setdefault(subject, [])
        known = self._by_text.get(text)
        if known is not None and known in held:
            return known
        if level == "BACKWARD" and held and language == "AVRO":
            problem = unreadable(schema, self._schemas[held[-1]])
            if problem:
                raise Terminal(
                    "the registry refuses an incompatible schema",
                    subject=subject,
                    level=level,
                    reason=problem,
                    fix="Add fields with a default, or start a new topic.",
                )
        schema_id = known if known is not None else next(self._ids)
        self._by_text[text], self._schemas[schema_id] = schema_id, json.loads(text)[1]
        self._languages[schema_id] = language
        held.append(schema_id)
        return schema_id

    @override
    def schema(self, schema_id: int) -> dict[str, Any]:
        if schema_id not in self._schemas:
            raise UnknownSchema("no schema of this id is registered", reason="schema id", schema_id=schema_id)
        return self._schemas[schema_id]

    @override
    def language(self, schema_id: int) -> SchemaLanguage:
        self.schema(schema_id)
        return self._languages[schema_id]

    @override
    def newest(self, subject: str) -> int | None:
        held = self._subjects.get(subject)
        return held[-1] if held else None

    @override
    def subjects(self, schema_id: int) -> tuple[str, ...]:
        self.schema(schema_id)
        return tuple(sorted(subject for subject, held in self._subjects.items() if schema_id in held))
