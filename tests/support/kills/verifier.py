"""Every offset that Kafka has, exactly once: objects as Hadoop's reader reads them, beside what Kafka's client reads.

Nothing of the product is imported here. Objects are fetched by a plain client of S3, and all runs are read together:
each record says by itself of which run and partition it is.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.kills.chains import Chains, Found, Piece
from tests.support.kills.kafka_reader import Ran, digest

__all__ = ["Verdict", "verify"]

# Hadoop's reader of SequenceFiles for many small ones at a time.
_INPUT: Final = "org.apache.hadoop.mapreduce.lib.input.CombineSequenceFileInputFormat"
_SPLIT: Final = {"mapreduce.input.fileinputformat.split.maxsize": str(64 << 20)}
_KEYS: Final = {
    "offset": "org.apache.hadoop.io.LongWritable",
    "message_pack": "org.apache.hadoop.io.BytesWritable",
    "verbatim": "org.apache.hadoop.io.BytesWritable",
}
_BYTES: Final = "org.apache.hadoop.io.BytesWritable"
_QUARANTINE: Final = "_quarantine"


class Read(NamedTuple):
    """A record that Hadoop has read; `where` is the object's folder and Kafka partition."""

    run: int
    partition: int
    offset: int
    digest: str
    names: str
    where: int


@dataclass
class Verdict:
    """`faults` of all runs, by name; the other fields say how much was looked at."""

    faults: dict[str, list[str]] = field(default_factory=dict)
    runs: int = 0
    objects: int = 0
    records: int = 0


def verify(spark: Any, client: Any, bucket: str, runs: Sequence[Ran], folder: Path) -> Verdict:
    """What is wrong with runs; `folder` is empty, and takes the objects."""
    chains = Chains(client, bucket)
    verdict = Verdict(runs=len(runs))
    founds: dict[int, Found] = {}
    shelves = _Shelves(folder)
    for run in runs:
        if run.problem:
            verdict.faults[run.name] = [run.problem]
            continue
        found = founds[run.number] = chains.found(run, shelves.keep(run))
        verdict.objects += len(found.pieces)
    read: dict[int, list[Read]] = defaultdict(list)
    for shelf, place in shelves.all():
        for each in _read(spark, place, *shelf):
            read[each.run].append(each)
            verdict.records += 1
    for run in runs:
        if run.number in founds:
            faults = [*founds[run.number].faults, *_compared(run, founds[run.number], read[run.number])]
            if faults:
                verdict.faults[run.name] = faults
    return verdict


class _Shelves:
    """Objects of all runs, a folder for each layout, folder of the lake and partition."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._made: dict[tuple[str, str, int], Path] = {}

    def keep(self, run: Ran) -> Callable[[Piece, bytes], None]:
        """What puts a run's objects there."""

        def put(piece: Piece, body: bytes) -> None:
            layout = "verbatim" if piece.names == _QUARANTINE else run.layout
            shelf = layout, piece.names, piece.partition
            if shelf not in self._made:
                # Hadoop takes no `=` in a folder's address.
                self._made[shelf] = self._folder / layout / piece.names.replace("=", "-") / str(piece.partition)
                self._made[shelf].mkdir(parents=True)
            self._count += 1
            (self._made[shelf] / str(self._count)).write_bytes(body)

        return put

    def all(self) -> list[tuple[tuple[str, str, int], Path]]:
        """Those that hold something."""
        return sorted(self._made.items())


def _read(spark: Any, folder: Path, layout: str, names: str, where: int) -> list[Read]:
    pairs = spark.sparkContext.newAPIHadoopFile(folder.as_uri(), _INPUT, _KEYS[layout], _BYTES, conf=_SPLIT)
    refused = names == _QUARANTINE
    told = pairs.map(lambda pair: told_of(layout, pair[0], bytes(pair[1]), refused=refused)).collect()
    return [Read(run, partition, offset, found, names, where) for run, partition, offset, found in told]


