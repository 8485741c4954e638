"""The port `admin.IndexAdmin` in memory: `MemoryIndex` with what changes its indexes as a whole.

Of queries it knows `match_all`, `term` and `exists` on a field outside nested objects; of mappings, that a field
keeps its type.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from typing_extensions import override

from include.errors import SettingsError, Terminal
from include.index.metadata import LIVING
from include.index.name import IndexName
from include.index.server.admin import IndexAdmin, StoredIndex
from include.index.server.memory import MemoryIndex
from include.index.server.port import IndexedDocument, IndexInfo

__all__ = ["MemoryAdmin"]


class MemoryAdmin(MemoryIndex, IndexAdmin):
    """A server in this process that both ports can be asked of."""

    def __init__(self) -> None:
        super().__init__()
        self._settings: dict[str, dict[str, str]] = {}
        self._created: dict[str, int] = {}
        self.auto: str | None = "false"

    @override
    def create(self, name: str, body: Mapping[str, Any]) -> IndexInfo:
        """`Terminal` for an alias that leads elsewhere as write index."""
        if name not in self._infos:
            for alias, how in body.get("aliases", {}).items():
                if how.get("is_write_index"):
                    self._refuse_second(alias)
            given = {"number_of_replicas": 1, "number_of_shards": 1, **body.get("settings", {})}
            self._settings[name] = {key: _text(value) for key, value in given.items()}
            self._created[name] = len(self._created)
        return super().create(name, body)

    @override
    def put_mapping(self, name: str, mapping: Mapping[str, Any]) -> None:
        info = self._known(name)
        merged = copy.deepcopy(dict(info.mapping))
        _merge(name, merged, mapping)
        if "dynamic_templates" in mapping:
            merged["dynamic_templates"] = copy.deepcopy(mapping["dynamic_templates"])
        self._infos[name] = replace(info, mapping=merged)

    @override
    def auto_create(self) -> str | None:
        return self.auto

    @override
    def settings(self, name: str) -> dict[str, str]:
        return dict(self._settings[self._known(name).name])

    @override
    def put_settings(self, name: str, settings: Mapping[str, Any]) -> None:
        have = self._settings[self._known(name).name]
        if "number_of_shards" in settings:
            raise Terminal("Elasticsearch refuses", index=name, reason="Can't update non dynamic settings")
        for key, value in settings.items():
            if value is None:
                have.pop(key, None)
            else:
                have[key] = _text(value)

    @override
    def generations(self, alias: str) -> list[StoredIndex]:
        out = []
        for concrete, info in self._infos.items():
            try:
                name = IndexName.parse(concrete)
            except SettingsError:
                continue
            if name.alias == alias:
                living = self.count(concrete, LIVING)
                size = sum(len(repr(found.source)) for found in self._documents[concrete].values())
                made = self._created[concrete]
                out.append(StoredIndex(name, info.uuid, made, living, size, alias in info.aliases))
        return sorted(out, key=lambda one: one.name.generation)

    @override
    def move_alias(self, alias: str, to: str, *, source: str | None) -> None:
        self._known(to)
        if source is None:
            self._refuse_second(alias)
        else:
            self._without(alias, source)
        info = self._infos[to]
        self._infos[to] = replace(
            info, aliases={**info.aliases, alias: {"filter": copy.deepcopy(LIVING), "is_write_index": True}}
        )

    @override
    def retire(self, alias: str, name: str, *, serving: str | None) -> None:
        self._known(name)
        if serving is None:
            self._refuse_second(alias)
        elif alias not in self._known(serving).aliases:
            raise _elsewhere(alias)
        self.delete(name)

    @override
    def delete(self, name: str) -> bool:
        if name not in self._infos:
            return False
        self.drop(name)
        del self._settings[name]
        return True

    @override
    def count(self, name: str, query: Mapping[str, Any] | None = None) -> int:
        self._known(name)
        return sum(_matches(found, query or {"match_all": {}}) for found in self.visible(name).values())

    def _known(self, name: str) -> IndexInfo:
        info = self.describe(name)
        if info is None:
            raise Terminal("index does not exist", index=name, fix="Run `lyrebird index generations`.")
        return info

    def _refuse_second(self, alias: str) -> None:
        if any(alias in info.aliases for info in self._infos.values()):
            raise _elsewhere(alias)

    def _without(self, alias: str, source: str) -> None:
        info = self._known(source)
        if alias not in info.aliases:
            raise _elsewhere(alias)
        self._infos[source] = replace(info, aliases={a: how for a, how in info.aliases.items() if a != alias})


def _elsewhere(alias: str) -> Terminal:
    return Terminal("alias leads elsewhere by now", alias=alias, fix=f"Run `lyrebird index generations {alias}`.")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _merge(name: str, have: dict[str, Any], new: Mapping[str, Any]) -> None:
    fields = have.setdefault("properties", {})
    for field, how in new.get("properties", {}).items():
        there = fields.get(field)
        if there is None:
            fields[field] = copy.deepcopy(how)
        elif there.get("type", "object") != how.get("type", "object"):
            reason = f"mapper [{field}] cannot be changed from type [{there.get('type')}] to [{how.get('type')}]"
            raise Terminal("Elasticsearch refuses", index=name, reason=reason)
        elif "properties" in how:
            _merge(name, there, how)


def _matches(found: IndexedDocument, query: Mapping[str, Any]) -> bool:
    ((kind, how),) = query.items()
    if kind == "match_all":
        return True
    if kind == "exists":
        return _value(found, how["field"]) is not None
    if kind == "term":
        ((field, want),) = how.items()
        return bool(_value(found, field) == want)
    raise Terminal("the double does not know this query", query=kind, allowed=["exists", "match_all", "term"])


def _value(found: IndexedDocument, field: str) -> Any:
    part: Any = found.source
    for name in field.split("."):
        part = part.get(name) if isinstance(part, Mapping) else None
    return part
