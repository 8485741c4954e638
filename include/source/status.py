"""Puts together what `lyrebird capture status` says of a source, from the log, the run folder and the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from include.clock import iso
from include.log.ports import LogReader
from include.log.requests.records import Request
from include.log.resolved import ResolvedRecord
from include.log.topics import source_requests
from include.source.database.binlog_files import BinlogLook
from include.source.log.direct_log import answers_by_id
from include.source.phase import phase_of
from include.source.state.capture_state import CaptureState, TableSetAside

__all__ = ["lines_of", "open_requests", "refused_requests", "status_of"]

_OPS = {"c": "inserted", "u": "updated", "d": "deleted", "r": "read"}


def open_requests(reader: LogReader, name: str) -> list[str]:
    """Ids of the requests that are neither done nor refused, in the order in which they were made."""
    topic = source_requests(name)
    closed = {id_ for id_, answer in answers_by_id(reader, name).items() if answer.state in ("done", "refused")}
    asked = [
        Request.parse(record.value).id
        for record in reader.read(topic, 0, reader.begin_offsets(topic)[0], reader.end_offsets(topic)[0])
        if record.value is not None
    ]
    return [id_ for id_ in dict.fromkeys(asked) if id_ not in closed]


def refused_requests(reader: LogReader, name: str, most: int = 5) -> list[dict[str, Any]]:
    """The newest requests that were refused, and why; answers are kept for thirty days."""
    refused = [answer for answer in answers_by_id(reader, name).values() if answer.state == "refused"]
    newest = sorted(refused, key=lambda answer: answer.at_us)[-most:]
    return [{"id": answer.id, "at_us": answer.at_us, "note": answer.note} for answer in newest]


def status_of(
    name: str,
    last: ResolvedRecord | None,
    requests: list[str],
    progress: Mapping[str, Any],
    server: BinlogLook | str,
    now_us: int,
    *,
    running: bool,
    gave_up: Mapping[str, Any] | None = None,
    unread: str = "",
    refused: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Plain values.

    Args:
        name: the source.
        last: the newest resolved record; None: nothing was ever captured, or the log could not be read.
        requests: ids of open requests.
        progress: what a capture on this host reported last; {} when none ever did. It counts from the start of that
            capture; all else is as of the log.
        server: how the server's binlog stands to the position, or why that is not known.
        now_us: wall clock.
        running: whether that capture runs now.
        gave_up: why it ended, where it said that a restart would meet the same.
        unread: why the log could not be read; then position, lag and snapshot are as capture reported them last.
        refused: requests that capture refused lately.
    """
    look = server if isinstance(server, BinlogLook) else None
    state = CaptureState() if last is None else CaptureState.from_json(last.state)
    position = None if last is None else last.position
    told = progress if unread else {}
    away = "kafka" if unread else "mysql" if last is not None and look is None else ""
    commit_us = told.get("commit_us") if position is None else position.commit_us
    return {
        "source": name,
        "running": running,
        "state": phase_of(progress, gave_up or {}, now_us, running=running, away=away).to_json(),
        "log": unread or None,
        "snapshot": told.get("snapshot", "unknown" if unread else "missing") if last is None else state.snapshot,
        "position": told.get("position") if position is None else str(position.binlog),
        "gtids": told.get("gtids") if position is None else str(position.gtids),
        "commit_us": commit_us,
        "lag_s": None if commit_us is None else max(0.0, (now_us - commit_us) / 1e6),
        "lag_bytes": None if look is None else look.lag_bytes,
        "purge": {
            "hours": None if look is None else look.horizon.hours,
            "basis": look.horizon.basis if look else f"unknown: {server}",
            "oldest_file_h": None if look is None else look.oldest_age_h,
        },
        "version": 0 if last is None else last.version,
        "sequence": None if last is None else last.sequence,
        "since_us": progress.get("started_us"),
        "rows": dict(progress.get("ops") or {}),
        "skipped": dict(progress.get("skipped") or {}),
        "past": int(progress.get("past") or 0),
        "aside": _tables(state.aside),
        "orphans": _tables(state.orphans),
        "left_out": _tables(state.left_out),
        "uncovered": [] if last is None else list(last.uncovered),
        "owed": [
            {"id": job.id, "tables": list(job.tables), "gap": job.gap, "done": job.done, "total": job.total}
            for job in state.jobs
        ],
        "reading": progress.get("reading") if running else None,
        "requests": requests,
        "refused": list(refused),
        "prepared": [{"xid": xa.xid, "gtid": xa.gtid, "after": str(xa.after.binlog)} for xa in state.waiting],
        "waiting_for": progress.get("waiting_for") if running else None,
        "incidents": list(progress.get("incidents") or []),
    }


