"""The trace that a request belongs to: the W3C Trace Context of its caller."""

import re
from contextvars import ContextVar
from typing import Final

trace_parent: Final[ContextVar[str | None]] = ContextVar("trace_parent", default=None)
"""The `traceparent` of the request that is being answered, or of the job that runs."""

_TRACE_PARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def read_trace_parent(header: str) -> str | None:
    """A `traceparent` header of version 00; None if it breaks the grammar, as an empty one does."""
    return header if _TRACE_PARENT.fullmatch(header) else None


def find_trace_id() -> str | None:
    """The id of the current trace; None if there is none."""
    parent = trace_parent.get()
    return None if parent is None else parent[3:35]
