"""Plain tables: aligned columns that read the same on a terminal and in a pipe."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["duration", "size", "table"]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> str:
    """`rows` under `head`, columns two spaces apart; columns named in `right` are aligned to the right."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    text = []
    for line in lines:
        cells = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(head, line, widths, strict=True)
        ]
        text.append("  ".join(cells).rstrip())
    return "\n".join(text)


def size(count: int) -> str:
    """Bytes as a person says them: `512 B`, `3.4 MB`, `1.2 GB`."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count:,} B"


def duration(seconds: float) -> str:
    """As a person says it: `42 s`, `3 min 5 s`, `2 h 10 min`, `4 d 3 h`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"
