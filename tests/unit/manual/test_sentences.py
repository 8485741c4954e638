"""A sentence of the manual stands on one page: where two say the same, one of them grows old."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.manual.references import ROOT, pages

# A run's Param and the option of its command are one declaration (`run_params.py`), which both pages show.
BY_ONE_DECLARATION = {ROOT / "docs" / "cli.md", ROOT / "docs" / "dags.md"}

FENCE = re.compile(r"^(```+)[^\n]*\n.*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\|.*$", re.MULTILINE)
CELL = re.compile(r"(?<!\\)\|")
HEADING = re.compile(r"^#+ .*$", re.MULTILINE)
ITEM = re.compile(r"^\s*(?:[*-]|\d+\.) ", re.MULTILINE)
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)\s]+\)")
END = re.compile(r"(?<=[.!?])[*)\"]*\s+")
CLAUSE = re.compile(r"[;:]\**\s+")


def paragraphs(text: str) -> list[str]:
    """Paragraphs, items of lists, headings and cells of tables. Code blocks say nothing."""
    text = FENCE.sub("\n", text)
    text = ROW.sub(lambda row: "\n\n".join(CELL.split(f"|{row[0]}")), text)
    text = HEADING.sub(lambda heading: f"\n{heading[0]}\n", text)
    return re.split(r"\n\s*\n", ITEM.sub("\n\n", text))


def said(page: Path) -> Iterator[str]:
    """Sentences of a page, and their parts between colons and semicolons: words alone, in small letters."""
    for paragraph in paragraphs(page.read_text("utf-8")):
        for sentence in END.split(LINK.sub(r"\1", paragraph)):
            for part in {sentence, *CLAUSE.split(sentence)}:
                yield " ".join(re.findall(r"[^\W_]+", part.lower()))


def said_twice(read: Iterable[Path], words: int) -> dict[str, set[Path]]:
    """What stands on two pages or more and has so many words, with its pages."""
    where: dict[str, set[Path]] = defaultdict(set)
    for page in read:
        for sentence in said(page):
            if sentence.count(" ") + 1 >= words:
                where[sentence].add(page)
    return {sentence: on for sentence, on in where.items() if len(on) > 1}


def test_no_sentence_of_ten_words_stands_on_two_pages() -> None:
    twice = said_twice(pages(), words=10)
    assert {sentence: on for sentence, on in twice.items() if on != BY_ONE_DECLARATION} == {}


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "one.md", tmp_path / "two.md"


@pytest.mark.parametrize(
    "other",
    [
        "* Before. It goes on\n  from what it *had* committed.\n* After.\n",
        "| a | b |\n|---|---|\n| `x` | It goes on from what it had committed. |\n",
        "It [goes on](#x) from what it had committed: the rest follows; so does this.\n",
        "## It goes on from what it had committed\n",
        "Before it\n* It goes on from what it had committed.\n",
    ],
)
def test_the_same_words_are_found_in_a_list_a_table_a_heading_or_with_a_link(
    two: tuple[Path, Path], other: str
) -> None:
    two[0].write_text("# A page\nIt stops. It goes on from\nwhat it had committed.\n\nThe end.\n", "utf-8")
    two[1].write_text(other, "utf-8")
    assert said_twice(two, words=8) == {"it goes on from what it had committed": set(two)}


def test_code_blocks_and_shorter_sentences_may_stand_twice(two: tuple[Path, Path]) -> None:
    for page in two:
        page.write_text("It goes on from there.\n\n```\nnothing is covered from here on to there\n```\n", "utf-8")
    assert said_twice(two, words=6) == {}


def test_a_sentence_of_several_parts_is_said_whole_and_by_its_parts(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("It ends: the app has gone; nobody\nelse. So be it.\n", "utf-8")
    assert {"it ends the app has gone nobody else", "it ends", "the app has gone", "nobody else"} <= set(said(page))
