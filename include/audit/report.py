"""What an audit found, in words and as JSON, with the command that comes next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from include.audit.bisect import Level

__all__ = ["SearchReport", "together"]

_SHOWN = 20
_NAMED = 10


@dataclass(frozen=True)
class SearchReport:
    """The result of a search audit, and up to where it holds.

    `window` are the offsets that both sides were cut at, `position` the source position that the index is complete
    to. `in_flight` keys differed at the cut and no longer do; `behind` records were not acknowledged yet and are not
    judged; `unreadable` records have no key or version that can be read and were set aside.
    """

    audit: str
    topic: str
    index: str
    at: str
    window: Mapping[int, int]
    position: Mapping[str, Any] | None
    uncovered: tuple[str, ...]
    expected: int
    indexed: int
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    in_flight: int
    behind: int
    unreadable: int
    requests: int
    listed: int
    levels: tuple[Level, ...] = field(default=())

    @property
    def clean(self) -> bool:
        """Whether both sides agree."""
        return not self.missing and not self.extra

    @property
    def next_command(self) -> str:
        """What to run now; empty when clean. Few keys are written anew by name, many with the whole topic."""
        if self.clean:
            return ""
        keys = [*self.missing, *self.extra]
        named = keys if len(keys) <= _NAMED else []
        return " ".join(
            ["lyrebird documents rebuild --topic", self.topic, *(f"--key {shlex.quote(key)}" for key in named)]
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values, with all keys."""
        return {
            **asdict(self),
            "window": {str(p): offset for p, offset in sorted(self.window.items())},
            "clean": self.clean,
            "findings": len(self.missing) + len(self.extra),
            "next_command": self.next_command,
        }

    def lines(self, shown: int = _SHOWN) -> list[str]:
        """For a person: the verdict, the findings by key (at most `shown` of a kind), the walk, the next step."""
        verdict = "clean" if self.clean else f"{len(self.missing)} missing, {len(self.extra)} extra"
        ends = ", ".join(f"{p}:{offset}" for p, offset in sorted(self.window.items()))
        out = [
            f"audit {self.audit}: {verdict}",
            f"  {self.topic} expects {self.expected} documents, {self.index} holds {self.indexed}",
            f"  judged below offsets {ends}",
        ]
        if self.position:
            out.append(f"  the index is complete to {self.position['gtids']} ({self.position['file']})")
        if self.behind:
            out.append(f"  {self.behind} records above these offsets are not judged yet")
        if self.uncovered:
            out.append(f"  not covered: {', '.join(self.uncovered)}")
        if self.unreadable:
            out.append(f"  {self.unreadable} records without a readable key were set aside and are not judged")
        for kind, keys in (("missing", self.missing), ("extra", self.extra)):
            out += [f"{kind}: {key}" for key in keys[:shown]]
            if len(keys) > shown:
                out.append(f"{kind}: … and {len(keys) - shown} more (--json shows all)")
        walk = " → ".join(f"{level.differing} of {level.counted} ranges differ" for level in self.levels)
        out.append(f"  {self.requests} requests; {walk or 'one range'}; {self.listed} ids listed")
        if self.next_command:
            out.append(f"next: {self.next_command}")
        return out


def together(reports: Iterable[SearchReport]) -> dict[str, Any]:
    """Several reports as one: {"audits": {name: {"findings": count, …}}}."""
    return {"audits": {report.audit: report.to_json() for report in reports}}
