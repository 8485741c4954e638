"""Hadoop's own writer and reader of SequenceFiles, through Spark's JVM: they share nothing with ours."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from include.lake.formats.port import FileIdentity
from include.lake.formats.sequence.sequence_file import SequenceFile
from include.lake.formats.sequence.sequence_header import BYTES_WRITABLE, LONG_WRITABLE
from include.lake.formats.sequence.sequence_reader import SequenceReader
from include.lake.formats.sequence.sequence_writer import sync_markers
from include.lake.message import Message

__all__ = ["IDENTITY", "Hadoop", "contents", "messages", "ours", "same_as_hadoops"]

IDENTITY: Final = FileIdentity("clicks", "Tk9fVE9QSUNfSURfMTIzNA", 3, 500, ())
_INPUT: Final = "org.apache.hadoop.mapreduce.lib.input.SequenceFileInputFormat"
_CODECS: Final = {
    "zlib": "DefaultCodec",
    "gzip": "GzipCodec",
    "bzip2": "BZip2Codec",
    "snappy": "SnappyCodec",
    "lz4": "Lz4Codec",
    "zstd": "ZStandardCodec",
}
Pair = tuple[int | bytes, bytes]


def messages(count: int, largest: int, *, hostile: bool = False, seed: int = 0) -> list[Message]:
    """Records of every size, half of them compressible; hostile ones hold escape and sync marker of their own file."""
    chance = random.Random(seed)
    first = next(sync_markers(IDENTITY))
    found, offset = [], IDENTITY.first
    for _ in range(count):
        size = chance.randint(0, largest)
        value = chance.randbytes(size) if chance.random() < 0.5 else (b"again and " * (size // 10 + 1))[:size]
        if hostile:
            value += b"\xff\xff\xff\xff" + first + value[:20]
        name = None if chance.random() < 0.3 else chance.randbytes(chance.choice((0, 3, 300)))
        headers = (("h", None), ("h", b"")) if chance.random() < 0.2 else ()
        null = chance.random() < 0.1
        found.append(Message(offset, name, None if null else value, headers, chance.choice((-1, 1700000000000)), 1))
        offset += chance.randint(1, 3)
    return found


def contents(format_: SequenceFile, batch: Sequence[Message]) -> list[Pair]:
    """What Hadoop's reader has to find: keys as numbers or bytes, and values."""
    layout = format_._layout
    plain = layout.key_class == LONG_WRITABLE
    keys = [int.from_bytes(key, "big") if plain else key[4:] for key in layout.keys(batch)]
    return list(zip(keys, layout.values(batch), strict=True))


def ours(format_: SequenceFile, batch: Sequence[Message], sync: bytes | None = None) -> bytes:
    """The file as we write it, with a sync marker given or with its own."""
    stream = io.BytesIO()
    writer = format_.open_with(stream, iter([sync])) if sync else format_.open(stream, IDENTITY)
    for at in range(0, len(batch), 97):
        writer.write(batch[at : at + 97])
    assert writer.close().bytes == len(stream.getvalue())
    return stream.getvalue()


class Hadoop:
    """The Hadoop inside a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._jvm: Any = self._context._jvm

    def read(self, path: Path, splits: int, key_class: str) -> tuple[list[Pair], int]:
        """All records, in order of the file, and how many splits it was read in."""
        size = path.stat().st_size
        conf = {
            "mapreduce.input.fileinputformat.split.maxsize": str(-(-size // splits)),
            "mapreduce.input.fileinputformat.split.minsize": "1",
        }
        found: Any = self._context.newAPIHadoopFile(path.as_uri(), _INPUT, key_class, BYTES_WRITABLE, conf=conf)
        return [
            (key if isinstance(key, int) else bytes(key), bytes(value)) for key, value in found.collect()
        ], found.getNumPartitions()

    def write(self, path: Path, format_: SequenceFile, pairs: Iterable[Pair]) -> bytes:
        """A file of these records as Hadoop's writer writes it, with a marker that it draws."""
        jvm = self._jvm
        io_, file = jvm.org.apache.hadoop.io, jvm.org.apache.hadoop.io.SequenceFile
        conf = jvm.org.apache.hadoop.conf.Configuration(False)
        conf.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
        # The first file system of a process is kept for all, and Spark's readers need the one with checksums.
        conf.set("fs.file.impl.disable.cache", "true")
        conf.set("io.seqfile.compress.blocksize", str(format_.block_bytes))
        numbers = format_._layout.key_class == LONG_WRITABLE
        key: Any = io_.LongWritable() if numbers else io_.BytesWritable()
        value = io_.BytesWritable()
        kinds = jvm.org.apache.hadoop.io.SequenceFile.CompressionType
        codec = None
        if format_.compression != "NONE":
            class_ = jvm.java.lang.Class.forName("org.apache.hadoop.io.compress." + _CODECS[format_.codec])
            codec = jvm.org.apache.hadoop.util.ReflectionUtils.newInstance(class_, conf)
        metadata = file.Metadata()
        for title, text in format_._layout.metadata.items():
            metadata.set(io_.Text(title), io_.Text(text))
        at = jvm.org.apache.hadoop.fs.Path(path.as_uri())
        system = at.getFileSystem(conf)
        writer = file.createWriter(
            system,
            conf,
            at,
            key.getClass(),
            value.getClass(),
            65536,
            1,
            1 << 20,
            getattr(kinds, format_.compression),
            codec,
            None,
            metadata,
        )
        for name, content in pairs:
            if isinstance(name, bytes):
                key.set(name, 0, len(name))
            else:
                key.set(name)
            value.set(content, 0, len(content))
            writer.append(key, value)
        writer.close()
        return path.read_bytes()


def same_as_hadoops(hadoop: Hadoop, path: Path, format_: SequenceFile, batch: Sequence[Message]) -> bool:
    """Hadoop's file gives back what was written; whether its bytes are ours for its marker."""
    pairs = contents(format_, batch)
    theirs = hadoop.write(path, format_, pairs)
    reader = SequenceReader(io.BytesIO(theirs))
    assert list(reader.records()) == pairs
    return ours(format_, batch, reader.header.sync) == theirs
