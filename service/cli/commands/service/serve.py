"""`wavetrim serve`: run the service in the foreground."""

from typing import Annotated, Final

import typer

from wavetrim.service.cli.options import DataDir

EXAMPLES: Final = """[bold]Examples[/]

wavetrim serve
wavetrim serve --port 0 --data-dir /var/lib/wavetrim
WAVETRIM_API_KEY=... wavetrim serve --host 0.0.0.0
WAVETRIM_TCP=off WAVETRIM_UNIX_SOCKET=/run/wavetrim/socket wavetrim serve
"""

_LAST_ANSWERS_SECONDS: Final = 10
"""How long open connections may go on after the last job; chosen."""


def serve(
    *,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Port to listen on; 0 takes a free one.", show_default="8000"
        ),
    ] = None,
    data_dir: DataDir = None,
    log_level: Annotated[
        str | None,
        typer.Option(
            help="debug, which logs every request, info, warning or error.", show_default="info"
        ),
    ] = None,
) -> None:
    """Run the service until Ctrl-C or SIGTERM, which lets running jobs finish.

    Options override the environment's settings (WAVETRIM_..., listed in docs/settings.md). Once it
    answers, its address is printed on standard output; the log goes to standard error.
    """
    from wavetrim.service.app import create_app
    from wavetrim.service.cli.machine import load_settings
    from wavetrim.service.cli.server.allocator import keep_freed_memory
    from wavetrim.service.cli.server.foreground import ForegroundServer
    from wavetrim.service.cli.server.listening import listen
    from wavetrim.service.telemetry.logs import configure_logging

    settings = load_settings(host=host, port=port, data_dir=data_dir, log_level=log_level)
    app = create_app(settings)
    with listen(settings) as listeners:
        configure_logging(settings.log_level, settings.log_format)
        keep_freed_memory()
        ForegroundServer(app, listeners, timeout_graceful_shutdown=_LAST_ANSWERS_SECONDS).run()
