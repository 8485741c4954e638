"""Finds in a process's syntax tree what it must not do: whatever would make a replay differ.

Looked at are the methods of the class and its bases, and what they call of the author's own code. Refused are the
clock, random numbers, the environment and I/O, whatever name they were imported by; state elsewhere than in
`ctx.state`; a set gone through in its order, which differs from run to run; `hash` and `id`, which do too; handlers
that are generators or coroutines, as nobody would run them.

It is a look, not a proof: what is reached through values (a function in a setting, say) is not seen.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import os
import sysconfig
import textwrap
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from include.eventtime.model.process import Process

__all__ = ["Fault", "faults"]

_CLOCK: Final = "the clock: use `ctx.time` or `element.time`"
_RANDOM: Final = "random: derive it from the element"
_OUTSIDE: Final = "what is outside of the stream: bring it in as a topic or a setting"
_MODULES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("time", "sched"), _CLOCK),
    **dict.fromkeys(("random", "secrets", "uuid", "numpy.random"), _RANDOM),
    **dict.fromkeys(
        (
            *(
                "asyncio",
                "ctypes",
                "ftplib",
                "gc",
                "glob",
                "http",
                "io",
                "locale",
                "logging",
                "mmap",
                "multiprocessing",
            ),
            *("os", "pathlib", "platform", "posix", "pwd", "queue", "select", "shutil", "signal"),
            *("smtplib", "socket", "sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "urllib", "weakref"),
            *("boto3", "confluent_kafka", "elasticsearch", "httpx", "pymysql", "requests", "urllib3"),
        ),
        _OUTSIDE,
    ),
}
_BUILTINS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("open", "input", "print", "breakpoint"), _OUTSIDE),
    **dict.fromkeys(("hash", "id"), "it differs from run to run"),
    **dict.fromkeys(("exec", "eval", "compile", "__import__", "globals"), "nobody can see what it does"),
}
_NOW: Final = frozenset({"now", "utcnow", "today"})
_ZONED: Final = frozenset({"fromtimestamp", "astimezone", "timestamp"})
_CHANGES: Final = frozenset(
    {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}
)
_OF_SETS: Final = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
_IN_ORDER: Final = frozenset({"list", "tuple", "iter", "enumerate", "zip", "map", "filter", "sum", "next", "reversed"})
_LIBRARIES: Final = tuple(
    os.path.realpath(path) + os.sep for name, path in sysconfig.get_paths().items() if name in ("stdlib", "purelib")
)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that a process must not do, and where it stands."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def faults(process: type[Process[Any]]) -> list[Fault]:
    """Finds what is wrong with a process, by file and line; empty: nothing was found."""
    waiting: list[Any] = [
        method
        for kind in process.__mro__
        if kind not in (Process, object) and issubclass(kind, Process)
        for named in vars(kind).values()
        for method in _functions_of(named)
    ]
    seen: set[int] = set()
    findings: set[Fault] = set()
    while waiting:
        function = waiting.pop()
        if id(function.__code__) in seen or not _is_own(function):
            continue
        seen.add(id(function.__code__))
        look = _Look(function)
        findings |= set(look.found)
        waiting += look.calls
    return sorted(findings, key=lambda fault: (fault.file, fault.line, fault.text))


def _functions_of(named: Any) -> Iterator[types.FunctionType]:
    """The functions behind what a class has under a name: a method of any kind, or a property."""
    parts = (named, *(getattr(named, part, None) for part in ("__func__", "fget", "fset", "func")))
    return (part for part in parts if isinstance(part, types.FunctionType))


def _is_own(function: types.FunctionType) -> bool:
    """Whether it is the author's: a library's code is judged by its module's name."""
    file = os.path.realpath(function.__code__.co_filename)
    return os.path.exists(file) and not file.startswith(_LIBRARIES) and function.__module__ != Process.__module__


