"""The service's log: one line an event, to standard error, with the request it belongs to."""

import logging
import logging.config
from contextvars import ContextVar
from typing import Final

request_id: Final[ContextVar[str]] = ContextVar("request_id", default="-")
"""Id of the request that is being answered."""


class RequestIdFilter(logging.Filter):
    """Gives every record the id of its request."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Adds the id; refuses nothing."""
        record.request_id = request_id.get()
        return True


def configure_logging(level: str) -> None:
    """Sets up the root logger of this process.

    Args:
        level: "debug", "info", "warning" or "error".
    """
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "filters": {"request_id": {"()": RequestIdFilter}},
            "formatters": {
                "line": {
                    "format": "{asctime}.{msecs:03.0f} {levelname} {name} [{request_id}] {message}",
                    "datefmt": "%Y-%m-%dT%H:%M:%S",
                    "style": "{",
                }
            },
            "handlers": {
                "stderr": {
                    "class": "logging.StreamHandler",
                    "formatter": "line",
                    "filters": ["request_id"],
                }
            },
            "root": {"level": level.upper(), "handlers": ["stderr"]},
        }
    )
