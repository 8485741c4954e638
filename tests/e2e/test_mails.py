"""What wakes a person up: a failure, a retry, an unclean audit and incidents of capture arrive as mails in a minute."""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest

from tests.support.servers.addresses import elasticsearch_url

pytestmark = pytest.mark.timeout(600)

WITHIN_S = 60


def _mails(platform: Any) -> list[dict[str, Any]]:
    return list(platform.mails())


def _body(mail: dict[str, Any]) -> str:
    return f"{mail.get('text') or ''}{mail.get('html') or ''}"


def _seconds_after_the_try(platform: Any, mail: dict[str, Any], dag: str, run: str, task: str, attempt: int) -> float:
    """Seconds from the end of this try of the task to the receipt of the mail about it."""
    tried = platform.airflow.get(f"/api/v2/dags/{dag}/dagRuns/{quote(run)}/taskInstances/{task}/tries/{attempt}")
    ended = datetime.fromisoformat(tried["end_date"])
    return (datetime.fromisoformat(mail["received"]) - ended).total_seconds()


def _mail(platform: Any, *words: str) -> dict[str, Any] | None:
    return next((m for m in _mails(platform) if all(w in m["subject"] for w in words)), None)


def test_an_audit_that_is_not_clean_is_mailed_with_the_command_to_run_next(platform: Any, eventually: Any) -> None:
    from elasticsearch import Elasticsearch

    with Elasticsearch(elasticsearch_url(platform.env)) as client:
        hit = client.search(index="orders", size=1, sort=[{"metadata.doc_id": "asc"}])["hits"]["hits"][0]
        client.delete(index=hit["_index"], id=hit["_id"], refresh=True)
    run = platform.airflow.trigger("audit_search")
    assert platform.airflow.wait("audit_search", run, 240) == "failed"
    mail = eventually("mail about the audit", lambda: _mail(platform, "FAILED", "audit_search"), WITHIN_S)
    assert _seconds_after_the_try(platform, mail, "audit_search", run, "verdict", 1) < WITHIN_S
    assert "lyrebird audit search assembled_order" in _body(mail)
    assert f"/dags/audit_search/runs/{run}" in _body(mail).replace("%3A", ":").replace("%2B", "+")
    found = _lyrebird("audit", "search", "assembled_order", "--json")
    assert found.returncode == 1
    report = json.loads(found.stdout)
    assert report["missing"] == [hit["_id"]]
    # What the audit says to run next mends it.
    asked = _lyrebird(*shlex.split(report["next_command"])[1:])
    assert asked.returncode == 0, asked.stderr
    eventually("the index is whole again", lambda: platform.compare().equal, 120)
    eventually("the audit is clean", lambda: _lyrebird("audit", "search", "assembled_order").returncode == 0, 60)


def _lyrebird(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "include", *arguments], capture_output=True, text=True, check=False, timeout=120
    )


def test_a_failed_task_is_mailed_with_its_log_and_the_fix(platform: Any, eventually: Any) -> None:
    """`start` contradicts a capture that runs: the first task refuses."""
    run = platform.airflow.trigger("source_snapshot", {"source": "shop", "mode": "start"})
    assert platform.airflow.wait("source_snapshot", run, 120) == "failed"
    mail = eventually("mail about the refusal", lambda: _mail(platform, "FAILED", "source_snapshot"), WITHIN_S)
    assert _seconds_after_the_try(platform, mail, "source_snapshot", run, "check", 1) < WITHIN_S
    assert "lyrebird capture status --source shop" in _body(mail)
    assert "/dags/source_snapshot/" in _body(mail)


def _state(platform: Any, run: str) -> str | None:
    """State of the task that asks Elasticsearch."""
    tasks = platform.airflow.tasks("audit_search", run)
    return next((task["state"] for task in tasks if task["task_id"] == "audit"), None)


