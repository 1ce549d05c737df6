"""A profile as a JSON object, in a file or a message. Each value is checked when it is read."""

import json
from collections.abc import Mapping
from functools import cache
from reprlib import repr as shorten
from typing import TYPE_CHECKING, Any, Final

from wavetrim.scheduler.errors import ProfileError
from wavetrim.scheduler.problem import MEMORIES
from wavetrim.scheduler.profile.machine import MachineProfile

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FORMAT_VERSION: Final = 6

_NOT_WRITTEN: Final[Any] = {"corrections": True, "beside": {"__all__": {"corrections"}}}


def dump_profile(profile: MachineProfile) -> dict[str, Any]:
    """A JSON-ready copy without corrections; `read_profile` is the inverse."""
    fields = _find_adapter().dump_python(profile, mode="json", exclude=_NOT_WRITTEN)
    return {"format": FORMAT_VERSION, **fields}


def read_profile(document: object) -> MachineProfile:
    """A profile from its JSON object. Unknown entries are ignored.

    Raises:
        ProfileError: The object has another format, a field is missing, or a value is refused.
    """
    from pydantic import ValidationError

    written = document.get("format") if isinstance(document, Mapping) else None
    if written != FORMAT_VERSION:
        raise _refuse("format", written, str(FORMAT_VERSION))
    try:
        profile = _find_adapter().validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        if first["type"] == "missing":
            raise ProfileError(f"{field} is missing") from error
        limit = first["msg"].removeprefix("Input should be ")
        raise _refuse(field, first["input"], limit) from error
    for one in (profile, *profile.beside):
        memories = tuple(link.memory for link in one.links)
        needed = MEMORIES if one.gpu else ()
        if memories != needed:
            raise _refuse("links", memories, f"for {needed}: for each kind of memory with a GPU")
    return profile


@cache
def _find_adapter() -> "TypeAdapter[MachineProfile]":
    from pydantic import TypeAdapter  # slow, and plans do not need it

    return TypeAdapter(MachineProfile)


def _refuse(field: str, value: object, limit: str) -> ProfileError:
    return ProfileError(f"{field} is {shorten(value)}; it must be {limit}")
