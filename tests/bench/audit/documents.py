"""`python -m tests.bench.audit.documents`: an audit of a million documents of the shop against its MariaDB.

The shipped capture and the shipped assembler make the documents, on the same two cores as the audit, both without a
limit to what they read. The audit may read twice what `read_rows_per_s` allows by default. Behind everybody's back,
an address is erased and an order is deleted: both are found, nothing else is. Ends with 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import psutil
import yaml

from include.audit.documents.report import DocumentsReport
from include.audit.documents.run import DocumentsAudit
from include.clock import SystemClock
from include.document.definition import DocumentDefinition, definitions
from include.log.running import batches_spark
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from tests.bench.servers import halves, served
from tests.bench.shop_rows import fill_shop
from tests.support.documents.shop import SPARK, DocumentShop, document_shop
from tests.support.servers.addresses import registry_url

__all__ = ["main"]

_MOST_S: Final = 600
_CORES: Final = 2
_FILLED_S: Final = 1800.0
_TIMES: Final = 2
_DEFAULT: Final = DocumentDefinition.model_fields["read_rows_per_s"].default
_ERASED, _DELETED = 17, 23


def main() -> int:
    """Fill, assemble, audit, spoil, audit again; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    with _placed() as place:
        told = _measured(place, arguments.documents)
    held = told["clean, s"] <= _MOST_S and told["two wrong, s"] <= _MOST_S
    if arguments.json:
        print(json.dumps({**told, "held": held}))
        return 0 if held else 1
    for what, figure in told.items():
        print(f"{what:<40}{figure:>14,.6g}")
    print(f"{'held' if held else 'MISSED'}: each audit within {_MOST_S} s")
    return 0 if held else 1


@contextmanager
def _placed() -> Iterator[DocumentShop]:
    every, _ = halves(apart=False)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PROJECT_ROOT), os.environ.get("PYTHONPATH")]))
    with (
        tempfile.TemporaryDirectory() as name,
        served(["mariadb", "kafka", "registry"], Path(name) / "s", every) as env,
    ):
        mariadb = SimpleNamespace(
            host=env["LYREBIRD_MYSQL_HOST"],
            port=int(env["LYREBIRD_MYSQL_PORT"]),
            root_password=env.get("LYREBIRD_MYSQL_ROOT_PASSWORD", ""),
        )
        folder = Path(name) / "world"
        folder.mkdir()
        with document_shop(
            "bench", mariadb, env["LYREBIRD_KAFKA"], registry_url(env), folder, read_rows_per_s=0
        ) as place:
            file = folder / "deployment" / "all.yaml"
            values = yaml.safe_load(file.read_text("utf-8"))
            values["sources"]["bench"]["snapshot_rows_per_s"] = 0
            file.write_text(yaml.safe_dump(values), "utf-8")
            yield place


def _measured(place: DocumentShop, documents: int) -> dict[str, float]:
    fill_shop(place.server, documents)
    began = time.monotonic()
    snapshot = place.start("-m", "include", "capture", "run", "--source", place.name, "--snapshot")
    if snapshot.wait(_FILLED_S) != 0:
        raise SystemExit(place.said(snapshot))
    captured_s = time.monotonic() - began
    _say(f"captured in {captured_s:.0f} s")
    place.start("-m", "include", "capture", "run", "--source", place.name)
    began = time.monotonic()
    place.assemble(SPARK)
    place.wait(place.complete, _FILLED_S)
    assembled_s = time.monotonic() - began
    _say(f"assembled in {assembled_s:.0f} s")
    spark = batches_spark.session("bench", {"spark.master": f"local[{_CORES}]", "spark.log.level": "ERROR"})
    try:
        clean, clean_cpu_s = _audit(place, spark)
        if clean.verdict != "clean" or clean.documents != documents:
            raise SystemExit("\n".join(clean.lines()))
        place.sql(
            "SET SESSION sql_log_bin = 0",
            f"UPDATE addresses SET street = '' WHERE id = {_ERASED}",
            f"DELETE l FROM order_lines l JOIN orders o ON o.id = l.order_row_id WHERE o.order_id = {_DELETED}",
            f"DELETE FROM orders WHERE order_id = {_DELETED} ORDER BY id DESC",
            "SELECT 1",
        )
        found, found_cpu_s = _audit(place, spark)
        if {(each.kind, each.key) for each in found.found} != {("altered", str(_ERASED)), ("extra", str(_DELETED))}:
            raise SystemExit("\n".join(found.lines()))
    finally:
        spark.stop()
    return {
        "documents": documents,
        "snapshot of all tables, s": captured_s,
        "assembled for the first time, s": assembled_s,
        "the audit reads at most, rows/s": _TIMES * _DEFAULT,
        "clean, s": clean.took_s,
        "clean, CPU s of this machine": clean_cpu_s,
        "two wrong, s": found.took_s,
        "two wrong, CPU s of this machine": found_cpu_s,
    }


def _audit(place: DocumentShop, spark: Any) -> tuple[DocumentsReport, float]:
    deployment = Deployment.load(place.folder / "deployment")
    definition = definitions(deployment)[place.topic].model_copy(update={"read_rows_per_s": _TIMES * _DEFAULT})
    began = _busy_s()
    report = DocumentsAudit(spark, deployment, place.topic, definition, SystemClock(), say=_say).run()
    return report, _busy_s() - began


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.system)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
