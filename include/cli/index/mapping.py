"""`lyrebird index mapping`: a first mapping for a topic, to be tweaked by hand."""

from __future__ import annotations

import re
from pathlib import Path

import click
import orjson

from include.cli.json_option import json_option
from include.errors import SettingsError, Terminal
from include.index.definition import IndexTopic, declared_indexes
from include.index.mapping.file import mapping_text
from include.index.mapping.limits import FIELDS, beyond_limits, field_count
from include.index.mapping.schema_fit import index_forms
from include.index.mapping.starter import starter_index
from include.index.mapping.topic_types import is_envelope
from include.index.mapping.value_types import Form
from include.log import topics
from include.log.ports import SchemaRegistry
from include.log.registry.confluent import ConfluentRegistry
from include.record.json.formats import ValueForm
from include.settings.completion import names_of
from include.settings.connections import Registry
from include.settings.deployment import Deployment

__all__ = ["command"]

_ENTRY = """\
Declare it in the deployment, then make the index:
  indexes:
    {name}:
      application: index_{plain}
      topic: {topic}
      entity: {entity}
      value: {value}
      mapping: {file}"""


@click.command(name="mapping")
@click.argument("topic", shell_complete=names_of("documents"))
@click.option("--entity", help="Name of the body in a document, for a topic that no index declares.")
@click.option("--value", type=click.Choice(["plain", "change"]), help="What its values are, likewise.")
@click.option("--unsearched", multiple=True, metavar="PLACE", help="Keep order.tree in documents without searching it.")
@click.option("--write", is_flag=True, help="Write it into the deployment folder; a file that is there is refused.")
@json_option("Print the mapping as JSON, without comments.")
def command(
    topic: str, entity: str | None, value: ValueForm | None, unsearched: tuple[str, ...], write: bool, as_json: bool
) -> None:
    """Print a first mapping for documents of TOPIC, made from its schema, with a comment on each choice."""
    deployment = Deployment.load()
    registry = ConfluentRegistry(deployment.one("registry", Registry))
    topics.readable(topic)
    name, file, sources, new = _declared(deployment, topic) or _undeclared(deployment, registry, topic, entity, value)
    forms = index_forms(registry, sources)
    choice = starter_index(_bodies(forms, sources), unsearched)
    mapping = choice.mapping()
    beyond = beyond_limits(mapping)
    head = [
        f"First mapping of index {name}, from "
        + ", ".join(f"{each} (schema {schema_id})" for each, (schema_id, _) in forms.items())
        + ".",
        "Change what you like before `lyrebird index create`; a field's type can only be changed by",
        f"`lyrebird index rebuild {name}`. `lyrebird index check {name}` tells what becomes of values.",
        f"{field_count(mapping):,} of {FIELDS:,} fields.",
        *(f"More than a server takes: {line}." for line in beyond),
    ]
    if write:
        click.echo(f"{_written(deployment.folder / file, mapping_text(choice, chr(10).join(head)))} written")
    elif as_json:
        click.echo(orjson.dumps(mapping, option=orjson.OPT_INDENT_2).decode())
    else:
        click.echo(mapping_text(choice, "\n".join(head)), nl=False)
    if new and not as_json:
        click.echo(new, err=True)


def _declared(deployment: Deployment, topic: str) -> tuple[str, str, dict[str, IndexTopic], str] | None:
    """Index, mapping file and topics of the entry that `topic` fills."""
    for name, definition in declared_indexes(deployment).items():
        if topic in definition.topics:
            return name, definition.mapping, dict(definition.topics), ""
    return None


def _undeclared(
    deployment: Deployment, registry: SchemaRegistry, topic: str, entity: str | None, value: ValueForm | None
) -> tuple[str, str, dict[str, IndexTopic], str]:
    """The same for a topic that no index declares yet, with the entry to add."""
    parts = [re.sub(r"[^a-z0-9_]+", "_", part.lower()).strip("_") or "t" for part in topic.split(".")]
    taken = declared_indexes(deployment)
    plain = next((n for n in (parts[-1], "_".join(parts[-2:])) if n not in taken), "_".join(parts))
    entity = entity or (parts[-1] if parts[-1][0].isalpha() else f"t_{parts[-1]}")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", entity):
        raise SettingsError("not an entity's name", entity=entity, allowed="lower case letters, digits, '_'")
    schema_id = registry.newest(f"{topic}-value")
    if value is None and schema_id is not None:
        value = "change" if is_envelope(registry.schema(schema_id), registry.language(schema_id)) else "plain"
    own = IndexTopic(entity=entity, value=value or "plain")
    file = f"mappings/{plain}.yaml"
    entry = _ENTRY.format(name=plain, plain=plain, topic=topic, entity=entity, value=own.value, file=file)
    return plain, file, {topic: own}, entry


def _bodies(found: dict[str, tuple[int, Form]], sources: dict[str, IndexTopic]) -> dict[str, Form]:
    """Forms by entity; topics that share one must have the same."""
    bodies: dict[str, Form] = {}
    for topic, (_, form) in found.items():
        entity = sources[topic].entity
        if bodies.setdefault(entity, form) != form:
            raise Terminal(
                "topics of one entity have different schemas",
                entity=entity,
                topic=topic,
                fix="Give each topic an entity of its own, or write the mapping by hand.",
            )
    return bodies


def _written(file: Path, text: str) -> Path:
    if file.exists():
        raise SettingsError("file exists", file=str(file), fix="Move it away, or print without `--write` and compare.")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file
