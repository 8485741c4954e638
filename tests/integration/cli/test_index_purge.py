"""`lyrebird index purge` on real servers: tombstones past their use go, letters keep theirs, the audit stays clean."""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from include.cli.audit import commands as audit
from include.cli.index import commands as index
from include.clock import SystemClock
from include.index.bulk.sender import Delivery
from include.index.definition import IndexTopic
from include.index.feed import Feed
from include.index.metadata import TopicOrigin
from include.index.progress.document import NOTES, ProgressKeeper, note_id
from include.index.server.elasticsearch import ElasticsearchIndex
from include.index.states import States
from include.index.task import IndexTask, raw_of
from include.log import topics
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.kafka.writer import KafkaWriter
from include.log.ports import TopicSpec
from include.log.publishing.dead_letter import DeadLetter
from include.log.registry.confluent import ConfluentRegistry
from include.settings.connections import Elasticsearch
from tests.integration.cli.test_index_replay_dead import DEPLOYMENT
from tests.support.documents.topic import MAPPING, DocumentTopic

WEEK_US = 7 * 86_400 * 10**6


def test_tombstones_go_once_their_mark_is_old_and_the_audit_stays_clean(
    kafka: str, registry_url: str, elasticsearch_url: str, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (DEPLOYMENT + "audits:\n  {name}: {{index: {name}}}\n").format(
        kafka=kafka, registry=registry_url, elasticsearch=elasticsearch_url, name=unique
    )
    (tmp_path / "all.yaml").write_text(text)
    mapping = copy.deepcopy(MAPPING)
    mapping["properties"]["order"]["properties"]["note"] = {"type": "keyword"}
    (tmp_path / "mapping.json").write_text(json.dumps(mapping))
    monkeypatch.setenv("LYREBIRD_DEPLOYMENT", str(tmp_path))
    writer, admin = KafkaWriter(kafka, f"{unique}.writer", {}), KafkaAdmin(kafka, {})
    registry = ConfluentRegistry(registry_url)
    topic = DocumentTopic(unique, admin, writer, registry, partitions=1)
    topic.write([(n, {"state": "completed"}) for n in range(1, 9)])
    reader = KafkaReader(kafka, {})
    letters = list(reader.read(unique, 0, 4, 5))
    for n in (2, 4, 5, 6):
        topic.delete(n)
    dead = topics.dead(unique, "a")
    admin.ensure(TopicSpec(dead, 1, topics.policy(dead)))
    writer.begin()
    for record in letters:
        letter = DeadLetter(record, "a", "refused", SystemClock().now_us())
        writer.append(dead, letter.key, letter.value, headers=letter.headers)
    writer.commit()
    server, name = ElasticsearchIndex(Elasticsearch(url=elasticsearch_url)), f"{unique}-v1"

    def told(*words: str) -> dict[str, object]:
        done = CliRunner().invoke(index.command, ["purge", unique, *words, "--json"])
        assert done.exit_code == 0, done.output
        ((found,),) = [json.loads(done.output)["purged"]]
        return dict(found)

    try:
        assert CliRunner().invoke(index.command, ["create", unique]).exit_code == 0
        delivery = Delivery(
            lambda data: server.bulk(name, data), SystemClock(), index=name, bulk_bytes=100_000, patience_s=30
        )
        states = States(Feed(TopicOrigin("local", "test", unique, 1), IndexTopic(entity="order")), registry)
        end = reader.end_offsets(unique)[0]
        outcome = IndexTask(states={unique: states}, delivery=delivery, window_bytes=100_000).run(
            map(raw_of, reader.read(unique, 0, 0, end))
        )
        assert not outcome.dead
        server.refresh(name)
        assert "has not read the topic as it is now" in str(told()["why"])
        info, there = server.describe(name), admin.describe(unique)
        assert info is not None
        assert there is not None
        keeper = ProgressKeeper(server, info, unique, "test", SystemClock())
        claimed = keeper.claim()
        at: dict[str, Any] = {"acked": {0: end}, "searchable": {0: end}, "topic_ids": {unique: there.topic_id}}
        keeper.save(dataclasses.replace(claimed, generation=1, cluster="local/test", **at))
        assert told()["since"] is None
        note = server.note(NOTES, f"{note_id(info, unique)}.purge")
        assert note is not None
        marks = [{**mark, "at_us": mark["at_us"] - WEEK_US - 10**6} for mark in note.source["marks"]]
        server.write_note(NOTES, f"{note_id(info, unique)}.purge", {**note.source, "marks": marks}, note)
        tried = told("--dry-run")
        assert (tried["past_use"], tried["kept"], tried["purged"]) == (4, 1, 0)
        assert all(server.get(name, str(n)) is not None for n in range(1, 9))
        before = CliRunner().invoke(audit.command, ["search", unique, "--json"])
        assert before.exit_code == 0, before.output
        done = told()
        assert (done["purged"], done["kept"], done["changed"]) == (3, 1, 0)
        assert [n for n in range(1, 9) if server.get(name, str(n)) is None] == [2, 4, 6]
        after = CliRunner().invoke(audit.command, ["search", unique, "--json"])
        assert after.exit_code == 0, after.output
        # The letter of a deleted document is stale, as its tombstone stayed.
        replayed = CliRunner().invoke(index.command, ["replay-dead", unique, "--json"])
        assert json.loads(replayed.output)["indexes"][0]["topics"][0]["stale"] == 1
        # Read from its beginning the topic brings none back. For a minute the server refuses the tombstones, too.
        IndexTask(states={unique: states}, delivery=delivery, window_bytes=100_000).run(
            map(raw_of, reader.read(unique, 0, 0, end))
        )
        again = [server.get(name, str(n)) for n in (2, 4, 6)]
        assert all(found is None or found.deleted for found in again)
        said = CliRunner().invoke(index.command, ["purge", unique])
        assert "tombstones of before" in said.output
    finally:
        server.client.indices.delete(index=name, ignore_unavailable=True)
        server.close()
        reader.close()
        registry.close()
        writer.close()
