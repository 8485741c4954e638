"""docs/dags.md: every DAG with what it is for, when it runs, what it asks, from the DAGs as Airflow loads them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tests.support.manual.tables import cell, table

__all__ = ["HEAD", "page"]

HEAD: Final = """\
# DAGs

Every DAG: what it is for, when it runs, what it must not run beside, what to do when it fails, and what it asks a
person who starts it. Made from the DAG files (`python -m tests.support.manual`). Airflow shows the same texts.
"""
_STREAMS: Final = "streams.py"


def page(dags: Iterable[Any]) -> str:
    """The page, as Markdown. DAGs that one file makes of the deployment's names are one entry."""
    by_file: dict[Path, Any] = {}
    for dag in sorted(dags, key=lambda dag: str(dag.dag_id)):
        by_file.setdefault(Path(dag.fileloc), dag)
    entries = [
        ("stream_<application>" if file.name == _STREAMS else str(dag.dag_id), _text(file), dag.params)
        for file, dag in by_file.items()
    ]
    return "\n".join([HEAD, *(_entry(*entry) for entry in sorted(entries, key=lambda entry: entry[0]))])


def _text(file: Path) -> str:
    """The file's docstring without its headline, which the page gives as a sentence."""
    doc = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return doc.removeprefix("### ").strip()


def _entry(name: str, text: str, params: Any) -> str:
    rows = [_row(key, params.get_param(key)) for key in params]
    asked = table("Param", "type", "default", "", rows=rows) if rows else ""
    return f"## {name}\n\n{text}\n\n{asked}"


def _row(key: str, param: Any) -> str:
    schema = param.schema
    kinds = schema.get("type", "any")
    kind = " or ".join(each for each in kinds if each != "null") if isinstance(kinds, list) else str(kinds)
    default = "" if param.value in (None, "", []) or schema.get("enum") else f"`{param.value}`"
    return f"| `{key}` | {kind} | {default} | {cell(param.description or schema.get('title', ''))} |"
