"""`lyrebird binlog`: read binlog files without a server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from include.errors import SettingsError, Terminal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from include.record.schema import Column

__all__ = ["command"]

_REFUSED, _CUT = 3, 4


@click.group(name="binlog", help="Read binlog files: row changes as JSON.")
def command() -> None:
    """Group of the binlog's commands."""


@command.command(name="cat")
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--schema",
    "schema_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON: rows of information_schema.columns, for files whose table maps do not say enough.",
)
@click.option("--table", "tables", multiple=True, metavar="DB.T", help="Only this table; may be given again.")
@click.option("--avro", is_flag=True, help='Images as {"hex": …} of their Avro record, each schema before them.')
@click.option("--all", "everything", is_flag=True, help="Rows that were rolled back or never committed, too.")
@click.option("--json", "as_json", is_flag=True, help="What is printed is JSON in any case.")
def cat(
    files: tuple[Path, ...],
    schema_file: Path | None,
    tables: tuple[str, ...],
    avro: bool,
    everything: bool,
    as_json: bool,
) -> None:
    r"""Print one JSON object for each row change, in the order of the log.

    \b
    {"file", "pos", "gtid", "server_id", "timestamp", "database", "table", "op": "c|u|d", "before", "after"}

    Of transactions that committed only, unless --all. `pos` is the end of the transaction (with --all of the event).
    Values are as SELECT shows them: numbers; DECIMAL, dates and times as strings; binary values as {"hex": …}; VECTOR
    as a list. FILEs may be compressed (.gz, .zst, .xz, .bz2) or archives of binlogs (.tar, .zip).

    Ends with 0 when all was decoded, 3 when something was refused (named on stderr, the rest is printed), 4 when a file
    is not a binlog or cut short (what was whole is printed).
    """
    import tempfile

    from include.source.cat import Cat
    from include.source.files import BinlogFileError, binlog_files

    wanted = {tuple(name.split(".", 1)) for name in tables}
    for name in tables:
        if "." not in name:
            raise SettingsError("--table wants database and table", got=name, fix="Write --table db.t.")
    refused: list[Terminal] = []

    def refuse(error: Terminal) -> None:
        refused.append(error)
        click.echo(f"refused: {error}", err=True)

    code = 0
    out = sys.stdout.buffer
    reader = Cat(
        refuse,
        Path(tempfile.gettempdir()),
        _described(schema_file),
        (lambda database, table: (database, table) in wanted) if wanted else (lambda _database, _table: True),
        everything,
        avro,
    )
    for path in files:
        try:
            for file in binlog_files(path):
                reader.on_file(file.name)
                for data in file.events():
                    for line in reader.on_event(data):
                        out.write(orjson.dumps(line) + b"\n")
        except BinlogFileError as error:
            click.echo(f"error: {error}", err=True)
            code = _CUT
    out.flush()
    sys.exit(code or (_REFUSED if refused else 0))


def _described(path: Path | None) -> Mapping[tuple[str, str], tuple[Column, ...]]:
    from include.source.cat import columns_of

    if path is None:
        return {}
    try:
        rows: Any = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise SettingsError("the schema is no JSON", file=str(path), reason=str(error)) from error
    if not isinstance(rows, list):
        raise SettingsError("the schema is no list", file=str(path), fix="Give rows of information_schema.columns.")
    return columns_of(rows)
