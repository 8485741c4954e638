"""The tasks of the DAG audit_tables: which tables are compared, a job each, and what their reports mean for the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from include.audit.history import History, StoredRun
from include.audit.history_rows import rows_of
from include.audit.lost import mark_lost, missed
from include.audit.merkle.run_params import TableAuditRun
from include.errors import SettingsError, Terminal
from include.metrics.exporter import write_atomically
from supervision.audit_tasks import begin_run, require

if TYPE_CHECKING:
    from include.audit.merkle.report import TableAuditReport
    from include.audit.merkle.run import TablesAudit

__all__ = ["check_table_audit", "judge_table_audit"]


def check_table_audit(
    sources: Sequence[str],
    params: Mapping[str, Any] | None = None,
    run_id: str | None = None,
    tables_of: Any = None,
    gone_of: Any = None,
) -> list[list[str]]:
    """The arguments of each table's job: its name follows the source's, the file of its report comes last.

    A table that an earlier run has judged, and that is meant and not to be seen any more, gets a part of the report
    without a job, unless a person has chosen tables.

    Args:
        sources: whose tables are compared where a person names none.
        params: the DAG's.
        run_id: the run's.
        tables_of: (source, names) → full names of its tables; default: asks the server.
        gone_of: as `TablesAudit.gone` of a source, which comes first; default: asks the log.

    Raises:
        SettingsError: a table or a condition is none, or there is nothing to compare.
    """
    asked = TableAuditRun.from_params(params or {})
    chosen = [asked.source] if asked.source else list(sources)
    if not chosen:
        raise SettingsError(
            "no source is audited",
            path="params.source",
            fix="Choose one, or declare `table_audits` in the deployment files.",
        )
    condition = asked.condition
    history, run = begin_run("table", run_id), run_id or ""
    more = asked.words("against")
    more += ["--where", condition] if condition else []
    more += ["--repair", run] if asked.repair else []
    jobs: list[list[str]] = []
    for source in chosen:
        for table in (tables_of or _tables_of)(source, asked.tables):
            before = history.newest_with("tables", f"{source} {table}")
            since = ["--before", str(before)] if before else []
            part = str(history.part(run, f"{source} {table}"))
            jobs.append(["--source", source, "--table", table, *more, *since, "--report", part])
    if not asked.tables:
        told = missed("table", history.runs(), [f"{job[1]} {job[3]}" for job in jobs])
        for source in chosen:
            tables = {name.removeprefix(f"{source} "): was for name, was in told.items() if name.split()[0] == source}
            for report in (gone_of or _gone_of)(source, tables) if tables else ():
                file = history.part(run, f"{source} {report.table}")
                write_atomically(file, json.dumps({"tables": {report.table: report.to_json()}}))
    return jobs


def _tables_of(source: str, names: tuple[str, ...]) -> list[str]:
    return _audit(source).tables(names)


def _gone_of(source: str, told: Mapping[str, bool]) -> list[TableAuditReport]:
    return _audit(source).gone(told)


def _audit(source: str) -> TablesAudit:
    # Only the task that asks a server needs them: a DAG file is read again and again.
    from include.audit.merkle.definition import table_audit
    from include.audit.merkle.run import TablesAudit
    from include.clock import SystemClock
    from include.settings.deployment import Deployment
    from supervision.launch import application_environment

    deployment = Deployment.load(env=application_environment())
    return TablesAudit(None, deployment, table_audit(deployment, source), SystemClock())


def judge_table_audit(jobs: Sequence[Sequence[str]], run_id: str | None = None) -> int:
    """Puts the tables' reports together and fails the run where rows are wrong; returns the number of clean tables.

    Args:
        jobs: what `check_table_audit` has returned.
        run_id: the run's.

    Raises:
        NothingToJudge: no table has a copy yet.
        Terminal: some table has findings, or none was made of it; it names keys and columns, `fix` the commands. Or
            something is lost.
    """
    tables: dict[str, Any] = {}
    content, history = {"tables": tables}, History.of("table")
    for part in history.parts(run_id or ""):
        # Tables of two sources may have one name.
        reports = json.loads(part.read_text(encoding="utf-8"))["tables"].values()
        tables |= {f"{each['source']} {each['table']}": each for each in reports}
    lost = mark_lost("table", content, history.runs())
    write_atomically(history.report(run_id or ""), json.dumps(content))
    rows = rows_of("table", StoredRun("", 0, content))
    dirty = [row for row in rows if row.next_command]
    unseen = [f"{job[1]} {job[3]}" for job in jobs]
    unseen = [name for name in unseen if name not in tables or tables[name]["verdict"] == "failed"]
    # What is lost alone is told as all audits tell it.
    if unseen or len(dirty) > len(lost):
        told = [f"{row.what}: {row.said} ({'; '.join(row.details)})" for row in dirty]
        errors = {name: tables.get(name, {}).get("error") or "no report of it" for name in sorted(unseen)}
        told += [f"not looked at: {'; '.join(f'{name} ({why})' for name, why in errors.items())}"] if errors else []
        again = " and ".join(f"`{command}`" for command in dict.fromkeys(row.next_command for row in dirty))
        fix = f"Run {again}." if again else "Clear the failed tasks of this run, or start it again."
        raise Terminal(f"the audit of tables is not clean: {'. '.join(told)}", fix=fix)
    require("table", content, lost)
    return sum(row.clean for row in rows)
