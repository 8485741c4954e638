"""New generations of topics, for tables whose key columns changed.

A topic's keys all have one schema, as partitions and compaction go by their bytes. So a table with another key is set
aside, and whoever asks for it again (`resume_table`) asks for its topic anew:
 1. the request is accepted, committed: the table is owed a snapshot
 2. the open group is committed: nothing may be written to a topic that goes
 3. the topic is deleted and made again under its name, with another id, empty
 4. the table's new key schema is committed, with resolved ends that begin at 0
 5. the stream's rows and the table's snapshot go into it, and the floor that ends a gap last
A crash before 4 is followed by 2 to 4 again, as the state still has the old key. Whoever reads the topic sees another
id, stops, and begins anew.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from include.errors import Terminal
from include.record.schema import TableSchema
from include.source.catalog.catalog import TableCatalog
from include.source.replicator import Replicator
from include.source.rows.encode import TableEncoders
from include.source.state.capture_state import CaptureState

__all__ = ["outgrown", "renew"]

log = logging.getLogger(__name__)


def outgrown(state: CaptureState, catalog: TableCatalog, encoders: TableEncoders) -> list[TableSchema]:
    """Tables that somebody asked for again, and whose keys are not those that their topics hold.

    A table that is gone, or cannot be read, is left to its snapshot.
    """
    asked = {table for job in state.jobs if job.gap and job.asked for table in job.tables if table not in state.aside}
    schemas = []
    for table in sorted(asked):
        database, _, name = table.partition(".")
        catalog.forget([(database, name)])
        info = catalog.table((database, name))
        if info is None or not state.tables.get(table):
            continue
        try:
            schema = catalog.shape(info).schema
        except Terminal:
            continue
        if encoders.key_id(schema) != state.tables[table]:
            schemas.append(schema)
    return schemas


def renew(core: Replicator, encoders: TableEncoders, schemas: Iterable[TableSchema]) -> None:
    """Step 3, and what is committed in 4; while nothing is written that is not committed. May be done again."""
    for schema in schemas:
        topic = encoders.renew(schema)
        log.warning("topic %s is made anew: key columns of %s changed", topic, schema.full_name)
        core.renew(schema)
