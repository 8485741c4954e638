"""An assembler without Spark, to be killed: the product's batches over Kafka and MariaDB, planned in one process.

python -m tests.support.documents.assembler_process --application assemble_orders
"""

from __future__ import annotations

import argparse

from include.clock import SystemClock
from include.document.batch import BatchRunner
from include.document.definition import database_of, definition_of
from include.document.reading.mysql import MysqlTables
from include.document.signals import Inputs, SignalFold, Signals
from include.log.kafka.log import KafkaAdmin, KafkaReader, KafkaWriter
from include.log.kafka.transaction_end import end_transaction
from include.log.planning.plan import BatchPlan, StreamSpec
from include.log.planning.planner import BatchPlanner
from include.log.planning.survey import KafkaSurvey
from include.log.planning.tail import KafkaTail, ResolvedTail
from include.log.publishing.publisher import Publisher
from include.log.registry.confluent import ConfluentRegistry
from include.metrics.exporter import Metrics
from include.record.codec import Decoder
from include.settings.connections import Kafka, Registry
from include.settings.deployment import Deployment

__all__ = ["main"]


def main() -> None:
    """Run until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--application", required=True)
    application = parser.parse_args().application
    deployment = Deployment.load()
    kafka = deployment.one("kafka", Kafka).bootstrap
    registry = ConfluentRegistry(deployment.one("registry", Registry))
    topic, definition = definition_of(deployment, application)
    clock, reader, inputs = SystemClock(), KafkaReader(kafka), Inputs(topic, definition)
    publisher = Publisher(
        topic,
        application,
        (definition.source,),
        inputs.all(),
        open_writer=lambda name: KafkaWriter(kafka, name),
        finish=lambda name, places, commit: end_transaction(kafka, name, places, commit=commit, group=name),
        reader=reader,
        admin=KafkaAdmin(kafka),
        clock=clock,
    )
    tables = MysqlTables(database_of(deployment, definition), definition.database)
    runner = BatchRunner(inputs, publisher, tables, reader, registry, clock, Metrics(application))
    while (start := runner.start()) is None:
        clock.sleep(0.2)
    limit = definition.batch_changes
    spec = StreamSpec(kafka, tuple(inputs.all()), start, (inputs.cut_at,), topic_ids=runner.topic_ids, cut_limit=limit)
    survey = KafkaSurvey(kafka)
    tail = ResolvedTail(KafkaTail(kafka, inputs.cut_at, survey=survey), inputs.cut_at)
    planner = BatchPlanner(spec, survey, [tail], clock)
    decode = Decoder(registry.schema)

    def collect(plan: BatchPlan) -> Signals:
        fold = SignalFold(inputs, decode)
        for (name, partition), end in plan.ends.items():
            for record in reader.read(name, partition, plan.start.get((name, partition), 0), end):
                fold.on_record(record)
        return fold.signals

    at = spec.initial()
    print("started", flush=True)
    while True:
        after = planner.latest(at, 0.2)
        if after is not at:
            plan = after.plan()
            runner.run(plan, lambda plan=plan: collect(plan))  # type: ignore[misc]
            at = after


if __name__ == "__main__":
    main()
