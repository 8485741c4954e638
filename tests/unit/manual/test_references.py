"""Whatever the manual points at is there: pages, headings, commands with their options, targets of make."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.manual.references import (
    ROOT,
    anchors,
    broken_commands,
    broken_links,
    broken_paths,
    broken_targets,
    pages,
)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_link_leads_to_a_page_and_a_heading_that_are_there(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_command_that_is_shown_exists_with_its_options(page: Path) -> None:
    assert broken_commands(page) == []


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_target_of_make_exists(page: Path) -> None:
    assert broken_targets(page) == []


@pytest.mark.parametrize("page", [page for page in pages() if page.name != "CHANGELOG.md"], ids=name_of)
def test_every_file_of_ours_that_is_named_is_there(page: Path) -> None:
    assert broken_paths(page) == []


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "page.md"


def test_a_link_to_nowhere_is_found(page: Path) -> None:
    page.write_text("# One two\n[a](#one-two) [b](#three) [c](other.md) [d](https://example.org/x)\n", "utf-8")
    assert broken_links(page) == ["#three", "other.md"]


def test_a_heading_with_code_and_signs_has_the_anchor_that_github_gives_it(page: Path) -> None:
    page.write_text("## `lake files`: what, and where\n## Twice\n## Twice\n", "utf-8")
    assert anchors(page) == {"lake-files-what-and-where", "twice", "twice-1"}


def test_a_command_that_does_not_exist_is_found(page: Path) -> None:
    page.write_text("`lyrebird lake nosuch`, `lyrebird lake files T --nosuch`, `lyrebird lake …`\n", "utf-8")
    assert broken_commands(page) == [
        "lyrebird lake nosuch: no command nosuch",
        "lyrebird lake files T --nosuch: no option --nosuch",
    ]


def test_a_call_in_a_fence_may_go_over_lines_and_into_a_pipe(page: Path) -> None:
    page.write_text("```\n$ lyrebird lake files T \\\n    --from 2026-01-01 | grep --count x\n```\n", "utf-8")
    assert broken_commands(page) == []


def test_a_target_that_make_does_not_have_is_found(page: Path) -> None:
    page.write_text("`make demo ONCE=1` and `make nosuch`, and make sure of it.\n", "utf-8")
    assert broken_targets(page) == ["nosuch"]


def test_a_file_that_is_not_there_is_found(page: Path) -> None:
    page.write_text("`record/gtid.py` is, `gtid.py` may be one of many, `record/nosuch.py` is not.\n", "utf-8")
    assert broken_paths(page) == ["record/nosuch.py"]
