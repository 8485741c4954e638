"""Hadoop's compression codecs, as streams in a SequenceFile: whole bytes in, whole bytes out.

`zlib` (DefaultCodec) and `gzip` give the bytes that Hadoop gives without its native library, as both are zlib's.
Snappy and LZ4 are framed by Hadoop's `BlockCompressorStream`; LZ4's bytes are Hadoop's too, save for a value alone
(RECORD) that is longer than its buffer. Those of Snappy and bzip2 are others, with the same content. `zstd` is for
readers that have native libhadoop: the JVM of the PySpark wheel can neither read nor write it.

Why no ISA-L, several times as fast as zlib: it picks its code by the processor, and its bytes may differ with it.
"""

from __future__ import annotations

import bz2
import importlib.metadata
import platform
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Any, Final, Literal

import zstandard

from include.errors import Terminal
from include.lake.formats.unpacking import MOST_BYTES, TooLargeError, bunzip, gunzip, inflate, unsnap, unzstd

__all__ = ["DAMAGED", "LEVELS", "Codec", "CodecName", "codec", "codec_of_class"]

CodecName = Literal["zlib", "gzip", "bzip2", "snappy", "lz4", "zstd"]

DAMAGED: Final[tuple[type[Exception], ...]] = (zlib.error, ValueError, OSError, EOFError, zstandard.ZstdError)
"""What `decompress` raises for bytes that it cannot be right about."""

LEVELS: Final[Mapping[CodecName, tuple[int, int, int]]] = {
    "zlib": (1, 6, 9),
    "gzip": (1, 6, 9),
    "bzip2": (1, 9, 9),
    "zstd": (1, 3, 22),
}
"""Least, default and greatest level; a codec that is not named has no levels."""

