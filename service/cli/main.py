"""The `wavetrim` command: finds the command that was named, and ends with its exit code (`exits`).

Modules that a command needs (NumPy, HTTP, the scheduler) are imported when it runs, so that help
comes at once.
"""

import codecs
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, TextIO

import typer
from typer.core import TyperGroup

from wavetrim.service.cli.commands.jobs import cancel, fetch, status, submit
from wavetrim.service.cli.commands.machine import (
    calibrate,
    devices,
    multiply,
    plan,
    probe,
    reproduce,
)
from wavetrim.service.cli.commands.matrices import download, matrices, rm, upload
from wavetrim.service.cli.commands.service import adopt, backup, demo, health, keys, node, serve
from wavetrim.service.cli.exits import CommandFailed, ExitCode
from wavetrim.service.cli.failures import explain_failure
from wavetrim.service.cli.interrupts import raise_on_termination

_EXIT_CODES: Final = "\n".join(f"{code.value:>5}  {code.meaning}" for code in ExitCode)
_ASCII: Final = {"µ": "u", "×": "x", "·": "*", "…": "...", "–": "-", "≤": "<=", "←": "<-"}


class Commands(TyperGroup):
    """Ends every command that fails with a message of one line and its exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            failure = CommandFailed("interrupted", ExitCode.INTERRUPTED)
        except Exception as error:
            explained = explain_failure(error)
            if explained is None:
                _name_value(error)
                raise
            failure = explained
        typer.echo(f"wavetrim: {failure}", err=True)
        raise typer.Exit(failure.code)


app = typer.Typer(
    name="wavetrim",
    cls=Commands,
    help="Multiply matrices on the GPU and the CPU at once, split where the waves end.",
    epilog=f"[bold]Exit codes[/]\n\n{_EXIT_CODES}",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _name_value(error: Exception) -> None:
    """Have the message about an option or argument name its value, which Typer leaves out."""
    cause = error.__cause__
    if isinstance(error, typer.BadParameter) and cause is not None and hasattr(cause, "errors"):
        from wavetrim.service.setting_refusal import describe_limit, say_limit

        value = cause.errors()[0]["input"]
        error.message = f"it is {value!r}{say_limit(describe_limit(error.message), error.message)}"


def _register(group: typer.Typer, name: str, command: Callable[..., None], examples: str) -> None:
    # Typer would keep the line ends of a docstring, which fit the source and not the terminal.
    words = "\n\n".join(" ".join(part.split()) for part in (command.__doc__ or "").split("\n\n"))
    group.command(name, help=words, epilog=examples)(command)


_COMMANDS: Final = (
    *(serve, plan, multiply),
    *(submit, status, fetch, cancel),
    *(upload, download, matrices, rm),
    *(calibrate, probe, devices, demo, health, backup, adopt, node),
)

for _module in _COMMANDS:
    _name = _module.__name__.rpartition(".")[2]
    _register(app, _name, getattr(_module, _name), _module.EXAMPLES)

_experiments = typer.Typer(
    help=reproduce.HELP,
    epilog=reproduce.EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode="rich",
)
for _name, _experiment in reproduce.EXPERIMENTS.items():
    _register(_experiments, _name, _experiment, reproduce.EXAMPLES)
app.add_typer(_experiments, name="reproduce")

_keys = typer.Typer(
    help=keys.HELP, epilog=keys.EXAMPLES, no_args_is_help=True, rich_markup_mode="rich"
)
for _name, _key_command in keys.COMMANDS.items():
    _register(_keys, _name, _key_command, keys.EXAMPLES)
app.add_typer(_keys, name="keys")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; does not return but exits with an `ExitCode`."""
    raise_on_termination()
    for stream in (sys.stdout, sys.stderr):
        _keep_printable(stream)
    app(args=None if arguments is None else list(arguments), prog_name="wavetrim")


@app.callback()
def _wavetrim(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            is_eager=True,
            callback=lambda wanted: _print_version() if wanted else None,
        ),
    ] = False,
) -> None:
    del version


def _print_version() -> None:
    from wavetrim.service.version import find_version

    typer.echo(f"wavetrim {find_version()}")
    raise typer.Exit


def _keep_printable(stream: TextIO) -> None:
    """Write characters that the terminal's encoding lacks as similar ASCII, instead of failing."""
    codecs.register_error("nearest-ascii", _replace_nearest)
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="nearest-ascii")


def _replace_nearest(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError), "this is called only when printing"
    missing = error.object[error.start : error.end]
    return "".join(_ASCII.get(character, "?") for character in missing), error.end