class _Look(ast.NodeVisitor):
    """A look at one function; `calls`: the author's own functions that it names."""

    def __init__(self, function: types.FunctionType) -> None:
        self.found: list[Fault] = []
        self.calls: list[types.FunctionType] = []
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
        self._file, self._first = os.path.relpath(function.__code__.co_filename), first
        if self._file.startswith(os.pardir):
            self._file = function.__code__.co_filename
        closed = inspect.getclosurevars(function)
        self._names = {**vars(builtins), **function.__globals__, **closed.nonlocals}
        self._own = _bound(tree)
        self._self = next(iter(inspect.signature(function).parameters), "")
        self._makes = function.__name__ == "__init__"
        self._sets = {name for name, value in _assigned(tree) if self._is_set(value)}
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            self._say(tree, f"{function.__name__} is a generator or a coroutine, so nothing of it would run")
        for node in ast.iter_child_nodes(tree):
            self.visit(node)

    def _say(self, node: ast.AST, text: str) -> None:
        self.found.append(Fault(self._file, self._first + getattr(node, "lineno", 1) - 1, text))

    # What is named.

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._judge(node, node.id, self._value(node))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        value = self._value(node)
        if value is None:
            self.visit(node.value)
        else:
            self._judge(node, ast.unparse(node), value)

    def _value(self, node: ast.AST) -> Any:
        """The object of a name, or of a name and attributes; None: it is a value of the call's own."""
        if isinstance(node, ast.Name):
            return None if node.id in self._own else self._names.get(node.id)
        if isinstance(node, ast.Attribute):
            of = self._value(node.value)
            return None if of is None else inspect.getattr_static(of, node.attr, None) and getattr(of, node.attr, None)
        return None

    def _judge(self, node: ast.AST, name: str, value: Any) -> None:
        root = next(
            (module for module in _modules_of(value, self._names.get(name.partition(".")[0])) if module in _MODULES), ""
        )
        if value is not None and root:
            self._say(node, f"uses {name}, {_MODULES[root]}")
        elif name in _BUILTINS and value is getattr(builtins, name, None) is not None:
            self._say(node, f"uses {name}: {_BUILTINS[name]}")
        elif isinstance(value, types.FunctionType):
            self.calls.append(value)
        elif isinstance(value, type) and not issubclass(value, Process):
            self.calls += [member for member in vars(value).values() if isinstance(member, types.FunctionType)]

    # What is called.

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        if isinstance(called, ast.Attribute):
            of = self._value(called.value)
            if called.attr in _NOW and getattr(of, "__module__", "") == "datetime":
                self._say(node, f"uses {ast.unparse(called)}, {_CLOCK}")
            if called.attr in _ZONED and not node.args[1:] and not node.keywords and _of_datetime(called, of):
                self._say(node, f"{ast.unparse(called)} without a zone goes by that of the host")
            if called.attr in _CHANGES and self._outlives(called.value):
                self._say(node, f"changes {ast.unparse(called.value)}, which is kept outside of `ctx.state`")
            if called.attr == "pop" and not node.args and self._is_set(called.value):
                self._say(node, "takes whatever comes first out of a set: sort it")
            if called.attr == "join" and any(map(self._is_set, node.args)):
                self._say(node, "goes through a set in its order: sort it")
        if isinstance(called, ast.Name) and called.id in _IN_ORDER and any(map(self._is_set, node.args)):
            self._say(node, f"{called.id} goes through a set in its order: sort it")
        self.generic_visit(node)

    # What is gone through.

    def visit_For(self, node: ast.For) -> None:
        self._through(node.iter)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._through(node.iter)
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        self._through(node.value)
        self.generic_visit(node)

    def _through(self, node: ast.expr) -> None:
        if self._is_set(node):
            self._say(node, "goes through a set in its order: sort it")

    def _is_set(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Set | ast.SetComp):
            return True
        if isinstance(node, ast.Name):
            value = self._value(node)
            return node.id in getattr(self, "_sets", ()) or isinstance(value, set | frozenset)
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                return node.func.attr in _OF_SETS and self._is_set(node.func.value)
            return self._value(node.func) in (set, frozenset)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.BitXor | ast.Sub):
            return any(self._is_set(each) or _is_view(each) for each in (node.left, node.right))
        return False

    # What is kept.

    def visit_Global(self, node: ast.Global) -> None:
        self._say(node, f"keeps {', '.join(node.names)} outside of `ctx.state`")

    def visit_Import(self, node: ast.Import) -> None:
        self._say(node, "imports in a handler, where nobody sees of what kind it is: import at the top")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._say(node, "imports in a handler, where nobody sees of what kind it is: import at the top")

    def visit_Assign(self, node: ast.Assign) -> None:
        self._kept(node.targets)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._kept([node.target])
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._kept([node.target])
        if node.value is not None:
            self.visit(node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._kept(node.targets)

    def _kept(self, targets: list[ast.expr]) -> None:
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            for part in parts:
                if isinstance(part, ast.Attribute | ast.Subscript) and self._outlives(part.value):
                    self._say(part, f"changes {ast.unparse(part)}, which is kept outside of `ctx.state`")

    def _outlives(self, node: ast.expr) -> bool:
        """Whether a value is there after the call: of the process itself, or of its module."""
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        if not isinstance(node, ast.Name):
            return False
        own = node.id == self._self == "self"
        return not self._makes if own else node.id not in self._own and node.id in self._names


def _modules_of(value: Any, root: Any) -> Iterator[str]:
    """The modules that a value is one of, by its own word, by its owner's, and by the name that it was reached by."""
    owner = getattr(value, "__self__", None)
    for each in (value, None if owner is None else type(owner), root):
        name = each.__name__ if isinstance(each, types.ModuleType) else getattr(each, "__module__", None)
        if isinstance(name, str):
            yield name.partition(".")[0].lstrip("_")
            yield ".".join(name.split(".")[:2])


def _is_view(node: ast.AST) -> bool:
    """Whether it is the keys or items of something: what comes of two of these is a set."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "items")


def _of_datetime(called: ast.Attribute, of: Any) -> bool:
    return called.attr != "timestamp" and getattr(of, "__module__", "") == "datetime"


def _bound(tree: ast.AST) -> frozenset[str]:
    """The names that a function gives values to itself, its arguments among them."""
    names = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return frozenset(names)


def _assigned(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """(name, value) of each plain assignment, and of each name that is annotated as a set."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value
        elif isinstance(node, ast.AnnAssign | ast.arg):
            name = node.arg if isinstance(node, ast.arg) else getattr(node.target, "id", "")
            of = node.annotation.value if isinstance(node.annotation, ast.Subscript) else node.annotation
            if isinstance(of, ast.Name) and of.id in ("set", "frozenset"):
                yield name, ast.Set([])
