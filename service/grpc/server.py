"""The gRPC server: it listens while the service runs, with the same TLS."""

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wavetrim.service.errors import SettingRefused
from wavetrim.service.settings import Settings

if TYPE_CHECKING:
    import grpc

logger = logging.getLogger(__name__)

MOST_CALLS: Final = 512
"""The most calls at once; further ones are refused (RESOURCE_EXHAUSTED). Chosen."""

MOST_CONNECTIONS: Final = 256
"""The most connections at once; chosen, as each takes a descriptor."""

_IDLE_MILLISECONDS: Final = 300_000
"""How long a connection without calls stays open; chosen."""

_STOP_SECONDS: Final = 10.0
"""How long running calls may go on at the end; chosen."""

_IDENTITY_ONLY: Final = 1
"""Accepts no compression, since gRPC would inflate a message without a limit."""


def check_grpc(settings: Settings) -> None:
    """Make sure that gRPC can be served if the settings ask for it.

    Raises:
        SettingRefused: Its packages are not installed, or the service has no TCP.
    """
    if settings.grpc_port is None:
        return
    if settings.tcp == "off":
        limit = "left out where tcp is off: gRPC is over TCP"
        raise SettingRefused("grpc_port", settings.grpc_port, limit)
    if find_spec("grpc") is None or find_spec("google.protobuf") is None:
        limit = "left out, or wavetrim[grpc] be installed"
        raise SettingRefused("grpc_port", settings.grpc_port, limit)


@asynccontextmanager
async def serve_grpc(state: Any) -> AsyncIterator[None]:
    """Serves calls until the block ends, if the settings ask for it.

    Args:
        state: The parts of the service; its `grpc_address` is set.

    Raises:
        SettingRefused: The port, the certificate or the key cannot be used.
    """
    settings: Settings = state.settings
    if settings.grpc_port is None:
        yield
        return
    server = _make_server(state)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    port = _listen(server, f"{host}:{settings.grpc_port}", settings)
    await server.start()
    state.grpc_address = f"{host}:{port}"
    logger.info("gRPC is served on %s", state.grpc_address)
    try:
        yield
    finally:
        await server.stop(_STOP_SECONDS)


def _make_server(state: Any) -> "grpc.aio.Server":
    # gRPC's core writes lines of its own to standard error, which are not in the log's format. What
    # it reports is also in the status of a call, or raised.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    import grpc

    from wavetrim.service.grpc.calls import Calls
    from wavetrim.service.grpc.handler import Handler

    settings: Settings = state.settings
    most_bytes = int(settings.grpc_max_message_bytes)
    calls = Calls(
        state.inference,
        state.metrics,
        shared_memory=settings.v2_shared_memory is not None,
        most_bytes=most_bytes,
    )
    options = {
        "grpc.max_receive_message_length": most_bytes,
        "grpc.max_send_message_length": most_bytes,
        "grpc.max_connection_idle_ms": _IDLE_MILLISECONDS,
        "grpc.max_allowed_incoming_connections": MOST_CONNECTIONS,
        "grpc.compression_enabled_algorithms_bitset": _IDENTITY_ONLY,
        "grpc.so_reuseport": 0,
    }
    server = grpc.aio.server(maximum_concurrent_rpcs=MOST_CALLS, options=list(options.items()))
    server.add_generic_rpc_handlers((Handler(state, calls),))
    return server


def _listen(server: "grpc.aio.Server", address: str, settings: Settings) -> int:
    """Listen with the service's TLS, or without; returns the port."""
    import grpc

    certificate, key = settings.tls_certificate, settings.tls_key
    try:
        if certificate is None or key is None:
            port = server.add_insecure_port(address)
        else:
            pair = (Path(key).read_bytes(), Path(certificate).read_bytes())
            port = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    except (RuntimeError, OSError) as error:
        limit = f"a free port of {settings.host} ({error})"
        raise SettingRefused("grpc_port", settings.grpc_port, limit) from error
    return int(port)
