"""Frames all pages alike, and writes their times."""

from __future__ import annotations

import html
from typing import Final

from include.clock import iso

__all__ = ["framed", "time_text"]

_FRAME: Final = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="{every_s}"><title>{title}</title>
<style>
:root{{color-scheme:light dark}}
body{{font:14px system-ui,sans-serif;margin:1.5em}}
pre{{font-size:12px;white-space:pre-wrap}}
table{{border-collapse:collapse}}
td,th{{text-align:left;padding:.3em 1em .3em 0;vertical-align:top}}
.found,.clean,.open,.nothing{{border-top:1px solid light-dark(#ddd,#444)}}
@media(min-width:60em){{td:nth-child(-n+3){{white-space:nowrap}}}}
.note td{{padding-left:1.5em;white-space:normal}}
.open td:nth-child(3){{color:light-dark(#850,#db5)}}
.nothing td:nth-child(3){{opacity:.7}}
.incident td{{padding-left:1.5em;color:light-dark(#a11,#f88);white-space:normal;overflow-wrap:anywhere}}
.found td:nth-child(3){{color:light-dark(#a11,#f88);font-weight:600}}
.clean td:nth-child(3){{color:light-dark(#171,#8d8)}}
.wide{{display:inline-block;min-width:11em;overflow-wrap:anywhere}}
.told{{display:inline-block;margin-right:1.2em}}.told b{{font-weight:normal;opacity:.6}}
</style>
<h1>{title}</h1>{body}</html>"""


def framed(title: str, body: str, *, every_s: int = 5) -> str:
    """A page that loads itself again every `every_s`; `title` is text, `body` is HTML."""
    return _FRAME.format(title=html.escape(title), body=body, every_s=every_s)


def time_text(us: int) -> str:
    """`2026-11-02 03:04:05 UTC`."""
    return f"{iso(us)[:19].replace('T', ' ')} UTC"
