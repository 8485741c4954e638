"""Changes of JSON documents as MySQL logs them under `binlog_row_value_options = PARTIAL_JSON` → the new text.

Bytes and effect: `Json_diff_vector::read_binary` and `apply_json_diffs` in the server's `json_diff.cc`; paths:
`json_path.cc`.
"""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring
from typing import Any, Final, NoReturn

from include.source.malformed import Malformed
from include.source.rows.json.binary import MOST_DEPTH, json_text

__all__ = ["apply_diffs"]

_REPLACE, _INSERT, _REMOVE = 0, 1, 2
_SIZES: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}
# A name without quotes is an ECMAScript identifier; the server counts bytes beyond ASCII among its letters.
_LEG: Final = re.compile(
    rb'\.([a-zA-Z_$\x80-\xff][\w$\x80-\xff]*)|\.("(?:[^"\\]|\\.)*")|\[(\d+)\]|\[(last)(?:-(\d+))?\]', re.DOTALL
)


class _Number(str):
    """A number's text, which is kept as it is."""

    __slots__ = ()


# A document: dict, list, str, _Number, True, False, None. A leg of a path: key, index, or (places before the last,).
_Tree = Any
_Leg = str | int | tuple[int]


def apply_diffs(before: bytes, diffs: bytes) -> bytes:
    """The text of the document `before`, which is binary JSON, after all `diffs`.

    A diff is an operation (0 replace, 1 insert, 2 remove), a path and, unless removing, a binary document, each after
    its length as in the protocol. `ValueError` for bytes that no server writes and for a change that does not fit the
    document: then it is not the one that was changed, and the row is to be read anew.
    """
    tree = _tree(before)
    # Objects that got a key, by identity: the server keeps keys in order of length and bytes.
    grown: dict[int, dict[str, _Tree]] = {}
    offset = 0
    while offset < len(diffs):
        operation = diffs[offset]
        if operation > _REMOVE:
            raise Malformed(f"operation {operation} of a change of JSON")
        path, offset = _counted(diffs, offset + 1)
        value: _Tree = None
        if operation != _REMOVE:
            found, offset = _counted(diffs, offset)
            value = _tree(found)
        _apply(tree, operation, path, value, grown)
    for each in grown.values():
        ordered = sorted((len(name), name, key) for name, key in ((key.encode(), key) for key in each))
        values = [(key, each[key]) for _, _, key in ordered]
        each.clear()
        each.update(values)
    pieces: list[str] = []
    _write(tree, 0, pieces)
    return "".join(pieces).encode()


def _tree(data: bytes) -> _Tree:
    return json.loads(json_text(data).decode(), parse_int=_Number, parse_float=_Number)


def _apply(tree: _Tree, operation: int, path: bytes, value: _Tree, grown: dict[int, dict[str, _Tree]]) -> None:
    legs = _legs(path)
    if not legs:
        _misfit(path)
    parent = tree
    for leg in legs[:-1]:
        parent = _child(parent, leg, path)
    leg = legs[-1]
    if operation != _INSERT:
        _child(parent, leg, path)
        key = _index(parent, leg) if isinstance(parent, list) else leg
        if operation == _REPLACE:
            parent[key] = value
        else:
            del parent[key]
    elif isinstance(parent, dict) and isinstance(leg, str) and leg not in parent:
        parent[leg] = value
        grown[id(parent)] = parent
    elif isinstance(parent, list) and not isinstance(leg, str):
        # Beyond the end means behind the last; before the first means before it.
        parent.insert(max(_index(parent, leg), 0), value)
    else:
        _misfit(path)


def _child(place: _Tree, leg: _Leg, path: bytes) -> _Tree:
    """What stands there; paths of changes name one place, and no array is made of what is none."""
    if isinstance(place, dict) and isinstance(leg, str) and leg in place:
        return place[leg]
    if isinstance(place, list) and not isinstance(leg, str) and 0 <= _index(place, leg) < len(place):
        return place[_index(place, leg)]
    _misfit(path)


def _index(place: list[_Tree], leg: _Leg) -> int:
    return leg if isinstance(leg, int) else len(place) - 1 - int(leg[0])


def _legs(path: bytes) -> list[_Leg]:
    if path[:1] != b"$":
        raise Malformed(f"the path of a change of JSON, of {len(path)} bytes, has no root")
    legs: list[_Leg] = []
    offset = 1
    while offset < len(path):
        matched = _LEG.match(path, offset)
        if matched is None:
            raise Malformed(f"the path of a change of JSON, from its byte {offset} on")
        name, quoted, index, last, back = matched.groups()
        if name is not None:
            legs.append(name.decode())
        elif quoted is not None:
            legs.append(json.loads(quoted.decode()))
        elif last is None:
            legs.append(_number(index))
        else:
            legs.append((_number(back or b"0"),))
        offset = matched.end()
    return legs


def _number(digits: bytes) -> int:
    if len(digits) > 10 or int(digits) > 0xFFFFFFFF:
        raise Malformed(f"an index of {len(digits)} digits in the path of a change of JSON")
    return int(digits)


def _misfit(path: bytes) -> NoReturn:
    raise Malformed(f"a change of JSON, by a path of {len(path)} bytes, does not fit the document before it")


def _counted(data: bytes, at: int) -> tuple[bytes, int]:
    """The bytes behind their length, and where they end."""
    first = data[at : at + 1]
    size = first[0] if first else 0xFF
    at += 1
    if size >= 0xFB:
        wide = _SIZES.get(size, 0)
        size = int.from_bytes(data[at : at + wide], "little") if wide else len(data)
        at += wide
    if at + size > len(data):
        raise Malformed("a change of JSON is cut short")
    return data[at : at + size], at + size


def _write(tree: _Tree, depth: int, pieces: list[str]) -> None:
    if isinstance(tree, _Number):
        pieces.append(tree)
    elif isinstance(tree, str):
        pieces.append(encode_basestring(tree))
    elif isinstance(tree, (dict, list)):
        if depth == MOST_DEPTH:
            raise Malformed(f"JSON nested deeper than {MOST_DEPTH}")
        _write_members(tree, depth + 1, pieces)
    else:
        pieces.append({True: "true", False: "false", None: "null"}[tree])


def _write_members(tree: dict[str, _Tree] | list[_Tree], depth: int, pieces: list[str]) -> None:
    separator = ""
    if isinstance(tree, dict):
        pieces.append("{")
        for key, value in tree.items():
            pieces.append(f"{separator}{encode_basestring(key)}: ")
            _write(value, depth, pieces)
            separator = ", "
        pieces.append("}")
        return
    pieces.append("[")
    for value in tree:
        pieces.append(separator)
        _write(value, depth, pieces)
        separator = ", "
    pieces.append("]")
