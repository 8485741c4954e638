"""What is really wrong with documents that seemed to differ, from what they are at this moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from include.audit.expected import RecordState
from include.audit.range_count import Window
from include.audit.state_view import IndexState

__all__ = ["Verdict", "judge"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Sorted ids by what is wrong. `in_flight` differed at the cut and no longer do.

    missing: expected, not there. extra: there (or there a second time, under another routing), not expected. stale:
    there in an older state. altered: there in a state of the expected version or a later one that no record made.
    """

    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    in_flight: int = 0

    @property
    def findings(self) -> int:
        """How many documents are wrong."""
        return len({*self.missing, *self.extra, *self.stale, *self.altered})


def judge(
    suspects: Iterable[str],
    expected: Mapping[str, RecordState],
    now: Mapping[str, Sequence[IndexState]],
    window: Window,
) -> Verdict:
    """Judge `suspects`; a document that was written from beyond the window is not judged."""
    kinds: dict[str, list[str]] = {"missing": [], "extra": [], "stale": [], "altered": [], "": []}
    for doc_id in sorted(set(suspects)):
        for kind in _faults(expected.get(doc_id), now.get(doc_id, ()), window):
            kinds[kind].append(doc_id)
    return Verdict(
        tuple(kinds["missing"]),
        tuple(kinds["extra"]),
        tuple(kinds["stale"]),
        tuple(kinds["altered"]),
        len(kinds[""]),
    )


def _faults(want: RecordState | None, copies: Sequence[IndexState], window: Window) -> list[str]:
    if any(each.offset >= window.get(each.partition, 0) for each in copies):
        return [""]
    there = sorted((each for each in copies if not each.deleted), key=lambda each: each.version)
    if want is None or want.kind == "deleted":
        return ["extra"] if there else [""]
    if not there:
        # A tombstone of a greater version was written for a reason that came after the cut, such as a floor.
        return [""] if any(each.version > want.version for each in copies) else ["missing"]
    newest = there[-1]
    out = ["extra"] if len(there) > 1 else []
    if newest.version < want.version:
        return [*out, "stale"]
    if newest.version > want.version or newest.state != want.state:
        # A body that could not be read was set aside: what is there in its place is an older state, or no state of it.
        return [*out, "altered"]
    return out or [""]
