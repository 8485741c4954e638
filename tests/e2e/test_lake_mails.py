"""What wakes a person up for the lake: each is caused, and its mail comes within a minute, once, with a command."""

from __future__ import annotations

import html
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from include.lake.protocol.chain import Chain
from include.lake.protocol.chain_key import TopicKey
from include.lake.protocol.generations import take_over
from include.lake.protocol.inventory import stored_topics
from include.log.kafka.errors import Connection
from include.log.kafka.log import KafkaAdmin
from include.log.ports import TopicSpec
from include.settings.connections import StoreSettings
from include.settings.deployment import Deployment
from include.store.s3 import S3Store, store_of
from supervision.run_folder import RunFolder
from tests.support.sites import files_of

pytestmark = pytest.mark.timeout(600)

WITHIN_S = 60
STARTS_S = 180
TOPICS = ("mails-refused", "mails-lost", "mails-damaged", "mails-stuck", "hourly", "plain")
OTHER_BUCKET = "lake-mails"
JSON = {"format": "json", "time": {"field": ["at"], "unit": "iso8601"}}
UNWILLING = {"format": "class", "parser": {"name": "tests.support.lake.waiting_parser:WaitingParser"}}
# Of now: what is much older than its Kafka timestamp is refused.
GOOD, REFUSED = json.dumps({"at": datetime.now(UTC).isoformat()}).encode(), b"no JSON"


def parsed(topics: str, parser: dict[str, Any]) -> dict[str, Any]:
    version = {"version": 1, "added": "2026-01-01T00:00:00Z", "parser": parser}
    return {"topics": topics, "format": {"json_lines": {"content": "payload"}}, "versions": [version]}


GROUPS = {
    "mails": {
        "kind": "partition",
        "application": "lake_partition",
        "topics": ["mails-*"],
        "prefix": "mails/dates",
        "policy": {"max_age_s": 1, "topics": [{"topics": "mails-lost", "max_age_s": 8}]},
        "rules": [parsed("mails-stuck", UNWILLING), parsed("*", JSON)],
    },
    "mails_hourly": {
        "kind": "partition",
        "application": "hourly",
        "run": "schedule",
        "topics": ["hourly"],
        "prefix": "mails/hourly",
        "policy": {"max_age_s": 1},
        "rules": [parsed("*", JSON)],
    },
    "mails_plain": {
        "kind": "backup",
        "application": "lake_backup",
        "topics": ["plain"],
        "prefix": "mails/plain",
        "policy": {"max_age_s": 1},
        "rules": [{"topics": "*", "format": {"sequence": {"layout": "verbatim"}}}],
    },
}


class Harness:
    """Groups of their own on the running platform; one application stores to a bucket of its own, too."""

    def __init__(self, platform: Any) -> None:
        self.platform = platform
        self.kafka = Connection(platform.kafka.bootstrap, platform.kafka.options)
        self.admin = KafkaAdmin(platform.kafka.bootstrap, platform.kafka.options)
        self.folder: Path = platform.deployment
        self.servers = (self.folder / "platform.yaml").read_text()
        (self.folder / "lake.yaml").rename(self.folder / "lake.before")
        (self.folder / "mails.yaml").write_text(json.dumps({"lake": GROUPS}))
        self.store: S3Store = store_of(Deployment.load().one("store", StoreSettings))
        for topic in TOPICS:
            self.admin.ensure(TopicSpec(topic, 1, {"retention.ms": "-1"}))
        self.runs: list[tuple[str, str, str]] = []

    def stop(self) -> None:
        for dag, run, _ in self.runs:
            if self.platform.airflow.run(dag, run)["state"] in {"running", "queued"}:
                self.platform.airflow._call("PATCH", f"/api/v2/dags/{dag}/dagRuns/{run}", json={"state": "success"})

    def close(self) -> None:
        self.store.close()
        (self.folder / "platform.yaml").write_text(self.servers)
        (self.folder / "mails.yaml").unlink()
        (self.folder / "lake.before").rename(self.folder / "lake.yaml")
        for topic in TOPICS:
            self.admin.delete(topic)

    @property
    def ended(self) -> bool:
        return not any(RunFolder(self.platform.state / "run" / each).held() for *_, each in self.runs)

    def write_to(self, bucket: str) -> None:
        """What applications that start from now on take for the lake."""
        text = self.servers.replace("bucket: lake\n", f"bucket: {bucket}\n")
        (self.folder / "platform.yaml").write_text(text)

    def start(self, dag: str, application: str) -> str:
        run: str = self.platform.airflow.trigger(dag)
        self.runs.append((dag, run, application))
        return run

    def has_read_its_deployment(self, application: str) -> bool:
        """Its log has what Spark says when the session is there, which comes after that."""
        log = self.platform.state / "run" / application / "app.log"
        return log.exists() and "Setting Spark log level" in log.read_text(errors="replace")

    def told(self, application: str, group: str) -> dict[str, Any]:
        _, report = RunFolder(self.platform.state / "run" / application).progress()
        return dict(report.get("groups", {}).get(group, {}))

    def send(self, topic: str, *values: bytes) -> None:
        producer: Any = self.kafka.producer(enable_idempotence=True)
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(20) == 0

    def drop(self, topic: str, before: int) -> None:
        admin: Any = self.kafka.admin()
        for answer in admin.delete_records([TopicPartition(topic, 0, before)]).values():
            assert answer.result(20).low_watermark == before

    def key(self, prefix: str, topic: str) -> TopicKey | None:
        return next((key for key in stored_topics(self.store, prefix) if key.topic == topic), None)

    def commits(self, topic: str) -> list[str]:
        prefix = f"mails/dates/_chain/{topic}~"
        return [each.key for each in self.store.list(prefix) if each.key.endswith(".commit")]

    def overtake(self, prefix: str, topic: str) -> None:
        """As another deployment with a higher revision does."""
        key = self.key(prefix, topic)
        assert key is not None
        take_over(
            self.store,
            key,
            2,
            1,
            lambda chains: {at: Chain(self.store, at, start=start).head().next for at, start in chains.items()},
        )

    def mail(self, *words: str) -> dict[str, Any] | None:
        found: list[dict[str, Any]] = self.platform.mails(*words)
        assert len(found) < 2, [mail["subject"] for mail in found]
        return found[0] if found else None


