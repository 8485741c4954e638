"""`lyrebird binlog`: read binlog files without a server."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from include.cli.failing import tell_error
from include.cli.json_option import json_option
from include.cli.progress_bar import progress_bar
from include.errors import SettingsError, Terminal

if TYPE_CHECKING:
    from include.source.cat.cat import Cat
    from include.source.database.table_info import TableInfo

__all__ = ["command"]

_REFUSED, _CUT = 3, 4
_LARGE_BYTES = 16 << 20
_STEP_BYTES = 1 << 20
_MAGIC = b"\xfebin"


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
@json_option("What is printed is JSON in any case.")
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
    Values are as SELECT shows them, in UTC: numbers; DECIMAL, dates and times as strings; binary values as
    {"hex": …}; VECTOR as a list. Columns that the log does not hold are left out; those without a name are @1, @2, …
    FILEs may be compressed (.gz, .zst, .xz, .bz2) or archives of binlogs (.tar, .zip).

    Ends with 0 when all was decoded, 3 when something was refused (named on stderr, the rest is printed), 4 when a file
    is not a binlog or cut short (what was whole is printed).
    """
    import tempfile

    from include.source.cat.cat import Cat

    for name in tables:
        if "." not in name:
            raise SettingsError("--table wants database and table", got=name, fix="Write --table db.t.")
    wanted = frozenset(tables)
    reader = Cat(
        lambda error: click.echo(f"refused: {error}", err=True),
        Path(tempfile.gettempdir()),
        _described(schema_file),
        lambda database, table: not wanted or f"{database}.{table}" in wanted,
        everything,
        avro,
    )
    try:
        with _progress(files) as advance:
            cut = _print(reader, files, advance)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; the interpreter flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        cut = False
    if reader.refusals.more:
        click.echo(f"refused: {reader.refusals.more:,} more for the causes above", err=True)
    sys.exit(_CUT if cut else _REFUSED if reader.refusals else 0)


def _print(reader: Cat, files: tuple[Path, ...], advance: Callable[[int], None]) -> bool:
    """All lines of all files; whether one was no binlog, or cut short."""
    from include.source.binlog.files import BinlogFileError, binlog_files

    cut = False
    write = sys.stdout.buffer.write

    def wrong(error: Terminal) -> bool:
        tell_error(error)
        return True

    for path in files:
        try:
            for file in binlog_files(path):
                reader.on_file(file.name)
                for data in file.events():
                    for line in reader.on_event(data):
                        write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
                    advance(len(data))
                unfinished = reader.on_end()
                cut = (unfinished is not None and wrong(unfinished)) or cut
        except BinlogFileError as error:
            cut = wrong(error)
    return cut


@contextmanager
def _progress(files: tuple[Path, ...]) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where a person sees that and not the rows, and it takes a while: called with bytes read."""
    size = sum(path.stat().st_size for path in files if path.is_file())
    if size < _LARGE_BYTES or not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda _bytes: None
        return
    # Of packed files nobody knows how many bytes they hold.
    with progress_bar("binlog", size if all(map(_plain, files)) else None, unit="bytes") as bar:
        waiting = 0

        def advance(count: int) -> None:
            nonlocal waiting
            waiting += count
            if waiting >= _STEP_BYTES:
                bar.advance(waiting)
                waiting = 0

        yield advance


def _plain(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


def _described(path: Path | None) -> Mapping[tuple[str, str], TableInfo]:
    from include.source.cat.schema_rows import described

    if path is None:
        return {}
    try:
        rows: Any = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise SettingsError("the schema is no JSON", file=str(path), reason=str(error)) from error
    if not isinstance(rows, list):
        raise SettingsError("the schema is no list", file=str(path), fix="Give rows of information_schema.columns.")
    return described(rows)