def _tables(noted: Mapping[str, TableSetAside]) -> list[dict[str, Any]]:
    return [
        {"table": table, "gtid": why.gtid, "position": why.position, "cause": why.cause, "since_us": why.at_us}
        for table, why in sorted(noted.items())
    ]


def _reading(found: Mapping[str, Any]) -> str:
    total, left_s = found.get("total"), found.get("left_s")
    of_all = f" of about {total:,}" if total else ""
    ends = f", about {left_s:,} s left" if left_s is not None else ""
    return f"{found['table']}: {found['done']:,}{of_all} rows, {found['rows_per_s']:,} rows/s{ends}"


def lines_of(found: Mapping[str, Any]) -> list[str]:
    """The same for a person, a line each."""
    name, purge = found["source"], found["purge"]
    rows = ", ".join(f"{_OPS.get(op, op)} {count:,}" for op, count in sorted(found["rows"].items())) or "none"
    skipped = ", ".join(f"{kind} {count:,}" for kind, count in sorted(found["skipped"].items())) or "0"
    since = f" since {iso(found['since_us'])}" if found["since_us"] else ""
    behind = "-" if found["lag_bytes"] is None else f"{found['lag_bytes']:,} bytes"
    lag = "-" if found["lag_s"] is None else f"{found['lag_s']:.1f} s"
    purged = f"in {purge['hours']:.1f} h, by {purge['basis']}" if purge["hours"] is not None else purge["basis"]
    oldest = f"; the oldest file is {purge['oldest_file_h']:.1f} h old" if purge["oldest_file_h"] is not None else ""
    state = found["state"]
    lines = [
        f"source     {name}, capture {'runs' if found['running'] else 'does not run'} on this host",
        f"state      {state['text']}" + (f"\n{'':10} `{state['fix']}`" if state["fix"] else ""),
        f"snapshot   {found['snapshot']}",
        f"position   {found['gtids'] or '-'} ({found['position'] or '-'})",
        f"lag        {lag}, {behind}",
        f"purge      {purged}{oldest}",
        f"version    {found['version']}",
        f"rows       {rows}{since}",
        f"skipped    {skipped} row events",
    ]
    if found["past"]:
        lines.append(f"past       {found['past']:,} rows that system-versioned tables keep of their past: not copied")
    if found["log"]:
        lines.insert(2, f"log        cannot be read, so this is what capture on this host said last: {found['log']}")
        return lines + _incidents(found)
    for word, tables in (("aside", found["aside"]), ("in want", found["orphans"])):
        lines += [
            f"{word:<10} {note['table']} since {iso(note['since_us'])}, {note['gtid'] or '-'} ({note['position']}): "
            f"{note['cause']}\n{'':10} `lyrebird capture resume-table --source {name} {note['table']}`"
            for note in tables
        ]
    lines += [
        f"left out   {note['table']} since {iso(note['since_us'])}: {note['cause']}" for note in found["left_out"]
    ]
    lines.append(f"uncovered  {', '.join(found['uncovered']) or 'nothing'}")
    lines += [f"owed       snapshot of {', '.join(job['tables'])} ({job['id']})" for job in found["owed"]]
    if found["reading"]:
        lines.append(f"reading    {_reading(found['reading'])}")
    lines.append(f"requests   {', '.join(found['requests']) or 'none'} open")
    lines += [
        f"refused    {request['id']} at {iso(request['at_us'])}: {request['note']}" for request in found["refused"]
    ]
    lines += [f"prepared   {xa['xid']} after {xa['after']}" for xa in found["prepared"]]
    return lines + _incidents(found)


def _incidents(found: Mapping[str, Any]) -> list[str]:
    """Those that no other line tells."""
    return [
        f"{each['kind']:<10} {each['text']}\n{'':10} `{each['fix']}`"
        for each in found["incidents"]
        if each.get("text") and (found["log"] or not each.get("group")) and each["text"] not in found["state"]["text"]
    ]
