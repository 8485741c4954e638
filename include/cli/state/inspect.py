"""`lyrebird state inspect`: what each bucket holds, and what it is made of."""

from __future__ import annotations

import click
import orjson

from include.cli.json_option import json_option
from include.cli.state.options import state_of_join
from include.settings.completion import names_of

__all__ = ["command"]


@click.command(name="inspect")
@click.argument("name", shell_complete=names_of("joins"))
@json_option()
def command(name: str, as_json: bool) -> None:
    """The buckets of join NAME as they are committed: rows, bytes, logs behind the last snapshot. Opens none."""
    from include.cli.table import table
    from include.join.rehoming import committed_of
    from include.state.pointer import BucketPointer

    with state_of_join(name) as state:
        committed = committed_of(state.join, state.reader)
    pointers = [(each, BucketPointer.from_bytes(pointer)) for each, pointer in sorted(committed.pointers.items())]
    if as_json:
        buckets = [
            {
                "stage": stage,
                "bucket": bucket,
                "version": pointer.uid,
                "snapshot": pointer.snapshot,
                "logs": len(pointer.logs),
                "log_bytes": pointer.log_bytes,
                "counts": pointer.counts,
            }
            for (stage, bucket), pointer in pointers
        ]
        said = {"join": name, "buckets": committed.buckets, "base": committed.base, "floors": committed.floors}
        click.echo(orjson.dumps({**said, "state": buckets}).decode())
        return
    rows = [
        (
            f"{stage} {bucket}",
            f"{pointer.counts.get('rows', 0):,}",
            f"{pointer.counts.get('bytes', 0):,}",
            str(len(pointer.logs)),
            f"{pointer.log_bytes:,}",
            pointer.snapshot or "none",
        )
        for (stage, bucket), pointer in pointers
    ]
    click.echo(table(("bucket", "rows", "bytes", "logs", "their bytes", "snapshot"), rows))
    total = sum(pointer.counts.get("rows", 0) for _, pointer in pointers)
    click.echo(f"{total:,} rows in {len(pointers)} buckets of {committed.buckets} a stage")
