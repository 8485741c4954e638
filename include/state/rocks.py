"""The embedded store: RocksDB in the process, by rocksdict."""

from __future__ import annotations

import functools
import shutil
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self
from weakref import WeakSet

from typing_extensions import override

from include.clock import SystemClock
from include.errors import Transient
from include.state.engine import BrokenStore, Engine

__all__ = ["RocksEngine"]

_CACHE: Final = 64 << 20
_BUFFER: Final = 16 << 20
_FILE: Final = 64 << 20
_BLOCK: Final = 8 << 10
_BLOOM_BITS: Final = 10
_RUNS: Final = (6, 12)
_DEAD_PERCENT: Final = 25
_LOOK_S: Final = 0.001
_TABLES: Final = ".sst"
_CONFIG: Final = "rocksdict-config.json"
_NO_ROOM: Final = ("No space", "Too many open files", "Disk quota")


class RocksEngine(Engine):
    """`Engine` on RocksDB.

    Its own log is off: what a bucket writes stands in the object store already, and a write is flushed before it
    returns. So opening reads no log, and a crash leaves an earlier state, of which the bucket knows what to do.
    """

    def __init__(self, folder: Path) -> None:
        from rocksdict import Rdict, WriteOptions

        self._folder = folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _Errors(folder):
            self._db = Rdict(str(folder), _options(folder.name))
        unlogged: Any = WriteOptions()
        unlogged.disable_wal = True
        self._db.set_write_options(unlogged)
        self._idle: _Cursor | None = None
        self._cursors: WeakSet[_Cursor] = WeakSet()
        self._writes = 0
        self._open = True

    @classmethod
    def open(cls, folder: Path) -> Self:
        """`OpenEngine`."""
        return cls(folder)

    @override
    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        with _Errors(self._folder):
            found: Any = self._db.get(list(keys))
        return list(found)

    @override
    def scan(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        cursor, self._idle = self._idle, None
        with _Errors(self._folder):
            if cursor is None:
                cursor = _Cursor(self._db.iter())
                self._cursors.add(cursor)
            cursor.iterator.seek(max(prefix, start))
        return self._scanned(cursor, prefix, self._writes)

    def _scanned(self, cursor: _Cursor, prefix: bytes, writes: int) -> Iterator[tuple[bytes, bytes]]:
        while cursor.iterator.valid():
            key = cursor.iterator.key()
            if not key.startswith(prefix):
                break
            yield key, cursor.iterator.value()
            cursor.iterator.next()
        else:
            # An iterator ends without a word at a block that it cannot read.
            with _Errors(self._folder):
                cursor.iterator.status()
        if writes == self._writes:
            # Making one takes longer than to read the rows of a join key. It sees what stood when it was made.
            self._idle = cursor

    @override
    def write(self, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        from rocksdict import WriteBatch

        self._idle = None
        self._writes += 1
        batch = WriteBatch(raw_mode=True)
        for key, value in rows:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        with _Errors(self._folder):
            self._db.write(batch)
            self._db.flush()

    @override
    def snapshot(self, folder: Path) -> list[str]:
        from rocksdict import Checkpoint

        folder.parent.mkdir(parents=True, exist_ok=True)
        with _Errors(self._folder):
            Checkpoint(self._db).create_checkpoint(str(folder))
        if not (folder / _CONFIG).exists():
            shutil.copyfile(self._folder / _CONFIG, folder / _CONFIG)
        return sorted(file.name for file in folder.iterdir() if file.suffix == _TABLES)

    @override
    def close(self) -> None:
        self._idle = None
        for cursor in self._cursors:
            cursor.iterator = None
        if self._open:
            # Closing breaks a compaction off, and the next opening would begin it again: with a batch in a bucket every
            # second none but the smallest would ever end.
            while self._db.property_int_value("rocksdb.num-running-compactions"):
                SystemClock().sleep(_LOOK_S)
            self._db.close()
        self._open = False


class _Cursor:
    """An iterator of RocksDB's, which holds the store's folder as long as it lives.

    Whoever scans refers to the cursor alone: a frame that an error's traceback keeps alive has it among its locals, and
    the same process could not open the folder again before the next collection.
    """

    __slots__ = ("__weakref__", "iterator")

    def __init__(self, iterator: Any) -> None:
        self.iterator = iterator


class _Errors:
    """RocksDB's errors, which are one class with texts, as ours."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None or kind is None or not issubclass(kind, Exception):
            return
        text = str(error)
        if any(each in text for each in _NO_ROOM):
            raise Transient(
                "the host has no room for the state of a bucket", folder=str(self._folder), why=text
            ) from error
        raise BrokenStore("the state of a bucket cannot be read", folder=str(self._folder), why=text) from error


@functools.cache
def _shared_cache() -> Any:
    """One for all stores of a process, whatever number of buckets it opens."""
    from rocksdict import Cache

    return Cache(_CACHE)


def _options(name: str) -> Any:
    from rocksdict import BlockBasedOptions, DBCompactionStyle, DBCompressionType, Options, UniversalCompactOptions

    options = Options(raw_mode=True)
    options.create_if_missing(True)
    blocks = BlockBasedOptions()
    blocks.set_bloom_filter(_BLOOM_BITS, False)
    blocks.set_block_cache(_shared_cache())
    blocks.set_block_size(_BLOCK)
    options.set_block_based_table_factory(blocks)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_bottommost_compression_type(DBCompressionType.zstd())
    # A write makes a small file. Files of like sizes are merged, so that a row is written a few times on its way into
    # the large one; by levels all of the bucket would be written again for every four writes.
    sizes = UniversalCompactOptions()
    sizes.max_size_amplification_percent = _DEAD_PERCENT
    sizes.size_ratio = _DEAD_PERCENT
    options.set_compaction_style(DBCompactionStyle.universal())
    options.set_universal_compaction_options(sizes)
    # Not all buckets in the same batch.
    options.set_level_zero_file_num_compaction_trigger(_RUNS[0] + zlib.crc32(name.encode()) % (_RUNS[1] - _RUNS[0]))
    options.set_write_buffer_size(_BUFFER)
    options.set_target_file_size_base(_FILE)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(1)
    options.set_skip_stats_update_on_db_open(True)
    options.set_max_file_opening_threads(1)
    return options