def test_a_retry_is_mailed_and_the_run_ends_well(platform: Any, eventually: Any) -> None:
    """Elasticsearch hangs while the audit asks it: the task is tried again, and succeeds once the server answers."""
    server = psutil.Process(platform.server_pid("elasticsearch"))
    hung = [server, *server.children(recursive=True)]
    run = platform.airflow.trigger("audit_search")
    for process in hung:
        process.suspend()
    try:
        # How long a client waits for a server that hangs is its own matter: the minute counts from the failed try.
        eventually("the first try gives up", lambda: _state(platform, run) == "up_for_retry", 240)
        mail = eventually("mail about the retry", lambda: _mail(platform, "retry", "audit_search"), WITHIN_S)
    finally:
        for process in hung:
            process.resume()
    assert _seconds_after_the_try(platform, mail, "audit_search", run, "audit", 1) < WITHIN_S
    assert "/dags/audit_search/" in _body(mail)
    assert "lyrebird status" in _body(mail)
    assert platform.airflow.wait("audit_search", run, 300) == "success"


def _seconds_after(mail: dict[str, Any], moment: datetime) -> float:
    return (datetime.fromisoformat(mail["received"]) - moment).total_seconds()


def _command(mail: dict[str, Any]) -> list[str]:
    """What it says to run next, without the word lyrebird."""
    found = re.search(r"<pre>(lyrebird [^<]+)</pre>", _body(mail))
    assert found is not None, _body(mail)
    return shlex.split(html.unescape(found[1]))[1:]


def _captured(platform: Any) -> dict[str, Any]:
    return dict(json.loads(_lyrebird("capture", "status", "--source", "shop", "--json").stdout))


def test_incidents_of_a_running_capture_are_mailed_once_each_with_the_command_to_run_next(
    platform: Any, eventually: Any
) -> None:
    """A table that cannot be read, a cascade that the server does not log, a binlog that is soon purged: at once."""
    expires = platform.as_root("SELECT @@global.binlog_expire_logs_seconds")[0][0]
    began = datetime.now(UTC)
    platform.as_root(
        "SET GLOBAL binlog_expire_logs_seconds = 36000",
        "CREATE TABLE notices (id int PRIMARY KEY, v varchar(20), w int NOT NULL)",
        "CREATE TABLE boxes (id int PRIMARY KEY)",
        "CREATE TABLE lids (id int PRIMARY KEY, box int, FOREIGN KEY (box) REFERENCES boxes (id) ON DELETE CASCADE)",
        "INSERT INTO notices VALUES (1, 'a', 1), (2, 'b', 2)",
        "INSERT INTO boxes VALUES (1), (2)",
        "INSERT INTO lids VALUES (1, 1), (2, 2)",
        "DELETE FROM boxes WHERE id = 1",
        # A session that logs changed columns alone: its rows cannot be read, those of other tables can.
        "SET SESSION binlog_row_image = MINIMAL",
        "UPDATE notices SET v = 'c' WHERE id = 1",
        "UPDATE notices SET v = 'c' WHERE id = 2",
    )
    told = {}
    for kind, words in {
        "aside": ("aside", "shop.notices"),
        "orphans": ("orphans", "shop.lids"),
        "purge": ("purge", "10.0 h"),
    }.items():
        told[kind] = eventually(f"mail about {kind}", lambda w=words: _mail(platform, "INCIDENT", *w), WITHIN_S)
        assert _seconds_after(told[kind], began) < WITHIN_S
        assert "/dags/source_replicate/" in _body(told[kind])
    platform.as_root(f"SET GLOBAL binlog_expire_logs_seconds = {expires}")
    assert _command(told["aside"]) == ["capture", "resume-table", "--source", "shop", "shop.notices"]
    assert _command(told["orphans"]) == ["capture", "resume-table", "--source", "shop", "shop.lids"]
    for kind in ("aside", "orphans"):
        resumed = _lyrebird(*_command(told[kind]), "--wait", "--timeout", "60")
        assert resumed.returncode == 0, resumed.stderr
    assert _lyrebird(*_command(told["purge"])).returncode == 0
    status = _captured(platform)
    assert (status["aside"], status["orphans"], status["uncovered"], status["running"]) == ([], [], [], True)
    platform.as_root("DROP TABLE notices, lids, boxes")


