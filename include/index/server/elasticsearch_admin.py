"""The port `admin.IndexAdmin` on elasticsearch-py 8.19.

An alias is added as write index: the server then refuses a second one, so that no alias ever leads to two generations.
Nobody writes through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from include.errors import SettingsError, Terminal, Transient
from include.index.metadata import LIVING
from include.index.name import IndexName
from include.index.server.admin import IndexAdmin, StoredIndex
from include.index.server.elasticsearch import call, connect
from include.settings.connections import Elasticsearch as Settings

if TYPE_CHECKING:
    import elasticsearch

__all__ = ["ElasticsearchAdmin"]

T = TypeVar("T")
_ADMIN_S = 60.0


class ElasticsearchAdmin(IndexAdmin):
    """One node or cluster. Safe to use from several threads."""

    def __init__(self, settings: Settings, client: elasticsearch.Elasticsearch | None = None) -> None:
        # Changes of the cluster's state may queue behind others.
        self._client = (client or connect(settings)).options(request_timeout=_ADMIN_S)

    @override
    def put_mapping(self, name: str, mapping: Mapping[str, Any]) -> None:
        self._on(name, lambda: self._client.indices.put_mapping(index=name, body=dict(mapping)))

    @override
    def auto_create(self) -> str | None:
        import elasticsearch

        name = "action.auto_create_index"
        try:
            settings = call(
                lambda: self._client.cluster.get_settings(
                    include_defaults=True, flat_settings=True, filter_path="*.action*"
                )
            ).body
        except (Terminal, elasticsearch.NotFoundError):
            return None
        values = [settings.get(section, {}).get(name) for section in ("transient", "persistent", "defaults")]
        return next((_flat(value) for value in values if value is not None), None)

    @override
    def settings(self, name: str) -> dict[str, str]:
        found = self._on(name, lambda: self._client.indices.get_settings(index=name, flat_settings=True))
        ((_, one),) = found.body.items()
        return {key.removeprefix("index."): value for key, value in one["settings"].items()}

    @override
    def put_settings(self, name: str, settings: Mapping[str, Any]) -> None:
        self._on(name, lambda: self._client.indices.put_settings(index=name, settings=dict(settings)))

    @override
    def generations(self, alias: str) -> list[StoredIndex]:
        pattern = f"{alias}-v*"
        indexes = call(
            lambda: self._client.indices.get(index=pattern, features=["settings", "aliases"]), index=pattern
        ).body
        sizes = call(
            lambda: self._client.indices.stats(
                index=pattern, metric=["store"], filter_path="indices.*.primaries.store.size_in_bytes"
            ),
            index=pattern,
        ).body.get("indices", {})
        out = []
        for concrete, info in indexes.items():
            name = _named(concrete, alias)
            if name is None:
                continue
            index = info["settings"]["index"]
            size = sizes.get(concrete, {}).get("primaries", {}).get("store", {}).get("size_in_bytes", 0)
            living = self.count(concrete, LIVING)
            out.append(
                StoredIndex(name, index["uuid"], int(index["creation_date"]), living, size, alias in info["aliases"])
            )
        return sorted(out, key=lambda one: one.name.generation)

    @override
    def move_alias(self, alias: str, to: str, *, source: str | None) -> None:
        self._alias(alias, [*_leaves(alias, source), _leads(alias, to)], source=source, to=to)

    @override
    def retire(self, alias: str, name: str, *, serving: str | None) -> None:
        if serving is None:
            if call(lambda: self._client.indices.exists_alias(name=alias), alias=alias).body:
                raise _elsewhere(alias)
            if not self.delete(name):
                raise _absent(name)
            return
        proof = [*_leaves(alias, serving), _leads(alias, serving)]
        self._alias(alias, [*proof, {"remove_index": {"index": name}}], source=serving, drops=name)

    @override
    def delete(self, name: str) -> bool:
        import elasticsearch

        try:
            call(lambda: self._client.indices.delete(index=name), index=name)
        except elasticsearch.NotFoundError:
            return False
        return True

    @override
    def count(self, name: str, query: Mapping[str, Any] | None = None) -> int:
        answer = self._on(
            name,
            lambda: self._client.search(
                index=name,
                size=0,
                track_total_hits=True,
                query=dict(query or {"match_all": {}}),
                allow_partial_search_results=False,
            ),
        ).body
        shards = answer["_shards"]
        if answer["timed_out"] or shards["failed"] or shards["successful"] != shards["total"]:
            raise Transient("a shard did not answer", system="elasticsearch", index=name, shards=shards)
        return int(answer["hits"]["total"]["value"])

    def _on(self, name: str, request: Callable[[], T]) -> T:
        import elasticsearch

        try:
            return call(request, index=name)
        except elasticsearch.NotFoundError as error:
            raise _absent(name) from error

    def _alias(self, alias: str, actions: Sequence[Mapping[str, Any]], **details: Any) -> None:
        import elasticsearch

        fix = f"Run `lyrebird index generations {alias}`, and begin again if that is still wanted."
        try:
            call(lambda: self._client.indices.update_aliases(actions=list(actions)), alias=alias)
        except elasticsearch.NotFoundError as error:
            kind = error.body["error"]["type"]
            message = "index does not exist" if kind == "index_not_found_exception" else "alias leads elsewhere by now"
            raise Terminal(message, alias=alias, fix=fix, **details) from error
        except Transient as error:
            # The server answers 500 for a second write index, though nothing failed.
            if "more than one write index" not in str(error.details.get("reason")):
                raise
            raise Terminal("alias leads elsewhere by now", alias=alias, fix=fix, **details) from error


def _absent(name: str) -> Terminal:
    alias = name.rpartition("-v")[0] or name
    return Terminal(
        "index does not exist", index=name, fix=f"Run `lyrebird index generations {alias}` to see which do."
    )


def _elsewhere(alias: str) -> Terminal:
    return Terminal("alias leads elsewhere by now", alias=alias, fix=f"Run `lyrebird index generations {alias}`.")


def _flat(value: str | list[str]) -> str:
    """Patterns come as a list where a configuration file has them so."""
    return ",".join(value) if isinstance(value, list) else str(value)


def _leaves(alias: str, source: str | None) -> list[dict[str, Any]]:
    return [] if source is None else [{"remove": {"index": source, "alias": alias, "must_exist": True}}]


def _leads(alias: str, to: str) -> dict[str, Any]:
    return {"add": {"index": to, "alias": alias, "filter": LIVING, "is_write_index": True}}


def _named(concrete: str, alias: str) -> IndexName | None:
    """The generation of that name, or None for an index of another family: `orders-v2-old` matches the pattern."""
    try:
        name = IndexName.parse(concrete)
    except SettingsError:
        return None
    return name if name.alias == alias else None
