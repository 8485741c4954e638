"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["cell", "table"]


def table(*head: str, rows: Iterable[str]) -> str:
    """A table with these headings; `rows` are whole lines."""
    return "\n".join([f"| {' | '.join(head)} |".replace("|  |", "| |"), "|---" * len(head) + "|", *rows]) + "\n"


def cell(text: str) -> str:
    """A text on one line, with nothing that would end its cell."""
    return " ".join(text.split()).replace("|", "\\|")