@pytest.fixture
def world(platform: Any, eventually: Any) -> Iterator[Harness]:
    made = Harness(platform)
    yield made
    made.stop()
    eventually("applications have ended", lambda: made.ended, 120)
    made.close()


def seconds_after(mail: dict[str, Any], moment: datetime) -> float:
    return (datetime.fromisoformat(mail["received"]) - moment).total_seconds()


def body(mail: dict[str, Any]) -> str:
    return html.unescape(f"{mail.get('text') or ''}{mail.get('html') or ''}")


def run_next(mail: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """What the mail says to run next."""
    command = re.search(r"<pre>(lyrebird [^<]+)</pre>", body(mail))
    assert command is not None, body(mail)
    words = [sys.executable, "-m", "include", *shlex.split(command[1])[1:]]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


def test_what_the_lake_meets_is_mailed_once_each_with_the_command_to_run_next(world: Harness, eventually: Any) -> None:
    other = files_of("s3", world.platform.state) / "objects" / OTHER_BUCKET
    for topic, value in (("mails-refused", REFUSED), ("mails-stuck", GOOD), ("hourly", REFUSED), ("plain", GOOD)):
        world.send(topic, value)
    world.send("mails-lost", GOOD)
    world.send("mails-damaged", GOOD)
    settings = Deployment.load().one("store", StoreSettings)
    with_bucket = store_of(settings.model_copy(update={"bucket": OTHER_BUCKET}))
    with_bucket.ensure_bucket()
    with_bucket.close()

    world.write_to(OTHER_BUCKET)
    world.start("stream_lake_backup", "lake_backup")
    eventually("lake_backup has begun", lambda: world.has_read_its_deployment("lake_backup"), STARTS_S)
    world.write_to("lake")
    world.start("stream_lake_partition", "lake_partition")
    uploads = world.start("lake_upload", "lake_upload")

    # The store refuses one of them from here on.
    eventually("lake_backup stores", lambda: world.told("lake_backup", "mails_plain").get("cuts"), STARTS_S)
    other.rename(other.with_name("away"))
    world.send("plain", GOOD)
    refused = datetime.now(UTC)

    eventually(
        "both chains have begun", lambda: world.commits("mails-lost") and world.commits("mails-damaged"), STARTS_S
    )
    began = datetime.now(UTC)
    world.send("mails-lost", *[GOOD] * 5)
    world.drop("mails-lost", 4)
    world.store.put(world.commits("mails-damaged")[-1], b"{}")
    world.send("mails-damaged", GOOD)

    told = {
        kind: eventually(f"mail about {kind}", lambda w=words: world.mail("INCIDENT", *w), WITHIN_S)
        for kind, words in {
            "quarantine": ("quarantine", "mails: records of mails-refused are set aside"),
            "standing": ("standing", "mails stands still at mails-damaged"),
            "lost": ("lost", "mails has lost offsets 1 to 3 of mails-lost/0"),
        }.items()
    }
    for mail in told.values():
        assert seconds_after(mail, began) < WITHIN_S
        assert "/dags/stream_lake_partition/" in body(mail)
    assert "no JSON" in run_next(told["quarantine"]).stdout
    assert "mails-damaged" in run_next(told["standing"]).stdout
    assert "incident since" in run_next(told["lost"]).stdout

    # A run on a schedule, and one that another revision has overtaken.
    assert world.platform.airflow.wait("lake_upload", uploads, STARTS_S) == "success"
    mail = eventually("mail of a run on a schedule", lambda: world.mail("INCIDENT quarantine", "mails_hourly"), 10)
    assert "no JSON" in run_next(mail).stdout
    world.overtake("mails/hourly", "hourly")
    uploads = world.start("lake_upload", "lake_upload")
    assert world.platform.airflow.wait("lake_upload", uploads, STARTS_S) == "failed"
    mail = eventually("mail about the take-over", lambda: world.mail("FAILED lake_upload", "was taken over"), WITHIN_S)
    assert "mails_hourly" in run_next(mail).stdout

    mail = eventually("mail about the store", lambda: world.mail("INCIDENT store", "bucket missing"), 60 + WITHIN_S)
    assert seconds_after(mail, refused) < 60 + WITHIN_S
    assert "/dags/stream_lake_backup/" in body(mail)
    assert run_next(mail).returncode == 0
    other.with_name("away").rename(other)
    eventually("it goes on by itself", lambda: world.told("lake_backup", "mails_plain")["cuts"] > 1, STARTS_S)
    mail = eventually("mail about the delay", lambda: world.mail("INCIDENT late", "mails-stuck/0"), 60 + WITHIN_S)
    assert "the price list does not answer" in body(mail)
    assert "mails-stuck" in run_next(mail).stdout
    # Each of them once: `mail` refuses a second one.
    for words in (("quarantine", "mails:"), ("quarantine", "mails_hourly"), ("standing",), ("lost",), ("store",)):
        assert world.mail(f"INCIDENT {words[0]}", *words[1:]) is not None
