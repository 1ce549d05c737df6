"""`wavetrim keys`: keys of several callers, made, listed and revoked while the service runs."""

import contextlib
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from sqlalchemy import Engine

HELP: Final = """Keys of several callers, each with a name and scopes.

A running service takes or refuses them within a second or two. They lie hashed in the database."""

EXAMPLES: Final = """[bold]Examples[/]

wavetrim keys add ada
wavetrim keys add dashboard --scope read
wavetrim keys list
wavetrim keys revoke ada
"""

_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}", re.ASCII)

DataDir = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The service's data folder.", show_default="wavetrim-data"),
]


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who is to call with it.")],
    *,
    scope: Annotated[
        list[str],
        typer.Option(
            metavar="SCOPE",
            help="read (look), compute (store, compute, remove) or admin (all); several times.",
        ),
    ] = ["read", "compute"],  # noqa: B006
    data_dir: DataDir = None,
) -> None:
    """Make a key and print it, once. From then on every call needs one."""
    from wavetrim.service.errors import FieldProblem
    from wavetrim.service.storage.api_keys import SCOPES, add_key

    if not _NAME.fullmatch(name):
        raise FieldProblem("name", name, "1 to 64 letters, digits, dots, dashes, _ and @")
    for one in scope:
        if one not in SCOPES:
            raise FieldProblem("scope", one, f"one of {', '.join(SCOPES)}")
    with _open(data_dir) as database:
        typer.echo(add_key(database, name, scope))


def list_(*, data_dir: DataDir = None) -> None:
    """List the keys' names, scopes and times; the keys themselves nobody knows."""
    from wavetrim.service.storage.api_keys import list_keys

    with _open(data_dir) as database:
        for key in list_keys(database):
            state = "" if key.revoked_at is None else f"  revoked {_show(key.revoked_at)}"
            scopes = ",".join(sorted(key.scopes))
            typer.echo(f"{key.name}  {scopes}  made {_show(key.created_at)}{state}")


def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is.")],
    *,
    data_dir: DataDir = None,
) -> None:
    """Have a key not be taken any more. Its name stays taken."""
    from wavetrim.service.storage.api_keys import revoke_key

    with _open(data_dir) as database:
        revoke_key(database, name)
    typer.echo(f"revoked {name}")


COMMANDS: Final[dict[str, Callable[..., None]]] = {"add": add, "list": list_, "revoke": revoke}


@contextlib.contextmanager
def _open(data_dir: Path | None) -> "Iterator[Engine]":
    """The database that the service uses, too."""
    from wavetrim.service.cli.machine import load_settings
    from wavetrim.service.storage.data_folder import keep_private
    from wavetrim.service.storage.database import open_database

    with keep_private():
        database = open_database(load_settings(data_dir=data_dir).database)
        try:
            yield database
        finally:
            database.dispose()


def _show(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
