"""Base of a run's parameters: a model, each of whose fields is a knob, declared once.

    class UploadRun(RunParams):
        groups: Names = knob("Groups that are stored; none means all.", (), option="--group", among="group")
        flush: bool = knob("All there is, not only what is due.", False)

From it come a DAG's Params (`params`), options of commands and programs (`options`), the words that hand a run on to
them (`words`), and values that were checked (`from_params`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar

import click
from pydantic import AfterValidator, Field, ValidationError

from include.errors import SettingsError
from include.settings.completion import declared_topics, names_of
from include.settings.deployment import Strict
from include.settings.renamed import RenamedOption

__all__ = ["DATE", "NULL", "ONCE", "Knob", "Names", "NamesOnce", "RunParams", "every", "knob"]

Names = tuple[str, ...]
ONCE: Final = AfterValidator(lambda names: tuple(dict.fromkeys(names)))
"""One that stands twice counts once; else it is refused."""
NamesOnce = Annotated[Names, ONCE]
DATE: Final = {"format": "date"}
"""More schema of a day."""
NULL: Final = {"default": None}
"""More schema of a list of which Airflow's form has none at first."""
_SECTIONS: Final = {"source": "sources", "index": "indexes", "group": "lake"}
"""Where the names are declared that a knob chooses among, for a shell that completes them."""
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Knob:
    """A field as `knob` declares it, with its JSON schema; that it may be left out is no part of that."""

    param: str | None
    option: str
    among: str
    section: str
    fills: bool
    before: tuple[str, ...]
    schema: dict[str, Any]
    required: bool = False
    default: Any = None

    @property
    def several(self) -> bool:
        """It takes a list."""
        return bool(self.schema["type"] == "array")


def knob(
    text: str,
    default: Any = ...,
    *,
    title: str = "",
    param: str | None = "",
    option: str = "",
    among: str = "",
    section: str = "",
    fills: bool = False,
    before: tuple[str, ...] = (),
    schema: Mapping[str, Any] | None = None,
    **checks: Any,
) -> Any:
    """A field of a `RunParams`.

    Args:
        text: says what it is for, to a person who reads a form or `--help`.
        default: its value when nobody says one; "" and None mean "none" to Airflow. Without it a name is required.
        title: headline in Airflow's form; default: the field's name in words.
        param: name of its Param; default: the field's. None: it has none.
        option: spelling of its option, or in capitals of its argument; default: the field's name behind dashes.
        among: noun of what its names are, where only those that are declared will do; `RunParams.params` gets them.
        section: of the deployment files, where there must be at least one of these names.
        fills: no name means all of them.
        before: earlier spellings of its option, which still work and are not shown.
        schema: more JSON schema, for Airflow's form alone.
        checks: bounds and the like, as of pydantic's `Field`.
    """
    declared: Any = {"knob": Knob(param, option, among, section, fills, before, dict(schema or {}))}
    return Field(default, title=title or None, description=text, json_schema_extra=declared, **checks)


def every(noun: str, option: str, section: str, text: str = "Names in the deployment files; none means all.") -> Any:
    """A knob that chooses some of the names that a section declares; it has them all where a run chooses none."""
    return knob(text, (), option=option, among=noun, section=section, fills=True)


