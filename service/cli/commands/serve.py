"""`wavetrim serve` runs the service in the foreground, and `health` asks whether it is ready."""

import ssl
from typing import Annotated, Final

import typer

from wavetrim.client import Client, ServiceUnreachable
from wavetrim.service.cli.exits import CommandFailed, ExitCode, list_ends
from wavetrim.service.cli.machine import load_settings
from wavetrim.service.cli.options import DataDir
from wavetrim.service.settings import Settings

_HEALTH_SECONDS: Final = 4.0
"""Time to answer; chosen: a second less than the check of the container image may take."""

_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def serve(
    *,
    host: str | None = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535)] = None,
    data_dir: DataDir = None,
    log_level: str | None = None,
) -> None:
    """Run the service until Ctrl-C or SIGTERM, then let running jobs finish.

    Options override the environment's settings (WAVETRIM_..., listed in docs/settings.md). Once it
    answers, its address is printed on standard output; the log goes to standard error.

    Options:
        host (; 127.0.0.1): Address to listen on.
        port (; 8000): Port to listen on; 0 takes a free one.
        log_level (; info): debug (logs every request), info, warning or error.

    Example:
        wavetrim serve
    """
    # These take seconds to import, and help need not wait for them.
    from wavetrim.service.app import create_app
    from wavetrim.service.server.foreground import ForegroundServer, keep_freed_memory
    from wavetrim.service.server.listening import listen
    from wavetrim.service.telemetry.logs import configure_logging

    settings = load_settings(Settings, host=host, port=port, data_dir=data_dir, log_level=log_level)
    app = create_app(settings)
    with listen(settings) as listeners:
        configure_logging(settings.log_level, settings.log_format)
        keep_freed_memory()
        ForegroundServer(app, listeners, signals=list_ends()).run()


def health() -> None:
    """Exit with 0 if this machine's service is ready, and with 4 if not.

    For the health checks of containers. It reads the same settings as `wavetrim serve`, and asks at
    the Unix socket if there is one, else at host and port. The certificate is not checked, as it is
    for another address.

    Example:
        wavetrim health
    """
    unchecked = ssl.create_default_context()
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    url = _find_url(load_settings(Settings))
    with Client(url, timeout=_HEALTH_SECONDS, retries=0, tls_context=unchecked) as client:
        try:
            found = client.health()
        except ServiceUnreachable as error:
            message = f"{error}; `wavetrim serve` starts it"
            raise CommandFailed(message, ExitCode.UNREACHABLE) from error
        if not found.ready:
            missing = "; ".join(f"{name}: {reason}" for name, reason in found.missing.items())
            message = f"the service at {client.url} is not ready: {missing}"
            raise CommandFailed(message, ExitCode.UNREACHABLE)
        typer.echo(f"the service at {client.url} is ready")


def _find_url(settings: Settings) -> str:
    """Where the service of these settings can be asked on this machine."""
    if settings.unix_socket is not None:
        return f"unix:{settings.unix_socket}"
    host = _LOOPBACK.get(settings.host, settings.host)
    host = f"[{host}]" if ":" in host else host
    scheme = "http" if settings.tls_certificate is None else "https"
    return f"{scheme}://{host}:{settings.port}"
