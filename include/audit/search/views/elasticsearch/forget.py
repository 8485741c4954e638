"""Deletes documents in Elasticsearch so that no version of them is remembered."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from include.audit.search.views.state_view import IndexState
from include.errors import Transient
from include.index.server.elasticsearch import ElasticsearchIndex, call

__all__ = ["forget_versions"]

_SETTING = "index.gc_deletes"


@contextlib.contextmanager
def forget_versions(
    index: ElasticsearchIndex, name: str, to_id: Callable[[str], str], copies: Sequence[IndexState]
) -> Iterator[None]:
    """Delete `copies`, so that a write of any version is taken after it; those that were written since stay.

    A deleted document's version is remembered for `index.gc_deletes`, which is 0 within this context: the next refresh
    drops it, also those of what others have deleted. Tombstones are soft, and those that are purged need no memory
    (`index.upkeep.purge`): a crash that leaves the setting at 0 changes nothing else. Raises `Transient` when one could
    not be deleted.
    """
    client = index.client
    before = call(lambda: client.indices.get_settings(index=name, name=_SETTING), index=name).body
    known = before.get(name, {}).get("settings", {}).get("index", {}).get("gc_deletes")
    lines: list[dict[str, Any]] = []
    for copy in copies:
        action: dict[str, Any] = {"_id": to_id(copy.doc_id)} | ({"routing": copy.routing} if copy.routing else {})
        if copy.written is not None:
            action |= {"if_seq_no": copy.written[0], "if_primary_term": copy.written[1]}
        lines.append({"delete": action})
    call(lambda: client.indices.put_settings(index=name, settings={_SETTING: "0s"}), index=name)
    try:
        items = call(lambda: client.bulk(index=name, operations=lines), index=name).body["items"] if lines else ()
        if failed := {each["delete"]["status"] for each in items} - {200, 404, 409}:
            raise Transient("documents could not be deleted", system="elasticsearch", index=name, status=sorted(failed))
        index.refresh(name)
        yield
    finally:
        call(lambda: client.indices.put_settings(index=name, settings={_SETTING: known}), index=name)