class RunParams(Strict):
    """Base of what a person may ask of one kind of run."""

    _knobs: ClassVar[dict[str, Knob]] = {}

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        """Gather what the fields declare."""
        cls._knobs = {}
        for name, schema in cls.model_json_schema(by_alias=False).get("properties", {}).items():
            field = cls.model_fields[name]
            declared: Any = field.json_schema_extra
            declared_knob: Knob = declared["knob"]
            for one in schema.pop("anyOf", []):
                schema |= one if one["type"] != "null" else {}
            del schema["knob"]
            default = schema.pop("default", None)
            schema["title"] = field.title or name.replace("_", " ").capitalize()
            cls._knobs[name] = replace(
                declared_knob,
                param=None if declared_knob.param is None else declared_knob.param or name,
                option=declared_knob.option or f"--{name.replace('_', '-')}",
                schema=schema | declared_knob.schema,
                required=field.is_required(),
                default=default,
            )

    @classmethod
    def params(cls, defaults: Mapping[str, Any] | None = None, **names: Collection[str]) -> dict[str, dict[str, Any]]:
        """The arguments of Airflow's `Param`, by the Params' names.

        Args:
            defaults: by field, where this deployment has others than the model does.
            names: those that a field may take.
        """
        params_by_name = {}
        for name, field in cls._knobs.items():
            schema = copy.deepcopy(field.schema)
            default = (defaults or {}).get(name, schema.pop("default", field.default))
            if chosen := list(names.get(name, ())):
                schema.get("items", schema)["enum"] = chosen
                default = chosen[0] if field.required else default
            if not field.required and default in ("", None):
                default, schema["type"] = None, ["null", schema["type"]]
                schema |= {"enum": [None, *schema["enum"]]} if "enum" in schema else {}
            if field.param is not None:
                params_by_name[field.param] = {"default": default, **schema}
        return params_by_name

    @classmethod
    def from_params(cls, params: Mapping[str, Any], **names: Collection[str]) -> Self:
        """Read a DAG's Params, and check them as if Airflow had not.

        Raises:
            SettingsError: a value is none, or a name is unknown or stands twice, or there are no names to choose from.
        """
        said = {name: params.get(field.param) for name, field in cls._knobs.items() if field.param is not None}
        given = {name: value for name, value in said.items() if value not in (None, "")}
        try:
            asked = cls(**{name: "" for name, field in cls._knobs.items() if field.required} | given)
        except ValidationError as refused:
            first = refused.errors()[0]
            field = cls._knobs[str(first["loc"][0])]
            raise SettingsError(
                first["msg"], path=f"params.{field.param}", got=first.get("input"), fix=field.schema["description"]
            ) from refused
        return asked.model_copy(update={name: asked._chosen(name, names.get(name)) for name in given | names})

    def _chosen(self, name: str, known: Collection[str] | None) -> Any:
        field, value = self._knobs[name], getattr(self, name)
        path = f"params.{field.param}"
        if field.several and len(set(value)) < len(value):
            raise SettingsError("something is named twice", path=path, got=list(value), fix="Name it once.")
        if known is None:
            return value
        if field.section and not known:
            fix = "Declare one in the deployment files, or pause this DAG."
            raise SettingsError(f"no {field.among} is declared", path=field.section, fix=fix)
        wrong = sorted(set(value) - set(known)) if field.several else value not in known and (value or field.required)
        if wrong:
            raise SettingsError(
                f"no {field.among} of this name is declared",
                path=path,
                got=wrong if field.several else value,
                allowed=sorted(known),
                fix="Choose some of them, or leave it empty." if field.several else "Choose one of them.",
            )
        return tuple(sorted(known)) if field.fills and not value else value

    @classmethod
    def options(cls, *names: str, **more: Any) -> Callable[[F], F]:
        """A decorator that gives a command the options and arguments of these fields, by default of all.

        `more` goes to click: what this command has otherwise.
        """

        def decorate(function: F) -> F:
            for name in reversed(names or list(cls._knobs)):
                function = cls._knobs_option(name, more)(function)
            return function

        return decorate

    @classmethod
    def _knobs_option(cls, name: str, more: Mapping[str, Any]) -> Callable[[F], F]:
        field = cls._knobs[name]
        if field.among in _SECTIONS:
            more = {"shell_complete": names_of(_SECTIONS[field.among]), **more}
        elif name in ("topic", "topics"):
            more = {"shell_complete": declared_topics, **more}
        if not field.option.startswith("-"):
            shown = {"nargs": -1, "metavar": f"[{field.option}]..."} if field.several else {"metavar": field.option}
            return click.argument(name, **{**shown, **more})
        said: dict[str, Any] = {"required": field.required, "help": field.schema["description"]}
        if field.several:
            said |= {"multiple": True, "help": f"{said['help']} Again for another."}
        elif field.schema["type"] == "boolean":
            said |= {"is_flag": True}
        else:
            said |= _typed(field.schema)
            if not more.get("required"):
                said |= {"default": field.default, "show_default": field.default not in ("", None)}
        if field.before:
            said |= {"cls": RenamedOption, "before": field.before}
        return click.option(field.option, name, **{**said, **more})

    def words(self, *names: str) -> list[str]:
        """These fields (all by default) on a command line: arguments first; what has its default is left out."""
        arguments, options = [], []
        values = self.model_dump(mode="json", exclude_defaults=True)
        for name in names or self._knobs:
            option, value = self._knobs[name].option, values.get(name)
            texts = [] if value is None else [str(each) for each in value] if isinstance(value, list) else [str(value)]
            if not option.startswith("-"):
                arguments += texts
            else:
                options += [option] if value is True else [word for text in texts for word in (option, text)]
        return [*arguments, *options]


def _typed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The type of a click option."""
    if "enum" in schema:
        return {"type": click.Choice(schema["enum"])}
    if schema["type"] == "integer":
        least, most = schema.get("minimum"), schema.get("maximum")
        return {"type": click.INT if least is most is None else click.IntRange(least, most)}
    return {"metavar": "DAY"} if schema.get("format") == "date" else {}
