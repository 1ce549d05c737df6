"""The service's log: one line for each event, to standard error, with the request it belongs to.

A line is text or a JSON object. It may name requests, traces, callers' addresses and paths, but
nothing from a body, a query or a key.
"""

import asyncio
import json
import logging
import re
import secrets
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Final, Literal

request_id: Final[ContextVar[str]] = ContextVar("request_id", default="-")
"""Id of the request that is being answered."""

trace_parent: Final[ContextVar[str | None]] = ContextVar("trace_parent", default=None)
"""The `traceparent` of the request that is being answered, or of the job that runs: W3C's Trace
Context of its caller."""

_TRACE_PARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}", re.ASCII)

LogFormat = Literal["text", "json"]
"""How a line is written."""

FIELDS: Final = "fields"
"""Attribute of a record: a mapping that is added to its JSON object."""


def take_request_id(sent: str) -> str:
    """The id that a caller has sent, if it is valid, else a new one."""
    return sent if _REQUEST_ID.fullmatch(sent) else secrets.token_hex(16)


def read_trace_parent(header: str) -> str | None:
    """A `traceparent` header of version 00; None if it breaks the grammar, as an empty one does."""
    return header if _TRACE_PARENT.fullmatch(header) else None


def find_trace_id() -> str | None:
    """The id of the current trace; None if there is none."""
    parent = trace_parent.get()
    return None if parent is None else parent[3:35]


class TextFormatter(logging.Formatter):
    """Formats a record as text: time with zone, level, logger, request, trace, message."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        """The line, without a traceback."""
        ids = " ".join(filter(None, (request_id.get(), find_trace_id())))
        return f"{_stamp(record)} {record.levelname} {record.name} [{ids}] {record.message}"


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object, with a traceback as a field."""

    def format(self, record: logging.LogRecord) -> str:
        """The object, in one line."""
        line: dict[str, Any] = {
            "time": _stamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id.get() != "-":
            line["request_id"] = request_id.get()
        if (trace_id := find_trace_id()) is not None:
            line["trace_id"] = trace_id
        line.update(getattr(record, FIELDS, {}))
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure_logging(level: str, log_format: LogFormat = "text") -> None:
    """Sets up the root logger of this process.

    Args:
        level: "debug", "info", "warning" or "error".
        log_format: How a line is written.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(TextFormatter() if log_format == "text" else JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("uvicorn.error").addFilter(_tell_cut)


def _tell_cut(record: logging.LogRecord) -> bool:
    """Tells in a line of a request that a stop has cut, in place of uvicorn's traceback."""
    if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
        record.msg, record.args = "the service stops: a request has been cut", ()
        record.exc_info, record.levelno, record.levelname = None, logging.WARNING, "WARNING"
    return True


def _stamp(record: logging.LogRecord) -> str:
    """The record's time in this machine's time zone (TZ), with the zone."""
    return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")
