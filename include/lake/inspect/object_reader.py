"""Reads the records of an object, whichever its format: those of the lake, and Secor's archives with any name.

A file tells its format by its first bytes, text by none; the name decides between text and JSON lines, what the
deployment declares on how their lines are to be read.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from include.errors import Terminal
from include.lake.definition import FormatDefinition
from include.lake.formats.avro_blocks import AvroFile, read_bodies
from include.lake.formats.avro_container import SCHEMA_ID
from include.lake.formats.compressed_file import Compression, read_lines
from include.lake.formats.delimited_text import DelimitedText, DelimitedTextOptions
from include.lake.formats.json_lines import JsonLines, JsonLinesOptions
from include.lake.formats.orc_rows import ORC, read_orc
from include.lake.formats.parquet import Parquet, ParquetOptions
from include.lake.formats.parquet_rows import plain
from include.lake.formats.sequence.codecs import DAMAGED, CodecName, codec
from include.lake.formats.sequence.sequence_file import layout_of, read_messages
from include.lake.formats.sequence.sequence_header import MAGIC
from include.lake.formats.sequence.sequence_reader import SequenceReader
from include.lake.message import Message
from include.record.codec import frame

__all__ = ["ContentKind", "Contents", "as_json_value", "kind_by_name", "open_contents"]

ContentKind = Literal["sequence", "avro", "parquet", "json_lines", "text", "orc"]
"""The lake writes no ORC, archives may have it."""

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_AVRO: Final = b"Obj\x01"
_PARQUET: Final = b"PAR1"
_COMPRESSED: Final = (".gz", ".zst")
_NAMED: Final[tuple[tuple[str, ContentKind], ...]] = (
    (".parquet", "parquet"),
    (".avro", "avro"),
    (".jsonl", "json_lines"),
    (".txt", "text"),
)
# Endings of text files that Hadoop compressed; gzip and zstd are told by their bytes.
_HADOOP: Final[Mapping[str, CodecName]] = {".bz2": "bzip2", ".deflate": "zlib", ".lz4": "lz4", ".snappy": "snappy"}
_MEMBERS: Final = {"offset", "timestamp_ms", "timestamp_type", "key", "value", "headers"}


@dataclass(frozen=True, slots=True)
class Contents:
    """The records of one object, to be read once. `detail` names format, layout and compression for a person.

    Where `offsets` is false the format keeps none: they are -1, and keys and timestamps are missing, too.
    """

    kind: ContentKind
    detail: str
    offsets: bool
    messages: Iterator[Message]


def kind_by_name(key: str, declared: FormatDefinition | None = None) -> ContentKind:
    """The format of an object of the lake, by what its name ends in; SequenceFiles may have any ending."""
    name = key.rpartition("/")[2]
    sequence = declared.sequence if declared else None
    if sequence is not None and sequence.extension and name.endswith(sequence.extension):
        return "sequence"
    plain = next((name.removesuffix(each) for each in _COMPRESSED if name.endswith(each)), name)
    return next((kind for suffix, kind in _NAMED if plain.endswith(suffix)), "sequence")


def open_contents(body: bytes, name: str, declared: FormatDefinition | None = None, *, raw: bool = False) -> Contents:
    """The records of the object `name`, whose bytes are `body`.

    Records of Avro and Parquet come as JSON, times as the numbers that the file has; with `raw` those of Avro files of
    the lake in their wire format, as Kafka had them. `messages` raises `Terminal` naming the byte, line or row where
    the object is damaged, after all before.
    """
    stream = io.BytesIO(body)
    if body.startswith(MAGIC):
        return _sequence(stream)
    if body.startswith(_AVRO):
        return _avro(body, raw=raw)
    if body.startswith(_PARQUET):
        messages = Parquet(ParquetOptions(), _no_registry).read(stream)
        return Contents("parquet", "Parquet", _parquet_offsets(body), messages)
    if body.startswith(ORC):
        return Contents("orc", "ORC", offsets=False, messages=read_orc(body))
    hadoop = _HADOOP.get(name[name.rfind(".") :])
    if hadoop is not None:
        body = _decompressed(body, hadoop)
        name, stream = name[: name.rfind(".")], io.BytesIO(body)
    compression = Compression(codec="gzip" if body.startswith(_GZIP) else "zstd" if body.startswith(_ZSTD) else "none")
    how = f", {hadoop}" if hadoop else "" if compression.codec == "none" else f", {compression.codec}"
    if kind_by_name(name) == "json_lines":
        content = _json_content(body, compression, declared.json_lines if declared else None)
        messages = JsonLines(JsonLinesOptions(content=content, compression=compression)).read(stream)
        return Contents("json_lines", f"JSON lines of each {content}{how}", content == "message", messages)
    text = declared.text if declared and declared.text else DelimitedTextOptions()
    read = DelimitedText(text.model_copy(update={"compression": compression})).read(stream)
    escaped = ", escaped" if text.embedded == "escape" else ""
    return Contents("text", f"delimited text{escaped}{how}", offsets=False, messages=read)


def _decompressed(body: bytes, name: CodecName) -> bytes:
    """A whole file as Hadoop's codec of that name made it."""
    try:
        return codec(name).decompress(body)
    except DAMAGED as error:
        raise _damaged(f"{name}-compressed", error) from error


