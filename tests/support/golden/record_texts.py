"""Records the text of each row that audits compare, as its server makes it.

    python -m tests.support.golden.record_texts …

Arguments are those of `tests.support.golden.record`. A case runs again; where its rows are others than before, it
is recorded anew as a whole.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from include.errors import Terminal
from include.policy.policy import Policy
from include.source.hashes.columns import ComparedRows, server_digest
from include.source.hashes.server_sql import row_text
from tests.support.binlog.decoded_recording import server_of, shape_of
from tests.support.golden.case import Case
from tests.support.golden.observer import Observer, quoted
from tests.support.golden.record import main, record
from tests.support.golden.recording import Description, Recording, Row, Table, load
from tests.support.paths import GOLDEN
from tests.support.servers import Server

__all__ = ["compared_rows", "texts_of"]

Texts = dict[int, list[str | None]]
"""Number of a change → the texts of the rows that came; None for a row that is of the past at once."""


def compared_rows(table: Table, description: Description, server: str) -> ComparedRows:
    """What is compared of a table, without a policy; raises `Terminal` where nothing can be."""
    shape, at = shape_of(table, description, server), server_of(server)
    policy = Policy.declared("accept", {}, [table[0]]).of(*table)
    keyless = bool(shape.schema.nullable)
    return ComparedRows.of(shape.columns, shape.schema, policy, server_digest(at.flavour, at.version), keyless=keyless)


def texts_of(server: str, case: str) -> Texts:
    """What is recorded; FileNotFoundError where nothing is."""
    said = json.loads((GOLDEN / server / f"{case}.texts.json").read_text("utf-8"))
    return {int(number): texts for number, texts in said.items()}


class _Texts(Observer):
    """Asks for each row's text, too."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._server = server
        self._now: dict[Table, dict[Row, str]] = {}
        self._changes = 0
        self._refused: set[Table] = set()
        self.said: Texts = {}

    def changes(self, after: int) -> list[Any]:
        """As `Observer`, with the texts of what came."""
        found = super().changes(after)
        for number, change in enumerate(found, self._changes):
            if change.come and change.table in self._now:
                self.said[number] = [self._now[change.table].get(row) for row in change.come]
        self._changes += len(found)
        return found

    def _rows(self, table: Table, description: Description) -> list[Row]:
        self._now.pop(table, None)
        try:
            rows = compared_rows(table, description, self._server.name)
        except Terminal as error:
            if table not in self._refused:
                print(f"{'':14} {'.'.join(table)}: {error}", file=sys.stderr)
            self._refused.add(table)
        else:
            cells = ", ".join([*self._cells(description), row_text(rows)])
            with self._bytes.cursor() as cursor:
                cursor.execute(f"SELECT {cells} FROM {quoted(table[0])}.{quoted(table[1])}")
                self._now[table] = {tuple(row[:-1]): row[-1].decode() for row in cursor.fetchall()}
        return super()._rows(table, description)


def _record(server: Server, case: Case) -> _Recorded:
    observers: list[_Texts] = []

    def observe(at: Server) -> _Texts:
        observers.append(_Texts(at))
        return observers[-1]

    made, before = record(server, case, observe), load(server.name, case.name)
    same = [(c.table, c.come) for c in made.changes] == [(c.table, c.come) for c in before.changes]
    return _Recorded(made, observers[0].said, whole=not same)


class _Recorded:
    def __init__(self, recording: Recording, said: Texts, *, whole: bool) -> None:
        self._recording, self._said, self._whole = recording, said, whole
        self.data = recording.data

    def save(self, folder: Path) -> None:
        """Write the texts, and the rest where the rows are others than those of the recording: times, hidden keys."""
        if self._whole:
            self._recording.save(folder)
        lines = ",\n".join(
            f' "{number}": {json.dumps(texts, ensure_ascii=False, separators=(",", ":"))}'
            for number, texts in self._said.items()
        )
        place = folder / self._recording.server / f"{self._recording.case}.texts.json"
        place.write_text(f"{{\n{lines}\n}}\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], _record))
