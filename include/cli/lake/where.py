"""`lyrebird lake where`: the object that has a record, and its place in it."""

from __future__ import annotations

import dataclasses
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import orjson

from include.cli.json_option import json_option
from include.cli.lake.options import group_option, groups_meant, open_store, parser_context, registry_of
from include.settings.completion import declared_topics

if TYPE_CHECKING:
    from include.lake.inspect.locate import LocatedRecord

__all__ = ["command"]


@click.command(name="where")
@click.argument("topic", shell_complete=declared_topics)
@click.argument("partition", type=click.IntRange(min=0))
@click.argument("offset", type=click.IntRange(min=0))
@group_option
@json_option("Print JSON, nothing else.")
def command(topic: str, partition: int, offset: int, group_name: str | None, as_json: bool) -> None:
    """Say where the record at OFFSET of a Kafka partition is, in each group that stores the topic.

    Names the object that readers read and the record's index in it, from 0; or says that it was filtered or refused,
    that the log never had it, or that it is not stored yet. A topic that was made anew is answered for each of its
    lives. Exit code 1: a record that should be there is missing.
    """
    from include.lake.inspect.locate import find_record
    from include.lake.inspect.replay import CutReplay
    from include.lake.protocol.generations import lives
    from include.lake.protocol.inventory import require_stored
    from include.lake.writing.topic_pipelines import logics_of
    from include.settings.deployment import Deployment

    deployment = Deployment.load()
    groups = groups_meant(deployment, group_name, topic)
    backups = (group.prefix for group in groups_meant(deployment, None, topic).values() if group.kind == "backup")
    backup = next(backups, None)
    store = open_store(deployment)
    context = dataclasses.replace(parser_context(deployment), registry=registry_of(deployment, store))
    require_stored(store, [group.prefix for group in groups.values()], topic)
    located: list[tuple[str, LocatedRecord]] = []
    for name, group in groups.items():
        rule = group.rule(topic)
        ask = CutReplay(store, partial(logics_of, name, group, topic, context), backup)
        for life in lives(store, group.prefix, topic):
            told = find_record(store, life, partition, offset, rule.format if rule else None, ask)
            located.append((name, told))
    if as_json:
        value = {"topic": topic, "partition": partition, "offset": offset, "found": [_json(*pair) for pair in located]}
        click.echo(orjson.dumps(value).decode())
    else:
        without = [
            f"{name}: nothing of {topic} is stored"
            for name in groups
            if name not in {answered for answered, _ in located}
        ]
        click.echo("\n".join([*(_line(*pair, several=_several(located, pair[0])) for pair in located), *without]))
    if any(record.state == "missing" for _, record in located):
        sys.exit(1)


def _several(found: list[tuple[str, LocatedRecord]], name: str) -> bool:
    return sum(each == name for each, _ in found) > 1


def _json(name: str, found: LocatedRecord) -> dict[str, Any]:
    fields = {each.name: getattr(found, each.name) for each in dataclasses.fields(found)}
    for left_out in ("topic", "partition", "offset"):
        fields.pop(left_out)
    return {"group": name, "topic_id": found.topic.topic_id, **fields}


def _line(name: str, found: LocatedRecord, *, several: bool) -> str:
    who = f"{name} ({found.topic.topic_id})" if several else name
    parts = [f"{who}: {found.state}"]
    if found.key:
        parts.append(found.key if found.index is None else f"{found.key}, record {found.index} (from 0)")
    if found.first is not None and found.next is not None:
        parts.append(f"cut [{found.first}, {found.next}) of generation {found.generation}")
    return "; ".join([*parts, *([found.text] if found.text else [])])
