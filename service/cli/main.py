"""The `wavetrim` command: finds the command that was named, and ends with its exit code (`exits`).

A command's module is imported when the command is used, so that the list of commands comes at once.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from wavetrim.service.cli.docstrings import read_docstring, spread
from wavetrim.service.cli.exits import ExitCode, explain_failure, raise_on_termination

COMMANDS: Final = {
    "serve": ("serve", "Run the service until Ctrl-C or SIGTERM, then let running jobs finish."),
    "plan": ("plan", "Show how C = A·B would be split, and why: F, waves, predicted seconds."),
    "multiply": ("multiply", "Multiply two .npy files in this process: C = alpha A·B + beta C0."),
    "submit": ("submit", "Upload matrices, post products of them as jobs, and print their ids."),
    "jobs": ("jobs", "List the latest jobs."),
    "status": ("jobs", "Show one job, or list the latest ones."),
    "fetch": ("jobs", "Download the product of a job that has succeeded."),
    "cancel": ("jobs", "Cancel a job, or all jobs of a label."),
    "priority": ("jobs", "Change the priority of a queued job."),
    "upload": ("matrices", "Store .npy files as matrices of the service, and print their ids."),
    "download": ("matrices", "Download a matrix: one that was uploaded, or a job's result."),
    "matrices": ("matrices", "List the matrices that the service stores, newest first."),
    "rm": ("matrices", "Remove matrices from the service."),
    "calibrate": ("calibrate", "Measure this machine's CPU, links and kernels, and store them."),
    "probe": ("experiments", "Measure one part of this machine: memory, links, kernels or CPU."),
    "devices": ("devices", "List GPUs and CPU threads, and the presets of `plan --device`."),
    "demo": ("demo", "Start a service, multiply two matrices by it, and check the product."),
    "health": ("serve", "Exit with 0 if this machine's service is ready, and with 4 if not."),
    "backup": ("data", "Copy the data folder and its database to another folder."),
    "adopt": ("data", "Register a data folder's matrices in the database in use."),
    "node": ("node", "Join this machine to a cluster, and compute until Ctrl-C or SIGTERM."),
    "reproduce": ("experiments", "Repeat an experiment of the course that wavetrim grew from."),
    "keys": ("keys", "Make, list and revoke keys of callers, each with a name, scopes and quotas."),
}
"""The file of each command in `commands/`, and its line in the list of commands."""

_EXIT_CODES: Final = "\n".join(f"{code.value:>5}  {code.meaning}" for code in ExitCode)


class Commands(TyperGroup):
    """Ends every command that fails with a message of one line and its exit code."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is named, loaded."""
        name, stub, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in COMMANDS else stub, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            failure = explain_failure(error)
            if failure is None:
                _name_value(error)
                raise
        typer.echo(f"wavetrim: {failure}", err=True)
        raise typer.Exit(failure.code)


app = typer.Typer(
    name="wavetrim",
    cls=Commands,
    help="Multiply matrices on the GPU and the CPU at once, split where a wave ends.",
    epilog=f"[bold]Exit codes[/]\n\n{_EXIT_CODES}",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, (_file, _line) in COMMANDS.items():
    app.command(_name, help=_line)(lambda: None)


def load_command(name: str) -> Any:
    """A command, or a group of them, with the words, options and example of its docstring."""
    module = import_module(f"wavetrim.service.cli.commands.{COMMANDS[name][0]}")
    command, commands = getattr(module, name), getattr(module, "GROUPS", {}).get(name)
    loaded = typer.Typer(add_completion=False, rich_markup_mode="rich")
    if commands is None:
        _register(loaded, name, command)
        return typer.main.get_command(loaded)
    examples = "\n".join(_register(loaded, each, one) for each, one in commands.items())
    each_line_once = "\n".join(dict.fromkeys(examples.splitlines()))
    words = read_docstring(command).words
    loaded.callback(help=words, epilog=_head(each_line_once), no_args_is_help=True)(command)
    return typer.main.get_command(loaded)


def _register(group: typer.Typer, name: str, command: Callable[..., None]) -> str:
    """Add a command to a group; returns its example."""
    read = read_docstring(command)
    group.command(name, help=read.words, epilog=_head(read.example))(spread(command))
    return read.example


def _head(example: str) -> str:
    return f"[bold]Example[/]\n\n{example}"


def _name_value(error: BaseException) -> None:
    """Add the refused value to a message about an option or argument; Typer leaves it out."""
    cause = error.__cause__
    if isinstance(error, typer.BadParameter) and cause is not None and hasattr(cause, "errors"):
        from wavetrim.service.machine_settings import describe_limit, say_limit

        value = cause.errors()[0]["input"]
        error.message = f"it is {value!r}{say_limit(describe_limit(error.message), error.message)}"


def main() -> None:
    """Run the command line; does not return but exits with an `ExitCode`."""
    raise_on_termination()
    for stream in (sys.stdout, sys.stderr):
        # Of characters that the terminal's encoding lacks it shows question marks.
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(errors="replace")
    app(prog_name="wavetrim")


def _print_version(wanted: bool) -> None:
    if wanted:
        from wavetrim.service.version import find_version

        typer.echo(f"wavetrim {find_version()}")
        raise typer.Exit


@app.callback()
def _wavetrim(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    del version
