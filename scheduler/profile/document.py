"""Reads dataclasses from JSON documents: each value is checked by its field's type and limits.

A document may be damaged, or of another version. What is read from it has no number with which a
plan cannot be computed.
"""

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from reprlib import repr as shorten
from types import UnionType
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from wavetrim.scheduler.errors import ProfileError

LEAST_NUMBER: Final = 1e-18
MOST_NUMBER: Final = 1e18
"""The smallest positive and the largest accepted number: beyond any machine, and far from those
with which arithmetic overflows. Chosen."""

LEAST_MEMORY_BYTES: Final = 1 << 24
"""The smallest accepted memory of a GPU: two tiles of each operand fit, by any kernel. Chosen."""

_POSITIVE: Final = frozenset(
    {
        *("threads", "copiers", "row_quantum", "slots", "sm_count", "gpus", "gflops"),
        *("float32_gflops", "float64_gflops", "float64_tensor_gflops", "float16_tensor_gflops"),
        *("in_gbytes_per_second", "out_gbytes_per_second", "both_gbytes_per_second"),
        *("copied_gbytes_per_second", "memory_gbytes_per_second", "together"),
        *("stretch", "link_stretch", "memory_stretch", "write_stretch"),
        *("write_link_stretch", "split_stretch"),
    }
)
"""Fields that plans divide by or multiply times with. All other numbers may be 0."""

T = TypeVar("T")


def read_document(
    kind: type[T], document: object, place: str = "", *, without: Collection[str] = ()
) -> T:
    """A dataclass from its JSON object. Entries that are none of its fields are passed over.

    Args:
        kind: The dataclass.
        document: The object.
        place: Where it is in the whole document, for messages; empty for the whole.
        without: Fields that are not read.

    Raises:
        ProfileError: A field without a default is missing, or a value is not one of its field.
    """
    entries = read_object(document, place)
    hints = _find_hints(kind)  # type: ignore[arg-type]
    found = {}
    for one in fields(kind):  # type: ignore[arg-type]
        inner = f"{place}.{one.name}" if place else one.name
        if one.name in without:
            continue
        if one.name in entries:
            found[one.name] = _read_value(entries[one.name], hints[one.name], inner)
        elif one.default is MISSING and one.default_factory is MISSING:
            raise ProfileError(f"{inner} is missing")
    return kind(**found)


def read_object(document: object, place: str = "") -> Mapping[str, Any]:
    """The entries of a JSON object.

    Raises:
        ProfileError: It is none.
    """
    if not isinstance(document, Mapping):
        raise refuse(place or "the document", document, "an object")
    return document


def refuse(place: str, value: object, limit: str) -> ProfileError:
    """The error of a value in a document.

    Args:
        place: Where it is, as `cpu.rates[0].gflops`.
        value: The value, which the message shortens.
        limit: Accepted values, in words.
    """
    return ProfileError(f"{place} is {shorten(value)}; it must be {limit}")


@cache
def _find_hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _read_value(value: Any, hint: Any, place: str) -> Any:
    """A value of a field, for the types that profiles have."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is UnionType:  # of a type and None
        return None if value is None else _read_value(value, arguments[0], place)
    if is_dataclass(hint):
        return read_document(hint, value, place)  # type: ignore[arg-type]
    if origin is tuple:
        return _read_list(value, arguments, place)
    if origin is Mapping:
        return _read_texts(value, place)
    if origin is Literal:
        if value not in arguments:
            raise refuse(place, value, f"one of {', '.join(arguments)}")
    elif hint in (int, float):
        _check_number(value, hint, place)
    elif not isinstance(value, hint):
        raise refuse(place, value, "a text" if hint is str else "true or false")
    return value


def _read_list(value: Any, arguments: tuple[Any, ...], place: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise refuse(place, value, "a list")
    hints = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else arguments
    if len(value) != len(hints):
        raise refuse(place, value, f"a list of {len(hints)}")
    items = enumerate(zip(value, hints, strict=True))
    return tuple(_read_value(item, hint, f"{place}[{index}]") for index, (item, hint) in items)


def _read_texts(value: Any, place: str) -> dict[str, str]:
    texts = dict(read_object(value, place))
    if not all(isinstance(text, str) for text in texts.values()):
        raise refuse(place, value, "an object of texts")
    return texts


def _check_number(value: Any, kind: type, place: str) -> None:
    whole = kind is int
    name, least = place.rpartition(".")[2], 0.0
    if name == "memory_bytes":
        least = LEAST_MEMORY_BYTES
    elif name in _POSITIVE:
        least = 1 if whole else LEAST_NUMBER
    # Neither NaN nor an infinity is between two numbers.
    is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= MOST_NUMBER:
        what = "a whole number" if whole else "a number"
        raise refuse(place, value, f"{what} from {least:.15g} to {MOST_NUMBER:g}")