def _sequence(stream: io.BytesIO) -> Contents:
    reader = SequenceReader(stream)
    header = reader.header
    layout = type(layout_of(header)).__name__.removesuffix("Key")
    codec = f" with {header.codec.rpartition('.')[2]}" if header.compression != "NONE" else ""
    detail = f"SequenceFile, layout {_LAYOUTS[layout]}, {header.compression}{codec}"
    return Contents("sequence", detail, offsets=True, messages=read_messages(reader))


_LAYOUTS: Final = {"Offset": "offset", "MessagePack": "message_pack", "Verbatim": "verbatim"}


def _avro(body: bytes, *, raw: bool) -> Contents:
    file = AvroFile(io.BytesIO(body))
    ours = SCHEMA_ID in file.metadata
    detail = f"Avro container, codec {file.codec}"
    if ours:
        detail += f", schema id {file.metadata[SCHEMA_ID].decode()}"
    if raw and ours:
        bodies = (frame(schema_id, each) for schema_id, each in read_bodies(io.BytesIO(body), SCHEMA_ID))
        return Contents("avro", detail, offsets=False, messages=(Message(-1, None, each) for each in bodies))
    rows = (Message(-1, None, as_json_value(value)) for value in file.values())
    return Contents("avro", detail, offsets=False, messages=rows)


def as_json_value(row: Any) -> bytes:
    """A decoded value of Avro as JSON; bytes as base64."""
    return orjson.dumps(row, default=plain, option=orjson.OPT_NON_STR_KEYS)


def _parquet_offsets(body: bytes) -> bool:
    import pyarrow.lib as pa
    from pyarrow.parquet import ParquetFile

    try:
        reader: Any = ParquetFile
        with reader(io.BytesIO(body)) as file:
            return "_offset" in file.schema_arrow.names
    except (pa.ArrowException, OSError) as error:
        raise _damaged("Parquet", error) from error


def _json_content(
    body: bytes, compression: Compression, declared: JsonLinesOptions | None
) -> Literal["message", "payload"]:
    if declared is not None:
        return declared.content
    first = next(read_lines(io.BytesIO(body), compression), b"{}")
    try:
        members = orjson.loads(first)
    except orjson.JSONDecodeError:
        return "payload"
    return "message" if isinstance(members, dict) and members.keys() == _MEMBERS else "payload"


def _no_registry(schema_id: int) -> Any:
    raise Terminal("reading a Parquet file needs no schema", schema_id=schema_id, fix="Report this.")


def _damaged(kind: str, error: Exception) -> Terminal:
    return Terminal(
        f"{kind} file is damaged",
        cause=repr(error),
        fix="Compare its sha256 with its commit: `lyrebird audit chain --deep`.",
    )
