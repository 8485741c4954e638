"""A replica that throws everything away: what any reader of the binlog costs its server. Ends when stdin does."""

from __future__ import annotations

import contextlib
import json
import sys
import threading

from include.record.position import SourcePosition
from include.source.database.connection import dump
from include.source.definition import SourceDefinition

_BYTES = 1 << 20


def main() -> None:
    """Words: the source, and where to begin, as JSON."""
    source, begin = SourceDefinition(**json.loads(sys.argv[1])), SourcePosition.from_json(json.loads(sys.argv[2]))
    found = dump(source, source.replica_id("reader"), begin)
    found.settimeout(None)
    print("reads", flush=True)

    def discard() -> None:
        # Hanging up is what ends it.
        with contextlib.suppress(OSError):
            while found.recv(_BYTES):
                pass

    reader = threading.Thread(target=discard, daemon=True)
    reader.start()
    sys.stdin.read()
    found.close()


if __name__ == "__main__":
    main()
