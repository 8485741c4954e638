"""The report of an audit of a table, in words and as JSON, with the command that comes next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

from include.audit.expectations.report import ExpectationResult, results_of
from include.audit.merkle.rows import DifferingRow
from include.source.hashes.columns import ComparedRows
from include.source.hashes.printed import printed_key

__all__ = ["RowFinding", "TableAuditReport", "TableVerdict", "summary"]

TableVerdict = Literal["clean", "findings", "incomplete", "failed", "nothing"]
"""incomplete: nothing is wrong, as far as could be seen, and not all could be; failed: nothing was seen; nothing: there
is nothing yet that could be judged (`audit.nothing`)."""
_SHOWN: Final = 20


@dataclass(frozen=True)
class RowFinding:
    """A row that is wrong: `kind` as of `rows.DifferingRow`, its key by column, and the columns that differ.

    `named`: whether the row can be asked for by this key.
    """

    kind: str
    key: Mapping[str, str | None]
    columns: Sequence[str] = ()
    named: bool = True

    @classmethod
    def of(cls, difference: DifferingRow, rows: ComparedRows) -> RowFinding:
        """Of a difference between rows that are compared so."""
        key = printed_key(rows, difference.key)
        hashed = any(each.mask is not None or each.kind in ("long_text", "bytes") for each in rows.key)
        # A text that starts so may be one of bytes that its charset leaves open.
        open_ = any(each.charset and str(key[each.column.name]).startswith("?") for each in rows.key)
        named = not (rows.keyless or hashed or open_) and None not in key.values()
        return cls(difference.kind, key, difference.columns, named)

    def __str__(self) -> str:
        """For a person."""
        key = ", ".join(f"{name} {'NULL' if value is None else value}" for name, value in self.key.items())
        return f"{self.kind}: {key}" + (f" in {', '.join(self.columns)}" if self.columns else "")


@dataclass(frozen=True)
class TableAuditReport:
    """The result for one table.

    Args:
        source: its name.
        table: `database.table`.
        against: the copy that it was compared with, in words.
        at: when it was made.
        position: of the database, that its last range is of, as GTIDs.
        rows: of the database.
        ranges: that these were read in.
        leaves: of the tree.
        differing: leaves that were not the same.
        left_out: of these, whose rows were not looked at.
        unexplained: of these, in which no row differs: the copy has a key twice.
        found: rows that are wrong.
        unsure: rows that changed whenever they were looked at.
        not_compared: why columns were left out, by name.
        uncovered: the copy does not speak for the table.
        unreadable: records that nobody can read.
        error: why nothing could be said, "" where something was.
        transient: trying again may help.
        incomparable: the table cannot be compared as it is, through nobody's fault.
        nothing: no copy is there yet, or neither side has a row or record.
        took_s: seconds.
        paused_s: of them, for which others kept the server busy.
        repaired: what was wrong before, and what was done about it (`RepairedRows`); `found` is what is wrong still.
        expected: what the rows of the lake's table are expected to be, as `ExpectationResult.to_json` has it.
        where: the condition that chose the rows, "" for all.
        changed: numbers of the leaves that have changed since the run before, None without one.
        wrong: numbers of the leaves that differed at first.
        tree: as `Tree.to_json`.
        topic: by which the lake's table was judged, "" where the database was asked.
    """

    source: str
    table: str
    against: str
    at: str
    position: str = ""
    rows: int = 0
    ranges: int = 0
    leaves: int = 0
    differing: int = 0
    left_out: int = 0
    unexplained: int = 0
    found: Sequence[RowFinding] = ()
    unsure: int = 0
    not_compared: Mapping[str, str] = field(default_factory=dict)
    uncovered: bool = False
    unreadable: int = 0
    error: str = ""
    transient: bool = False
    incomparable: bool = False
    nothing: bool = False
    took_s: float = 0.0
    paused_s: float = 0.0
    repaired: Mapping[str, Any] | None = None
    expected: Sequence[Mapping[str, Any]] = ()
    where: str = ""
    changed: Sequence[int] | None = None
    wrong: Sequence[int] = ()
    tree: Mapping[str, Any] = field(default_factory=dict, repr=False)
    topic: str = ""

    @property
    def findings(self) -> int:
        """Rows that are wrong, leaves that have some for certain, and expectations that are not met."""
        return len(self.found) + self.left_out + self.unexplained + len(self.failed)

    @property
    def failed(self) -> list[ExpectationResult]:
        """Expectations that are not met."""
        return [each for each in results_of({"results": self.expected}) if not each.success]

    @property
    def verdict(self) -> TableVerdict:
        """What it comes to."""
        if self.nothing:
            return "nothing"
        if self.error:
            return "incomplete" if self.incomparable else "failed"
        if self.findings:
            return "findings"
        return "incomplete" if self.uncovered or self.not_compared or self.unsure else "clean"

    def judging(self, records: int) -> TableAuditReport:
        """The report, or that it has judged nothing: the table has no row, and its copy is made of no record.

        Where a condition chose the rows, that says nothing of the table.
        """
        if self.verdict != "clean" or self.rows or records:
            return self
        if self.where:
            why = f"no row of the table has {self.where}, and its copy is made of no record"
            return replace(self, incomparable=True, error=why)
        return replace(self, nothing=True, error="the table has no row yet, and its copy is made of no record")

    @property
    def next_command(self) -> str:
        """What to run now; empty when nothing is to be done. Where a repair did not help, the whole table."""
        if not self.findings:
            return ""
        if not (self.found or self.left_out or self.unexplained):
            # The copy is the table: what it holds is for people to mend.
            return f"lyrebird audit tables --source {self.source} --table {self.table}"
        if self.topic:
            return f"lyrebird table rebuild {self.topic}"
        if self.repaired and self.repaired.get("error"):
            return f"lyrebird capture status --source {self.source}"
        if self.repaired:
            return f"lyrebird capture reread --source {self.source} {self.table}"
        where = f" --where {shlex.quote(self.where)}" if self.where else ""
        return f"lyrebird audit tables --source {self.source} --table {self.table}{where} --repair"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            **asdict(self),
            "verdict": self.verdict,
            "findings": self.findings,
            "next_command": self.next_command,
        }

    def lines(self, shown: int = _SHOWN) -> list[str]:
        """For a person: the verdict, what is wrong, the next step."""
        told = "nothing to judge: " if self.nothing else ""
        out = [f"{self.table}: {told}{self.error or self._said() or self.verdict}"]
        if self.error:
            return out
        out += [*self._seen(), *self._doubts()]
        if self.repaired:
            what = "the whole table" if self.repaired["whole"] else f"{self.repaired['rows']:,} rows"
            out.append(f"  before the repair: {_counted(self.repaired['found'])}; capture read {what} again")
            if error := self.repaired.get("error"):
                out.append(f"  the repair did not come about: {error}")
        out += [f"  {each}" for each in self.found[:shown]]
        if len(self.found) > shown:
            out.append(f"  … and {len(self.found) - shown:,} more")
        out += [f"  {each.line()}" for each in self.failed]
        if self.next_command:
            out.append(f"  next: {self.next_command}")
        return out

    def _said(self) -> str:
        said = [_counted(Counter(each.kind for each in self.found))] if self.found else []
        said += [f"{self.left_out:,} more leaves that differ"] if self.left_out else []
        said += (
            [f"{self.unexplained:,} leaves that differ in no row: the copy has a key twice"] if self.unexplained else []
        )
        said += [f"{len(self.failed)} expectations not met"] if self.failed else []
        return ", ".join(said)

    def _seen(self) -> list[str]:
        out = [f"  {self.rows:,} rows in {self.ranges:,} ranges against {self.against}, {self.took_s:.1f} s"]
        if self.where:
            out.append(f"  only rows with {self.where}")
        if self.changed is not None:
            out.append(f"  {len(self.changed):,} of {self.leaves:,} leaves have changed since the run before")
        out.append(f"  the {'topic' if self.topic else 'database'} at {self.position or 'no position'}")
        if self.expected:
            met = len(self.expected) - len(self.failed)
            out.append(f"  {met} of {len(self.expected)} expectations of the lake's rows are met")
        return out

    def _doubts(self) -> list[str]:
        out = []
        if self.uncovered:
            out.append("  the copy does not cover the table yet: `lyrebird capture status`")
        out += [f"  not compared: {name}: {why}" for name, why in self.not_compared.items()]
        if self.unsure:
            out.append(f"  {self.unsure:,} rows changed whenever they were looked at")
        if self.unreadable:
            out.append(f"  {self.unreadable:,} records of the topic cannot be read")
        return out


def summary(reports: Sequence[TableAuditReport]) -> str:
    """The verdict over several tables, in one line."""
    counts = Counter(each.verdict for each in reports)
    positions = {each.source: each.position for each in reports if each.position}
    at = "; ".join(f"{source} at {position}" for source, position in sorted(positions.items()))
    shown: tuple[TableVerdict, ...] = ("findings", "failed", "incomplete", "nothing", "clean")
    parts = ", ".join(f"{counts[each]} {each}" for each in shown if counts[each])
    return f"{len(reports)} tables: {parts or 'none'}" + (f" ({at})" if at else "")


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
