"""The report of a dark launch as one HTML page that loads nothing."""

from __future__ import annotations

import html
from typing import Final

from include.clock import iso
from include.search.dark_launch.report import DarkReport, ExampleDifference

__all__ = ["dark_page"]

_MEANING: Final = {
    "equal": "the same",
    "lag": "the same once the new store had the old one's position",
    "differs": "not the same, see below",
    "unsettled": "not decided before the deadline",
    "failed": "the new store had no answer",
}
_DROPPED: Final = {
    "overload": "too many at once",
    "late": "waited beyond the deadline",
    "old store": "the old store did not answer again",
}
_KINDS: Final = {
    "missing": "The new store lacks it.",
    "extra": "The old store lacks it.",
    "order": "The same documents in another order; the first place where that shows.",
}
_COLOUR: Final = {
    "equal": "#2e7d32",
    "lag": "#8bc34a",
    "differs": "#c62828",
    "unsettled": "#ef6c00",
    "failed": "#6a1b9a",
}
_FRAME: Final = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
:root{{color-scheme:light dark}}
body{{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em}}
table{{border-collapse:collapse;margin:.8em 0}}th{{white-space:nowrap}}
td,th{{text-align:left;padding:.3em 1.2em .3em 0;vertical-align:top}}
tr+tr td{{border-top:1px solid light-dark(#ddd,#444)}}.n{{text-align:right;font-variant-numeric:tabular-nums}}
.bar{{display:flex;height:1.2em;border-radius:.3em;overflow:hidden;margin:1em 0;background:light-dark(#eee,#333)}}
.advice{{padding:.7em 1em;border-radius:.4em;font-weight:600;color:#fff}}
.yes{{background:#2e7d32}}.no{{background:#c62828}}
.dot{{display:inline-block;width:.8em;height:.8em;border-radius:50%;margin-right:.5em}}
code{{overflow-wrap:anywhere}}h2{{margin-top:1.6em}}.dim{{opacity:.7}}
@media(min-width:50em){{td:nth-child(-n+2) code{{white-space:nowrap}}}}
</style>
<h1>{title}</h1>{body}</html>"""


def dark_page(name: str, report: DarkReport, bound: float, least: int) -> str:
    """The page; `name` is the search's. See `DarkReport.advice` for `bound` and `least`."""
    advice = report.advice(bound, least)
    said = f"{'Switch' if advice.switch else 'Do not switch'}: {advice.reason}."
    parts = [
        f'<p class="dim">{_time(report.began_us)} to {_time(report.ended_us)}</p>',
        f'<p class="advice {"yes" if advice.switch else "no"}">{html.escape(said)}</p>',
        _bar(report),
        _outcomes(report),
        *(_found(report, each, number) for each, number in report.found.most_common()),
    ]
    if report.outcomes["failed"]:
        parts.append(f"<h2>failed</h2>{_examples(report, 'failed')}")
    return _FRAME.format(title=html.escape(f"Dark launch of {name}"), body="".join(parts))


def _bar(report: DarkReport) -> str:
    cells = [
        f'<i style="flex:{report.outcomes[name]};background:{colour}" title="{name}"></i>'
        for name, colour in _COLOUR.items()
        if report.outcomes[name]
    ]
    return f'<div class="bar">{"".join(cells)}</div>'


def _outcomes(report: DarkReport) -> str:
    rows = []
    for name, meaning in _MEANING.items():
        number = report.outcomes[name]
        share = f"{number / report.samples:.2%}" if report.samples else "–"
        dot = f'<span class="dot" style="background:{_COLOUR[name]}"></span>'
        rows.append(f'<tr><td>{dot}{name}<td class="n">{number:,}<td class="n">{share}<td class="dim">{meaning}')
    for reason, number in sorted(report.dropped.items()):
        why = f"not compared: {_DROPPED.get(reason, html.escape(reason))}"
        rows.append(f'<tr><td>dropped ({html.escape(reason)})<td class="n">{number:,}<td><td class="dim">{why}')
    lag = f'<p class="dim">The longest lag was {report.longest_lag_s:.1f} s.</p>' if report.outcomes["lag"] else ""
    head = '<tr><th>outcome<th class="n">samples<th class="n">share<th>'
    return f"<table>{head}{''.join(rows)}</table>{lag}"


def _found(report: DarkReport, name: str, number: int) -> str:
    samples = "1 sample" if number == 1 else f"{number:,} samples"
    meaning = f'<p class="dim">{_KINDS[name]}</p>' if name in _KINDS else ""
    return f'<h2>{html.escape(name)} <span class="dim">in {samples}</span></h2>{meaning}{_examples(report, name)}'


def _examples(report: DarkReport, name: str) -> str:
    rows = "".join(_row(each) for each in report.examples if each.name == name)
    return f"<table><tr><th>id<th>asked for<th>old<th>new{rows}</table>"


def _row(example: ExampleDifference) -> str:
    cells = (example.doc_id, example.question, example.old, example.new)
    return "<tr>" + "".join(f"<td><code>{html.escape(cell)}</code>" for cell in cells)


def _time(us: int) -> str:
    return f"{iso(us)[:19].replace('T', ' ')} UTC"
