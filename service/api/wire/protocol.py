"""Chooses the HTTP protocol class: ours if uvicorn's has the shape that it builds on.

uvicorn's protocol is no public interface, so its shape is checked first.
"""

import asyncio
import inspect
import logging
from typing import Any, Final

from wavetrim.service.api.wire.head import WireLimits

logger = logging.getLogger(__name__)

_STATE: Final = {
    "HttpToolsProtocol": {
        "app", "connections", "cycle", "flow", "headers", "loop", "parser", "pipeline", "scope",
        "server_state", "timeout_keep_alive_task", "transport",
    },
    "RequestResponseCycle": {
        "body", "chunked_encoding", "disconnected", "keep_alive", "message_event", "more_body",
        "response_complete", "response_started", "transport", "waiting_for_100_continue",
    },
    "FlowControl": {"read_paused", "write_paused"},
}  # fmt: skip
"""Attributes that `__init__` sets and that `wire/` uses."""

_METHODS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "HttpToolsProtocol": {
        "connection_made": ("transport",),
        "connection_lost": ("exc",),
        "data_received": ("data",),
        "eof_received": (),
        "shutdown": (),
        "send_400_response": ("msg",),
        "on_message_begin": (),
        "on_header": ("name", "value"),
        "on_headers_complete": (),
        "on_body": ("body",),
        "on_message_complete": (),
        "on_response_complete": (),
        "pause_writing": (),
        "resume_writing": (),
        "_unset_keepalive_if_required": (),
        "_unsupported_upgrade_warning": (),
    },
    "RequestResponseCycle": {"receive": (), "send": ("message",), "run_asgi": ("app",)},
    "FlowControl": {"drain": (), "resume_reading": (), "pause_reading": ()},
}
"""Methods that `wire/` calls or overrides, with their arguments."""

_CYCLE_USES: Final = {"write", "close", "is_closing"}
"""Methods of its transport that a cycle calls; an `Exchange` has no others."""


def choose_protocol(limits: WireLimits | None = None) -> type[asyncio.Protocol] | None:
    """The class for uvicorn's `http=`; None if uvicorn does not have the expected shape.

    The service works without it, too: then bodies are copied once more, and heads have only the
    parser's own limits.

    Args:
        limits: Limits of the server's connections; None for the defaults.
    """
    reason = _find_difference()
    if reason is not None:
        effect = "which is slower, and only the parser limits heads"
        logger.warning("bodies take uvicorn's ordinary way, %s: %s", effect, reason)
        return None
    from wavetrim.service.api.wire.connection import WireProtocol

    if limits is None:
        return WireProtocol

    class LimitedProtocol(WireProtocol):
        pass

    LimitedProtocol.limits = limits
    return LimitedProtocol


def _find_difference() -> str | None:
    """What of uvicorn is not as expected, in words; None if all is."""
    try:
        from uvicorn.protocols.http import flow_control, httptools_impl

        classes: list[type[Any]] = [
            httptools_impl.HttpToolsProtocol,
            httptools_impl.RequestResponseCycle,
            flow_control.FlowControl,
        ]
    except (ImportError, AttributeError) as error:
        return str(error)
    for kind in classes:
        name = kind.__name__
        if missing := _STATE[name] - set(kind.__init__.__code__.co_names):
            return f"{name} has no {', '.join(sorted(missing))}"
        for method, expected in _METHODS[name].items():
            function = getattr(kind, method, None)
            if function is None:
                return f"{name} has no {method}"
            found = tuple(inspect.signature(function).parameters)[1:]
            if found != expected:
                return f"{name}.{method} takes {found}, not {expected}"
    used = _find_transport_uses(httptools_impl.RequestResponseCycle)
    return None if used <= _CYCLE_USES else f"a cycle calls {sorted(used - _CYCLE_USES)}"


def _find_transport_uses(cycle: type[Any]) -> set[str]:
    """Methods of asyncio's transports that a cycle's code names."""
    known = {name for name in dir(asyncio.Transport) if not name.startswith("_")}
    named: set[str] = set()
    for function in (cycle.receive, cycle.send, cycle.run_asgi):
        named |= set(function.__code__.co_names)
    # The flow control has methods of these names, too.
    return (named & known) - {"pause_reading", "resume_reading"}
