"""`wavetrim health`: ask the service of these settings whether it is ready."""

from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from wavetrim.service.settings import Settings

EXAMPLES: Final = """[bold]Examples[/]

wavetrim health
WAVETRIM_PORT=9000 wavetrim health
"""

_SECONDS: Final = 4.0
"""Time to answer; chosen: a second less than the check of the container image may take."""

_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def health() -> None:
    """Ask the service that these settings start whether it is ready: exits with 0 if so, else 4.

    For the health checks of containers. The service is asked where it listens: at the Unix socket
    if it has one, else at host and port. A certificate is not checked, as it is not one of this
    address.
    """
    import ssl

    from wavetrim.client import Client
    from wavetrim.service.cli.exits import CommandFailed, ExitCode
    from wavetrim.service.cli.machine import load_settings

    unchecked = ssl.create_default_context()
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    with Client(
        _find_url(load_settings()), timeout=_SECONDS, retries=0, tls_context=unchecked
    ) as client:
        found = client.health()
        if not found.ready:
            missing = "; ".join(f"{name}: {reason}" for name, reason in found.missing.items())
            message = f"the service at {client.url} is not ready: {missing}"
            raise CommandFailed(message, ExitCode.UNREACHABLE)
        typer.echo(f"the service at {client.url} is ready")


def _find_url(settings: "Settings") -> str:
    """Where the service of these settings can be asked on this machine."""
    if settings.unix_socket is not None:
        return f"unix:{settings.unix_socket}"
    host = _LOOPBACK.get(settings.host, settings.host)
    host = f"[{host}]" if ":" in host else host
    scheme = "http" if settings.tls_certificate is None else "https"
    return f"{scheme}://{host}:{settings.port}"
