"""The report of a search audit, in words and as JSON, with the command that comes next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from include.audit.chain.finding import counted
from include.audit.nothing import NothingJudged
from include.audit.search.bisect import Level
from include.audit.search.conservation import ConservationCounts
from include.clock import iso

__all__ = ["ASIDE", "REFUSED", "SearchReport", "UnmadeDocument", "together"]

_SHOWN = 20
ASIDE = "its newest record was set aside"
"""Why a repair leaves a document: what the indexer could not take, a repair cannot take either."""
REFUSED = "the index refuses it"
"""The same where the server says so."""


@dataclass(frozen=True, slots=True)
class UnmadeDocument:
    """A document's newest state, which `application` could not make."""

    doc_id: str
    version: int
    application: str
    reason: str
    at_us: int

    def line(self) -> str:
        """For people."""
        return f"{self.doc_id}: version {self.version} at {iso(self.at_us)} by {self.application}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "doc_id": self.doc_id,
            "version": self.version,
            "application": self.application,
            "reason": self.reason,
            "at": iso(self.at_us),
        }


@dataclass(frozen=True)
class SearchReport:
    """The result of a search audit, and up to where it holds.

    `window` are the offsets that both sides were cut at, from `lows` on, `position` the source position that the
    index is complete to. Of `in_flight` keys the newest state came from above the cut; `behind` records were not
    acknowledged yet and are not judged; `unreadable` records have no key or version that can be read and were set
    aside. A digest's `unresolved_buckets` say that it is incomplete: so many buckets of `bits` differ further.
    `scrub` tells what was read whole to find `altered` bodies, its requests and bytes apart from the digest's.
    `repaired` tells what the audit before this one found, and what was done about it. `one_by_one` is how many counts
    a bisect would have asked for one at a time. The log holds no record from below `starts` any more, so `unproven`
    documents are not judged. Of documents `set_aside` the newest state is on neither side.
    Partitions that are `unsettled`, with so many documents from above the cut, were not compared.
    """

    audit: str
    topic: str
    index: str
    mode: str
    at: str
    window: Mapping[int, int]
    position: Mapping[str, Any] | None
    uncovered: tuple[str, ...] = ()
    lows: Mapping[int, int] = field(default_factory=dict)
    expected: int = 0
    indexed: int = 0
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    in_flight: int = 0
    behind: int = 0
    unreadable: int = 0
    requests: int = 0
    received_bytes: int = 0
    listed: int = 0
    levels: tuple[Level, ...] = ()
    one_by_one: int = 0
    bits: tuple[int, ...] = ()
    differing: int = 0
    unresolved_buckets: int = 0
    scrub: Mapping[str, Any] | None = None
    repaired: Mapping[str, Any] | None = None
    beside: ConservationCounts = field(default_factory=ConservationCounts)
    starts: Mapping[int, int] = field(default_factory=dict)
    unproven: int = 0
    set_aside: tuple[UnmadeDocument, ...] = ()
    unsettled: Mapping[int, int] = field(default_factory=dict)

    @property
    def by_kind(self) -> dict[str, tuple[str, ...]]:
        """Keys by what is wrong with them."""
        return {"missing": self.missing, "extra": self.extra, "stale": self.stale, "altered": self.altered}

    @property
    def keys(self) -> list[str]:
        """Each key with a finding, once."""
        return list(dict.fromkeys(key for keys in self.by_kind.values() for key in keys))

    @property
    def differing_sides(self) -> int:
        """Keys in which both sides differ, what was not compared, and what was found beside."""
        return len(self.keys) + self.unresolved_buckets + len(self.unsettled) + self.beside.findings

    @property
    def findings(self) -> int:
        """Those, and documents whose newest state is on neither side."""
        return self.differing_sides + len(self.set_aside)

    @property
    def verdict(self) -> Literal["clean", "findings"]:
        """What it comes to."""
        return "findings" if self.findings else "clean"

    @property
    def clean(self) -> bool:
        """Whether both sides agree, and are as new as the database."""
        return self.findings == 0

    @property
    def next_command(self) -> str:
        """What to run now; empty when clean."""
        if self.clean:
            return ""
        alias = self.index.rpartition("-v")[0]
        if self.unsettled and not self.keys:
            return f"lyrebird audit search {self.audit}, when the application has caught up"
        if self.unresolved_buckets:
            return f"lyrebird index rebuild {alias}"
        if self.keys:
            return self._after_repair(alias) if self.repaired else f"lyrebird audit search {self.audit} --repair"
        if not self.differing_sides:
            keys = " ".join(f"--key {shlex.quote(each.doc_id)}" for each in self.set_aside[:_SHOWN])
            return f"lyrebird documents rebuild --topic {self.topic} {keys}, when the rows that they lack are there"
        # No key tells what to write anew: only a new generation has neither.
        return f"lyrebird index check {alias}" if self.beside.drift else f"lyrebird index rebuild {alias}"

    def _after_repair(self, alias: str) -> str:
        """What helps where a repair did not: it depends on why it left what is found again."""
        left: Mapping[str, str] = (self.repaired or {}).get("left", {})
        if any(left.get(key, "").startswith((ASIDE, REFUSED)) for key in self.keys):
            return f"lyrebird index replay-dead {alias}"
        if left.keys() & set(self.keys):
            return f"lyrebird index rebuild {alias}"
        # Found for the first time, or again although it was written: something else writes this index.
        return f"lyrebird audit search {self.audit} --repair"

    def to_json(self) -> dict[str, Any]:
        """Plain values, with all keys."""
        return {
            **asdict(self),
            "window": _offsets(self.window),
            "lows": _offsets(self.lows),
            "starts": _offsets(self.starts),
            "unsettled": _offsets(self.unsettled),
            "beside": self.beside.to_json(),
            "set_aside": [each.to_json() for each in self.set_aside],
            "verdict": self.verdict,
            "clean": self.clean,
            "findings": self.findings,
            "next_command": self.next_command,
        }

    def lines(self, shown: int = _SHOWN) -> list[str]:
        """For a person: the verdict, the findings by key (at most `shown` of a kind), how, the next step."""
        counts = ", ".join(f"{len(keys)} {kind}" for kind, keys in self.by_kind.items() if keys)
        if self.unresolved_buckets:
            counts = f"incomplete: {self.unresolved_buckets} buckets differ further; {counts or 'no key'} so far"
        if self.unsettled:
            counts = (
                f"incomplete: {counted(len(self.unsettled), 'partition')} not compared; {counts or 'no key'} so far"
            )
        if self.beside.findings:
            counts = f"{counts or 'documents clean'}, {counted(self.beside.findings, 'finding')} beside"
        if self.set_aside:
            counts = f"{counts or 'both sides equal'}, {len(self.set_aside)} set aside"
        out = [
            f"audit {self.audit} ({self.mode}): {counts or 'clean'}",
            f"  {self.topic} expects {self.expected:,} documents, {self.index} holds {self.indexed:,}",
            f"  judged below offsets {_named(self.window)}"
            + (f", from {_named(self.lows)} on" if any(self.lows.values()) else ""),
        ]
        out += self._limits()
        out += [f"beside: {line}" for line in self.beside.told()]
        for kind, keys in self.by_kind.items():
            out += [f"{kind}: {key}" for key in keys[:shown]]
            if len(keys) > shown:
                out.append(f"{kind}: … and {len(keys) - shown:,} more (--json shows all)")
        out += [f"set aside: {each.line()}" for each in self.set_aside[:shown]]
        if len(self.set_aside) > shown:
            out.append(f"set aside: … and {len(self.set_aside) - shown:,} more (--json shows all)")
        out.append(f"  {self.requests} requests, {self.received_bytes / 1e6:.1f} MB received; {self._how()}")
        out += self._scrubbed()
        if self.repaired:
            out += self._mended()
        if self.next_command:
            out.append(f"next: {self.next_command}")
        return out

    def _limits(self) -> list[str]:
        """What the verdict does not speak of, and up to where it holds."""
        out: list[str] = []
        if self.position:
            out.append(f"  the index is complete to {self.position['gtids']} ({self.position['file']})")
        if self.starts:
            out.append(f"  the log begins at offsets {_named(self.starts)}")
        if self.unproven:
            out.append(f"  {self.unproven:,} documents are of records that the log has let go, and are not judged")
        if self.in_flight:
            out.append(f"  {self.in_flight:,} documents changed meanwhile and are not judged")
        for partition, count in sorted(self.unsettled.items()):
            out.append(f"  not compared: partition {partition}, with {count:,} documents from above the cut")
        if self.behind:
            out.append(f"  {self.behind:,} offsets above these are not judged yet")
        if self.uncovered:
            out.append(f"  not covered: {', '.join(self.uncovered)}")
        if self.unreadable:
            out.append(f"  {self.unreadable} records without a readable key were set aside and are not judged")
        return out

    def _scrubbed(self) -> list[str]:
        said = self.scrub
        if not said:
            return []
        number, of = said["share"] or (0, 0)
        part = f", part {number + 1} of {of} of all among them" if of > 1 else ""
        cost = f"{said['requests']} requests, {said['received_bytes'] / 1e6:.1f} MB received"
        hidden = [
            f"  no search finds {name} of {count:,} documents: its mapping leaves such values out"
            for name, count in sorted(said["hidden"].items())
        ]
        return [f"  scrub: {said['looked_at']:,} documents read whole{part}; {cost}", *hidden]

    def _mended(self) -> list[str]:
        said = self.repaired or {}
        before = ", ".join(f"{len(keys)} {kind}" for kind, keys in said["found"].items() if keys)
        newer = f", {said['overtaken']:,} had a newer state by then" if said["overtaken"] else ""
        done = f"{said['rewritten']:,} written anew from the topic, {said['removed']:,} hidden by a tombstone{newer}"
        if said["left"]:
            done += f", {len(said['left']):,} not mended"
        left = [f"not mended: {key}: {why}" for key, why in sorted(said["left"].items())[:_SHOWN]]
        if len(said["left"]) > _SHOWN:
            left.append(f"not mended: … and {len(said['left']) - _SHOWN:,} more (--json shows all)")
        again = {key for keys in said["found"].values() for key in keys} & set(self.keys) - said["left"].keys()
        if again:
            left.append(f"  {len(again):,} were mended and are wrong again: does another program write this index?")
        return [f"  before the repair: {before}; {done}", *left]

    def _how(self) -> str:
        listed = f"; {self.listed:,} documents listed" if self.listed else ""
        if self.mode == "digest":
            bits = " then ".join(f"2^{bits}" for bits in self.bits)
            return f"{bits} buckets in two views; {self.differing} states differed{listed}"
        walk = " → ".join(f"{level.differing} of {level.counted} ranges differ" for level in self.levels)
        return f"{walk or 'one range'}{listed}; one request for each count would have made {self.one_by_one}"


def _offsets(vector: Mapping[int, int]) -> dict[str, int]:
    return {str(p): offset for p, offset in sorted(vector.items())}


def _named(vector: Mapping[int, int]) -> str:
    return ", ".join(f"{p}:{offset}" for p, offset in sorted(vector.items()))


def together(reports: Iterable[SearchReport | NothingJudged]) -> dict[str, Any]:
    """Several reports as one: {"audits": {name: {"findings": count, …}}}."""
    return {
        "audits": {
            report.what if isinstance(report, NothingJudged) else report.audit: report.to_json() for report in reports
        }
    }
