"""The report of an audit of a topic's documents, in words and as JSON, with the command that comes next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from include.audit.documents.judge import DocumentDifference
from include.audit.nothing import NothingJudged
from include.document.definition import DocumentDefinition, Lookup

__all__ = ["DocumentFinding", "DocumentsReport", "finding", "tables_of"]

_SHOWN: Final = 20


@dataclass(frozen=True)
class DocumentFinding:
    """A wrong document: `kind` as of `judge.DocumentDifference`, and the tables that its differing fields are read of.

    `stale` is one that is altered in fields of tables alone whose changes signal nothing.
    """

    kind: str
    key: str
    fields: Sequence[str] = ()
    tables: Sequence[str] = ()

    def __str__(self) -> str:
        """For a person."""
        of = f" of {', '.join(self.tables)}" if self.tables else ""
        return f"{self.kind}: {self.key}" + (f" in {', '.join(self.fields)}{of}" if self.fields else "")


@dataclass(frozen=True)
class DocumentsReport:
    """The result for one topic.

    Args:
        topic: the documents'.
        at: when it was made.
        position: of the database, up to which it holds, as GTIDs.
        documents: that the database makes of the keys that were looked at.
        share: `1` of how many parts of the keys was looked at.
        looked_again: keys that differed at first.
        left_out: of these, that were not looked at again, as they are too many.
        found: documents that are wrong.
        unsure: keys that changed whenever they were looked at.
        unknown: keys of which no document can be made now: a needed row is missing, or all rows are transient.
        unreadable: records of the topic whose key or version nobody can read.
        unheard: looked-up tables whose changes signal nothing.
        repaired: what was wrong before, and what was done about it; `found` is what is wrong still.
        took_s: seconds.
        records: offsets of the topic below which it was read.
    """

    topic: str
    at: str
    position: str = ""
    documents: int = 0
    share: int = 1
    looked_again: int = 0
    left_out: int = 0
    found: Sequence[DocumentFinding] = ()
    unsure: int = 0
    unknown: int = 0
    unreadable: int = 0
    unheard: Sequence[str] = ()
    repaired: Mapping[str, Any] | None = None
    took_s: float = 0.0
    records: int = 0

    @property
    def findings(self) -> int:
        """Documents that are wrong, or may be."""
        return len(self.found) + self.left_out

    @property
    def verdict(self) -> Literal["clean", "findings", "incomplete"]:
        """What it comes to; incomplete, too, where the part of the keys that was looked at has no document."""
        nothing = self.documents == 0 and (self.unknown > 0 or self.share > 1)
        return "findings" if self.findings else "incomplete" if self.unsure or nothing else "clean"

    @property
    def or_nothing(self) -> DocumentsReport | NothingJudged:
        """The report, or that it has judged nothing: the database makes no document, and the topic has no record.

        A part of the keys without a document says nothing of the others.
        """
        if self.share > 1 or self.findings or self.documents or self.unsure or self.unknown or self.records:
            return self
        why = f"the database makes no document yet, and {self.topic} has no record"
        return NothingJudged(self.topic, self.at, why, self.topic)

    @property
    def next_command(self) -> str:
        """What to run now; empty when nothing is to be done."""
        if not self.findings:
            return ""
        topic = shlex.quote(self.topic)
        if self.repaired and self.repaired.get("error"):
            return f"lyrebird documents status --topic {topic}"
        if self.left_out or self.repaired:
            return f"lyrebird documents rebuild --topic {topic}"
        return f"lyrebird audit documents {topic} --repair"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        said = {"verdict": self.verdict, "findings": self.findings, "next_command": self.next_command}
        return {**asdict(self), **said}

    def lines(self, shown: int = _SHOWN) -> list[str]:
        """For a person: the verdict, what is wrong, the next step."""
        counts = Counter(wrong_document.kind for wrong_document in self.found)
        said = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
        if self.left_out:
            said += f"{', ' if said else ''}{self.left_out:,} more that differ"
        out = [f"{self.topic}: {said or self.verdict}"]
        share = f", one part of {self.share}" if self.share > 1 else ""
        out.append(f"  {self.documents:,} documents of the database{share}, {self.took_s:.1f} s")
        out.append(f"  the database at {self.position or 'no position'}; {self.looked_again:,} looked at again")
        if not self.documents and self.share > 1:
            out.append("  no document of the database falls into this part: nothing was compared")
        if self.unknown:
            out.append(f"  {self.unknown:,} keys without a document to compare: `lyrebird documents status`")
        if self.unreadable:
            out.append(f"  {self.unreadable:,} records of the topic have a key or version that nobody can read")
        if self.unsure:
            out.append(f"  {self.unsure:,} documents changed whenever they were looked at")
        if self.unheard:
            out.append(f"  changes of {', '.join(self.unheard)} signal nothing: name them under `signals`")
        if self.repaired:
            out.append(
                f"  before the repair: {self.repaired['found']:,} wrong; {self.repaired['asked']:,} written anew"
            )
            if error := self.repaired.get("error"):
                out.append(f"  the repair did not come about: {error}")
        out += [f"  {wrong_document}" for wrong_document in self.found[:shown]]
        if len(self.found) > shown:
            out.append(f"  … and {len(self.found) - shown:,} more")
        if self.next_command:
            out.append(f"  next: {self.next_command}")
        return out


def finding(difference: DocumentDifference, definition: DocumentDefinition) -> DocumentFinding:
    """With the tables that the fields are read of."""
    tables = sorted({table for name in difference.fields for table in tables_of(name, definition)})
    unheard = set(definition.unheard())
    stale = bool(tables) and set(tables) <= unheard
    return DocumentFinding("stale" if stale else difference.kind, difference.key, difference.fields, tables)


def tables_of(name: str, definition: DocumentDefinition) -> list[str]:
    """The tables that a field, as `judge.differing` names it, is read of; all of a document for what is computed."""
    first, *below = name.split(".")
    if first in definition.computed:
        return []
    lookup = definition.lookups.get(first)
    if lookup is None:
        return [definition.fact.table]
    return _tables(lookup, below)


def _tables(lookup: Lookup, below: Sequence[str]) -> list[str]:
    inner = lookup.lookups.get(below[0]) if below else None
    own = [hop.table for hop in lookup.hops]
    return [*own, *_tables(inner, below[1:])] if inner is not None else own
