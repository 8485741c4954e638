"""`python -m tests.bench.capture.readers NAME …`: a reader that the capture bench compares, in a process of its own.

Prints one JSON object: row changes, transactions, CPU seconds of reading (without start and imports).
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from include.record.gtid import Flavour
from include.source.binlog.step import RowsEvent
from tests.bench.capture.binlog_table import DATABASE

__all__ = ["READERS", "main"]


def lyrebird(path: str) -> tuple[int, int, float]:
    """A binlog file → Avro images, checksums on; `$LYREBIRD_NATIVE` chooses the back end."""
    from include.record.schema import TableSchema
    from include.source.binlog.files import binlog_files
    from include.source.binlog.reader import EventReader
    from include.source.binlog.table_map import TableMap
    from include.source.binlog.transaction import SourceTransaction, TransactionBuilder
    from include.source.rows.columns import mapped
    from include.source.rows.decoder import NativeImages, images_of
    from include.source.rows.images import RowImages
    from include.source.rows.layout import layout
    from include.source.rows.shape import TableShape

    reader = EventReader()
    found: dict[TableMap, RowImages | NativeImages] = {}
    table: TableMap | None = None
    images: Any = None
    builder = TransactionBuilder(lambda *_: True, lambda *_: False, 1 << 28, Path(tempfile.gettempdir()))
    rows = transactions = 0
    begun = time.process_time()
    for file in binlog_files(Path(path)):
        for transaction in file.transactions(reader, builder):
            if not isinstance(transaction, SourceTransaction):
                continue
            transactions += 1
            for step in transaction.steps:
                if not isinstance(step, RowsEvent):
                    continue
                if step.table is not table:
                    table = step.table
                    images = found.get(table)
                    if images is None:
                        columns = mapped(table, "mariadb")
                        schema = TableSchema("bench", "mixed", columns, ("id",))
                        images = found[table] = images_of(layout(table, TableShape(columns, schema), "mariadb"))
                rows += len(images.rows(step.op, step.body, step.partial))
    return rows, transactions, time.process_time() - begun


def replicator(path: str, flavour: Flavour) -> tuple[int, int, float]:
    """A binlog file → groups of Kafka records, as live capture makes them; `$LYREBIRD_NATIVE` chooses the back end.

    All but the network on both sides: GTID sets, positions, envelopes, versions. A group ends at its declared bytes.
    """
    from include.clock import SystemClock
    from include.log.memory import MemoryLog, MemoryRegistry
    from include.record.gtid import parse_gtid_set
    from include.record.position import BinlogPosition, SourcePosition
    from include.source.binlog.files import binlog_files
    from include.source.binlog.reader import EventReader
    from include.source.binlog.step import PlainRun
    from include.source.binlog.transaction import Heartbeat, SourceTransaction, TransactionBuilder
    from include.source.catalog.catalog import TableCatalog
    from include.source.database.server import Server
    from include.source.database.table_info import TableInfo
    from include.source.definition import SourceDefinition
    from include.source.log.direct_log import memory_log
    from include.source.replicator import Replicator
    from include.source.rows.columns import mapped
    from include.source.rows.encode import TableEncoders
    from include.source.state.capture_state import CaptureState

    name = (DATABASE, "mixed")
    source = SourceDefinition(host="db", port=1, user="u", password=SecretStr("p"), databases=[DATABASE], partitions=4)
    builder = TransactionBuilder(source.captures, lambda *_: False, source.memory_bytes, Path(tempfile.gettempdir()))
    info = TableInfo(*name)
    for file in binlog_files(Path(path)):
        for found in file.transactions(EventReader(), builder):
            steps = found.steps if isinstance(found, SourceTransaction) else ()
            if step := next((each for each in steps if isinstance(each, RowsEvent)), None):
                info.columns, info.key = list(mapped(step.table, flavour)), ("id",)
                break
    clock = SystemClock()
    server = Server(flavour, (11, 4, 5) if flavour == "mariadb" else (9, 7, 0), "", gtids=True)
    catalog = TableCatalog(lambda: {name: info}, server, source.policy, lambda *_: False)
    log = memory_log("bench", MemoryLog(), MemoryRegistry(), clock)
    log.open()
    state = CaptureState(tables={".".join(name): 0}, snapshot="done")
    start = SourcePosition(flavour, parse_gtid_set("", flavour), BinlogPosition("bin.000001", 4), 0)
    core = Replicator("bench", source, catalog, TableEncoders("bench", source, log), clock, start, state)
    reader = EventReader()
    builder.on_reconnect()
    rows = transactions = 0
    begun = 0.0
    for file in binlog_files(Path(path)):
        for item in file.items(reader, builder):
            if isinstance(item, Heartbeat):
                continue
            if isinstance(item, PlainRun):
                core.on_run(item)
            else:
                core.on_transaction(item)
            if core.size_bytes >= source.group_bytes:
                group = core.flush()
                rows, transactions = rows + group.rows, transactions + group.transactions
            # The first one registers schemas and makes topics, as each start of capture does once.
            begun = begun or time.process_time()
    group = core.flush()
    rows, transactions = rows + group.rows, transactions + group.transactions
    return rows, transactions, time.process_time() - begun


def mysql_replication(host: str, port: str, password: str, file: str, pos: str, end: str) -> tuple[int, int, float]:
    """The library mysql-replication, rows only, from the server: it reads no files."""
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.event import RotateEvent, XidEvent
    from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

    stream = BinLogStreamReader(
        connection_settings={"host": host, "port": int(port), "user": "root", "passwd": password},
        server_id=4711,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent, XidEvent, RotateEvent],
        log_file=file,
        log_pos=int(pos),
        resume_stream=True,
        blocking=False,
        is_mariadb=False,
        use_column_name_cache=True,
    )
    rows = transactions = 0
    begun = time.process_time()
    for event in stream:
        if isinstance(event, RotateEvent):
            if event.next_binlog != file:
                break
        elif isinstance(event, XidEvent):
            transactions += 1
        else:
            rows += len(event.rows)
        if stream.log_file != file or (event.packet.log_pos or 0) >= int(end):
            break
    spent = time.process_time() - begun
    stream.close()
    return rows, transactions, spent


def mariadb_binlog(program: str, path: str) -> tuple[int, int, float]:
    """The server's own tool, `-v`: rows as pseudo SQL; all of its CPU time, as its start is short."""
    import subprocess

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(os.devnull, "wb") as nowhere:
        subprocess.run([program, "-v", "--base64-output=DECODE-ROWS", path], stdout=nowhere, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 0, 0, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


READERS: dict[str, Any] = {
    "lyrebird": lyrebird,
    "replicator": replicator,
    "mysql-replication": mysql_replication,
    "mariadb-binlog": mariadb_binlog,
}


def main() -> None:
    """Run one reader."""
    rows, transactions, cpu_s = READERS[sys.argv[1]](*sys.argv[2:])
    print(json.dumps({"rows": rows, "transactions": transactions, "cpu_s": cpu_s}))


if __name__ == "__main__":
    main()
