"""One writer of `tests.bench.capture.feel`: small transactions on rows of its own, timed.

`python -m tests.bench.capture.feel_writer HOST PORT PASSWORD DATABASE NUMBER BEGIN_AT SECONDS THINK_MS`; prints JSON:
`ms` of each transaction, from its first statement to the answer to its COMMIT. BEGIN_AT is on the monotonic clock.
"""

from __future__ import annotations

import json
import sys
import time

import pymysql

__all__ = ["ROWS"]

ROWS = 2000
"""Rows of the table `written` that belong to one writer."""


def main() -> None:
    host, port, password, database, number, begin_at, seconds, think_ms = sys.argv[1:]
    first, pause_s = int(number) * ROWS, float(think_ms) / 1000
    took: list[float] = []
    with pymysql.connect(host=host, port=int(port), user="root", password=password, database=database) as connection:
        cursor = connection.cursor()
        time.sleep(max(0.0, float(begin_at) - time.monotonic()))
        until = time.monotonic() + float(seconds)
        done = 0
        while (begun := time.monotonic()) < until:
            cursor.execute("UPDATE written SET n = n + 1, v = %s WHERE id = %s", (f"{begun:.6f}", first + done % ROWS))
            cursor.execute("INSERT INTO appended (writer, n, v) VALUES (%s, %s, 'lyrebird')", (number, done))
            connection.commit()
            took.append(1000 * (time.monotonic() - begun))
            done += 1
            if pause_s:
                time.sleep(pause_s)
    print(json.dumps({"ms": [round(each, 3) for each in took]}))


if __name__ == "__main__":
    main()
