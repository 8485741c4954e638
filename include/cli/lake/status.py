"""`lyrebird lake status`: how far each group is, what waits, and what stands in its way."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from include.cli.colours import painted
from include.cli.json_option import json_option
from include.cli.lake.options import group_option, groups_meant, open_store
from include.cli.progress_bar import progress_bar
from include.cli.table import duration, table
from include.clock import SystemClock, iso
from include.metrics.progress import GAVE_UP, PROGRESS, last_run_folder, read_file
from include.settings.completion import declared_topics

if TYPE_CHECKING:
    from include.lake.inspect.status import GroupStatus, LastCommit, PartitionStatus

__all__ = ["command"]

# Long enough for a log that is well; who asks while it is not should hear so soon.
_PATIENCE_S = 5.0
_HEAD = ("topic", "p", "state", "committed", "lag", "oldest", "open", "last commit", "its object", "what to do")
_RIGHT = ("p", "committed", "lag", "oldest", "open")


@click.command(name="status")
@group_option
@click.option("--topic", help="Only this topic.", shell_complete=declared_topics)
@click.option("--all", "with_gone", is_flag=True, help="Topics that Kafka has no more, too.")
@json_option("Print JSON, nothing else.")
def command(group_name: str | None, topic: str | None, with_gone: bool, as_json: bool) -> None:
    """Say up to where each topic-partition is stored, what waits and for how long, and what to do where it stands.

    Rests on the bucket and Kafka: no application need run; what it reported last is shown, too. `committed` is the
    first offset that is not stored, `lag` the offsets behind it, `oldest` the age of the first record that waits,
    `open` what the files of all that waits would have, as estimated from the last commit.
    """
    from include.lake.inspect.status import group_status
    from include.lake.protocol.inventory import stored_topics
    from include.lake.reading.kafka_group import KafkaGroupLog
    from include.lake.run_params import UPLOADS
    from include.settings.connections import Kafka
    from include.settings.deployment import Deployment
    from include.settings.environment import state_folder
    from include.settings.names import require_known

    deployment = Deployment.load()
    groups = groups_meant(deployment, group_name, topic)
    kafka, store, clock = deployment.one("kafka", Kafka), open_store(deployment), SystemClock()
    statuses = []
    with progress_bar("status", len(groups), unit="groups", quiet=as_json) as bar:
        for name, group in groups.items():
            meant = group if topic is None else group.model_copy(update={"topics": (topic,)})
            told = _told(state_folder(), group.application if group.run == "stream" else UPLOADS, name)
            log = KafkaGroupLog(kafka.bootstrap, kafka.options, timeout_s=_PATIENCE_S)
            status = group_status(name, meant, store, log, clock.now_us() // 1000, told)
            partitions = tuple(
                partition
                for partition in status.partitions
                if (with_gone or partition.state != "gone") and (topic is None or partition.topic == topic)
            )
            statuses.append(dataclasses.replace(status, partitions=partitions))
            bar.advance()
    if topic is not None and not any(status.partitions or status.troubles for status in statuses):
        known = {info.name for info in KafkaGroupLog(kafka.bootstrap, kafka.options).topics()}
        known |= {life.topic for group in groups.values() for life in stored_topics(store, group.prefix)}
        require_known(topic, known, "no such topic is stored, and Kafka has none")
    if as_json:
        click.echo(orjson.dumps({"groups": [_json(status) for status in statuses]}).decode())
    else:
        click.echo(painted("\n\n".join("\n".join(_lines(status)) for status in statuses)))


def _told(state: Path, application: str, name: str) -> dict[str, Any]:
    """What an application on this host, under a guardian or by hand, reported last of a group.

    `ended`: why it did; `incidents`: those of the group, and those of all groups of the application.
    """
    folder = last_run_folder(application, state)
    progress = read_file(folder / PROGRESS)
    told = dict(progress.get("groups", {}).get(name, {}))
    incidents = [each for each in progress.get("incidents", []) if each.get("group") in ("", name)]
    more = {"incidents": incidents, "ended": read_file(folder / GAVE_UP)}
    return {**told, **{key: value for key, value in more.items() if value}}


def _json(status: GroupStatus) -> dict[str, Any]:
    return {
        "group": status.name,
        "application": status.application,
        "healthy": status.healthy,
        "troubles": [each._asdict() for each in status.troubles],
        "partitions": [dataclasses.asdict(each) for each in status.partitions],
        "left_out": list(status.left_out),
        "reported": dict(status.told),
    }


def _lines(status: GroupStatus) -> list[str]:
    lines = [f"{status.name} ({status.application}): {'all right' if status.healthy else 'look at this'}"]
    for trouble in status.troubles:
        lines += [f"  {trouble.trouble}: {trouble.text}", f"    {trouble.fix}"]
    if status.told.get("away"):
        lines.append(f"  its application waits: {status.told['away']}")
    if "ended" in status.told:
        ended = status.told["ended"]
        lines += [f"  its application has ended: {ended.get('text', '')}", f"    {ended.get('fix', '')}"]
    incidents = status.told.get("incidents", [])
    if not any(incident["kind"] == "lost" for incident in incidents):
        lines += [f"  lost, by its application: {loss}" for loss in status.told.get("lost", [])]
    for incident in incidents:
        at = iso(int(incident["id"].rpartition(":")[2]))
        lines += [f"  incident since {at}: {incident['text']}", f"    {incident['fix']}"]
    if status.partitions:
        lines += [
            f"  {line}"
            for line in table(_HEAD, [_row(partition) for partition in status.partitions], _RIGHT).split("\n")
        ]
    elif not status.troubles:
        lines.append("  no topic is there")
    if status.left_out:
        names = ", ".join(status.left_out)
        lines.append(f"  left out, as their names begin with _ or . and no pattern of `topics` does: {names}")
    return lines


def _row(each: PartitionStatus) -> tuple[str, ...]:
    return (
        each.topic,
        str(each.partition),
        each.state,
        _number(each.committed),
        _number(each.lag_records),
        "-" if each.lag_s is None else duration(each.lag_s),
        "-" if each.open_bytes is None else f"{each.open_bytes} B",
        _at(each.last),
        each.last.key if each.last else "-",
        each.todo,
    )


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _at(last: LastCommit | None) -> str:
    return "-" if last is None or last.at_us is None else iso(last.at_us)
