"""What audits ask of each stage: the modules that they may import, and no others."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from include.settings.environment import PROJECT_ROOT

# Whoever adds a line here makes the port between audits and a stage wider: is it what the stage keeps and declares, or
# how it works?
PORTS: dict[str, set[str]] = {
    "document": {
        "assembler",
        "behind",
        "database",
        "definition",
        "overflow_requests",
        "reading.lookup",
        "reading.mysql",
        "reading.read_throttle",
        "reading.tables",
        "schema",
    },
    "index": {
        "bulk.request",
        "bulk.routing",
        "bulk.sender",
        "definition",
        "deployed",
        "digest",
        "feed",
        "generations.active",
        "identity",
        "mapping.declared",
        "mapping.file",
        "mapping.topic_types",
        "mapping.value_types",
        "metadata",
        "name",
        "outcome",
        "progress.document",
        "progress.grown_topics",
        "server.elasticsearch",
        "server.memory",
        "server.port",
        "server.unindexed_values",
        "states",
    },
    "join": {
        "algorithm.row",
        "algorithm.versions",
        "committed",
        "config.check",
        "config.deployed",
        "homes",
        "rehoming",
        "rows.reading",
        "takeover",
        "task",
    },
    "lake": {
        "backfill.expiry",
        "definition",
        "finalising.marker",
        "formats.arrow_columns",
        "formats.avro_schemas",
        "inspect.object_reader",
        "protocol.chain",
        "protocol.chain_key",
        "protocol.cut",
        "protocol.generations",
        "protocol.inventory",
        "protocol.object_key",
        "protocol.pointer",
        "tables.bucket_file",
        "tables.columns",
        "tables.definition",
        "tables.delta_log",
        "tables.generation",
        "tables.rows",
        "tables.tables_spark",
        "tables.versions",
        "tables.work",
    },
    "source": {
        "catalog.description",
        "database.failover",
        "definition",
        "hashes.arrow_texts",
        "hashes.columns",
        "hashes.printed",
        "hashes.scan",
        "hashes.sums",
        "log.checkpoint",
        "run_params",
        "snapshot.condition",
        "snapshot.plan",
        "snapshot.reader",
        "snapshot.wanted_keys",
        "snapshot.watermark_window",
        "state.capture_state",
        "state.key_range",
    },
    "state": {
        "opening",
    },
}


def imported(file: Path) -> set[str]:
    """The modules of the library that a file imports, also inside of functions."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("include."):
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                is_module = (PROJECT_ROOT / module.replace(".", "/")).with_suffix(".py").is_file()
                found.add(module if is_module else node.module)
    return found


def test_audits_import_of_a_stage_what_its_port_has_and_nothing_else() -> None:
    asked: dict[str, set[str]] = defaultdict(set)
    for file in (PROJECT_ROOT / "include" / "audit").rglob("*.py"):
        for module in imported(file):
            _, stage, *rest = module.split(".", 2)
            if stage in PORTS:
                asked[stage] |= set(rest)
    assert asked == PORTS


def test_every_stage_that_audits_know_has_a_port() -> None:
    stages = {"document", "eventtime", "index", "join", "lake", "search", "source", "state"}
    files = (PROJECT_ROOT / "include" / "audit").rglob("*.py")
    assert {module.split(".")[1] for file in files for module in imported(file)} & stages == set(PORTS)
