"""A page of the index with newer rows put in. Pure.

Hits of the index carry versions: of two states of a document the newer one stays. What was read from the database
after the index's answer is newer than that, whatever its version: the index holds only what the database had committed.

A full page speaks only for the stretch of the list that it spans: what sorts behind its last hit belongs to a later
page, else documents between the two would be skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from include.search.answer import Hit
from include.search.cursor import ListPlace

__all__ = ["merged", "newest"]


def newest(hits: Iterable[Hit]) -> dict[str, Hit]:
    """The newest state of each document, by id; a state without a version (of the database) is newer than all."""
    states: dict[str, Hit] = {}
    for hit in hits:
        there = states.get(hit.doc_id)
        if there is None or (there.version is not None and (hit.version is None or hit.version >= there.version)):
            states[hit.doc_id] = hit
    return states


def merged(
    page: Iterable[Hit],
    full: bool,
    others: Mapping[str, Hit | None],
    time_field: str,
    size: int,
    after: ListPlace | None = None,
    step_us: int = 1,
) -> tuple[tuple[Hit, ...], str | None]:
    """Hits newest first, `size` at most, and where the next page begins (None: there is no more).

    Args:
        page: hits of the index behind `after`, newest first.
        full: whether the index may have more behind them.
        others: newer states by id; None: the document is no longer in this list.
        time_field: field of the body that the list is sorted by.
        size: most hits.
        after: end of the last page.
        step_us: how finely the index sorts by time.
    """

    def place(hit: Hit) -> ListPlace:
        return ListPlace.of(hit.body, time_field, hit.doc_id, step_us)

    hits = list(page)
    end = place(hits[-1]) if hits and full else None
    found = newest([*(hit for hit in hits if others.get(hit.doc_id, hit) is not None), *filter(None, others.values())])
    inside = [
        (at, hit)
        for at, hit in ((place(hit), hit) for hit in found.values())
        if (after is None or at < after) and (end is None or at >= end)
    ]
    inside.sort(key=lambda each: each[0], reverse=True)
    chosen = inside[:size]
    if len(inside) > size:
        return tuple(hit for _, hit in chosen), str(chosen[-1][0])
    return tuple(hit for _, hit in chosen), str(end) if end is not None else None
