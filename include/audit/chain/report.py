"""The report of a chain audit of one topic, in words and as JSON: each finding with the command that comes next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from include.audit.chain.finding import ChainFinding, counted
from include.audit.nothing import NOTHING, NothingJudged

__all__ = ["ChainReport", "GroupFigures", "audit_line", "together"]

_SHOWN = 20
_NO_CUT: Final = "no cut of it is committed yet. Does its application run? `lyrebird lake status` tells."


@dataclass
class GroupFigures:
    """The figures of one group for the topic.

    `heads`: by life (its topic id) and Kafka partition up to where readers find all offsets. `under_way` are cuts begun
    and not committed, of this generation or an overtaken one; `replaced` objects of cuts that readers find elsewhere,
    gone already; `lost` offsets that the log dropped before they were stored, as commits say; `summaries` were written,
    `summaries_due` refused by the store.
    """

    group: str
    kind: str
    heads: dict[str, dict[int, int]] = field(default_factory=dict)
    commits: int = 0
    objects: int = 0
    bytes: int = 0
    records: int = 0
    filtered: int = 0
    quarantined: int = 0
    lost: int = 0
    under_way: int = 0
    replaced: int = 0
    summaries: int = 0
    summaries_due: int = 0
    mended: int = 0
    bytes_read: int = 0

    @property
    def judged(self) -> bool:
        """Whether anything is or was there: a writer that has begun alone leaves a pointer, and nothing to judge."""
        heads = [head for found in self.heads.values() for head in found.values()]
        return any([self.commits, self.objects, *heads])

    def to_json(self) -> dict[str, Any]:
        """Plain values, with all keys."""
        heads = {life: {str(p): head for p, head in sorted(found.items())} for life, found in self.heads.items()}
        return {**asdict(self), "heads": heads, "judged": self.judged}

    def lines(self) -> list[str]:
        """For a person."""
        read = self.records - self.filtered
        size = f"{counted(self.commits, 'commit')}, {counted(self.objects, 'object')}, {self.bytes:,} bytes"
        sums = f"{read - self.quarantined:,} written + {self.filtered:,} filtered + {self.quarantined:,} quarantined"
        out = [f"  {self.group} ({self.kind}): {size}; {self.records:,} records read = {sums}"]
        for life, found in self.heads.items():
            heads = ", ".join(f"{p}:{head}" for p, head in sorted(found.items()))
            out.append(f"    complete up to {heads or 'nothing'} (topic id {life})")
        for number, text in (
            (self.lost, "offsets lost to the log's retention before they were stored"),
            (self.under_way, "cuts under way, or left by an overtaken generation"),
            (self.replaced, "objects gone of cuts that readers find in another generation"),
            (self.summaries, "summaries written"),
            (self.summaries_due, "summaries that are due, and may not be written with these credentials"),
            (self.mended, "objects of the chain mended"),
        ):
            if number:
                out.append(f"    {text}: {number:,}")
        return out


@dataclass(frozen=True)
class ChainReport:
    """One topic in all groups that were asked for. `notes` are no faults."""

    topic: str
    at: str
    depth: str
    groups: tuple[GroupFigures, ...]
    findings: tuple[ChainFinding, ...]
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Literal["clean", "findings", "nothing"]:
        """What it comes to; nothing: no group has a cut of the topic yet."""
        return "findings" if self.findings else "clean" if any(group.judged for group in self.groups) else NOTHING

    @property
    def clean(self) -> bool:
        """Whether something was judged, and nothing was found."""
        return self.verdict == "clean"

    @property
    def next_command(self) -> str:
        """What to run now; empty when clean."""
        return self.findings[0].next_command if self.findings else ""

    def to_json(self) -> dict[str, Any]:
        """Plain values, with all keys."""
        return {
            "topic": self.topic,
            "at": self.at,
            "depth": self.depth,
            "verdict": self.verdict,
            "error": _NO_CUT if self.verdict == NOTHING else "",
            "clean": self.clean,
            "groups": [group.to_json() for group in self.groups],
            "findings": [finding.to_json() for finding in self.findings],
            "notes": list(self.notes),
            "next_command": self.next_command,
        }

    def lines(self, shown: int = _SHOWN) -> list[str]:
        """The verdict, what each group has, the findings (at most `shown` of a fault) with their next commands."""
        if self.verdict == NOTHING:
            return [f"chains of {self.topic}: nothing to judge: {_NO_CUT}"]
        verdict = "clean" if self.clean else counted(len(self.findings), "finding")
        out = [f"chains of {self.topic}: {verdict} ({self.depth}, {self.at})"]
        for group in self.groups:
            out += group.lines()
        out += [f"  note: {note}" for note in self.notes]
        by_fault: dict[str, list[ChainFinding]] = {}
        for finding in self.findings:
            by_fault.setdefault(finding.fault, []).append(finding)
        for fault, found in by_fault.items():
            for finding in found[:shown]:
                out += [finding.line(), f"  next: {finding.next_command}"]
            if len(found) > shown:
                out.append(f"{fault}: … and {len(found) - shown:,} more (--json shows all)")
        return out


def together(reports: Iterable[ChainReport], nothing: Iterable[NothingJudged] = ()) -> dict[str, Any]:
    """Several reports as one: {"verdict": …, "clean": …, "topics": {name: report}, "nothing": {group: …}}.

    `nothing` are groups that have stored nothing yet; the verdict is that of the topics that could be judged.
    """
    topics = {report.topic: report.to_json() for report in reports}
    verdicts = {each["verdict"] for each in topics.values()}
    verdict = next((each for each in ("findings", "clean") if each in verdicts), NOTHING)
    return {
        "verdict": verdict,
        "clean": verdict == "clean",
        "topics": topics,
        "nothing": {each.what: each.to_json() for each in nothing},
    }


def audit_line(reports: Sequence[ChainReport]) -> str:
    """All reports on one line, for a summary."""
    topics: Mapping[str, ChainReport] = {report.topic: report for report in reports if report.verdict != NOTHING}
    if not topics:
        return "chain audit: nothing to judge, as nothing is stored yet"
    groups = {figures.group for report in reports for figures in report.groups}
    commits = sum(figures.commits for report in reports for figures in report.groups)
    objects = sum(figures.objects for report in reports for figures in report.groups)
    looked = f"{counted(len(topics), 'topic')} in {counted(len(groups), 'group')}, {counted(commits, 'commit')}"
    looked += f", {counted(objects, 'object')}"
    dirty = [name for name, report in topics.items() if not report.clean]
    if not dirty:
        return f"chain audit: clean ({looked})"
    findings = sum(len(topics[name].findings) for name in dirty)
    return f"chain audit: {counted(findings, 'finding')} ({looked}); next: lyrebird audit chain {dirty[0]}"
