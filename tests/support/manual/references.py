"""What the manual points at: links, headings, commands with their options, targets of make, settings of sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from include.cli.main import lyrebird
from tests.support.paths import ROOT

__all__ = [
    "ROOT",
    "anchors",
    "broken_commands",
    "broken_links",
    "broken_paths",
    "broken_targets",
    "pages",
    "wrong_call",
]

_FENCE = re.compile(r"^(```+)[^\n]*\n(.*?)^\1", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)", re.DOTALL)
_LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_CALL = re.compile(r"(?:^|[\s$(|;&])(lyrebird(?: [^|;&\n]*)?)")
_WORD = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")
_TARGET = re.compile(r"(?:^|&& )(?:\$ )?(?:[A-Z_]+=\S+ )*make ([a-z][a-z0-9-]*)", re.MULTILINE)
_NOT_WORDS = ("…", "...")


def pages() -> list[Path]:
    """Every page that a reader is led to: those of the root and of docs/."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@cache
def anchors(page: Path) -> frozenset[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    text = _FENCE.sub("", page.read_text("utf-8"))
    seen: dict[str, int] = {}
    made: set[str] = set()
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        made.add(f"{slug}-{count}" if count else slug)
    return frozenset(made)


def broken_links(page: Path) -> list[str]:
    """Links of a page to files or headings that are not there. Those to other sites are not followed."""
    text = _SPAN.sub("", _FENCE.sub("", page.read_text("utf-8")))
    broken: list[str] = []
    for target in _LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(target)
    return broken


def broken_paths(page: Path) -> list[str]:
    """Python files that a page names, from any folder on, and that are not there."""
    named = re.findall(r"`([\w/]+/\w+\.py)`", page.read_text("utf-8"))
    return [path for path in named if not any(file.endswith(f"/{path}") for file in _files())]


@cache
def _files() -> frozenset[str]:
    return frozenset(
        f"/{file.relative_to(ROOT)}"
        for folder in ("include", "demo", "dags", "plugins", "spark_apps", "tests")
        for file in (ROOT / folder).rglob("*.py")
    )


def broken_commands(page: Path) -> list[str]:
    """Calls of `lyrebird` on a page whose command or option does not exist, each with what is wrong."""
    return [f"{call}: {wrong}" for call in _calls(page.read_text("utf-8")) if (wrong := wrong_call(call))]


def _calls(text: str) -> Iterator[str]:
    """`lyrebird …` in spans and in the lines of fences, a line that ends in a backslash with the next."""
    for _, body in _FENCE.findall(text):
        for line in body.replace("\\\n", " ").splitlines():
            if line.lstrip().startswith(("lyrebird", "$ lyrebird")):
                yield from (call.strip() for call in _CALL.findall(line))
    for span in _SPAN.findall(_FENCE.sub("", text)):
        line = " ".join(span.split())
        if line.startswith("lyrebird"):
            yield from (call.strip() for call in _CALL.findall(line))


def wrong_call(call: str) -> str:
    """What does not exist of a call; "" where all does."""
    words = _WORD.findall(call.partition(" #")[0])[1:]
    command: click.Command = lyrebird
    context = click.Context(lyrebird, info_name="lyrebird")
    while words and isinstance(command, click.Group) and not words[0].startswith(("-", *_NOT_WORDS)):
        if not re.fullmatch(r"[a-z][a-z-]*", words[0]):
            # A name in capitals stands for any.
            return ""
        try:
            _, chosen, rest = command.resolve_command(context, words)
        except click.UsageError:
            return f"no command {words[0]}"
        assert chosen is not None
        command, words = chosen, rest
    known = {"--help", "-h"} | {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    for word in words:
        name = word.strip("[]").partition("=")[0]
        if name.startswith("--") and name.rstrip(",.:)") not in known:
            return f"no option {name}"
    return ""


def broken_targets(page: Path) -> list[str]:
    """Targets of `make …` on a page that the Makefile has not."""
    known = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    text = page.read_text("utf-8")
    code = [*(body for _, body in _FENCE.findall(text)), *_SPAN.findall(_FENCE.sub("", text))]
    return [target for part in code for target in _TARGET.findall(part) if target not in known]
