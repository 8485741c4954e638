"""Chooses a version of a table: the newest, or the one that shows the source as of a transaction or time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from include.clock import Clock, iso
from include.errors import SettingsError, Terminal
from include.lake.tables.definition import TableEntry, table_topics
from include.lake.tables.delta_log import DataFile, DeltaLog
from include.lake.tables.generation import Generations, generation_folder, generations_of
from include.lake.tables.standing import Label
from include.record.gtid import parse_gtid_set
from include.settings.names import require_known
from include.store.object_store import ObjectStore

__all__ = ["TableVersion", "chosen", "kept_table", "kept_tables"]


@dataclass(frozen=True)
class TableVersion:
    """A version of a table: its files, as keys below `folder`, its columns, and what it is complete to."""

    topic: str
    folder: str
    generation: int
    version: int
    committed_ms: int
    label: Label
    schema: Any
    files: Sequence[DataFile]

    @property
    def rows(self) -> int:
        """How many it has."""
        return sum(each.rows for each in self.files)


def kept_tables(store: ObjectStore, entry: TableEntry, names: Iterable[str]) -> dict[str, Generations]:
    """Topic → generations, of the topics among `names` that an entry keeps and that have a table."""
    found = {topic: generations_of(store, entry.prefix, topic) for topic in table_topics(entry, names)}
    return {topic: each for topic, each in found.items() if each is not None}


def kept_table(store: ObjectStore, entries: Iterable[TableEntry], topic: str) -> tuple[TableEntry, Generations]:
    """The entry that keeps a topic, with the generations of its table; `SettingsError` where there is none."""
    meant = [entry for entry in entries if table_topics(entry, [topic])]
    for entry in meant:
        found = generations_of(store, entry.prefix, topic)
        if found is not None:
            return entry, found
    kept = sorted(
        key.removeprefix(f"{entry.prefix}/").partition("/")[0]
        for entry in entries
        for key in _pointers(store, entry.prefix)
    )
    require_known(topic, kept, "no table of this topic is kept")
    raise SettingsError("no entry of `tables` has this topic", topic=topic, fix="Declare one.")


def chosen(
    store_folder: Callable[[str], DeltaLog], entry: TableEntry, topic: str, now: Generations, at: str, clock: Clock
) -> TableVersion:
    """The version that is meant.

    Args:
        store_folder: key of a folder → the log of the table there.
        entry: the one that keeps the topic.
        topic: its name.
        now: the generations of its table.
        at: "" for the newest version; a version's number; a GTID set, or a time in ISO 8601: the newest version that is
            complete to nothing later.
        clock: reads the time.

    Raises:
        SettingsError: `at` is none of these.
        Terminal: no version that is kept is that old.
    """
    folder = generation_folder(entry.prefix, topic, now.read)
    log = store_folder(folder)
    state = log.state()
    if state is None:
        raise Terminal("the table has no version yet", topic=topic, fix=f"Is {entry.application} running?")
    version = state.version
    if at.isdigit():
        version = int(at)
    elif at:
        version = _newest_earlier(log, topic, at, clock)
    if version != state.version:
        state = log.at(version)
    committed_ms, label = log.label(version)
    files = [each for of in state.files.values() for each in of]
    return TableVersion(topic, folder, now.read, version, committed_ms, label, state.schema, files)


def _newest_earlier(log: DeltaLog, topic: str, at: str, clock: Clock) -> int:
    earlier, oldest_us = _earlier(at, clock), None
    for version, _, label in log.labels():
        if label and earlier(label):
            return version
        for cut in label.values():
            oldest_us = min(oldest_us or cut.position.commit_us, cut.position.commit_us)
    raise Terminal(
        "no version of the table that is kept is complete to nothing later",
        topic=topic,
        at=at,
        oldest=None if oldest_us is None else iso(oldest_us),
        fix="`time_travel_days` says how long versions are kept.",
    )


def _earlier(at: str, clock: Clock) -> Callable[[Label], bool]:
    """Whether all that a label is complete to had happened then."""
    until_us = _micros(at)
    if until_us is not None:
        return lambda label: all(cut.position.commit_us <= until_us for cut in label.values())

    def covered(label: Label) -> bool:
        for cut in label.values():
            try:
                wanted = parse_gtid_set(at, cut.position.flavour)
            except Terminal as error:
                raise SettingsError(
                    "neither a version, nor a time, nor a GTID set of the source",
                    got=at,
                    source=cut.source,
                    allowed="17; 2026-11-25T03:00:00Z; what `lyrebird capture status` shows",
                ) from error
            if not wanted.contains(cut.position.gtids):  # type: ignore[arg-type]
                return False
        return True

    return covered


def _micros(text: str) -> int | None:
    """A time in ISO 8601 as microseconds since 1970 (UTC where it names no zone); None for another text."""
    import datetime as dt

    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    zoned = found if found.tzinfo else found.replace(tzinfo=dt.UTC)
    return round((zoned - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) / dt.timedelta(microseconds=1))


def _pointers(store: ObjectStore, prefix: str) -> Iterable[str]:
    """Keys of the objects that name generations, one a table: found by skipping from table to table."""
    after = ""
    while True:
        first = next(iter(store.list(f"{prefix}/", start_after=after)), None)
        if first is None:
            return
        topic = first.key.removeprefix(f"{prefix}/").partition("/")[0]
        yield f"{prefix}/{topic}/"
        # "0" is the character behind "/".
        after = f"{prefix}/{topic}0"
