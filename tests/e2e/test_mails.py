"""What wakes a person up: a failure, a retry and an audit that is not clean each arrive as a mail within a minute."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import urllib.request
from datetime import datetime
from typing import Any
from urllib.parse import quote

import psutil
import pytest

pytestmark = pytest.mark.timeout(600)

WITHIN_S = 60


def _mails(platform: Any) -> list[dict[str, Any]]:
    with urllib.request.urlopen(platform.env["LYREBIRD_MAIL"].rstrip("/") + "/messages.json", timeout=5) as answer:
        return list(json.load(answer))


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

    with Elasticsearch(platform.env["LYREBIRD_ELASTICSEARCH"]) as client:
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


def _as_root(platform: Any, *statements: str) -> None:
    import pymysql

    server = platform.shop_server
    with (
        pymysql.connect(
            host=server.host,
            port=server.port,
            user="root",
            password=platform.env["LYREBIRD_MYSQL_ROOT_PASSWORD"],
            database=server.database,
            autocommit=True,
        ) as connection,
        connection.cursor() as cursor,
    ):
        for statement in statements:
            cursor.execute(statement)


def test_a_table_set_aside_is_mailed_once_with_the_command_that_takes_it_up_again(
    platform: Any, eventually: Any
) -> None:
    """A session that logs changed columns alone: its rows cannot be read, those of other tables can."""
    _as_root(
        platform,
        "CREATE TABLE notices (id int PRIMARY KEY, v varchar(20), w int NOT NULL)",
        "INSERT INTO notices VALUES (1, 'a', 1), (2, 'b', 2)",
        "SET SESSION binlog_row_image = MINIMAL",
        "UPDATE notices SET v = 'c' WHERE id = 1",
        "UPDATE notices SET v = 'c' WHERE id = 2",
    )
    mail = eventually("mail about the table", lambda: _mail(platform, "INCIDENT aside", "shop.notices"), WITHIN_S)
    assert "/dags/source_replicate/" in _body(mail)
    command = "lyrebird capture resume-table --source shop shop.notices"
    assert command in _body(mail)
    resumed = _lyrebird(*shlex.split(command)[1:], "--wait", "--timeout", "60")
    assert resumed.returncode == 0, resumed.stderr
    status = json.loads(_lyrebird("capture", "status", "--source", "shop", "--json").stdout)
    assert (status["aside"], status["uncovered"], status["running"]) == ([], [], True)
    assert len([m for m in _mails(platform) if "INCIDENT aside" in m["subject"]]) == 1
    _as_root(platform, "DROP TABLE notices")
