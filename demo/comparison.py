"""Truth against search, field by field. Pure: both sides come in as bodies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["DemoComparison", "compare", "differences"]

ComparedBody = Mapping[str, Any]
_EXAMPLES = 5


@dataclass
class DemoComparison:
    """How many orders search answers rightly; `different` and `missing` hold order ids, `extra` those truth lacks."""

    searchable: int = 0
    different: dict[int, list[str]] = field(default_factory=dict)
    missing: list[int] = field(default_factory=list)
    extra: list[int] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether search is the truth, whole."""
        return not (self.different or self.missing or self.extra)

    def explain(self) -> list[str]:
        """A few lines on what differs; empty when nothing does."""
        lines = [f"order {i} differs: {'; '.join(why)}" for i, why in list(self.different.items())[:_EXAMPLES]]
        if self.missing:
            lines.append(f"missing in search: {self.missing[:_EXAMPLES]} ({len(self.missing)} in all)")
        if self.extra:
            lines.append(f"in search but not in MySQL: {self.extra[:_EXAMPLES]} ({len(self.extra)} in all)")
        return lines


def compare(truth: Iterable[ComparedBody], found: Mapping[int, ComparedBody]) -> DemoComparison:
    """Compare every order of `truth` with `found` (order id -> body)."""
    result = DemoComparison()
    known: set[int] = set()
    for body in truth:
        order_id = body["order_id"]
        known.add(order_id)
        if order_id not in found:
            result.missing.append(order_id)
        elif why := differences(body, found[order_id]):
            result.different[order_id] = why
        else:
            result.searchable += 1
    result.extra = sorted(found.keys() - known)
    return result


def differences(truth: Any, found: Any, path: str = "") -> list[str]:
    """Paths at which two values differ, with both values; an absent field equals null, a number equals itself only."""
    if isinstance(truth, Mapping) and isinstance(found, Mapping):
        return [
            line
            for name in sorted(truth.keys() | found.keys())
            for line in differences(truth.get(name), found.get(name), f"{path}.{name}".lstrip("."))
        ]
    if isinstance(truth, list) and isinstance(found, list) and len(truth) == len(found):
        return [
            line
            for i, (a, b) in enumerate(zip(truth, found, strict=True))
            for line in differences(a, b, f"{path}[{i}]")
        ]
    if type(truth) is type(found) and truth == found:
        return []
    return [f"{path}: MySQL {truth!r}, search {found!r}"]
