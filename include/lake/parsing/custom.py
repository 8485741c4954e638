"""Classes of users, by name: parsers and transformers, checked when they are loaded."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from include.errors import LyrebirdError, SettingsError
from include.lake.message import Message
from include.lake.parsing.event_time import LEAST_US, MOST_US
from include.lake.parsing.fields import invalid
from include.lake.parsing.partition_names import check_names
from include.lake.parsing.port import Batch, Parsed, Parser, Transformer, one_by_one
from include.lake.parsing.rules import ClassReference

__all__ = ["CheckedParser", "CheckedTransformer", "load"]


def load(reference: ClassReference, method: str) -> Any:
    """An object of the class; `SettingsError` unless it can be made and has `method` and a `version`."""
    module, _, name = reference.name.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
        made = found(**reference.options)
    except Exception as error:
        raise _wrong(reference, f"it cannot be made: {error!r}") from error
    if not isinstance(found, type):
        raise _wrong(reference, "it is no class")
    if not callable(getattr(made, method, None)):
        raise _wrong(reference, f"it has no method {method}")
    version = getattr(made, "version", None)
    if not isinstance(version, str) or not version:
        raise _wrong(reference, 'it has no version = "…", to be raised with each change of its answers')
    return made


def _wrong(reference: ClassReference, reason: str) -> SettingsError:
    return SettingsError(
        f"class {reference.name} cannot be used: {reason}",
        options=sorted(reference.options),
        fix="Put its module on PYTHONPATH of driver and executors, and see include.lake.parsing.port.",
    )


class CheckedParser(Parser):
    """`Parser` around a user's: its answers are checked, its errors refuse the one message."""

    version: str = ""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self.version = parser.version

    @override
    def parse(self, message: Message) -> Parsed | None:
        try:
            parsed = self._parser.parse(message)
        except LyrebirdError:
            raise
        except Exception as error:
            raise invalid("the parser failed", f"parser: {error!r}", offset=message.offset) from error
        if parsed is None:
            return None
        return _checked(parsed)

    @override
    def parse_all(self, messages: Sequence[Message]) -> Batch:
        return one_by_one(self, messages)


class CheckedTransformer(Transformer):
    """`Transformer` around a user's: its errors refuse the one message."""

    def __init__(self, transformer: Transformer) -> None:
        self._transformer = transformer
        self.version = transformer.version

    @override
    def transform(self, message: Message) -> Message | None:
        try:
            changed = self._transformer.transform(message)
        except LyrebirdError:
            raise
        except Exception as error:
            raise invalid("the transformer failed", f"transformer: {error!r}", offset=message.offset) from error
        if changed is None or isinstance(changed, Message):
            return changed
        raise invalid("the transformer gave no message", "transformer", got=type(changed).__name__)


def _checked(parsed: Any) -> Parsed:
    """A user's answer as what it must be."""
    if not isinstance(parsed, Parsed):
        raise invalid("the parser gave no Parsed", "parser", got=type(parsed).__name__)
    payload, names, event_us = tuple[Any, ...](parsed)
    if not (payload is None or isinstance(payload, bytes)) or not isinstance(names, tuple) or not names:
        raise invalid("the parser gave a Parsed of other types", "parser", got=parsed)
    if event_us is not None and not (type(event_us) is int and LEAST_US <= event_us < MOST_US):
        raise invalid("the parser gave an event time that is none", "parser", got=event_us)
    check_names(names)
    return parsed
