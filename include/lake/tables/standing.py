"""Definition of a table's state. The table's own commits keep it, so that it is never another than what its rows are.

Numbers are application transactions of Delta (`txn` actions): checkpoints keep them, however old their commit.

| transaction | its version is |
|---|---|
| `lyrebird.end.<partition>` | next offset of that Kafka partition |
| `lyrebird.floor` | version below which no row lives, and which no later one comes in below |
| `lyrebird.resolved.<source>` | offset of the newest resolved record that a version of the table was complete to |
| `lyrebird.committed_ms` | when the version was committed, by its writer's clock |

What never changes stands in the table's properties: `lyrebird.topic`, `lyrebird.topic_id`, `lyrebird.buckets`,
`lyrebird.partitions`. A version's label stands in its own commit (`commitInfo`), as it says something of that version
alone: positions of the sources that the rows are complete to, and tables that they may lack changes of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from include.errors import Terminal
from include.log.planning.plan import Cut

__all__ = ["LABEL", "GenerationState", "Label", "label_read", "label_text"]

LABEL: Final = "lyrebird.label"
_END: Final = "lyrebird.end."
_FLOOR: Final = "lyrebird.floor"
_RESOLVED: Final = "lyrebird.resolved."
_COMMITTED: Final = "lyrebird.committed_ms"
_PROPERTY: Final = "lyrebird."

Label = Mapping[str, Cut]
"""Source → the resolved record that a version is complete to."""


@dataclass(frozen=True)
class GenerationState:
    """The state of one generation of a table.

    Args:
        topic: its name.
        topic_id: which topic of that name the offsets belong to.
        buckets: parts of the table, for ever.
        partitions: how many the topic had when the table was made.
        ends: Kafka partition → next offset.
        floor: version below which no row lives.
        resolved: source → offset of the newest resolved record of a label.
        committed_ms: when this was committed, in milliseconds since 1970.
    """

    topic: str
    topic_id: str
    buckets: int
    partitions: int
    ends: Mapping[int, int] = field(default_factory=dict)
    floor: int = 0
    resolved: Mapping[str, int] = field(default_factory=dict)
    committed_ms: int = 0

    @classmethod
    def read(
        cls, properties: Mapping[str, str | None], transaction: Callable[[str], int | None], sources: Mapping[str, Any]
    ) -> Self:
        """That of a table with these properties; `transaction` gives the version of an application's transaction.

        `sources`: whose names may be among the labels. Raises `Terminal` for a table that Lyrebird did not make.
        """
        said = {name: properties.get(_PROPERTY + name) for name in ("topic", "topic_id", "buckets", "partitions")}
        try:
            partitions = int(said["partitions"] or "")
            ends = {p: transaction(f"{_END}{p}") for p in range(partitions)}
            resolved = {source: transaction(_RESOLVED + source) for source in sources}
            return cls(
                said["topic"] or "",
                said["topic_id"] or "",
                int(said["buckets"] or ""),
                partitions,
                {p: end for p, end in ends.items() if end is not None},
                transaction(_FLOOR) or 0,
                {source: offset for source, offset in resolved.items() if offset is not None},
                transaction(_COMMITTED) or 0,
            )
        except ValueError as error:
            raise Terminal(
                "a Delta table stands here that Lyrebird did not make",
                properties=dict(properties),
                fix="Move it away, or choose another `prefix` in section `tables`.",
            ) from error

    def properties(self) -> dict[str, str]:
        """The state's part in the table's properties."""
        return {
            f"{_PROPERTY}{name}": str(getattr(self, name)) for name in ("topic", "topic_id", "buckets", "partitions")
        }

    def transactions(self) -> dict[str, int]:
        """The state's part in the table's transactions."""
        return {
            **{f"{_END}{p}": end for p, end in sorted(self.ends.items())},
            **({_FLOOR: self.floor} if self.floor else {}),
            **{_RESOLVED + source: offset for source, offset in sorted(self.resolved.items())},
            _COMMITTED: self.committed_ms,
        }


def label_text(label: Label) -> dict[str, Any]:
    """A label as plain values, by source."""
    return {source: cut.to_json() for source, cut in sorted(label.items())}


def label_read(said: Any) -> Label:
    """Inverse of `label_text`; empty for a commit without one."""
    return {source: Cut.from_json(each) for source, each in (said or {}).items()}
