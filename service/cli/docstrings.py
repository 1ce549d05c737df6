"""A command's options, as its docstring describes them.

A section has a line for each::

    Options:
        job (JOB): Id of a job.
        limit (COUNT; 20): The most jobs to list.

A parameter before the star is an argument, one after it an option. In parentheses is the name of
its value, and after a semicolon what help shows as its default. A heading other than Options is a
panel of the help. A parameter whose type is a dataclass stands for all options of that group. The
docstrings of `options` and of a command's file describe what several commands have.
"""

import copy
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, Final, get_args, get_origin

import typer

from wavetrim.service.cli import options as shared

_HEADING: Final = re.compile(r"\n\n(\w[\w ]*):\n(?= )")
_ENTRY: Final = re.compile(r"^(\w+)(?: \(([^;)]*)(?:; ([^)]*))?\))?: (.*(?:\n +.*)*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Docstring:
    """What help tells of a command.

    Attributes:
        words: Its paragraphs, each a line as Typer wants them.
        options: What Typer should show of each option, by its name.
        example: Its example.
    """

    words: str
    options: Mapping[str, Mapping[str, str]]
    example: str


def read_docstring(described: object) -> Docstring:
    """Read the docstring of a command, of a group of options, or of a file of commands."""
    words, *sections = _HEADING.split(inspect.getdoc(described) or "")
    bodies = dict(zip(sections[::2], map(textwrap.dedent, sections[1::2]), strict=True))
    example = bodies.pop("Example", "")
    options: dict[str, dict[str, str]] = {}
    for heading, body in bodies.items():
        panel = "" if heading == "Options" else heading
        for name, metavar, default, text in _ENTRY.findall(body):
            shown = {"metavar": metavar, "show_default": default, "rich_help_panel": panel}
            said = {key: value for key, value in shown.items() if value}
            options[name] = {"help": " ".join(text.split()), **said}
    paragraphs = [" ".join(paragraph.split()) for paragraph in words.split("\n\n")]
    return Docstring("\n\n".join(paragraphs), options, example)


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """A command as Typer takes it, with the options of its groups as parameters of its own."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if is_dataclass(parameter.annotation)
    }
    parameters = [*_list_parameters(command)]

    def call(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{one.name: given.pop(one.name) for one in fields(group)})
        command(**given)

    call.__annotations__ = {one.name: one.annotation for one in parameters}
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def _list_parameters(described: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """The parameters of a command, or the fields of a group, with those of groups among them."""
    known: dict[str, Mapping[str, str]] = {}
    kinds = reversed(getattr(described, "__mro__", (described,)))
    for one in (shared, inspect.getmodule(described), *kinds):
        known |= read_docstring(one).options
    for parameter in inspect.signature(described, eval_str=True).parameters.values():
        if is_dataclass(parameter.annotation):
            yield from _list_parameters(parameter.annotation)  # type: ignore[arg-type]
        else:
            yield _describe(parameter, known.get(parameter.name, {}))


def _describe(parameter: inspect.Parameter, shown: Mapping[str, str]) -> inspect.Parameter:
    """A parameter as Typer takes it, with what its line of the docstring says."""
    kind, info = parameter.annotation, None
    if get_origin(kind) is Annotated:
        kind, info = get_args(kind)[:2]
    if info is None:
        is_option = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        switch = [f"--{parameter.name.replace('_', '-')}"] if kind is bool else []
        info = typer.Option(*switch) if is_option else typer.Argument()
    info = copy.copy(info)
    vars(info).update(shown)
    return parameter.replace(annotation=Annotated[kind, info])
