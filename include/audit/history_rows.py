"""Makes the rows of a kept audit run, one for each thing that it looked at: for the page and the command alike."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from include.audit.chain.finding import counted
from include.audit.documents.report import DocumentFinding
from include.audit.expectations.report import results_of
from include.audit.history import AuditKind, StoredRun
from include.audit.joins.report import EMPTY_PART
from include.audit.merkle.report import RowFinding
from include.audit.nothing import LOST, judged_nothing
from include.audit.search.conservation import ConservationCounts

__all__ = ["HistoryRow", "rows_of"]

_FAULTS: Final = ("missing", "extra", "stale", "altered")
_NAMED: Final = 5


@dataclass(frozen=True)
class HistoryRow:
    """One audit of a run, one topic of a chain's audit, or one failed expectation.

    `clean` is the verdict, `said` the same in words with what was found, `effort` what it took, `position` up to where
    it holds, `next_command` what to run now (empty when clean), `details` the findings by name. `incomplete`: nothing
    was found wrong, but not all could be looked at; `nothing`: nothing at all could, as it is not there yet.
    """

    run_id: str
    at: str
    what: str
    clean: bool
    said: str
    effort: str = ""
    position: str = ""
    next_command: str = ""
    details: tuple[str, ...] = ()
    incomplete: bool = False
    nothing: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "details": list(self.details)}


def rows_of(kind: AuditKind, kept: StoredRun) -> list[HistoryRow]:
    """The rows of one run; one of an audit that found nothing to judge has a row that says so."""
    if kind == "replay":
        return [_replay(kept.run_id, report) for report in kept.report.get("replays", ())]
    make, section = _ROWS[kind]
    rows = [
        _nothing(kept.run_id, report.get("table", name), report)
        if judged_nothing(report)
        else make(kept.run_id, name, report)
        for name, report in sorted(kept.report.get(section, {}).items())
    ]
    if kind == "chain":
        groups = sorted(kept.report.get("nothing", {}).items())
        rows += [_nothing(kept.run_id, f"group {group}", entry) for group, entry in groups]
    rows += [_expectations(kept.run_id, *entry) for entry in sorted(kept.expectations.items())]
    return rows or [_nothing(kept.run_id, f"all {section}", {})]


def _nothing(run_id: str, what: str, entry: Mapping[str, Any]) -> HistoryRow:
    lost = entry.get("verdict") == LOST
    return HistoryRow(
        run_id,
        str(entry.get("at", "")),
        what,
        clean=False,
        said="lost: an earlier run has judged it" if lost else "nothing to judge yet",
        next_command="lyrebird status" if lost else "",
        details=(str(entry["error"]),) if entry.get("error") else (),
        incomplete=not lost,
        nothing=not lost,
    )


def _search(run_id: str, name: str, report: Mapping[str, Any]) -> HistoryRow:
    keys_by_fault = {fault: report.get(fault) or () for fault in _FAULTS}
    counts = ", ".join(f"{len(keys):,} {fault}" for fault, keys in keys_by_fault.items() if keys)
    if buckets := report.get("unresolved_buckets"):
        counts = f"incomplete, {counted(buckets, 'bucket')} differ further; {counts or 'no key so far'}"
    if unsettled := report.get("unsettled"):
        counts = f"incomplete, {counted(len(unsettled), 'partition')} not compared; {counts or 'no key so far'}"
    beside = ConservationCounts(**report.get("beside", {}))
    if beside.findings:
        counts = f"{counts or 'documents clean'}, {counted(beside.findings, 'finding')} beside"
    aside = [str(each["doc_id"]) for each in report.get("set_aside", ())]
    if aside:
        counts = f"{counts or 'both sides equal'}, {len(aside):,} set aside"
        keys_by_fault["set aside"] = aside
    findings = int(report.get("findings", 0))
    clean = not findings
    requests = report.get("requests")
    scrubbed = (report.get("scrub") or {}).get("requests")
    effort = [counted(requests, "request")] if requests is not None else []
    effort += [f"{counted(scrubbed, 'request')} of the scrub"] if scrubbed is not None else []
    return HistoryRow(
        run_id,
        str(report.get("at", "")),
        f"{name} ({report['mode']})" if report.get("mode") else name,
        clean,
        f"clean: {report.get('expected', 0):,} documents" if clean else counts or counted(findings, "finding"),
        ", ".join(effort),
        _position(report),
        str(report.get("next_command", "")),
        tuple(
            f"{fault}: {', '.join(keys[:_NAMED])}{f' and {len(keys) - _NAMED:,} more' if len(keys) > _NAMED else ''}"
            for fault, keys in keys_by_fault.items()
            if keys
        )
        + tuple(beside.told()),
    )


def _position(report: Mapping[str, Any]) -> str:
    position = report.get("position") or {}
    offsets = _offsets(report.get("window") or {})
    return f"{position['gtids']}; offsets {offsets}" if position.get("gtids") else f"offsets {offsets}"


def _offsets(window: Mapping[str, int]) -> str:
    return ", ".join(f"{p}:{offset}" for p, offset in sorted(window.items(), key=lambda each: int(each[0])))


def _expectations(run_id: str, audit: str, report: Mapping[str, Any]) -> HistoryRow:
    nothing = tuple(f"{topic}: nothing is indexed yet" for topic in report.get("nothing", ()))
    if nothing and not report["topics"]:
        entry = {"at": report["at"], "error": "; ".join(nothing)}
        return _nothing(run_id, f"{audit}: expectations", entry)
    results = results_of(report)
    failed = [result for result in results if not result.success]
    documents = sum(topic["documents"] for topic in report["topics"])
    windows = "; ".join(f"{topic['topic']} {_offsets(topic['window'])}" for topic in report["topics"])
    said = f"{counted(len(results), 'expectation')} met: {documents:,} documents"
    if failed:
        said = f"{len(failed)} of {counted(len(results), 'expectation')} failed"
    return HistoryRow(
        run_id,
        str(report["at"]),
        f"{audit}: expectations",
        not failed,
        said,
        "",
        f"offsets {windows}",
        f"lyrebird audit history --audit {shlex.quote(audit)}" if failed else "",
        tuple(f"{result.name}: {result.said}" for result in failed) + nothing,
    )


def _join(run_id: str, name: str, report: Mapping[str, Any]) -> HistoryRow:
    counts_by_fault, keys = report.get("found") or {}, report.get("keys") or {}
    counts = ", ".join(f"{count:,} {fault}" for fault, count in counts_by_fault.items() if count)
    sample = int(report.get("sample", 1))
    incomplete = report.get("verdict") == "incomplete"
    details = [
        f"{fault}: {', '.join(keys.get(fault, ())[:_NAMED])}" for fault, count in counts_by_fault.items() if count
    ]
    return HistoryRow(
        run_id,
        str(report.get("at", "")),
        f"{name} (one of {sample})" if sample > 1 else name,
        not (counts or incomplete),
        counts or f"{'incomplete' if incomplete else 'clean'}: {report.get('expected', 0):,} outputs",
        "",
        "; ".join(f"{source} {position}" for source, position in (report.get("positions") or {}).items()),
        str(report.get("next_command", "")),
        tuple([*details, *([EMPTY_PART] if incomplete else [])]),
        incomplete=incomplete,
    )


def _replay(run_id: str, report: Mapping[str, Any]) -> HistoryRow:
    clean, error = bool(report["clean"]), report.get("error")
    said = ", ".join(f"{count:,} {fault}" for fault, count in report.get("found", {}).items())
    if error:
        said = "not replayed"
    elif clean:
        said = f"the same: {counted(report['live'], 'output')}"
    return HistoryRow(
        run_id,
        str(report["at"]),
        f"{report['job']} on {report['day']}",
        clean,
        said or "the replay ended too early",
        f"{report['took_s']:.0f} s, {counted(report.get('read', 0), 'record')}",
        str(report.get("until", "")),
        "" if clean else f"lyrebird eventtime verify {shlex.quote(report['job'])} --day {report['day']}",
        (error,) if error else () if clean else tuple(report["said"]),
        # Nothing is wrong with a day that the live run has not come to.
        incomplete=bool(error) and bool(report.get("waits", True)),
    )


def _table(run_id: str, _name: str, report: Mapping[str, Any]) -> HistoryRow:
    findings = [RowFinding(finding["kind"], finding["key"], finding["columns"]) for finding in report["found"]]
    counts = Counter(finding.kind for finding in findings)
    said = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
    if left := report["left_out"]:
        said += f"{', ' if said else ''}{counted(left, 'leaf')} more"
    if silent := report.get("unexplained"):
        said += f"{', ' if said else ''}{counted(silent, 'leaf')} with a key twice in the copy"
    failed = [result for result in results_of({"results": report.get("expected") or ()}) if not result.success]
    if failed:
        said += f"{', ' if said else ''}{counted(len(failed), 'expectation')} not met"
    verdict = report["verdict"]
    said = said or f"{verdict}: {report['error'] or counted(report['rows'], 'row')}"
    details = [str(finding) for finding in findings[:_NAMED]]
    details += [f"and {len(findings) - _NAMED:,} more"] if len(findings) > _NAMED else []
    details += [f"{result.name}: {result.said}" for result in failed]
    if verdict == "incomplete":
        details += [f"not compared: {column}: {why}" for column, why in report["not_compared"].items()]
        details += ["the copy does not cover the table"] if report["uncovered"] else []
        details += [f"{counted(report['unsure'], 'row')} changed whenever looked at"] if report["unsure"] else []
    repaired = report.get("repaired")
    effort = f"{report['took_s']:.0f} s, {counted(report['ranges'], 'range')}"
    return HistoryRow(
        run_id,
        str(report["at"]),
        f"{report['table']} ({report['where']})" if report.get("where") else str(report["table"]),
        verdict == "clean",
        f"{said}; repaired {counted(repaired['rows'], 'row')}" if repaired else said,
        effort,
        f"{report['source']} {report['position']}" if report["position"] else "",
        str(report["next_command"]),
        tuple(details),
        incomplete=verdict == "incomplete",
    )


def _documents(run_id: str, _name: str, report: Mapping[str, Any]) -> HistoryRow:
    findings = [DocumentFinding(**finding) for finding in report["found"]]
    said = ", ".join(
        f"{count:,} {kind}" for kind, count in sorted(Counter(finding.kind for finding in findings).items())
    )
    if left := report["left_out"]:
        said += f"{', ' if said else ''}{left:,} more"
    verdict, repaired = report["verdict"], report["repaired"]
    said = said or f"{verdict}: {counted(report['documents'], 'document')}"
    details = [str(finding) for finding in findings[:_NAMED]]
    details += [f"and {len(findings) - _NAMED:,} more"] if len(findings) > _NAMED else []
    if not report["documents"] and report["share"] > 1:
        details.append("no document of the database falls into this part: nothing was compared")
    details += [f"{counted(report['unsure'], 'document')} changed whenever looked at"] if report["unsure"] else []
    details += [f"{counted(report['unknown'], 'key')} without a document to compare"] if report["unknown"] else []
    details += [f"{counted(report['unreadable'], 'record')} that nobody can read"] if report["unreadable"] else []
    return HistoryRow(
        run_id,
        str(report["at"]),
        f"{report['topic']} (one of {report['share']})" if report["share"] > 1 else str(report["topic"]),
        verdict == "clean",
        f"{said}; repaired {counted(repaired['asked'], 'document')}" if repaired else said,
        f"{report['took_s']:.0f} s",
        str(report["position"]),
        str(report["next_command"]),
        tuple(details),
        incomplete=verdict == "incomplete",
    )


def _chain(run_id: str, topic: str, report: Mapping[str, Any]) -> HistoryRow:
    findings = report.get("findings") or []
    groups = report.get("groups") or []
    heads = [f"{group['group']} {_offsets(found)}" for group in groups for found in (group.get("heads") or {}).values()]
    commits = sum(group.get("commits", 0) for group in groups)
    objects = sum(group.get("objects", 0) for group in groups)
    faults = [f"{each['fault']} ({each['group']}): {each['key'] or ''} {each['meaning']}" for each in findings[:_NAMED]]
    if len(findings) > _NAMED:
        faults.append(f"and {len(findings) - _NAMED:,} more")
    return HistoryRow(
        run_id,
        str(report.get("at", "")),
        f"{topic} ({report['depth']})" if report.get("depth") else topic,
        not findings,
        "clean" if not findings else counted(len(findings), "finding"),
        f"{counted(commits, 'commit')}, {counted(objects, 'object')}",
        "; ".join(heads),
        str(report.get("next_command", "")),
        tuple(faults),
    )


_ROWS: Final[Mapping[AuditKind, tuple[Callable[[str, str, Mapping[str, Any]], HistoryRow], str]]] = {
    "search": (_search, "audits"),
    "document": (_documents, "documents"),
    "table": (_table, "tables"),
    "join": (_join, "audits"),
    "chain": (_chain, "topics"),
}
"""What makes a row of an entry, and the section of a report that has the entries by name."""