def told_of(layout: str, key: Any, value: bytes, *, refused: bool) -> tuple[int, int, int, str]:
    """Run, partition, offset and digest of a pair that Hadoop's reader gives."""
    if layout != "verbatim":
        offset = key if layout == "offset" else _unpacked(bytes(key))[1]
        content = json.loads(value)
        return content["run"], content["at"], offset, digest(value)
    entries = _unpacked(bytes(key))
    headers = entries[4][:-1] if refused else entries[4]
    run, partition = map(int, headers[0][1].split())
    null = bool(entries[6] & 1)
    whole = digest(entries[2], None if null else value, headers, entries[3], entries[5])
    return run, partition, entries[1], whole


def _compared(run: Ran, found: Found, read: Iterable[Read]) -> list[str]:
    """Each committed record once and as it was, where it belongs; nothing else."""
    faults: list[str] = []
    wanted = {(partition, offset): each for partition, all_ in run.logged.items() for offset, each in all_.items()}
    times = Counter((each.partition, each.offset) for each in read)
    faults += [f"offset {at} is there {count} times" for at, count in times.items() if count > 1]
    faults += [f"offset {at} is none that Kafka has" for at in times if at not in wanted]
    parsed = run.kind == "partition"
    left_out = {at for at, each in wanted.items() if parsed and each.filtered}
    faults += [f"offset {at} is missing" for at in wanted.keys() - times.keys() - left_out]
    faults += [f"offset {at} was to be left out" for at in left_out & times.keys()]
    if found.filtered != len(left_out):
        faults.append(f"commits tell of {found.filtered} records left out, and there are {len(left_out)}")
    if found.records != times.total():
        faults.append(f"commits tell of {found.records} records, and Hadoop reads {times.total()}")
    for each in read:
        logged = wanted.get((each.partition, each.offset))
        if logged is None:
            continue
        whole = not parsed or logged.day is None
        if each.digest != (logged.whole if whole else logged.value):
            faults.append(f"offset {(each.partition, each.offset)} is not as it was written")
        if each.where != each.partition or (parsed and each.names != _folder_of(logged.day)):
            faults.append(f"offset {(each.partition, each.offset)} is in {each.names}, of partition {each.where}")
    return faults


def _folder_of(day: int | None) -> str:
    return _QUARANTINE if day is None else f"dt={dt.date(1970, 1, 1) + dt.timedelta(days=day)}"


def _unpacked(data: bytes) -> Any:
    """MessagePack, as far as keys have it."""
    value, at = _unpack(data, 0)
    assert at == len(data), "bytes behind a key"
    return value


def _unpack(data: bytes, at: int) -> tuple[Any, int]:
    head = data[at]
    at += 1
    if head < 0x80:
        return head, at
    if head == 0xC0:
        return None, at
    numbers: Mapping[int, tuple[int, bool]] = {
        **{0xCC + each: (1 << each, False) for each in range(4)},
        **{0xD0 + each: (1 << each, True) for each in range(4)},
    }
    if head in numbers:
        size, signed = numbers[head]
        return int.from_bytes(data[at : at + size], "big", signed=signed), at + size
    if head >= 0xE0:
        return head - 0x100, at
    if head & 0xF0 == 0x80 or head & 0xF0 == 0x90:
        size = head & 0x0F
    elif 0xA0 <= head < 0xC0:
        size = head & 0x1F
    else:
        width = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDE: 2}[head]
        size = int.from_bytes(data[at : at + width], "big")
        at += width
    if 0xA0 <= head < 0xC0 or head in (0xD9, 0xDA, 0xDB):
        return data[at : at + size].decode(), at + size
    if head in (0xC4, 0xC5, 0xC6):
        return data[at : at + size], at + size
    if head & 0xF0 == 0x90 or head == 0xDC:
        items = []
        for _ in range(size):
            item, at = _unpack(data, at)
            items.append(item)
        return items, at
    entries = {}
    for _ in range(size):
        name, at = _unpack(data, at)
        entries[name], at = _unpack(data, at)
    return entries, at
