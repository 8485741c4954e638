"""`lyrebird lake cat`: the records of one object, ours or Secor's, from the bucket or a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from include.cli.json_option import json_option
from include.cli.lake.options import open_store, registry_of
from include.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from include.lake.definition import FormatDefinition
    from include.lake.message import Message
    from include.settings.deployment import Deployment

__all__ = ["command"]

_S3 = "s3://"
_CHAINS = "_chain"
_OUT_BYTES = 1 << 16


@click.command(name="cat")
@click.argument("name", metavar="OBJECT")
@click.option("--offset", type=click.IntRange(min=0), help="Only the record of this offset.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many records.")
@click.option("--raw", is_flag=True, help="Values alone, byte for byte, a line break behind each.")
@click.option("--decode", is_flag=True, help="Framed Avro values as JSON, by the registry or schemas beside backups.")
@json_option("Print JSON, nothing else.")
def command(name: str, offset: int | None, limit: int | None, raw: bool, decode: bool, as_json: bool) -> None:
    """Print the records of OBJECT, one a line: its key in the bucket, `s3://bucket/key`, or a file of this machine.

    Reads all formats of the lake and Secor's archives, whatever their names are. Columns: index, offset, time, key,
    value; `-` where the format keeps none. Records of a quarantine object say why they were refused. With --json each
    record is one JSON object.
    """
    from include.lake.inspect.object_reader import open_contents
    from include.lake.inspect.record_text import record_json, record_line
    from include.lake.protocol.object_key import QUARANTINE

    if raw and (as_json or decode):
        raise SettingsError("--raw and --json or --decode ask for different things", fix="Choose one of them.")
    key, body, declared = _bytes(name)
    contents = open_contents(body, key, declared, raw=raw)
    messages = _decoded(contents.messages) if decode else contents.messages
    if offset is not None and not contents.offsets:
        raise SettingsError(
            "this format keeps no offsets", object=name, fix="Ask `lyrebird lake where` for the record's index."
        )
    if not (raw or as_json):
        click.echo(contents.detail, err=True)
    refused = QUARANTINE in key.split("/")
    out, shown = bytearray(), 0
    for index, record in enumerate(messages):
        if offset is not None and record.offset != offset:
            continue
        if raw:
            out += record.value or b""
        elif as_json:
            out += orjson.dumps(record_json(record, index, refused=refused))
        else:
            out += record_line(record, index, refused=refused).encode("utf-8", "backslashreplace")
        out += b"\n"
        shown += 1
        if len(out) >= _OUT_BYTES:
            click.echo(bytes(out), nl=False)
            out.clear()
        if shown == limit:
            break
    click.echo(bytes(out), nl=False)
    if offset is not None and not shown:
        raise SettingsError(
            "no record of this offset is in the object",
            object=name,
            offset=offset,
            fix="`lyrebird lake where` names the object that has it.",
        )


def _decoded(messages: Iterator[Message]) -> Iterator[Message]:
    """Values in Confluent's framing as JSON, by the registry and what backups keep; others as they are."""
    from include.lake.formats.avro_schemas import WireSchemas
    from include.lake.inspect.object_reader import as_json_value
    from include.settings.deployment import Deployment

    deployment = Deployment.load()
    schemas = WireSchemas(registry_of(deployment, open_store(deployment)).schema)
    for message in messages:
        found = schemas.refused(message)
        yield message if isinstance(found, str) else message._replace(value=as_json_value(found[1]))


def _bytes(name: str) -> tuple[str, bytes, FormatDefinition | None]:
    """Key, bytes and declared format of what is meant."""
    file = Path(name)
    if not name.startswith(_S3) and file.is_file():
        return name, file.read_bytes(), None
    from include.settings.connections import StoreSettings
    from include.settings.deployment import Deployment

    deployment = Deployment.load()
    bucket = deployment.one("store", StoreSettings).bucket
    key = name
    if name.startswith(_S3):
        named, _, key = name.removeprefix(_S3).partition("/")
        if named != bucket:
            raise SettingsError(
                "another bucket than the deployment's", got=named, allowed=bucket, fix="Fetch it, and name the file."
            )
    if not key or key.endswith("/") or _CHAINS in key.split("/"):
        raise SettingsError(
            "this names no object with records",
            object=name,
            fix="`lyrebird lake where` and `lyrebird lake files` name some; `lyrebird audit chain` reads the chains.",
        )
    stored = open_store(deployment).get(key)
    if stored is None:
        raise SettingsError(
            "no such file here, and no such object in the bucket",
            object=key,
            bucket=bucket,
            fix="`lyrebird lake where` and `lyrebird lake files` name objects.",
        )
    return key, stored.body, _declared(deployment, key)


def _declared(deployment: Deployment, key: str) -> FormatDefinition | None:
    """The format of the rule that the object's topic has now, where a group has its prefix."""
    from include.lake.definition import declared_groups
    from include.lake.protocol.object_key import topic_of

    for group in declared_groups(deployment).values():
        below = key.removeprefix(f"{group.prefix}/")
        if below != key:
            rule = group.rule(topic_of(below.partition("/")[0]))
            return rule.format if rule else None
    return None
