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


def test_a_public_name_of_a_type_stands_for_one_thing() -> None:
    """What is not a class, too; the same words for the same thing may stand in two places that cannot meet."""
    meanings: dict[str, set[str]] = defaultdict(set)
    exported = set()
    for file in sorted(file for top in ("include", "demo") for file in (PROJECT_ROOT / top).rglob("*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            match node:
                case ast.ClassDef(name=name):
                    meanings[name].add(f"class of {file.name}")
                case ast.Assign(targets=[ast.Name("__all__")], value=value):
                    exported |= set(ast.literal_eval(value))
                case ast.Assign(targets=[ast.Name(name)], value=value) if name[0].isupper() and not name.isupper():
                    meanings[name].add(ast.unparse(value))
    several = {name: said for name, said in meanings.items() if name in exported and len(said) > 1}
    assert {name: said for name, said in several.items() if not all("TypeVar" in each for each in said)} == {}


def test_no_room_has_more_than_twenty_modules() -> None:
    rooms = {
        str(folder.relative_to(PROJECT_ROOT)): len(list(folder.glob("*.py")))
        for top in ("include", "demo")
        for folder in (PROJECT_ROOT / top, *(PROJECT_ROOT / top).rglob("*"))
        if folder.is_dir() and folder.name != "__pycache__"
    }
    assert {room: modules for room, modules in rooms.items() if modules > 20 + 1} == {}
