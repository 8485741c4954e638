"""Flink in a process of its own, run by the Python of Flink's environment: does the statements that it is told.

Its one argument is Flink's configuration, a JSON object. Each line of stdin is a JSON list of a kind and a statement;
each gets one JSON line on stdout when it is done: the plan for `explain`, the number of rows for `count`, else null.
Ends with stdin. What Flink says goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment


def main() -> None:
    """Do what stdin tells."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # The JVM gets this one, and may write into it.
    os.dup2(2, 1)
    configuration = Configuration()
    for name, value in json.loads(sys.argv[1]).items():
        configuration.set_string(name, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    tables = TableEnvironment.create(settings)
    for line in sys.stdin:
        kind, statement = json.loads(line)
        answer: str | int | None = None
        if kind == "explain":
            answer = tables.explain_sql(statement)
        elif kind == "count":
            with tables.execute_sql(statement).collect() as rows:
                answer = sum(1 for _ in rows)
        else:
            tables.execute_sql(statement).wait()
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
