"""The audit of a topic's documents: a first look at all on Spark, then judgement of those that differ, and repair."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

from include.audit.begun import await_begun
from include.audit.documents.documents_spark import FirstPass, first_look
from include.audit.documents.judge import JudgedKeys, judged
from include.audit.documents.made import DocumentMaker
from include.audit.documents.report import DocumentFinding, DocumentsReport, finding
from include.audit.documents.sides import AssembledDocuments, TopicDocuments, complete
from include.audit.nothing import NothingJudged
from include.clock import Clock, iso
from include.document.behind import values_of, values_text
from include.document.definition import DocumentDefinition, database_of
from include.document.overflow_requests import key_text
from include.document.reading.lookup import spelled
from include.document.reading.mysql import MysqlTables
from include.document.reading.read_throttle import Metered, ReadLoad
from include.errors import LyrebirdError, NothingToJudge
from include.log.kafka.log import KafkaAdmin, KafkaReader
from include.log.registry.confluent import ConfluentRegistry
from include.log.requests.asking import ask_and_wait
from include.log.requests.records import Request
from include.record.codec import Decoder
from include.record.key import doc_id
from include.record.position import SourcePosition
from include.settings.connections import Kafka, Registry
from include.settings.deployment import Deployment
from include.source.database.failover import chosen
from include.source.definition import load_source
from include.source.snapshot.reader import SnapshotReader

__all__ = ["DocumentsAudit"]

_PAGE: Final = 10_000
_MOST: Final = 20_000
"""Suspects that are judged; a topic with more of them is best written anew."""
_DONE_S: Final = 3600.0
_TAKEN_S: Final = 60.0


@dataclass(frozen=True)
class DocumentsAudit:
    """An audit of one topic's documents.

    Args:
        spark: made by `log.running.batches_spark.session`.
        deployment: the deployment files.
        topic: an entry of `documents`.
        definition: that entry.
        clock: waits.
        share: one of so many parts of the keys is looked at, another each day.
        repair: id of the request that writes anew what is wrong; "": nothing is.
        patience_s: so long the assembler is waited for.
        say: hears how far it is.
    """

    spark: Any
    deployment: Deployment
    topic: str
    definition: DocumentDefinition
    clock: Clock
    share: int = 1
    repair: str = ""
    patience_s: float = 300.0
    say: Callable[[str], None] = lambda _text: None

    def judged_or_nothing(self) -> DocumentsReport | NothingJudged:
        """The report of `run`, or that nothing is there yet that could be judged; raises as that otherwise."""
        at = iso(self.clock.now_us())
        try:
            report = self.run()
        except NothingToJudge as nothing:
            return NothingJudged.of(self.topic, at, nothing, self.topic)
        return report.or_nothing

    def run(self) -> DocumentsReport:
        """Compare, judge, and mend if that is wanted.

        Raises:
            NothingToJudge: the assembler has not begun.
            Transient: a server, capture or the assembler did not answer.
            Terminal: a table or column is gone, or what the assembler has written.
        """
        begun_s, now_us = self.clock.monotonic_s(), self.clock.now_us()
        kafka, registry = self.deployment.one("kafka", Kafka), self.deployment.one("registry", Registry)
        self._require_begun(kafka)
        source = chosen(load_source(self.deployment, self.definition.source), None)
        server = database_of(self.deployment, self.definition)
        if not server.replica:
            server = server.model_copy(update={"host": source.host, "port": source.port, "fallbacks": ()})
        part = now_us // 86_400_000_000 % self.share
        with (
            closing(KafkaReader(kafka.bootstrap, kafka.options)) as reader,
            closing(MysqlTables(server, self.definition.database, self.clock)) as tables,
            closing(SnapshotReader(source, self.clock)) as source_reader,
        ):
            load = ReadLoad(self.definition.read_rows_per_s, self.clock)
            metered = Metered(tables, load)
            complete_at = complete(reader, self.topic, self.definition.source, self.clock, self.patience_s)
            pages = self._pages(metered, load, complete_at[0], part)
            # Servers end connections that are idle for long.
            tables.close()
            self.say(f"{self.topic}: {sum(map(len, pages)):,} keys to look at")
            look = first_look(
                self.spark,
                self.topic,
                self.definition,
                server,
                kafka,
                registry,
                pages,
                complete_at,
                chosen=(part, self.share),
                most=_MOST,
            )
            decode = Decoder(ConfluentRegistry(registry).schema)
            topic = TopicDocuments(
                reader,
                self.topic,
                self.definition.source,
                decode,
                look.suspects,
                complete_at,
                self.clock,
                self.patience_s,
            )
            maker = DocumentMaker(self.topic, self.definition, metered)

            def spoken() -> SourcePosition:
                load.begin()
                return topic.spoken

            database = AssembledDocuments(maker, metered, source_reader.place, spoken)
            self.say(f"{self.topic}: {len(look.suspects):,} differ or were changed meanwhile")
            judgement = judged(look.suspects, database, topic)
            report = self._report(look, judgement, topic.spoken, iso(now_us), sum(complete_at[1].values()))
            if self.repair and judgement.wrong:
                keys = [each.key for each in judgement.wrong]
                tables.close()
                repaired: dict[str, Any] = {"found": len(keys), "asked": 0}
                try:
                    repaired["asked"] = self._mend(kafka, keys)
                    judgement = judged(keys, database, topic)
                except LyrebirdError as error:
                    # What was found is worth more than that nobody has mended it.
                    repaired["error"] = str(error)
                found = self._report(look, judgement, topic.spoken, report.at, report.records)
                report = replace(found, repaired=repaired)
        return replace(report, took_s=round(self.clock.monotonic_s() - begun_s, 1))

    def _require_begun(self, kafka: Kafka) -> None:
        application = self.definition.application
        with closing(KafkaReader(kafka.bootstrap, kafka.options)) as reader:
            await_begun(
                self.topic,
                reader,
                KafkaAdmin(kafka.bootstrap, kafka.options),
                self.clock,
                start=f"Start the application {application}.",
                mend=f"Restart the application {application}, then run "
                f"`lyrebird documents rebuild --topic {self.topic}`.",
            )

    def _pages(self, tables: Metered, load: ReadLoad, position: SourcePosition, part: int) -> list[list[str]]:
        """Keys of the fact table that fall into this part."""
        fact, pages = self.definition.fact, list[list[str]]()
        after: tuple[Any, ...] | None = None
        while True:
            load.begin()
            with tables.snapshot(position) as snapshot:
                key_rows = snapshot.keys_after(fact.table, fact.key, after, _PAGE)
                keys = spelled(snapshot, fact.table, fact.key, key_rows)
            texts = [values_text(key) for key in dict.fromkeys(keys) if None not in key]
            pages.append([each for each in texts if zlib.crc32(each.encode()) % self.share == part])
            if len(key_rows) < _PAGE:
                return [page for page in pages if page]
            after = key_rows[-1]

    def _report(
        self, look: FirstPass, found: JudgedKeys, spoken: SourcePosition, at: str, records: int
    ) -> DocumentsReport:
        return DocumentsReport(
            self.topic,
            at,
            str(spoken.gtids) or str(spoken.binlog),
            look.documents,
            self.share,
            len(look.suspects),
            look.left_out,
            [self._named(finding(each, self.definition)) for each in found.wrong],
            len(found.unsure),
            look.unknown + len(found.unknown),
            look.unreadable,
            self.definition.unheard(),
            records=records,
        )

    def _named(self, found: DocumentFinding) -> DocumentFinding:
        return replace(found, key=self._id(found.key))

    def _id(self, key: str) -> str:
        return doc_id(dict(zip(self.definition.fact.key, values_of(key), strict=True)))

    def _mend(self, kafka: Kafka, keys: Sequence[str]) -> int:
        texts = tuple(sorted(key_text(values_of(key)) for key in keys))
        # Of these keys: a later try may find others, which are another request.
        id_ = f"{self.repair}.{hashlib.sha256(repr(texts).encode()).hexdigest()[:12]}"
        request = Request(id_, "repair", "lyrebird audit documents", self.clock.now_us(), keys=texts)
        self.say(f"{self.topic}: the assembler writes {len(texts):,} documents anew")
        status = f"lyrebird documents status --topic {self.topic}"
        ask_and_wait(kafka, self.topic, request, self.clock, _DONE_S, status=status, taken_s=_TAKEN_S)
        return len(texts)