_PACKAGE: Final = "org.apache.hadoop.io.compress."
_CLASSES: Final[Mapping[CodecName, str]] = {
    "zlib": _PACKAGE + "DefaultCodec",
    "gzip": _PACKAGE + "GzipCodec",
    "bzip2": _PACKAGE + "BZip2Codec",
    "snappy": _PACKAGE + "SnappyCodec",
    "lz4": _PACKAGE + "Lz4Codec",
    "zstd": _PACKAGE + "ZStandardCodec",
}
_NAMES: Final[Mapping[str, CodecName]] = {
    **{name: short for short, name in _CLASSES.items()},
    _PACKAGE + "DeflateCodec": "zlib",
}
# What Hadoop's compressors take at a time: their buffer of 256 KiB less what the algorithm may add in the worst case.
_SNAPPY_CHUNK: Final = (1 << 18) - ((1 << 18) // 6 + 32)
_LZ4_CHUNK: Final = (1 << 18) - ((1 << 18) // 255 + 16)
# More than so many bytes no byte can stand for: what tells to is damaged, and is given no room.
_LZ4_RATIO: Final = 255
# No compression method has flags, a time or an operating system's name in Hadoop's.
_GZIP_HEADER: Final = bytes.fromhex("1f8b0800000000000000")
_TRAILER: Final = Struct("<II")
_LENGTH: Final = Struct(">I")


@dataclass(frozen=True, slots=True)
class Codec:
    """One codec at one level; `versions` are those of the libraries that decide on its bytes."""

    class_name: str
    compress: Callable[[bytes], bytes]
    unpack: Callable[[bytes, int], bytes]
    versions: Mapping[str, str]

    def decompress(self, data: bytes, most: int = MOST_BYTES) -> bytes:
        """The content; raises what `DAMAGED` lists, `TooLargeError` among it for more than `most` bytes."""
        return self.unpack(data, most)


def codec(name: CodecName, level: int | None = None) -> Codec:
    """The codec, at its default level unless told; a level out of `LEVELS` is a fault of the caller's."""
    if name in LEVELS:
        least, default, most = LEVELS[name]
        level = default if level is None else level
        if not least <= level <= most:
            raise ValueError(f"{name} has levels from {least} to {most}")
    elif level is not None:
        raise ValueError(f"{name} has no levels")
    return _MAKERS[name](_CLASSES[name], level)


def codec_of_class(class_name: str) -> Codec:
    """The codec that a file names; `Terminal` for one that is not known here."""
    if class_name not in _NAMES:
        raise Terminal(
            "no codec of this name is known",
            codec=class_name,
            allowed=sorted(_NAMES),
            fix="Read the file with the Hadoop installation that has this codec, and write it with one of these.",
        )
    return codec(_NAMES[class_name])


def _zlib(class_name: str, level: int) -> Codec:
    return Codec(class_name, partial(zlib.compress, level=level), inflate, {"zlib": zlib.ZLIB_RUNTIME_VERSION})


def _gzip(class_name: str, level: int) -> Codec:
    def compress(data: bytes) -> bytes:
        body = zlib.compress(data, level, -zlib.MAX_WBITS)
        return _GZIP_HEADER + body + _TRAILER.pack(zlib.crc32(data), len(data) & 0xFFFFFFFF)

    return Codec(class_name, compress, gunzip, {"zlib": zlib.ZLIB_RUNTIME_VERSION})


def _bzip2(class_name: str, level: int) -> Codec:
    # The library's own version cannot be asked for; it comes with the interpreter.
    versions = {"python": platform.python_version()}
    return Codec(class_name, partial(bz2.compress, compresslevel=level), bunzip, versions)


def _zstd(class_name: str, level: int) -> Codec:
    def compress(data: bytes) -> bytes:
        return zstandard.ZstdCompressor(level=level).compress(data)

    versions = {"zstandard": zstandard.__version__, "zstd": ".".join(map(str, zstandard.ZSTD_VERSION))}
    return Codec(class_name, compress, unzstd, versions)


def _framed(compress: Callable[[bytes], bytes], chunk: int, data: bytes) -> bytes:
    size = len(data)
    parts = [_LENGTH.pack(size)]
    for at in range(0, size, chunk):
        part = compress(data[at : at + chunk])
        parts += (_LENGTH.pack(len(part)), part)
    if size > chunk:
        # Hadoop ends what it had to cut with an empty section.
        parts.append(_LENGTH.pack(0))
    return b"".join(parts)


def _unframed(decompress: Callable[[bytes, int], bytes], data: bytes, most: int) -> bytes:
    """Sections {raw length, {chunk length, chunk}…} up to an empty one or the end; `decompress(chunk, most)`."""
    parts, offset, room = [], 0, most
    while offset < len(data):
        (left,) = _LENGTH.unpack_from(_whole(data, offset, 4))
        offset += 4
        if left == 0:
            break
        if left > room:
            raise TooLargeError(most)
        room -= left
        while left > 0:
            (size,) = _LENGTH.unpack_from(_whole(data, offset, 4))
            part = decompress(_whole(data, offset + 4, size), left)
            offset += 4 + size
            if not part:
                raise ValueError("a chunk is empty")
            left -= len(part)
            parts.append(part)
    return b"".join(parts)


def _whole(data: bytes, at: int, size: int) -> bytes:
    part = data[at : at + size]
    if len(part) < size:
        raise EOFError("a chunk is not whole")
    return part


def _arrow(name: str) -> Any:
    from pyarrow.lib import Codec as ArrowCodec

    return ArrowCodec(name)


def _snappy(class_name: str, _level: int | None) -> Codec:
    arrow = _arrow("snappy")

    compress = partial(arrow.compress, asbytes=True)
    return Codec(
        class_name,
        partial(_framed, compress, _SNAPPY_CHUNK),
        partial(_unframed, unsnap),
        {"pyarrow": importlib.metadata.version("pyarrow")},
    )


def _lz4(class_name: str, _level: int | None) -> Codec:
    arrow = _arrow("lz4_raw")

    def fits(chunk: bytes, size: int) -> bool:
        try:
            arrow.decompress(chunk, decompressed_size=size, asbytes=True)
        except OSError:
            return False
        return True

    def decompress(chunk: bytes, most: int) -> bytes:
        # A raw block does not tell its size, and room that it leaves over is given back as if it were data: the size
        # is the least room that it fits into. Mostly that is what Hadoop's compressor takes, or all of the section.
        most = min(most, len(chunk) * _LZ4_RATIO)
        size = min(most, _LZ4_CHUNK)
        if size > 1 and (not fits(chunk, size) or fits(chunk, size - 1)):
            low, size = 1, most
            while low < size:
                middle = (low + size) // 2
                low, size = (low, middle) if fits(chunk, middle) else (middle + 1, size)
        return bytes(arrow.decompress(chunk, decompressed_size=size, asbytes=True))

    compress = partial(arrow.compress, asbytes=True)
    return Codec(
        class_name,
        partial(_framed, compress, _LZ4_CHUNK),
        partial(_unframed, decompress),
        {"pyarrow": importlib.metadata.version("pyarrow")},
    )


_MAKERS: Final[Mapping[CodecName, Callable[[str, Any], Codec]]] = {
    "zlib": _zlib,
    "gzip": _gzip,
    "bzip2": _bzip2,
    "snappy": _snappy,
    "lz4": _lz4,
    "zstd": _zstd,
}
