"""One name means one thing: no two public classes of the library share a name."""

from __future__ import annotations

import ast
from collections import defaultdict

from include.settings.environment import PROJECT_ROOT


def test_no_two_public_classes_share_a_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for file in sorted(file for top in ("include", "demo") for file in (PROJECT_ROOT / top).rglob("*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(file.relative_to(PROJECT_ROOT)))
    assert len(places) > 1000
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_room_has_more_than_twenty_modules() -> None:
    rooms = {
        str(folder.relative_to(PROJECT_ROOT)): len(list(folder.glob("*.py")))
        for top in ("include", "demo")
        for folder in (PROJECT_ROOT / top, *(PROJECT_ROOT / top).rglob("*"))
        if folder.is_dir() and folder.name != "__pycache__"
    }
    assert {room: modules for room, modules in rooms.items() if modules > 20 + 1} == {}
