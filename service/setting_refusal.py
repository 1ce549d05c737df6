"""What is wrong with settings, in words: the variable, its value and its limit."""

from collections.abc import Iterator
from typing import Any, Final

from pydantic import ValidationError

_HIDDEN: Final = frozenset({"api_key", "database_url"})
"""Settings that may hold a secret: their values are not repeated."""


def list_refused(error: ValidationError) -> Iterator[tuple[str, object, str]]:
    """Each setting that is refused: its variable, its value and what it must be."""
    for detail in _list_details(error):
        name = str(detail["loc"][0])
        value = "…" if name in _HIDDEN else detail["input"]
        yield _name_variable(detail), value, describe_limit(str(detail["msg"]))


def tell_refused(error: ValidationError) -> Iterator[str]:
    """The same as sentences."""
    for detail, (variable, value, limit) in zip(
        _list_details(error), list_refused(error), strict=True
    ):
        own = detail["type"] == "value_error"  # a sentence of ours
        said = say_limit(limit, str(detail["msg"]))
        yield f"{variable}: {limit}" if own else f"{variable} is {value!r}{said}"


def describe_limit(message: str) -> str:
    """What a value must be, taken from pydantic's message."""
    if message == "Extra inputs are not permitted":
        return "left out: there is no such field"
    if message.startswith("could not "):  # pydantic's messages about sizes in bytes
        return "a size in bytes, such as 4GiB"
    told = message.removeprefix("Input should be ").removeprefix("Value error, ")
    return told.split(", unable")[0]


def say_limit(limit: str, message: str) -> str:
    """The end of a sentence about a value: the limit that `describe_limit` found in a message."""
    # Some of pydantic's messages say what a value must be, others are whole sentences.
    return f": {limit}" if limit == message else f"; it must be {limit}"


def _list_details(error: ValidationError) -> list[Any]:
    """The faults, without defaults that could not be made because of them."""
    return [one for one in error.errors() if one["type"] != "default_factory_not_called"]


def _name_variable(detail: Any) -> str:
    return f"WAVETRIM_{str(detail['loc'][0]).upper()}"
