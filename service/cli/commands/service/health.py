"""`wavetrim health`: ask the service of these settings whether it is ready."""

from http.client import HTTPConnection
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from wavetrim.service.settings import Settings

EXAMPLES: Final = """[bold]Examples[/]

wavetrim health
WAVETRIM_PORT=9000 wavetrim health
"""

_PATH: Final = "/healthz/ready"
_SECONDS: Final = 4.0
"""Time to answer; chosen: a second less than the check of the container image may take."""

_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def health() -> None:
    """Ask the service that these settings start whether it is ready: exits with 0 if so, else 4.

    For the health checks of containers. The service is asked where it listens: at the Unix socket
    if it has one, else at host and port. No proxy is used, and a certificate is not checked, as it
    is not one of this address.
    """
    from http.client import HTTPException

    from wavetrim.service.cli.exits import CommandFailed, ExitCode
    from wavetrim.service.cli.machine import load_settings

    connection = _open(load_settings())
    try:
        connection.request("GET", _PATH)
        answer = connection.getresponse()
        status, text = answer.status, answer.read().decode(errors="replace")
    except (OSError, HTTPException) as error:
        message = f"the service does not answer at {_name(connection)}: {error}"
        raise CommandFailed(message, ExitCode.UNREACHABLE) from error
    finally:
        connection.close()
    if status != 200:
        message = f"the service at {_name(connection)} answers {status}: {text}"
        raise CommandFailed(message, ExitCode.UNREACHABLE)
    typer.echo(text)


def _open(settings: "Settings") -> HTTPConnection:
    """A connection to where the service of these settings listens; nothing is sent yet."""
    import ssl
    from http.client import HTTPSConnection

    if settings.unix_socket is not None:
        return _UnixConnection(str(settings.unix_socket))
    host = _LOOPBACK.get(settings.host, settings.host)
    if settings.tls_certificate is None:
        return HTTPConnection(host, settings.port, timeout=_SECONDS)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return HTTPSConnection(host, settings.port, timeout=_SECONDS, context=context)


class _UnixConnection(HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self.path = path

    def connect(self) -> None:
        """Open the socket."""
        import socket

        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(self.path)


def _name(connection: HTTPConnection) -> str:
    """Where it is, in messages."""
    if isinstance(connection, _UnixConnection):
        return connection.path
    return f"{connection.host}:{connection.port}"