def test_a_capture_that_is_taken_over_or_has_lost_its_binlog_stops_with_one_mail_and_goes_on_when_mended(
    platform: Any, eventually: Any, tmp_path: Path
) -> None:
    """Another capture, as on another host, takes over and ends; meanwhile the server purges what was not read."""
    run = platform.airflow.running("source_replicate")
    other = subprocess.Popen(
        [sys.executable, "-m", "include", "capture", "run", "--source", "shop"],
        env={**os.environ, "LYREBIRD_STATE": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        mail = eventually(
            "mail about the take-over", lambda: _mail(platform, "FAILED source_replicate", "was taken over"), WITHIN_S
        )
        assert platform.airflow.wait("source_replicate", run, 30) == "failed"
        assert other.poll() is None
        assert _seconds_after_the_try(platform, mail, "source_replicate", run, "capture", 1) < WITHIN_S
        assert re.search(r"newest_reader=.+:\d+", html.unescape(_body(mail)))
        assert "/dags/source_replicate/" in _body(mail)
        assert _command(mail) == ["capture", "status", "--source", "shop"]
    finally:
        other.terminate()
        assert other.wait(60) == 0
    platform.as_root(
        "CREATE TABLE missed (id int PRIMARY KEY)",
        "INSERT INTO missed VALUES (1)",
        "FLUSH BINARY LOGS",
        "FLUSH BINARY LOGS",
    )
    eventually("the old binlogs are gone", lambda: _purged(platform), 30)
    _start_again(platform, run)
    mail = eventually(
        "mail about the stop", lambda: _mail(platform, "FAILED source_replicate", "has stopped"), WITHIN_S
    )
    assert platform.airflow.wait("source_replicate", run, 30) == "failed"
    assert _seconds_after_the_try(platform, mail, "source_replicate", run, "capture", 2) < WITHIN_S
    # What the mail says to run next mends it.
    anew = _lyrebird(*_command(mail))
    assert anew.returncode == 0, anew.stderr
    _start_again(platform, run)
    eventually("capture runs", lambda: _captured(platform)["running"], 60)
    platform.as_root("DROP TABLE missed")
    result = platform.wait_until_equal(within_s=120)
    assert result.equal, result.explain()


def _purged(platform: Any) -> bool:
    """The server keeps a file for some moments that its own recovery may need."""
    last = platform.as_root("SHOW BINARY LOGS")[-1][0]
    return len(platform.as_root(f"PURGE BINARY LOGS TO '{last}'", "SHOW BINARY LOGS")) == 1


def _start_again(platform: Any, run: str) -> None:
    """Clear the failed task, as the mail's link lets a person do."""
    asked = {"dry_run": False, "dag_run_id": run, "task_ids": ["capture"], "only_failed": True, "reset_dag_runs": True}
    platform.airflow._call("POST", "/api/v2/dags/source_replicate/clearTaskInstances", json=asked)


def test_no_incident_was_mailed_twice(platform: Any) -> None:
    """After all of the above."""
    subjects = [mail["subject"] for mail in _mails(platform)]
    for words in (
        ("INCIDENT aside",),
        ("INCIDENT orphans",),
        ("INCIDENT purge",),
        ("FAILED source_replicate", "was taken over"),
        ("FAILED source_replicate", "has stopped"),
    ):
        assert len([subject for subject in subjects if all(word in subject for word in words)]) == 1, subjects
    assert not [subject for subject in subjects if "INCIDENT fenced" in subject or "INCIDENT stopped" in subject]
