"""The service's log: one line for each event, to standard error, with the request it belongs to.

A line is text or a JSON object. It may name requests, traces, callers' addresses and paths, but
nothing from a body, a query or a key.
"""

import asyncio
import json
import logging
import re
from contextvars import ContextVar
from datetime import datetime
from typing import Final, Literal

request_id: Final[ContextVar[str]] = ContextVar("request_id", default="-")
"""Id of the request that is being answered."""

trace_parent: Final[ContextVar[str | None]] = ContextVar("trace_parent", default=None)
"""The `traceparent` of the request that is being answered, or of the job that runs: W3C's Trace
Context of its caller."""

_TRACE_PARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}", re.ASCII)
"""An X-Request-Id that is kept; for another one a new id is made."""

LogFormat = Literal["text", "json"]
"""How a line is written."""

FIELDS: Final = "fields"
"""Attribute of a record: a mapping that is added to its JSON object."""


def read_trace_parent(header: str) -> str | None:
    """A `traceparent` header of version 00; None if it breaks the grammar, as an empty one does."""
    return header if _TRACE_PARENT.fullmatch(header) else None


class LineFormatter(logging.Formatter):
    """Formats a record with its time, request and trace: as text, or as a JSON object.

    Args:
        log_format: Which of both.
    """

    def __init__(self, log_format: LogFormat) -> None:
        super().__init__()
        self._is_text = log_format == "text"

    def format(self, record: logging.LogRecord) -> str:
        """The line. A traceback is a field of an object, and follows a text."""
        # In this machine's time zone (TZ), with the zone.
        at = datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")
        identity, parent = request_id.get(), trace_parent.get()
        trace_id = None if parent is None else parent[3:35]
        traceback = self.formatException(record.exc_info) if record.exc_info else None
        if self._is_text:
            ids = identity if trace_id is None else f"{identity} {trace_id}"
            line = f"{at} {record.levelname} {record.name} [{ids}] {record.getMessage()}"
            return line if traceback is None else f"{line}\n{traceback}"
        fields = {
            "time": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": None if identity == "-" else identity,
            "trace_id": trace_id,
            **getattr(record, FIELDS, {}),
            "traceback": traceback,
        }
        known = {name: value for name, value in fields.items() if value is not None}
        return json.dumps(known, ensure_ascii=False, default=str)


def configure_logging(level: str, log_format: LogFormat = "text") -> None:
    """Sets up the root logger of this process.

    Args:
        level: "debug", "info", "warning" or "error".
        log_format: How a line is written.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(log_format))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("uvicorn.error").addFilter(_tell_cut)


def _tell_cut(record: logging.LogRecord) -> bool:
    """Tells in a line of a request that a stop has cut, in place of uvicorn's traceback."""
    if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
        record.msg, record.args = "the service stops: a request has been cut", ()
        record.exc_info, record.levelno, record.levelname = None, logging.WARNING, "WARNING"
    return True
