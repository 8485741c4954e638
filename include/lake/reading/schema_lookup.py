"""Schemas as the lake's tasks ask for them: ids that the registry does not know yet are waited for, and remembered.

A registry may lag behind its producers, or have been restored empty. So an id that it does not know begins a grace:
until it is over all ranges with unknown ids are tried again (`Transient`, an incident after a minute), then the records
are set aside for good. A topic of bytes that only look framed must not stand still again and again: a day has three
graces, and who was met in one begins no other. Behind them unknown ids are refused at once. An id that comes to be
known gives all three back: the registry was behind. All this holds for one process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from include.clock import Clock
from include.errors import Terminal, Transient
from include.log.ports import Compatibility, SchemaLanguage, SchemaRegistry, UnknownSchema

__all__ = ["PatientRegistry", "RegistryFront"]

_ASK_AGAIN_S: Final = 30.0
_GRACES: Final = 3
_GRACES_WITHIN_S: Final = 86_400.0
# Of ids that nobody registered; those of random bytes are many.
_REMEMBERED: Final = 10_000


class RegistryFront(SchemaRegistry):
    """What stands before a registry, which answers all but `schema` and `language`; it may be missing."""

    def __init__(self, registry: SchemaRegistry | None) -> None:
        self._behind = registry

    @property
    def _registry(self) -> SchemaRegistry:
        if self._behind is None:
            raise Terminal("there is no schema registry", fix="Declare `registry` in the deployment files.")
        return self._behind

    @override
    def register(
        self,
        subject: str,
        schema: Mapping[str, Any],
        compatibility: Compatibility | None = "BACKWARD",
        language: SchemaLanguage = "AVRO",
    ) -> int:
        return self._registry.register(subject, schema, compatibility, language)

    @override
    def newest(self, subject: str) -> int | None:
        return self._registry.newest(subject)

    @override
    def subjects(self, schema_id: int) -> tuple[str, ...]:
        return self._registry.subjects(schema_id)


class PatientRegistry(RegistryFront):
    """`SchemaRegistry` over another; one thread at a time."""

    def __init__(self, registry: SchemaRegistry, clock: Clock, grace_s: float) -> None:
        super().__init__(registry)
        self._clock, self._grace_s = clock, grace_s
        self._unknown: dict[int, float] = {}
        self._graces: list[float] = []
        self._waited: set[int] = set()

    @override
    def schema(self, schema_id: int) -> dict[str, Any]:
        """Raises `Transient` while an id that is not known is waited for."""
        self._check(schema_id)
        return self._registry.schema(schema_id)

    @override
    def language(self, schema_id: int) -> SchemaLanguage:
        self._check(schema_id)
        return self._registry.language(schema_id)

    def _check(self, schema_id: int) -> None:
        """Ask for it, unless that was done lately; the registry itself remembers those that it knows."""
        now_s = self._clock.monotonic_s()
        asked_s = self._unknown.get(schema_id)
        if asked_s is None or now_s - asked_s >= _ASK_AGAIN_S:
            try:
                self._registry.schema(schema_id)
            except UnknownSchema:
                if asked_s is None and len(self._unknown) >= _REMEMBERED:
                    self._waited.discard(oldest := next(iter(self._unknown)))
                    del self._unknown[oldest]
                self._unknown[schema_id] = now_s
            else:
                if self._unknown.pop(schema_id, None) is not None:
                    self._graces.clear()
                    self._waited.clear()
                return
        self._graces = [begun_s for begun_s in self._graces if now_s - begun_s < _GRACES_WITHIN_S]
        runs = bool(self._graces) and now_s - self._graces[-1] < self._grace_s
        if not runs and schema_id not in self._waited and len(self._graces) < _GRACES and self._grace_s:
            self._graces.append(now_s)
            runs = True
        if runs:
            self._waited.add(schema_id)
            waited_s = now_s - self._graces[-1]
            raise Transient(
                "the schema registry does not know the schema of a record yet",
                system="registry",
                schema_id=schema_id,
                waits_s=round(self._grace_s - waited_s),
                fix="Register the schema under this id, or restore the registry: when the wait is over, records of it "
                "are set aside. `unknown_schema_s` of the group says how long it is.",
            )
        raise UnknownSchema("no schema of this id is registered", reason="schema id", schema_id=schema_id)
