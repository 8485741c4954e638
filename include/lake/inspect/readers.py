"""Lists the objects of a topic's dates for Spark and DuckDB: exactly those that the pointer names.

Both take lists of files. Folders and patterns would read every generation that stands in them, so keys with signs that
a reader takes for a pattern are refused (Lyrebird's own names have none, as they are escaped).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from include.errors import SettingsError, Terminal
from include.lake.definition import FormatDefinition
from include.lake.inspect.listing import Dates, ListedObject, list_topic
from include.lake.inspect.object_reader import ContentKind, kind_by_name
from include.lake.protocol.object_key import topic_path
from include.store.object_store import ObjectStore

__all__ = ["ReadSet", "duckdb_sql", "read_set", "read_set_of", "spark_line", "spark_paths"]

_PATTERN: Final = set("*?[]{}\\")
_SCHEMA: Final = "schema="
_HIVE: Final = "hive_partitioning = true"
_DUCKDB: Final[Mapping[ContentKind, str]] = {
    "parquet": f"read_parquet({{files}}, union_by_name = true, {_HIVE})",
    "json_lines": (
        f"read_json({{files}}, format = 'newline_delimited', union_by_name = true, sample_size = -1, {_HIVE})"
    ),
    "text": (
        "read_csv({files}, columns = {{'line': 'VARCHAR'}}, auto_detect = false, header = false, delim = '', "
        f"quote = '', escape = '', force_not_null = ['line'], {_HIVE})"
    ),
    "avro": "read_avro({files})",
}
_SPARK: Final[Mapping[ContentKind, str]] = {
    "parquet": "parquet",
    "json_lines": "json",
    "text": "text",
    "avro": "avro",
}


@dataclass(frozen=True, slots=True)
class ReadSet:
    """The keys to read, by format, each sorted.

    `folder` is the topic's, below which folders are partition columns.
    """

    bucket: str
    folder: str
    keys: Mapping[ContentKind, tuple[str, ...]]


def read_set(
    store: ObjectStore, bucket: str, prefix: str, topic: str, dates: Dates, declared: FormatDefinition | None = None
) -> ReadSet:
    """The objects that readers of these dates read of a topic below a group's prefix, in all of its lives.

    Args:
        store: the bucket of the lake.
        bucket: its name, for the addresses of objects.
        prefix: the group's.
        topic: its name.
        dates: days, both included, and their zone.
        declared: the format that the deployment declares for the topic; None: it declares none.

    Raises:
        Terminal: there is a hole in what readers find.
        Transient: the store does not answer.
        BackPressure: the store asks to slow down.
    """
    found = list_topic(store, prefix, topic, dates)
    return read_set_of(bucket, prefix, topic, found, declared)


def read_set_of(
    bucket: str, prefix: str, topic: str, found: Iterable[ListedObject], declared: FormatDefinition | None = None
) -> ReadSet:
    """Listed objects by format."""
    keys: dict[ContentKind, list[str]] = {}
    for each in found:
        keys.setdefault(kind_by_name(each.key, declared), []).append(each.key)
    folder = topic_path(prefix, topic).removesuffix("/")
    return ReadSet(bucket, folder, {kind: tuple(sorted(keys[kind])) for kind in sorted(keys)})


def duckdb_sql(found: ReadSet) -> str:
    """A query over all records for each table; DuckDB knows the bucket by a secret (`CREATE SECRET`).

    A table is a format; of Avro each schema, as readers take one for all files. Members of JSON become columns, those
    of all records (`sample_size`); lines of text come as they are written, with the escapes of `embedded: escape`.
    Raises `SettingsError` for SequenceFiles, which DuckDB cannot read, and for no object at all.
    """
    queries = []
    for kind, keys in _tables(found):
        call = _DUCKDB.get(kind)
        if call is None:
            raise SettingsError(
                "DuckDB reads no SequenceFiles",
                objects=len(keys),
                folder=found.folder,
                fix="Read them with Spark (`--as spark`), or show one with `lyrebird lake cat`.",
            )
        files = ", ".join("'" + uri.replace("'", "''") + "'" for uri in _uris(found.bucket, keys, "s3"))
        # Text for whoever asked, never run here; the names in it are quoted.
        queries.append(f"SELECT * FROM {call.format(files=f'[{files}]')};")  # noqa: S608
    return "\n".join(queries)


def spark_paths(found: ReadSet, kind: ContentKind, scheme: str = "s3a") -> list[str]:
    """Paths for a DataFrameReader, or with commas between for `SparkContext.sequenceFile`."""
    return _paths(found, kind, found.keys.get(kind, ()), scheme)


def spark_line(found: ReadSet, scheme: str = "s3a") -> str:
    """PySpark that reads all records, a line for each table (see `duckdb_sql`); folders below the topic become columns.

    SequenceFiles come as pairs of key and value, without these columns. Avro needs Spark's package spark-avro.
    """
    lines = []
    for kind, keys in _tables(found):
        paths = _paths(found, kind, keys, scheme)
        if kind == "sequence":
            lines.append(f"spark.sparkContext.sequenceFile({','.join(paths)!r})")
        else:
            base = f"{scheme}://{found.bucket}/{found.folder}"
            # Spark takes the columns of one file for those of all, unless it is told to look at each.
            merged = '.option("mergeSchema", "true")' if kind == "parquet" else ""
            reader = f'spark.read.format("{_SPARK[kind]}").option("basePath", {base!r}){merged}'
            lines.append(f"{reader}.load({paths!r})")
    return "\n".join(lines)


def _tables(found: ReadSet) -> list[tuple[ContentKind, list[str]]]:
    """What can be read as one table each."""
    if not found.keys:
        raise SettingsError("no object is of these dates", folder=found.folder, fix="Choose other dates.")
    tables: dict[tuple[ContentKind, str], list[str]] = {}
    for kind, keys in found.keys.items():
        for key in keys:
            folder = key.split("/")[-2] if kind == "avro" else ""
            schema = folder if folder.startswith(_SCHEMA) else ""
            tables.setdefault((kind, schema), []).append(key)
    return [(kind, keys) for (kind, _), keys in tables.items()]


def _paths(found: ReadSet, kind: ContentKind, keys: Sequence[str], scheme: str) -> list[str]:
    paths = _uris(found.bucket, keys, scheme)
    with_comma = next((path for path in paths if "," in path), None) if kind == "sequence" else None
    if with_comma is not None:
        raise Terminal(
            "a key with a comma, which Spark takes for the end of a path", key=with_comma, fix="Read it by itself."
        )
    return paths


def _uris(bucket: str, keys: Sequence[str], scheme: str) -> list[str]:
    for key in keys:
        if _PATTERN & set(key):
            raise Terminal(
                "a key with signs that readers take for a pattern",
                key=key,
                signs="".join(sorted(_PATTERN & set(key))),
                fix="Read this object by itself (`lyrebird lake cat`), and let the parser give other names.",
            )
    return [f"{scheme}://{bucket}/{key}" for key in keys]
