"""Frames all pages alike, and writes their tables, links and times.

Text becomes HTML in `Markup.format` and `Markup.join` alone, which escape all that is not Markup itself. Pages are
made of Markup, which mypy holds: a `str` in its place is an error.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from markupsafe import Markup

from include.clock import iso
from supervision.links import joined

__all__ = ["HEADERS", "framed", "link", "table", "time_text"]

_STYLE: Final = Markup(
    """
:root{color-scheme:light dark}
body{font:14px system-ui,sans-serif;margin:1.5em}
header{display:flex;flex-wrap:wrap;align-items:baseline;gap:0 1.5em}
header p{margin:0}
pre{font-size:12px;white-space:pre-wrap;overflow-wrap:anywhere}
table{border-collapse:collapse}
caption{text-align:left;padding-bottom:.3em;opacity:.75}
td,th{text-align:left;padding:.3em 1em .3em 0;vertical-align:top}
tbody th{font-weight:normal}
svg{max-width:100%}
figure{margin:1em 0}
code{user-select:all}
#told,.down{color:light-dark(#a11,#f88);font-weight:600}
.found,.clean,.open,.nothing,.application{border-top:1px solid light-dark(#ddd,#444)}
@media(min-width:60em){tr>:nth-child(-n+3){white-space:nowrap}}
.note td{padding-left:1.5em;white-space:normal}
.open td:nth-child(3){color:light-dark(#850,#db5)}
.nothing td:nth-child(3){opacity:.7}
.incident td{padding-left:1.5em;color:light-dark(#a11,#f88);white-space:normal;overflow-wrap:anywhere}
.found td:nth-child(3){color:light-dark(#a11,#f88);font-weight:600}
.clean td:nth-child(3){color:light-dark(#171,#8d8)}
.wide{display:inline-block;min-width:11em;overflow-wrap:anywhere}
.told{display:inline-block;margin-right:1.2em}.told b{font-weight:normal;opacity:.75}
@media(max-width:45em){
h1{font-size:1.4em;overflow-wrap:anywhere}
thead{display:none}
table,caption,tbody,tr,td,tbody th,.wide{display:block;overflow-wrap:anywhere}
td:empty,.wide:empty{display:none}
td,tbody th{padding-right:0}
}
"""
)
# Takes <main> from the server again, and leaves the reader's place alone: scroll, selection, focus. Airflow shows its
# plugins' pages in a sandboxed frame, out of which no link leads: the parent's own document has to follow it.
_SCRIPT: Final = Markup(
    """
const theme = localStorage.getItem("theme");
if (theme === "light" || theme === "dark") document.documentElement.style.colorScheme = theme;
const [live, told] = ["live", "told"].map((id) => document.getElementById(id));
const alike = (main, link) => [...main.querySelectorAll("a")].filter((each) => each.href === link.href);
const now = () => `${new Date().toISOString().slice(11, 19)} UTC`;
let since = now();
async function refresh() {
  const main = document.querySelector("main");
  if (document.hidden || !live.checked) return;
  if (!getSelection().isCollapsed) {
    told.textContent = `Waits since ${since} while text is selected`;
    return;
  }
  try {
    const signal = AbortSignal.timeout(3000 * document.body.dataset.every);
    const answer = await fetch(location.href, {cache: "no-store", signal});
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = document.adoptNode(page.querySelector("main"));
    told.textContent = "";
    since = now();
    if (fresh.innerHTML === main.innerHTML || !live.checked || !getSelection().isCollapsed) return;
    const focused = main.contains(document.activeElement) ? document.activeElement : null;
    const nth = focused ? alike(main, focused).indexOf(focused) : -1;
    const [old, log] = [main, fresh].map((each) => each.querySelector("pre")?.firstChild);
    const below = document.documentElement.scrollHeight - innerHeight - scrollY;
    const gone = document.createRange();
    if (old && log) {
      gone.setStart(old, 0);
      gone.setEnd(old, Math.max(0, old.data.indexOf(log.data.slice(0, 500))));
    }
    const slid = gone.getBoundingClientRect().height;
    main.replaceWith(fresh);
    if (log && below < 2) scrollTo(0, document.documentElement.scrollHeight);
    else if (slid) scrollBy(0, -slid);
    if (focused) alike(fresh, focused)[nth]?.focus({preventScroll: true});
  } catch (problem) {
    told.textContent = `Not updated since ${since}: ${problem.message}`;
  }
}
live.closest("p").hidden = false;
setInterval(refresh, 1000 * document.body.dataset.every);
document.addEventListener("visibilitychange", refresh);
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[target="_top"]');
  if (!link || window === top || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const outside = top.document.createElement("a");
  outside.href = link.href;
  outside.click();
});
"""
)
_FRAME: Final = Markup(
    """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<base href="{base}"><title>{title}</title><style>{style}</style></head>
<body data-every="{every_s}"><header><h1>{title}</h1><p><a href="{path}">Reload</a></p>
<p><a href="lyrebird/applications">Applications</a> <a href="lyrebird/audits">Audits</a></p>
<p hidden><label><input type="checkbox" id="live" checked> every {every_s} s</label></p>
<p role="status" id="told"></p></header>
<main>{body}</main><script>{script}</script></body></html>
"""
)


def _only(inline: str) -> str:
    return f"'sha256-{b64encode(sha256(inline.encode()).digest()).decode()}'"


HEADERS: Final = {
    "Content-Security-Policy": f"default-src 'none'; script-src {_only(_SCRIPT)}; style-src {_only(_STYLE)}; "
    "connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""Go with every page: it loads nothing from elsewhere, runs its own script alone, and lies in no cache."""


def framed(title: str, body: Markup, *, path: str, every_s: int = 5) -> str:
    """A whole page.

    Args:
        title: its heading.
        body: what changes while it is looked at: the page takes it anew every `every_s`.
        path: its own, relative to Airflow's base, by `links.joined`. All links of a page are relative to that base.
        every_s: seconds between two looks at the server.
    """
    return _FRAME.format(
        base="../" * path.count("/"),
        title=title,
        style=_STYLE,
        every_s=every_s,
        path=path,
        body=body,
        script=_SCRIPT,
    )


def table(caption: str, columns: Sequence[str], rows: Markup) -> Markup:
    """A table; `rows` are of `<tr>`, each with as many cells as there are columns."""
    head = Markup("").join(Markup('<th scope="col">{}').format(column) for column in columns)
    return Markup("<table><caption>{}</caption><thead><tr>{}</thead><tbody>{}</tbody></table>").format(
        caption, head, rows
    )


def link(text: str, *names: str) -> Markup:
    """A link to one of these pages, or to one of Airflow's own, which takes the place of the frame around these."""
    target = "" if names[0] == "lyrebird" else Markup(' target="_top"')
    return Markup('<a href="{}"{}>{}</a>').format(joined(*names), target, text)


def time_text(us: int) -> str:
    """`2026-11-02 03:04:05 UTC`."""
    return f"{iso(us)[:19].replace('T', ' ')} UTC"
