"""Checks beside the documents: the books of the application that wrote them, the mapping, and undeclared topics.

* Conservation: each record that was read became something: indexed, deleted, stale, folded, filtered or dead.
* Drift: the live mapping is the declared one. Fields that came with newer schemas are none.
* Undeclared topics: living documents that no topic of the index answers for, which no audit of a topic would see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from include.audit.definition import SearchAuditSpec
from include.audit.search.cut import AuditCut
from include.index.mapping.declared import drift
from include.index.outcome import SETTLED

__all__ = ["ConservationCounts", "answers_for_index", "look_beside", "unaccounted"]


@dataclass(frozen=True)
class ConservationCounts:
    """`unaccounted` and `drift` in words; `undeclared`: living documents by topic ("": they name none)."""

    unaccounted: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    undeclared: Mapping[str, int] = field(default_factory=dict)

    @property
    def findings(self) -> int:
        """The number of findings."""
        return len(self.unaccounted) + len(self.drift) + len(self.undeclared)

    def told(self) -> list[str]:
        """Each finding in words."""
        undeclared = [
            f"{count:,} documents of {f'the topic {topic}' if topic else 'no topic'}, which the index does not declare"
            for topic, count in sorted(self.undeclared.items())
        ]
        return [*self.unaccounted, *(f"mapping: {line}" for line in self.drift), *undeclared]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "unaccounted": list(self.unaccounted),
            "drift": list(self.drift),
            "undeclared": dict(self.undeclared),
        }


def answers_for_index(spec: SearchAuditSpec) -> bool:
    """Whether this topic's audit is the one that looks at the index as a whole, so that it is done once."""
    return spec.topic == min(spec.index.topics)


def look_beside(
    spec: SearchAuditSpec, at: AuditCut, declared: Mapping[str, Any], undeclared: Mapping[str, int]
) -> ConservationCounts:
    """Judge what was found at the cut.

    Args:
        spec: the audit.
        at: its cut.
        declared: the mapping of the deployment's file.
        undeclared: living documents of the index by topic, without those of its declared topics.
    """
    return ConservationCounts(
        tuple(unaccounted(at.progress.counts)),
        tuple(drift(at.info, declared)) if answers_for_index(spec) else (),
        dict(undeclared),
    )


def unaccounted(counts: Mapping[int, Mapping[str, int]]) -> list[str]:
    """Partitions in which not every record that was read became something, or more did."""
    problems = []
    for partition, of in sorted(counts.items()):
        read, settled = of.get("read", 0), sum(of.get(name, 0) for name in SETTLED)
        if read != settled:
            became = ", ".join(f"{of.get(name, 0):,} {name}" for name in SETTLED if of.get(name))
            problems.append(
                f"partition {partition}: {read:,} records read, {settled:,} accounted for ({became or 'none'})"
            )
    return problems
