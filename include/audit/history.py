"""Keeps the reports of audits that ran under Airflow as files: the newest runs of each kind.

| file in `$LYREBIRD_STATE/audit/<kind>` | content |
|---|---|
| `<run>.json` | the audit's report |
| `<run>.expectations.<audit>.json` | what the expectations of an audit came to |
| `parts/<run>/<name>.json` | a part of the report, until it is put together |

`<run>` is the run's id, percent-encoded.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote, unquote

from include.settings.environment import state_folder

__all__ = ["KEPT_RUNS", "KINDS", "AuditKind", "History", "StoredRun", "dag_of", "kind_of"]

AuditKind = Literal["chain", "document", "join", "replay", "search", "table"]
KINDS: Final[tuple[AuditKind, ...]] = ("search", "document", "table", "join", "replay", "chain")
KEPT_RUNS: Final = 100
"""So many runs of a kind are kept."""
_EXPECTATIONS: Final = ".expectations."
_DAGS: Final[dict[AuditKind, str]] = {
    "search": "audit_search",
    "document": "audit_documents",
    "table": "audit_tables",
    "join": "audit_join",
    "replay": "eventtime_replay",
    "chain": "audit_chain",
}


def dag_of(kind: AuditKind) -> str:
    """The DAG whose runs are audits of that kind."""
    return _DAGS[kind]


def kind_of(dag_id: str) -> AuditKind | None:
    """The kind of the audits that a DAG runs."""
    return next((kind for kind, dag in _DAGS.items() if dag == dag_id), None)


@dataclass(frozen=True)
class StoredRun:
    """One run: its report, and what its expectations came to by audit. An empty report: the audit could not be made.

    `ended_us` is when the last of them was written.
    """

    run_id: str
    ended_us: int
    report: dict[str, Any] = field(default_factory=dict)
    expectations: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class History:
    """The runs of one kind of audit on this host."""

    folder: Path

    @classmethod
    def of(cls, kind: AuditKind) -> History:
        """Those of this kind, in the state folder."""
        return cls(state_folder() / "audit" / kind)

    def report(self, run_id: str) -> Path:
        """File of a run's report."""
        return self.folder / f"{_name(run_id)}.json"

    def expectations(self, run_id: str, audit: str) -> Path:
        """File of what the expectations of one of its audits came to."""
        return self.folder / f"{_name(run_id)}{_EXPECTATIONS}{quote(audit, safe='')}.json"

    def part(self, run_id: str, name: str) -> Path:
        """File of a part of a run's report; its folder is made."""
        folder = self._parts_of(run_id)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{_name(name)}.json"

    def parts(self, run_id: str) -> list[Path]:
        """Files of all parts of a run's report."""
        return sorted(self._parts_of(run_id).glob("*.json"))

    def newest_with(self, section: str, name: str) -> Path | None:
        """File of the newest report that has an entry of this name in a section, None without any."""
        runs = (kept.run_id for kept in self.runs() if name in kept.report.get(section, {}))
        return next(map(self.report, runs), None)

    def _parts_of(self, run_id: str) -> Path:
        return self.folder / "parts" / _name(run_id)

    def begin(self, run_id: str) -> None:
        """Make room for a run: what an earlier try of it has left goes, so that nobody judges that; so do old runs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        runs = self._files()
        old = sorted(runs, key=lambda run: _newest(runs[run]), reverse=True)[KEPT_RUNS - 1 :]
        for run in {run_id, *old}:
            for file in runs.get(run, ()):
                file.unlink(missing_ok=True)
            shutil.rmtree(self._parts_of(run), ignore_errors=True)

    def runs(self) -> list[StoredRun]:
        """The kept runs, the newest first; files that cannot be read are left out."""
        files = self._files()
        found = [_kept(run, files[run]) for run in sorted(files, key=lambda run: _newest(files[run]), reverse=True)]
        return [each for each in found if each.report or each.expectations]

    def run(self, run_id: str) -> StoredRun | None:
        """One run, if anything of it is kept."""
        return next((each for each in self.runs() if each.run_id == run_id), None)

    def _files(self) -> dict[str, list[Path]]:
        files: dict[str, list[Path]] = {}
        for file in sorted(self.folder.glob("*.json")) if self.folder.is_dir() else ():
            files.setdefault(unquote(_parts(file)[0]), []).append(file)
        return files


def _name(run_id: str) -> str:
    return quote(run_id, safe="")


def _parts(file: Path) -> tuple[str, str]:
    """Run and audit, the latter empty for a report."""
    run, _, audit = file.stem.partition(_EXPECTATIONS)
    return run, unquote(audit)


def _newest(files: list[Path]) -> int:
    return max((_changed_us(file) for file in files), default=0)


def _changed_us(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns // 1000
    except FileNotFoundError:
        return 0


def _kept(run_id: str, files: list[Path]) -> StoredRun:
    report: dict[str, Any] = {}
    expectations: dict[str, dict[str, Any]] = {}
    for file in files:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            continue
        if audit := _parts(file)[1]:
            expectations[audit] = content
        else:
            report = content
    return StoredRun(run_id, _newest(files), report, expectations)
