"""`make bench-capture`, memory: one huge transaction, from the server to committed records in Kafka.

Its rows are blobs of 64 kB. What is measured is the capture process's resident memory, from the transaction's first
event until its records can be read, and before it, when nothing happens.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from tests.bench.capture.place import Place, placed

__all__ = ["main"]

_MOST_MB = 300
_MOST_IDLE_MB = 80
_ROW_BYTES = 65_000
_ROWS_A_STATEMENT = 2_000


def main() -> int:
    """Run, tell; 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=600, help="size of the transaction, 10^6 bytes")
    parser.add_argument("--folder", help="where server, log and capture keep theirs: about six times as much; /var/tmp")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    options = (
        "--max-binlog-cache-size=16G", "--innodb-buffer-pool-size=256M", "--innodb-flush-log-at-trx-commit=0",
    )  # fmt: skip
    with placed(apart=False, options=options, folder=arguments.folder or "/var/tmp") as place:
        found = _measure(place, arguments.mb * 1_000_000 // _ROW_BYTES)
    return _tell(found, arguments)


def _measure(place: Place, rows: int) -> dict[str, Any]:
    world = place.world
    spill = Path(place.world.folder) / "spill"
    spill.mkdir()
    world.declare(partition_by={}, spill_folder=str(spill))
    world.sql("CREATE TABLE h (id int PRIMARY KEY, v mediumblob)")
    world.run("run", "--snapshot")
    process = world.start("run")
    world.wait_until_complete(120)
    seen = psutil.Process(process.pid)
    time.sleep(3)
    idle = seen.memory_info().rss
    most, stop = [0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            most[0] = max(most[0], seen.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        begun = time.monotonic()
        with place.server.connect(database=world.name, autocommit=False) as connection, connection.cursor() as cursor:
            for first in range(1, rows + 1, _ROWS_A_STATEMENT):
                last = min(first + _ROWS_A_STATEMENT - 1, rows)
                cursor.execute(
                    f"INSERT INTO h SELECT seq, REPEAT(CHAR(65 + seq % 26), {_ROW_BYTES}) FROM seq_{first}_to_{last}"
                )
            connection.commit()
        committed = time.monotonic()
        world.wait_until_complete(1800)
        ended = time.monotonic()
    finally:
        stop.set()
        watcher.join()
    world.stop(process)
    world.running.remove(process)
    return {
        "rows": rows,
        "mb": rows * _ROW_BYTES / 1e6,
        "commit_s": committed - begun,
        "to_kafka_s": ended - committed,
        "idle_mb": idle / 2**20,
        "most_mb": most[0] / 2**20,
    }


def _tell(found: dict[str, Any], arguments: argparse.Namespace) -> int:
    missed = [name for name, bound in (("idle_mb", _MOST_IDLE_MB), ("most_mb", _MOST_MB)) if found[name] >= bound]
    if arguments.json:
        print(json.dumps({name: round(value, 1) for name, value in found.items()} | {"missed": missed}))
        return 1 if missed else 0
    print(
        f"one transaction of {found['mb']:,.0f} MB in {found['rows']:,} rows: written in {found['commit_s']:.0f} s, in "
        f"Kafka {found['to_kafka_s']:.0f} s after its COMMIT; RSS of capture at most {found['most_mb']:.0f} MB, wanted "
        f"less than {_MOST_MB}; idle {found['idle_mb']:.0f} MB, wanted less than {_MOST_IDLE_MB}"
        f"{': MISSED' if missed else ''}"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
